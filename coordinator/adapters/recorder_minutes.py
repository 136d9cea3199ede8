"""From the gate's counts of namespaces, once a second, to whole minutes of the wall clock.

A count is split over the seconds that it covers as in recorder_seconds.py, so minutes of different
brokers add up. In how many seconds clients waited cannot be added up: those of two brokers may be the
same. So a minute says in which of its seconds they did, and a reader counts each of them once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from coordinator.adapters.recorder_seconds import parts
from coordinator.core.model import NANOS_PER_SECOND, NamespaceKey, NamespaceTraffic

_NANOS_PER_MINUTE: Final = 60 * NANOS_PER_SECOND
_THROTTLED: Final = 10
"""Waited for more than one in so many parts of a second, and it is a throttled one."""


@dataclass(slots=True)
class NamespaceCount:
    """What was counted of one namespace in one minute; bit n of ``throttled`` is its second n."""

    messages: int = 0
    bytes: int = 0
    held_ns: int = 0
    throttled: int = 0


@dataclass(slots=True)
class Minute:
    """One minute of the wall clock: its start, how much of it was observed, and its counts."""

    start_ns: int
    observed_ns: int = 0
    counts: dict[NamespaceKey, NamespaceCount] = field(default_factory=dict)


class Minutes:
    """Collects counts and gives out the minutes that are over."""

    def __init__(self) -> None:
        self._minute = Minute(0)
        #: The second under way: its start, how much of it was observed, and who was held how long in it.
        self._second_ns = 0
        self._observed_ns = 0
        self._held_ns: dict[NamespaceKey, int] = {}

    def count(
        self, counted: Iterable[NamespaceTraffic], end_ns: int, elapsed_ns: int
    ) -> list[Minute]:
        """Add what was counted in ``elapsed_ns`` before ``end_ns``, wall clock; give what is over."""
        over: list[Minute] = []
        counted = tuple(counted)
        for part in parts(end_ns, elapsed_ns):
            if part.second_ns != self._second_ns:
                over += self._begin(part.second_ns)
            self._observed_ns += part.length_ns
            self._minute.observed_ns += part.length_ns
            for traffic in counted:
                count = self._minute.counts.setdefault(traffic.key, NamespaceCount())
                count.messages += part.of(traffic.messages)
                count.bytes += part.of(traffic.bytes)
                if traffic.held_ns:
                    held_ns = part.of(traffic.held_ns)
                    count.held_ns += held_ns
                    self._held_ns[traffic.key] = self._held_ns.get(traffic.key, 0) + held_ns
        return over

    def rest(self) -> list[Minute]:
        """Give out what is left: the sidecar stops."""
        return self._begin(0)

    def _begin(self, second_ns: int) -> list[Minute]:
        """Close the second under way, and its minute if the new one is of another."""
        bit = 1 << (self._second_ns - self._minute.start_ns) // NANOS_PER_SECOND
        for key, held_ns in self._held_ns.items():
            if held_ns * _THROTTLED > self._observed_ns:
                self._minute.counts[key].throttled |= bit
        self._held_ns.clear()
        self._second_ns, self._observed_ns = second_ns, 0
        start_ns = second_ns - second_ns % _NANOS_PER_MINUTE
        if start_ns == self._minute.start_ns:
            return []
        closed, self._minute = self._minute, Minute(start_ns)
        return [closed] if closed.observed_ns else []
