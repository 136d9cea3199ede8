"""Observed limits: the excess over a limit is counted, and no message is held.

A group with ``enforcement`` *observe* has its limits split and reported like any other; only the gate
does not get them. The admitted traffic is compared with the local limit here, count by count. The excess
over the tokens that have come since the last count, plus a saved ``burst``, would have had to wait. It
takes no token, so demand that stays above a limit is counted as its excess, second for second, and not as
a growing debt.

A group may *observe* another one: all traffic of that one counts for it as well. A new limit, or another
law, weights or policy, is thereby tried on the traffic of an enforced group, as far as its own limit
admits it. Of the messages that the enforced limit holds, only their waiting is known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from coordinator.core.handling import burst_ns_of
from coordinator.core.model import (
    DIMENSIONS_OF,
    NANOS_PER_SECOND,
    AnyRates,
    Rate,
    ResourceGroup,
    TrafficKey,
    Unit,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.traffic import Traffic

ENFORCE, OBSERVE = "enforce", "observe"
ENFORCEMENTS = (ENFORCE, OBSERVE)
"""Whether a group's limits are enforced, by the name that its ``enforcement`` setting uses."""


def is_observed(group: ResourceGroup) -> bool:
    """Return whether a group's limits are not enforced."""
    return group.enforcement == OBSERVE


@dataclass(slots=True)
class Excess:
    """The excess since the start that would have had to wait.

    Args:
        amounts: messages and bytes.
        time_ns: how long any message would have waited.
    """

    amounts: dict[Unit, int] = field(default_factory=lambda: dict.fromkeys(Unit, 0))
    time_ns: int = 0


class Observer:
    """Compare admitted traffic with limits that are not enforced."""

    def __init__(self, settings: CoreSettings) -> None:
        self._burst_ns = settings.burst_ns
        #: How much each observed group saves up, as time at its limit.
        self._bursts: dict[str, int] = {}
        #: The groups whose limits are not enforced, and the observers of each group.
        self._observed: frozenset[str] = frozenset()
        self._observers: dict[str, list[str]] = {}
        self._observing: frozenset[str] = frozenset()
        self._excess: dict[TrafficKey, Excess] = {}
        #: Saved tokens, in billionths.
        self._saved: dict[tuple[TrafficKey, Unit], Rate] = {}

    def set_groups(self, groups: Collection[ResourceGroup]) -> None:
        """Take over the definitions."""
        self._observed = frozenset(group.name for group in groups if is_observed(group))
        self._bursts = {
            group.name: burst_ns_of(group, self._burst_ns) for group in groups if is_observed(group)
        }
        self._observing = frozenset(group.name for group in groups if group.observes)
        self._observers = {}
        for group in groups:
            if group.observes:
                self._observers.setdefault(group.observes, []).append(group.name)
        self._excess = {of: it for of, it in self._excess.items() if of[0] in self._observed}
        self._saved = {of: it for of, it in self._saved.items() if of[0][0] in self._observed}

    def excess(self, key: TrafficKey) -> Excess:
        """Return the excess of a group and class since the start."""
        return self._excess.get(key, Excess())

    def counting(self, group: str) -> Sequence[str]:
        """Return the groups that count the traffic of a group: itself and its observers."""
        if group in self._observing:
            return ()
        return (group, *self._observers.get(group, ()))

    def mirror(self, traffic: Sequence[Traffic]) -> Sequence[Traffic]:
        """Return the counts, with a copy for every group that observes another one.

        A group that observes another one counts only the traffic of that one: mixed with traffic of
        its own, the effect of either would be unknown.
        """
        if not self._observing:
            return traffic
        return [
            # An observer's own limit is not enforced, so nothing is owed of it.
            each if name == each.group else each._replace(group=name, messages_owed=0, bytes_owed=0)
            for each in traffic
            for name in self.counting(each.group)
        ]

    def count(
        self, traffic: Traffic, limits_of: Callable[[str], AnyRates], elapsed_ns: int
    ) -> None:
        """Compare the traffic of a period with the local limits of its group, if it is observed.

        Args:
            traffic: of one group and class.
            limits_of: returns the local limits of a group, with their fractions.
            elapsed_ns: the length of the period.
        """
        if traffic.group not in self._observed:
            return
        key = (traffic.group, traffic.monitoring_class)
        excess = self._excess.setdefault(key, Excess())
        limits, exceeded = limits_of(traffic.group), False
        for dimension in DIMENSIONS_OF[traffic.monitoring_class]:
            rate, unit = limits.of(dimension), dimension.unit
            if rate is None:
                self._saved.pop((key, unit), None)
                continue
            passed = traffic.messages if unit is Unit.MESSAGES else traffic.bytes
            beyond = self._exceed((key, unit), passed, rate, elapsed_ns)
            excess.amounts[unit] += beyond
            exceeded = exceeded or beyond > 0
        if exceeded:
            excess.time_ns += elapsed_ns

    def _exceed(self, of: tuple[TrafficKey, Unit], passed: int, rate: Rate, elapsed_ns: int) -> int:
        tokens = self._saved.get(of, 0) + rate * elapsed_ns
        beyond = max(0, passed - tokens // NANOS_PER_SECOND)
        rest = tokens - (passed - beyond) * NANOS_PER_SECOND
        # As at the gate, at least one message: a limit below one per burst would pass none.
        self._saved[of] = min(rest, max(rate * self._bursts[of[0][0]], NANOS_PER_SECOND))
        return beyond
