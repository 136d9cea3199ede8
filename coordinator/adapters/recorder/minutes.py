"""Collect the gate's counts of namespaces, once a second, into whole minutes of the wall clock.

A count is split over the seconds that it covers as in seconds.py, so minutes of different brokers add up.
Throttled seconds cannot be added up: those of two brokers may be the same. So a minute lists its
throttled seconds, and a reader counts each of them once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from coordinator.adapters.recorder.seconds import parts
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.traffic import NamespaceKey, NamespaceTraffic

_NANOS_PER_MINUTE: Final = 60 * NANOS_PER_SECOND
_THROTTLED: Final = 10
"""A second is throttled if clients waited for more than this fraction of it, as a divisor."""


@dataclass(slots=True)
class NamespaceMinute:
    """The counts of one namespace in one minute; bit n of ``throttled`` is its second n."""

    messages: int = 0
    bytes: int = 0
    held_ns: int = 0
    throttled: int = 0


@dataclass(slots=True)
class Minute:
    """One minute of the wall clock: its start, how much of it was observed, and its counts."""

    start_ns: int
    observed_ns: int = 0
    counts: dict[NamespaceKey, NamespaceMinute] = field(default_factory=dict)


class Minutes:
    """Collects counts and returns the minutes that are over."""

    def __init__(self) -> None:
        self._minute = Minute(0)
        #: The second under way: its start, its observed part, and the hold times in it.
        self._second_ns = 0
        self._observed_ns = 0
        self._held_ns: dict[NamespaceKey, int] = {}

    def count(
        self, counted: Iterable[NamespaceTraffic], end_ns: int, elapsed_ns: int
    ) -> list[Minute]:
        """Add the counts of ``elapsed_ns`` before ``end_ns``, wall clock; return the minutes over."""
        over: list[Minute] = []
        counted = tuple(counted)
        for part in parts(end_ns, elapsed_ns):
            if part.second_ns != self._second_ns:
                over += self._begin(part.second_ns)
            self._observed_ns += part.length_ns
            self._minute.observed_ns += part.length_ns
            for traffic in counted:
                count = self._minute.counts.setdefault(traffic.key, NamespaceMinute())
                count.messages += part.of(traffic.messages)
                count.bytes += part.of(traffic.bytes)
                if traffic.held_ns:
                    held_ns = part.of(traffic.held_ns)
                    count.held_ns += held_ns
                    self._held_ns[traffic.key] = self._held_ns.get(traffic.key, 0) + held_ns
        return over

    def rest(self) -> list[Minute]:
        """Return the minutes left, because the sidecar stops."""
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
