"""The recording holds the traffic of each namespace, up to the end."""

from __future__ import annotations

from pathlib import Path

from coordinator.adapters.recorder.tables import RecordedTable
from coordinator.core.events import DrainCompleted, DrainRequested
from coordinator.core.traffic import NamespaceTraffic
from coordinator.insight.shell.namespace_meter import NamespaceMeter
from tests.adapters.recorder.test_recorder import Core
from tests.adapters.recorder.world import Recording
from tests.gate import peer
from tests.gate.conftest import Bench


class BenchGate:
    """The pure gate, asked as the real one is."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def namespace_traffic(self, *, whole: bool = False) -> tuple[NamespaceTraffic, ...]:
        """Return the counts since the last call."""
        return self._bench.groups.namespaces.collect(self._bench.now_ns, whole=whole)


async def test_clients_of_the_gate_are_recorded_by_the_minute(tmp_path: Path) -> None:
    """Two namespaces of a limited group for seventy seconds: all that passed, and who waited when."""
    bench = Bench()
    bench.attach({"tenant": "tenants"}, busy="orders", calm="orders")
    bench.limit("orders", messages=100)
    busy = bench.producing("persistent://tenant/busy/topic")
    calm = bench.producing("persistent://tenant/calm/topic", producer_id=2)
    bench.wait(1_000)
    with Recording(tmp_path) as recording:
        core = Core(recording)
        core.become_active()
        meter = NamespaceMeter(BenchGate(bench), recording.recorder, recording.clock)
        await meter.count()
        for second in range(70):
            calm.sends(peer.send(2, second))
            bench.wait(10)
            if second < 5:
                busy.sends(*[peer.send(1, 200 * second + number) for number in range(200)])
            bench.wait(990)
            recording.clock.advance(1)
            await meter.count()
        passed = sum(each.messages for each in bench.groups.collect(bench.now_ns)) // 2
        core.send(DrainRequested(), DrainCompleted())
        await meter.count()
    rows = recording.rows(RecordedTable.NAMESPACES)

    assert passed == 70 + 1_000
    assert {(row["namespace"], row["observed_us"]): row["messages"] for row in rows} == {
        ("busy", 60_000_000): 1_000,
        ("calm", 60_000_000): 60,
        ("calm", 10_000_000): 10,
    }
    (waited,) = [row for row in rows if row["namespace"] == "busy"]
    assert (waited["tenant"], waited["resource_groups"]) == ("tenant", ["orders", "tenants"])
    # A thousand, and the neighbour's ten, at a hundred a second, of which five were saved up.
    assert abs(waited["held_us"] - 10_050_000) <= 20_000
    assert waited["throttled_seconds"] == (1 << 10) - 1
    for client in bench.clients:
        client.session.close(bench.now_ns)
