"""The default limit of every partition of every topic, as managed services offer it.

A topic without partitions is one partition. Each partition with a participant has a limiter of its own;
unused limiters are forgotten once there are many, so names cannot pile up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from coordinator.core.model import Rates, Traffic
from coordinator.core.topics import TopicName
from coordinator.gate.limits.group import Group

UNUSED_MAX: Final = 1_000
"""Unused partitions that are kept all the same, because they are in use again soon."""


class Partitions:
    """The default limit of partitions, and the limiter of each partition.

    Args:
        make: makes a limiter for a topic's name.
    """

    def __init__(self, make: Callable[[str], Group]) -> None:
        self._make = make
        self._groups: dict[str, Group] = {}
        #: The rates of each partition; all unlimited is no limit.
        self.rates = Rates()

    def set_rates(self, rates: Rates, now_ns: int) -> tuple[Group, ...]:
        """Limit each partition to these rates from now on; return the changed groups."""
        self.rates = rates
        changed = tuple(self._groups.values())
        for group in changed:
            group.set_limits(rates, now_ns)
        if rates == Rates():
            self._groups = {}
        return changed

    def of(self, topic: TopicName, now_ns: int) -> tuple[Group, ...]:
        """Return the limiter that a partition counts against; empty while there is no limit."""
        if self.rates == Rates():
            return ()
        name = str(topic)
        group = self._groups.get(name)
        if group is None:
            self._forget_unused()
            group = self._groups[name] = self._make(name)
            group.set_limits(self.rates, now_ns)
        return (group,)

    def collect(self, now_ns: int) -> tuple[Traffic, ...]:
        """Return the counts of every partition, under the topic's name."""
        counters = (c for group in self._groups.values() for c in (group.publish, group.dispatch))
        collected = (counter.collect(now_ns) for counter in counters)
        return tuple(traffic for traffic in collected if traffic is not None)

    def groups(self) -> Iterator[Group]:
        """Yield the limiters that exist."""
        yield from self._groups.values()

    def _forget_unused(self) -> None:
        used = {
            name: group
            for name, group in self._groups.items()
            if group.publish.participants or group.dispatch.participants
        }
        if len(self._groups) - len(used) > UNUSED_MAX:
            self._groups = used
