"""The default limit of every partition of every topic, as managed services offer it.

A topic without partitions is one partition. Each partition with a participant has a limiter of its own.
An unused limiter is kept until a new one would admit no more: otherwise a client that closes and opens a
topic again would begin without its debt. So it must owe nothing, and another second must pass, since no
mode remembers what it admitted for longer (core/limiting/windows.py).

Names cannot pile up: each new one examines `EXAMINED` unused limiters in turn. A tenant that leaves
`UNUSED_MAX` all the same gets no more: its new topics share one limiter, with the limit of one partition,
until none of them is in use and their debt is paid. Other tenants keep theirs.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from coordinator.core.limiting.windows import WINDOW_NS
from coordinator.core.model import MonitoringClass, Rates
from coordinator.core.topics import TopicName, tenant_of
from coordinator.core.traffic import Traffic
from coordinator.gate.limits.counters import OTHERS, GateListener
from coordinator.gate.limits.group import Group

UNUSED_MAX: Final = 10_000
"""The most unused limiters of one tenant, 25 MB: all of its topics may close at once, and open again."""

EXAMINED: Final = 4
"""Unused limiters that each new name examines: more than one, so that they become fewer."""


class Partitions:
    """The default limit of partitions, and the limiter of each partition.

    Args:
        make: makes a limiter for a topic's name, with its listener.
    """

    def __init__(self, make: Callable[[str, GateListener], Group]) -> None:
        self._make = make
        self._groups: dict[str, Group] = {}
        #: The time since which each unused limiter is known to owe nothing, the next to examine first.
        self._unused: OrderedDict[str, int | None] = OrderedDict()
        #: The number of unused limiters of each tenant.
        self._unused_of: Counter[str] = Counter()
        #: The rates of each partition; all unlimited is no limit.
        self.rates = Rates()

    def set_rates(self, rates: Rates, now_ns: int) -> tuple[Group, ...]:
        """Limit each partition to these rates from now on; return the changed groups."""
        self.rates = rates
        changed = tuple(self._groups.values())
        for group in changed:
            group.set_limits(rates, now_ns)
        if rates == Rates():
            self._groups.clear()
            self._unused.clear()
            self._unused_of.clear()
        return changed

    def of(self, topic: TopicName, now_ns: int) -> tuple[Group, ...]:
        """Return the limiter that a partition counts against; empty while there is no limit."""
        if self.rates == Rates():
            return ()
        return (self._groups.get(str(topic)) or self._new(topic, now_ns),)

    def _new(self, topic: TopicName, now_ns: int) -> Group:
        """Return the limiter of a partition that has none: one of its own, or the tenant's shared one."""
        shared = f"persistent://{topic.tenant}/{OTHERS}/{OTHERS}"
        for name in [*islice(self._unused, EXAMINED)]:
            self._examine(name, now_ns)
        is_full = self._unused_of[topic.tenant] >= UNUSED_MAX
        name = shared if is_full or self._is_needed(shared, now_ns) else str(topic)
        if name not in self._groups:
            self._groups[name] = self._make(name, self)
            self._groups[name].set_limits(self.rates, now_ns)
            self._set_unused(name, unused=True)
        return self._groups[name]

    def collect(self, now_ns: int) -> tuple[Traffic, ...]:
        """Return the counts of every partition, under the topic's name."""
        counters = (c for group in self._groups.values() for c in (group.publish, group.dispatch))
        collected = (counter.collect(now_ns) for counter in counters)
        return tuple(traffic for traffic in collected if traffic is not None)

    def groups(self) -> Iterator[Group]:
        """Yield the limiters that exist."""
        yield from self._groups.values()

    def participants_changed(
        self, group: str, _monitoring_class: MonitoringClass, _count: int
    ) -> None:
        """Note whether a limiter is in use; see `GateListener`."""
        found = self._groups.get(group)  # none if the limit was lifted
        if found is not None:
            in_use = bool(found.publish.participants or found.dispatch.participants)
            if in_use is (group in self._unused):
                self._set_unused(group, unused=not in_use)

    def _set_unused(self, name: str, *, unused: bool) -> None:
        tenant = tenant_of(name)
        if unused:
            self._unused[name] = None
            self._unused_of[tenant] += 1
            return
        del self._unused[name]
        self._unused_of[tenant] -= 1
        if not self._unused_of[tenant]:
            del self._unused_of[tenant]

    def _is_needed(self, name: str, now_ns: int) -> bool:
        """Whether there is a limiter of this name that is in use or owes."""
        group = self._groups.get(name)
        return group is not None and (name not in self._unused or _owes(group, now_ns))

    def _examine(self, name: str, now_ns: int) -> None:
        """Forget an unused limiter that has owed nothing for a second."""
        paid_ns = self._unused[name]
        if _owes(self._groups[name], now_ns):
            self._unused[name] = None
        elif paid_ns is None:
            self._unused[name] = now_ns
        elif now_ns - paid_ns >= WINDOW_NS:
            self._set_unused(name, unused=False)
            del self._groups[name]
            return
        self._unused.move_to_end(name)


def _owes(group: Group, now_ns: int) -> bool:
    limiters = (group.publish_limiter, group.dispatch_limiter)
    return any(limiter.owed(now_ns) != (0, 0) for limiter in limiters)
