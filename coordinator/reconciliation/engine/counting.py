"""The counters of broker and gate, reading by reading: the increase in each namespace since the last one.

Both list counters that grow until they begin anew. An increase is *unknown* (None) where a counter says
too little, and an unknown increase must never look like traffic:

* A *topic* whose counter fell was loaded anew: its whole value is new. One that was not listed at the
  last reading was loaded since, unless it is listed again with at least its old value: then only the
  difference is new. A topic that is not listed is remembered for `REMEMBERED` readings.
* A *namespace* that fell, where the broker lists no topics, lost a topic with an unknown count: unknown.
* At the first reading nothing is known of earlier values.
* The gate's counter falls when it forgot a namespace (`NAMESPACES_MAX` of gate/limits/namespaces.py):
  unknown.

Pulsar's own topics in a namespace (`SYSTEM_TOPICS`) are left out where topics are listed: the broker
itself publishes to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coordinator.native.engine.counting import TopicCount

REMEMBERED: Final = 30
"""Readings for which the counter of a topic that is not listed is remembered."""

INSPECTED_MAX: Final = 5
"""Topics of a namespace whose publishers are asked for."""

SYSTEM_TOPICS: Final = frozenset(
    {
        "__change_events",
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_segments",
        "__transaction_buffer_snapshot_indexes",
    }
)
"""Local names of the topics that the broker itself publishes to in any namespace."""

_PENDING_ACK: Final = "__transaction_pending_ack"
_PARTITION: Final = "-partition-"


class PublishedCount(NamedTuple):
    """Published messages and bytes."""

    messages: int = 0
    bytes: int = 0

    def plus(self, other: PublishedCount) -> PublishedCount:
        """Return the sum."""
        return PublishedCount(self.messages + other.messages, self.bytes + other.bytes)


NOTHING: Final = PublishedCount()


@dataclass(slots=True)
class Increase:
    """The increase of a namespace's counters between two readings of the broker.

    Args:
        published: the increase; meaningless if it is not known.
        is_known: whether every counter says how much it grew.
        topics: the topics that grew, with their messages; empty if the broker lists none.
    """

    published: PublishedCount = NOTHING
    is_known: bool = True
    topics: dict[str, int] = field(default_factory=dict)

    def to_inspect(self, gates: Collection[str]) -> tuple[str, ...]:
        """Return the topics whose publishers may explain a difference, the likeliest first.

        Args:
            gates: topics with producers at the gate; the others grew without it.
        """
        return first_to_inspect(sorted(self.topics, key=lambda name: -self.topics[name]), gates)


@dataclass(slots=True)
class _Seen:
    published: PublishedCount
    reading: int


class BrokerBook:
    """The broker's counters as of the last reading.

    A reading may have tens of thousands of counts, so it is taken in parts: `begin`, `add` any number of
    times, `end`.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._readings = 0
        self._found: dict[str, Increase] = {}

    @property
    def topics(self) -> int:
        """The number of counters at the last reading."""
        return sum(seen.reading == self._readings for seen in self._seen.values())

    def begin(self) -> None:
        """Begin a reading."""
        self._readings += 1
        self._found = {}

    def add(self, counts: Iterable[TopicCount]) -> None:
        """Take counts of this reading."""
        for count in counts:
            if is_system(count.topic):
                continue
            self._add(count)

    def end(self) -> Mapping[str, Increase]:
        """End the reading; return the increase in every namespace that it lists."""
        oldest = self._readings - REMEMBERED
        old = [key for key, seen in self._seen.items() if seen.reading < oldest]
        for key in old:
            del self._seen[key]
        return self._found

    def _add(self, count: TopicCount) -> None:
        increase = self._found.get(count.namespace)
        if increase is None:
            increase = self._found[count.namespace] = Increase(is_known=self._readings > 1)
        now = PublishedCount(count.messages, count.bytes)
        key = (count.namespace, count.topic)
        before = self._seen.get(key)
        if before is None:
            self._seen[key] = _Seen(now, self._readings)
            was = PublishedCount()
        else:
            was = before.published
            before.published, before.reading = now, self._readings
        if now.messages < was.messages:
            if not count.topic:
                increase.is_known = False
                return
            was = PublishedCount()
        grown = PublishedCount(now.messages - was.messages, max(0, now.bytes - was.bytes))
        increase.published = increase.published.plus(grown)
        if count.topic and grown.messages:
            increase.topics[count.topic] = grown.messages


class GateBook:
    """The gate's counters as of the last reading, by namespace."""

    def __init__(self) -> None:
        self._last: Mapping[str, PublishedCount] | None = None

    def read(self, totals: Mapping[str, PublishedCount]) -> Mapping[str, PublishedCount | None]:
        """Return the increase in every namespace of either reading; None is unknown."""
        last, self._last = self._last, totals
        if last is None:
            return dict.fromkeys(totals)
        found: dict[str, PublishedCount | None] = {}
        for namespace in totals.keys() | last.keys():
            was, now = (
                last.get(namespace, PublishedCount()),
                totals.get(namespace, PublishedCount()),
            )
            fell = now.messages < was.messages or now.bytes < was.bytes
            grown = PublishedCount(now.messages - was.messages, now.bytes - was.bytes)
            found[namespace] = None if fell else grown
        return found


def first_to_inspect(topics: Iterable[str], gates: Collection[str]) -> tuple[str, ...]:
    """Return the topics to ask for, those without a producer at the gate first."""
    return tuple(sorted(topics, key=lambda topic: topic in gates)[:INSPECTED_MAX])


def is_system(topic: str) -> bool:
    """Return whether the broker itself publishes to a topic, by its full name."""
    local_name = topic.rpartition("/")[2].partition(_PARTITION)[0]
    return local_name in SYSTEM_TOPICS or local_name.endswith(_PENDING_ACK)
