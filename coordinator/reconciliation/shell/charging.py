"""A gate whose part of each local limit is less by the traffic round it; see engine/charging.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coordinator.core.handling import Handling
from coordinator.core.model import Attachments, Rates, Traffic
from coordinator.ports import Clock, TrafficGate
from coordinator.reconciliation.engine.account import Rate
from coordinator.reconciliation.engine.charging import Charges


class ChargedGate:
    """`TrafficGate`: all instructions and questions are the gate's, less or more by the charge.

    Args:
        gate: enforces and counts.
        clock: monotonic time.
    """

    def __init__(self, gate: TrafficGate, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._charges = Charges()
        #: Whether the local limits in force are leased, by group.
        self._leased: dict[str, bool] = {}

    def charge(self, rates: Mapping[str, Rate]) -> None:
        """Charge these rates to groups from now on."""
        for group in sorted(self._charges.set_rates(rates)):
            gate_part = self._charges.gate_part(group)
            self._gate.set_limits(group, gate_part, leased=self._leased[group])

    def set_limits(self, group: str, limits: Rates, *, leased: bool = False) -> None:
        """Enforce these local limits from now on, less the charge."""
        self._leased[group] = leased
        self._gate.set_limits(group, self._charges.set_limits(group, limits), leased=leased)

    def set_handling(self, group: str, handling: Handling) -> None:
        """Handle a group's traffic in this way from now on."""
        self._gate.set_handling(group, handling)

    def hold_lease(self, until_ns: int) -> None:
        """Extend leased limits to this time."""
        self._gate.hold_lease(until_ns)

    def remove_limits(self, group: str) -> None:
        """Remove this group's limits."""
        self._leased.pop(group, None)
        self._charges.remove_limits(group)
        self._gate.remove_limits(group)

    def set_attachments(self, attachments: Attachments) -> None:
        """Count every topic against the groups of these attachments from now on."""
        self._gate.set_attachments(attachments)

    def when_in_force(self, then: Callable[[], None]) -> None:
        """Call this when all instructions so far are in force."""
        self._gate.when_in_force(then)

    def watch_traffic(self, resumed: Callable[[], None]) -> None:
        """Call this when traffic passes or waits again."""
        self._gate.watch_traffic(resumed)

    async def collect(self) -> tuple[Traffic, ...]:
        """Return the counts since the last call, with the charge."""
        return self._charges.charge(await self._gate.collect(), self._clock.now_ns())

    async def drain(self, timeout_s: float) -> None:
        """Accept nothing new and return when requests under way are answered, or at the timeout."""
        await self._gate.drain(timeout_s)
