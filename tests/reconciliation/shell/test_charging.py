"""A charged gate tells its gate smaller limits, and the core larger counts."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.adapters.memory.surroundings import ManualClock
from coordinator.core.handling import Handling
from coordinator.core.model import NANOS_PER_SECOND, Attachments, MonitoringClass, Rates, Traffic
from coordinator.reconciliation.engine.account import Rate
from coordinator.reconciliation.shell.charging import ChargedGate


class Inner:
    """The gate behind it."""

    def __init__(self) -> None:
        self.limits: dict[str, tuple[Rates, bool]] = {}
        self.told: list[object] = []

    def set_limits(self, group: str, limits: Rates, *, leased: bool = False) -> None:
        """Keep them."""
        self.limits[group] = limits, leased

    def set_handling(self, group: str, handling: Handling) -> None:
        """Keep it."""
        self.told.append((group, handling))

    def remove_limits(self, group: str) -> None:
        """Forget them."""
        del self.limits[group]

    def hold_lease(self, until_ns: int) -> None:
        """Keep it."""
        self.told.append(until_ns)

    def set_attachments(self, attachments: Attachments) -> None:
        """Keep them."""
        self.told.append(attachments)

    def when_in_force(self, then: Callable[[], None]) -> None:
        """Call at once."""
        then()

    def watch_traffic(self, resumed: Callable[[], None]) -> None:
        """Keep it."""
        self.told.append(resumed)

    async def collect(self) -> tuple[Traffic, ...]:
        """Return one group's counts."""
        return (Traffic("g", MonitoringClass.PUBLISH, 5, participants=1),)

    async def drain(self, timeout_s: float) -> None:
        """Keep it."""
        self.told.append(timeout_s)


def test_a_charge_lowers_the_limits_in_force_at_once() -> None:
    """The end of the charge gives them back; leased ones stay leased."""
    inner = Inner()
    gate = ChargedGate(inner, ManualClock())
    gate.set_limits("g", Rates(500), leased=True)
    gate.charge({"g": Rate(200.0), "unlimited": Rate(9.0)})
    assert inner.limits == {"g": (Rates(300), True)}
    gate.set_limits("g", Rates(250), leased=True)
    assert inner.limits == {"g": (Rates(50), True)}
    gate.charge({})
    assert inner.limits == {"g": (Rates(250), True)}


def test_removed_limits_do_not_come_back() -> None:
    """A later charge sets no limit."""
    inner = Inner()
    gate = ChargedGate(inner, ManualClock())
    gate.set_limits("g", Rates(500))
    gate.remove_limits("g")
    gate.charge({"g": Rate(200.0)})
    assert inner.limits == {}


async def test_the_core_sees_the_gates_counts_and_the_charge() -> None:
    """Of the time since the last count."""
    clock = ManualClock()
    gate = ChargedGate(Inner(), clock)
    gate.charge({"g": Rate(200.0)})
    await gate.collect()
    clock.advance(NANOS_PER_SECOND // 2)
    (traffic,) = await gate.collect()
    assert traffic.messages == 105


async def test_all_else_is_the_gates() -> None:
    """Leases, attachments, watching and draining."""
    inner, called = Inner(), list[None]()
    gate = ChargedGate(inner, ManualClock())
    attachments = Attachments()

    def resumed() -> None:
        called.append(None)

    gate.hold_lease(7)
    gate.set_attachments(attachments)
    gate.watch_traffic(resumed)
    gate.when_in_force(resumed)
    await gate.drain(1.5)
    assert inner.told == [7, attachments, resumed, 1.5]
    assert called == [None]
