"""Traffic of each namespace: counters that all its participants at this broker share.

The counters of resource groups serve limits; these serve billing and decide nothing. A participant looks
its counter up when it connects and whenever attachments change, so that a frame costs two additions. Each
combination of a namespace and its groups has a counter: a namespace that moves to another group gets a
new counter.

A namespace is *held* while at least one of its producers or consumers waits, for any limit.

The totals since the start serve reconciliation (coordinator/reconciliation).

A counter lives while a participant is connected, and until its counts are collected: participants,
which have bounds of their own, bound the counters. At most `COLLECTED_MAX` are looked at in one call, so
that the gate serves traffic in between; with more of them each has its turn every few calls, and nothing
is lost.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from coordinator.core.model import MonitoringClass, TrafficKey
from coordinator.core.traffic import NamespaceKey, NamespaceTraffic
from coordinator.gate.limits.counters import SharedCounter

COLLECTED_MAX: Final = 10_000
"""The most counters that one call collects; if all are busy, it takes 20 ms."""

FORGOTTEN: Final = "(forgotten)"
"""Stands for the number of times that counters were forgotten; no name in Pulsar has parentheses."""

_LEAST_ROOM: Final = 10_000
"""With fewer counters none is forgotten, as forgetting costs reconciliation a reading."""


class NamespaceCounter(SharedCounter):
    """Traffic of one namespace and class at this broker."""

    __slots__ = ("_collected", "key")

    def __init__(self, key: NamespaceKey) -> None:
        super().__init__()
        self.key = key
        self._collected = (0, 0)

    @property
    def is_collected(self) -> bool:
        """Whether all that passed was collected."""
        messages, size = self._collected
        return self.messages <= messages and self.bytes <= size

    def joined(self, count: int) -> None:
        """Count participants that came, or left if negative."""
        self.participants += count

    def collect(self, now_ns: int) -> NamespaceTraffic | None:
        """Return the counts since the last call; None when there are none."""
        messages, size = self._collected
        held_ns = self._held.take_ns(now_ns)
        # Fewer when a publish never came in full.
        passed_messages = max(0, self.messages - messages)
        passed_bytes = max(0, self.bytes - size)
        if not passed_messages and not passed_bytes and not held_ns:
            return None
        self._collected = (messages + passed_messages, size + passed_bytes)
        return NamespaceTraffic(self.key, passed_messages, passed_bytes, held_ns)


NOWHERE: Final = NamespaceCounter(NamespaceKey("", "", (), MonitoringClass.PUBLISH))
"""The counter of traffic without a namespace; never collected."""


class Namespaces:
    """The counters of all namespaces.

    Args:
        collected_max: the most counters that one call collects.
        least_room: the number of counters that are kept in any case.
    """

    def __init__(self, collected_max: int = COLLECTED_MAX, least_room: int = _LEAST_ROOM) -> None:
        self._collected_max = collected_max
        self._least_room = self._room = least_room
        self._counters: dict[NamespaceKey, NamespaceCounter] = {}
        #: Those whose turn has not come yet.
        self._due: deque[NamespaceCounter] = deque()
        #: Whether a recorder collects them.
        self._is_read = False
        self._forgotten = 0

    def counter(self, key: NamespaceKey) -> NamespaceCounter:
        """Return the counter of a namespace."""
        found = self._counters.get(key)
        if found is not None:
            return found
        if len(self._counters) >= self._room:
            self._forget_unneeded()
        made = self._counters[key] = NamespaceCounter(key)
        return made

    def collect(self, now_ns: int, *, whole: bool = False) -> tuple[NamespaceTraffic, ...]:
        """Return the counts since they were collected last.

        Args:
            now_ns: the time.
            whole: collect every counter, however many there are.
        """
        self._is_read = True
        if whole or not self._due:
            self._due = deque(self._counters.values())
        number = len(self._due) if whole else min(len(self._due), self._collected_max)
        collected = (self._due.popleft().collect(now_ns) for _ in range(number))
        return tuple(traffic for traffic in collected if traffic is not None)

    def add_totals(self, totals: dict[TrafficKey, tuple[int, int]]) -> None:
        """Add the messages and bytes that passed since the start, by ``tenant/namespace`` and class.

        A namespace whose counter was forgotten starts from zero again; the row `FORGOTTEN` has how often
        any was.
        """
        for each in MonitoringClass if self._forgotten else ():
            totals[FORGOTTEN, each] = (self._forgotten, self._forgotten)
        for key, counter in self._counters.items():
            row = f"{key.tenant}/{key.namespace}", key.monitoring_class
            messages, size = totals.get(row, (0, 0))
            totals[row] = (messages + counter.messages, size + counter.bytes)

    def _forget_unneeded(self) -> None:
        """Keep those with participants, and what a recorder has not read; make room for as many more."""
        self._forgotten += 1
        self._counters = {
            key: each
            for key, each in self._counters.items()
            if each.participants or (self._is_read and not each.is_collected)
        }
        self._room = max(self._least_room, 2 * len(self._counters))
