"""Traffic of each namespace: counters that all its participants at this broker share.

The counters of resource groups serve limits; these serve billing and decide nothing. A participant looks
its counter up when it connects and whenever attachments change, so that a frame costs two additions. Each
combination of a namespace and its groups has a counter: a namespace that moves to another group gets a
new counter.

A namespace is *held* while at least one of its producers or consumers waits, for any limit.

The totals since the start serve reconciliation (coordinator/reconciliation).

There are at most ``NAMESPACES_MAX`` counters; traffic of further namespaces is counted together, as
`OTHERS`.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.model import MonitoringClass, TrafficKey
from coordinator.core.traffic import NamespaceKey, NamespaceTraffic
from coordinator.gate.limits.counters import Stopwatch

NAMESPACES_MAX: Final = 10_000
"""The most counters, by namespace, class and groups."""

OTHERS: Final = "(others)"
"""Stands for tenant and namespace of all further ones; no name in Pulsar has parentheses."""


FORGOTTEN: Final = "(forgotten)"
"""Stands for the number of times that counters were forgotten."""


class NamespaceCounter:
    """Traffic of one namespace and class at this broker."""

    __slots__ = ("_collected", "_held", "_waiting", "bytes", "key", "messages", "participants")

    def __init__(self, key: NamespaceKey) -> None:
        self.key = key
        #: Messages and bytes that passed since the start; the hot path adds to them itself.
        self.messages = 0
        self.bytes = 0
        #: Producers or consumers connected now.
        self.participants = 0
        self._collected = (0, 0)
        self._waiting = 0
        self._held = Stopwatch()

    @property
    def is_needed(self) -> bool:
        """Whether a participant is connected, or a count was not collected yet."""
        messages, size = self._collected
        return self.participants > 0 or self.messages > messages or self.bytes > size

    def joined(self, count: int) -> None:
        """Count participants that came, or left if negative."""
        self.participants += count

    def wait(self, now_ns: int) -> None:
        """Count one more participant that waits."""
        self._waiting += 1
        self._held.set(running=True, now_ns=now_ns)

    def go_on(self, now_ns: int) -> None:
        """Count one waiting participant less."""
        self._waiting -= 1
        self._held.set(running=self._waiting > 0, now_ns=now_ns)

    def collect(self, now_ns: int) -> NamespaceTraffic | None:
        """Return the counts since the last call; None when there are none."""
        messages, size = self._collected
        held_ns = self._held.take_ns(now_ns)
        passed_bytes = max(0, self.bytes - size)  # fewer when a publish never came in full
        if messages == self.messages and not passed_bytes and not held_ns:
            return None
        self._collected = (self.messages, size + passed_bytes)
        return NamespaceTraffic(self.key, self.messages - messages, passed_bytes, held_ns)


NOWHERE: Final = NamespaceCounter(NamespaceKey("", "", (), MonitoringClass.PUBLISH))
"""The counter of traffic without a namespace; never collected."""


class Namespaces:
    """The counters of all namespaces.

    Args:
        namespaces_max: the most counters.
    """

    def __init__(self, namespaces_max: int = NAMESPACES_MAX) -> None:
        self._namespaces_max = namespaces_max
        self._counters: dict[NamespaceKey, NamespaceCounter] = {}
        self._forgotten = 0
        self._others = {
            each: NamespaceCounter(NamespaceKey(OTHERS, OTHERS, (), each))
            for each in MonitoringClass
        }

    def counter(self, key: NamespaceKey) -> NamespaceCounter:
        """Return the counter of a namespace, or that of all others when there are too many."""
        found = self._counters.get(key)
        if found is not None:
            return found
        if len(self._counters) >= self._namespaces_max:
            self._forget_unneeded()
        if len(self._counters) >= self._namespaces_max:
            return self._others[key.monitoring_class]
        made = self._counters[key] = NamespaceCounter(key)
        return made

    def collect(self, now_ns: int) -> tuple[NamespaceTraffic, ...]:
        """Return all counters' counts since the last call."""
        counters = (*self._counters.values(), *self._others.values())
        collected = (counter.collect(now_ns) for counter in counters)
        return tuple(traffic for traffic in collected if traffic is not None)

    def add_totals(self, totals: dict[TrafficKey, tuple[int, int]]) -> None:
        """Add the messages and bytes that passed since the start, by ``tenant/namespace`` and class.

        A namespace whose counter was forgotten starts from zero again; the row `FORGOTTEN` has how often
        any was.
        """
        for each in self._others if self._forgotten else ():
            totals[FORGOTTEN, each] = (self._forgotten, self._forgotten)
        others = (counter for counter in self._others.values() if counter.bytes)
        for counter in (*self._counters.values(), *others):
            key = counter.key
            row = f"{key.tenant}/{key.namespace}", key.monitoring_class
            messages, size = totals.get(row, (0, 0))
            totals[row] = (messages + counter.messages, size + counter.bytes)

    def _forget_unneeded(self) -> None:
        self._forgotten += 1
        self._counters = {key: each for key, each in self._counters.items() if each.is_needed}
