"""The answers and metrics of a sidecar about traffic that goes round its gate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from coordinator.core.answer import read
from coordinator.core.model import NANOS_PER_SECOND, Attachments, MonitoringClass
from coordinator.insight.model.reconciliation_views import ReconciliationView
from coordinator.reconciliation.engine.counting import Volume
from coordinator.reconciliation.engine.reconciliation import FIX, Reconciliation
from tests.admin_api.world import World

SENTENCE = "20,000 bytes/s (200 messages/s) published to t/n go round the gate"
_READINGS = 6


def accounts_of_an_escape() -> Reconciliation:
    """400 messages of 100 bytes published to one namespace of a group, every two seconds."""
    made = Reconciliation("broker-1", attachments=Attachments({}, {"t/n": "orders"}))
    row = "t/n", MonitoringClass.PUBLISH
    for number in range(_READINGS):
        increases = {row: Volume(400, 40_000)} if number else {}
        for _ in made.read(increases, {}, took_ns=0, now_ns=number * 2 * NANOS_PER_SECOND):
            pass
    return made


def view_of(accounts: Reconciliation) -> ReconciliationView:
    """The answer of a sidecar with these accounts."""
    return ReconciliationView(
        on=True,
        interval_seconds=2.0,
        readings=accounts.readings,
        error="",
        reconciled=accounts.reconciled,
        left_out=0,
        escapes=tuple(accounts.escapes()),
        uncounted=(),
    )


VIEW = view_of(accounts_of_an_escape())


@dataclass
class Reconciled:
    """A reconciliation that says what it is told to."""

    said: ReconciliationView = VIEW
    accounts: Reconciliation = field(default_factory=accounts_of_an_escape)

    def view(self) -> ReconciliationView:
        """Return it."""
        return self.said


async def test_the_answer_has_these_names_and_the_command_reads_it() -> None:
    """Rates have one digit after the point."""
    async with World().client(reconciling=Reconciled()) as client:
        found = (await client.get("/quota/v1/reconciliation")).json()
    assert found == {
        "on": True,
        "intervalSeconds": 2.0,
        "readings": 6,
        "error": "",
        "reconciled": 1,
        "leftOut": 0,
        "escapes": [
            {
                "namespace": "t/n",
                "monitoringClass": "Publish",
                "escaping": True,
                "messagesPerSecond": 200.0,
                "bytesPerSecond": 20_000.0,
                "messages": 1_600,
                "bytes": 160_000,
                "sentence": SENTENCE,
                "fix": FIX,
            }
        ],
        "uncounted": [],
    }
    assert read(ReconciliationView, found) == VIEW


async def test_without_a_gate_nothing_is_compared() -> None:
    """The answer says that it is off."""
    async with World().client() as client:
        found = (await client.get("/quota/v1/reconciliation")).json()
        metrics = (await client.get("/metrics")).text
    assert (found["on"], found["escapes"]) == (False, [])
    assert "escaped" not in metrics


async def test_escaped_traffic_is_a_counter_and_a_rate() -> None:
    """By namespace and class."""
    async with World().client(reconciling=Reconciled()) as client:
        lines = (await client.get("/metrics")).text.splitlines()
    labels = '{monitoring_class="Publish",namespace="t/n"}'
    assert f"pulsar_quota_escaped_messages_total{labels} 1600.0" in lines
    assert f"pulsar_quota_escaped_bytes_total{labels} 160000.0" in lines
    assert f"pulsar_quota_escaping_bytes_per_second{labels} 20000.0" in lines
    assert "pulsar_quota_reconciliation_failing 0.0" in lines


async def test_a_group_shows_what_escapes_of_its_namespaces() -> None:
    """In the overview, and in the explanation of the own broker's limit, by its class."""
    world = World()
    async with world.client(reconciling=Reconciled()) as client:
        await client.put("/admin/v2/resourcegroups/orders", json={"publishRateInMsgs": 3_000})
        world.throttle_orders()
        await world.watch.look()
        (row,) = (await client.get("/quota/v1/overview")).json()["rows"]
        own = (await client.get("/quota/v1/explain/orders")).json()
        other = (await client.get("/quota/v1/explain/orders?broker=broker-2")).json()
    assert row["escapingBytes"] == 20_000
    assert own["roundTheGate"] == [SENTENCE]
    assert other["roundTheGate"] == []


def quiet() -> ReconciliationView:
    """The same when it is over."""
    (escape,) = VIEW.escapes
    over = replace(escape, escaping=False, messages_per_second=0.0, bytes_per_second=0.0)
    return replace(VIEW, escapes=(over,))
