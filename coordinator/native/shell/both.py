"""A gate, and the broker's own limiter a little above it for clients that go round the gate."""

from __future__ import annotations

from coordinator.core.model import AnyRates, Attachments
from coordinator.core.topics import names_scalable
from coordinator.native.shell.actuator import NativeActuator
from coordinator.ports import TrafficGate


class GateAndNative:
    """Both get all instructions; questions, and the time of enforcement, are the gate's.

    Args:
        gate: enforces and counts.
        native: enforces with a margin.
    """

    def __init__(self, gate: TrafficGate, native: NativeActuator) -> None:
        self._gate = gate
        self._native = native
        #: Of these native enforcement knows nothing, or the gate knows better.
        self.set_handling = gate.set_handling
        self.when_in_force = gate.when_in_force
        self.watch_traffic = gate.watch_traffic
        self.collect = gate.collect
        self.drain = gate.drain

    def set_limits(self, group: str, limits: AnyRates, *, leased: bool = False) -> None:
        """Enforce these local limits from now on."""
        self._gate.set_limits(group, limits, leased=leased)
        if not names_scalable(group):  # brokers cannot limit a topic by its segments
            self._native.set_limits(group, limits, leased=leased)

    def hold_lease(self, until_ns: int) -> None:
        """Extend leased limits to this time."""
        self._gate.hold_lease(until_ns)
        self._native.hold_lease(until_ns)

    def remove_limits(self, group: str) -> None:
        """Remove this group's limits."""
        self._gate.remove_limits(group)
        if not names_scalable(group):
            self._native.remove_limits(group)

    def set_attachments(self, attachments: Attachments) -> None:
        """Count every topic against the groups of these attachments from now on."""
        self._gate.set_attachments(attachments)
        self._native.set_attachments(attachments)
