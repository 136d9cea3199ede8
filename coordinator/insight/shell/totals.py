"""The gate's counts since the start, per resource group and class.

The gate returns differences, twenty times a second; metrics need counts that only grow. A deleted group
is forgotten, so there are never more totals than groups; one that is created again under the same name
starts from zero, as a restarted process does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from coordinator.core.model import MonitoringClass, TrafficKey
from coordinator.core.traffic import Traffic


@dataclass(slots=True)
class TrafficTotal:
    """One group and class at this broker, since the start; units as in `Traffic`."""

    messages: int = 0
    bytes: int = 0
    messages_held_ns: int = 0
    bytes_held_ns: int = 0
    messages_refused: int = 0
    bytes_refused: int = 0


class TrafficTotals:
    """Totals by group and class; one that was never counted is zero."""

    def __init__(self) -> None:
        self._totals: dict[TrafficKey, TrafficTotal] = {}

    def add(self, counted: Iterable[Traffic]) -> None:
        """Add the gate's counts since the last call."""
        for traffic in counted:
            total = self._totals.setdefault(
                (traffic.group, traffic.monitoring_class), TrafficTotal()
            )
            total.messages += traffic.messages
            total.bytes += traffic.bytes
            total.messages_held_ns += traffic.messages_held_ns
            total.bytes_held_ns += traffic.bytes_held_ns
            total.messages_refused += traffic.messages_refused
            total.bytes_refused += traffic.bytes_refused

    def keep(self, groups: Collection[str]) -> None:
        """Forget all groups but these."""
        self._totals = {key: total for key, total in self._totals.items() if key[0] in groups}

    def of(self, group: str, monitoring_class: MonitoringClass) -> TrafficTotal:
        """Return the total of one group and class."""
        return self._totals.get((group, monitoring_class)) or TrafficTotal()
