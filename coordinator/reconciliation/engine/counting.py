"""The counters of broker and gate, reading by reading: the increase in each namespace since the last one.

Both ends count by namespace and class, and their counters grow until they begin anew. An increase is
*unknown* (None) where a counter says too little, and an unknown increase must never look like traffic:

* A *topic* whose counter fell was loaded anew: its whole value is new. One that was not listed at the
  last reading was loaded since, unless it is listed again with at least its old value: then only the
  difference is new. A topic that is not listed is remembered for `REMEMBERED` readings. The same holds
  for a *subscription*: the broker counts dispatch by subscription, wherever it lists topics.
* A *namespace* that fell, where the broker lists no topics, lost a topic with an unknown count: unknown.
* At the first reading nothing is known of earlier values.
* The gate's counter falls when it forgot an unused namespace (gate/limits/namespaces.py): unknown. It may
  fall as well by what a client announced and never sent; that increase is known, and below 0.

A subscription that ends takes along what it was sent since the last reading, and one that begins and ends
between two readings is never listed. The broker's count of all its dispatched bytes has them. What it has
more than the gate passed and the accounts of namespaces found is a row of its own, `ENDED`, in bytes; a
topic that is unloaded makes that count fall.

No name is left out. The coordinators' own topics have a row of their own, `BUS`, as sidecars and brokers
speak there without a gate by design; of a broker that lists no topics it has their whole namespaces. A
gate counts in their namespaces what a client sends them through it, which can hide as much of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from coordinator.core.model import MonitoringClass
from coordinator.core.topics import namespace_in
from coordinator.native.engine.counting import TopicCount

REMEMBERED: Final = 30
"""Readings for which the counter of a topic or subscription that is not listed is remembered."""

BUS: Final = "(bus topics)"
"""Stands for the topics that coordinators and brokers use among themselves; no namespace is named so."""

ENDED: Final = "(ended subscriptions)"
"""Stands for the subscriptions that the broker does not list any more."""

ENDED_ROW: Final = (ENDED, MonitoringClass.DISPATCH)

GATE_FORGOT: Final = "(forgotten)"
"""The gate's name of the number of times that it forgot counters."""

Row = tuple[str, MonitoringClass]
"""A namespace, or what stands for one, and a class: the key under which both ends are compared."""


class Volume(NamedTuple):
    """Messages and bytes."""

    messages: int = 0
    bytes: int = 0

    def plus(self, other: Volume) -> Volume:
        """Return the sum."""
        return Volume(self.messages + other.messages, self.bytes + other.bytes)

    def less(self, other: Volume) -> Volume:
        """Return the difference."""
        return Volume(self.messages - other.messages, self.bytes - other.bytes)

    def fell(self, before: Volume) -> bool:
        """Return whether the counter began anew after this earlier value."""
        return self.messages < before.messages or self.bytes < before.bytes


NOTHING: Final = Volume()

Increases = Mapping[Row, Volume | None]
"""The increases between two readings; None is unknown, and a row that is not there has none."""


class BrokerBook:
    """The broker's counters as of the last reading.

    A reading may have tens of thousands of counts, so it is taken in parts: `begin`, `add` any number of
    times, `end`.

    Args:
        bus_topics: full names of the coordinators' own topics.
    """

    def __init__(self, bus_topics: Collection[str] = ()) -> None:
        self._bus = frozenset(bus_topics)
        self._bus_namespaces = frozenset(namespace_in(topic) for topic in bus_topics)
        #: The counter of each namespace, topic and subscription, and the reading that listed it last.
        self._seen: dict[tuple[str, str, str], tuple[int, TopicCount]] = {}
        self._readings = 0
        self._found: dict[Row, Volume | None] = {}

    def begin(self) -> None:
        """Begin a reading."""
        self._readings += 1
        self._found = {}

    def add(self, counts: Iterable[TopicCount]) -> None:
        """Take counts of this reading."""
        for count in counts:
            key = count.namespace, count.topic, count.subscription
            _, before = self._seen.get(key, (0, TopicCount(*key[:2])))
            self._seen[key] = (self._readings, count)
            namespace = BUS if self._is_bus(count) else count.namespace
            for each, of in _COUNTS.items():
                self._grow((namespace, each), of(count), of(before), is_whole=not count.topic)

    def end(self) -> Increases:
        """End the reading; return the increase in every row that it lists."""
        oldest = self._readings - REMEMBERED
        for key in [key for key, (reading, _) in self._seen.items() if reading < oldest]:
            del self._seen[key]
        return self._found

    def _grow(self, row: Row, now: Volume, was: Volume, *, is_whole: bool) -> None:
        found = self._found.get(row, NOTHING)
        fell = now.fell(was)
        if self._readings == 1 or found is None or (fell and is_whole):
            self._found[row] = None
        else:
            self._found[row] = found.plus(now if fell else now.less(was))

    def _is_bus(self, count: TopicCount) -> bool:
        if not count.topic:
            return count.namespace in self._bus_namespaces
        return count.topic in self._bus


class GateBook:
    """The gate's counters as of the last reading, by namespace and class."""

    def __init__(self) -> None:
        self._last: Mapping[Row, Volume] | None = None

    def read(self, totals: Mapping[Row, Volume]) -> Increases:
        """Return the increase in every row of either reading."""
        last, self._last = self._last, totals
        if last is None:
            return dict.fromkeys(totals)
        found: dict[Row, Volume | None] = {}
        for row in totals.keys() | last.keys():
            was, now = last.get(row, NOTHING), totals.get(row, NOTHING)
            forgot = (GATE_FORGOT, row[1])
            is_other = totals.get(forgot) != last.get(forgot)
            found[row] = None if is_other and now.fell(was) else now.less(was)
        return found


_COUNTS: Final[Mapping[MonitoringClass, Callable[[TopicCount], Volume]]] = {
    MonitoringClass.PUBLISH: lambda count: Volume(count.messages, count.bytes),
    MonitoringClass.DISPATCH: lambda count: Volume(count.out_messages, count.out_bytes),
}
