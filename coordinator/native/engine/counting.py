"""The broker's counters, poll by poll: what was published to each namespace since the last one.

The messages of attached subscriptions are counted once more, by subscription, and what is replicated to
attached remote clusters by cluster (replication.py).

A topic's counters start from 0 when it is loaded. So a counter that fell began anew, and its whole value
was counted since; a topic that was not there at the last poll was loaded after it. At the first poll the
earlier values are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.native.engine.owners import home_of, owner_of


class TopicCount(NamedTuple):
    """A broker's counters of one topic, or of a namespace where it does not list topics.

    Args:
        namespace: ``tenant/namespace``.
        topic: its full name; empty for the namespace as a whole.
        messages: published since the topic was loaded.
        bytes: the same, in bytes.
        out_messages: sent to consumers.
        out_bytes: the same, in bytes.
        producers: connected now.
        consumers: connected now.
        throttles: how often publishing was throttled, since some time.
        subscription: the one that the counts of sent messages are of; empty for all together. Native
            enforcement has a further count for each attached subscription, and one for all together.
        remote: the remote cluster that they were replicated to; empty if they were not.
    """

    namespace: str
    topic: str
    messages: int = 0
    bytes: int = 0
    out_messages: int = 0
    out_bytes: int = 0
    producers: int = 0
    consumers: int = 0
    throttles: int = 0
    subscription: str = ""
    remote: str = ""

    @property
    def owner(self) -> str:
        """The owner of the rate that holds what was sent (owners.py); empty if there can be none."""
        return owner_of(self.topic, self.subscription, self.remote)

    @property
    def is_of_part(self) -> bool:
        """Whether it counts a part of what its topic was sent."""
        return bool(self.subscription or self.remote)


class ReplicatorCount(NamedTuple):
    """A broker's counters of one topic, or partition, that it replicates to a remote cluster.

    Args:
        topic: its full name.
        remote: the remote cluster.
        messages: published since the topic was loaded, by clients and by other clusters.
        bytes: the same, in bytes.
        received: messages among them that other clusters have replicated here.
        sent: entries, each a message or a batch, that the remote cluster has taken.
        backlog: entries that are still to be sent.
    """

    topic: str
    remote: str
    messages: int
    bytes: int
    received: int
    sent: int
    backlog: int


@dataclass(frozen=True, slots=True)
class CounterReading:
    """All counters of a broker, as it answered once.

    Args:
        topics: the counters of each topic.
        started_s: when the broker's process started, in seconds of the epoch; None: it does not say.
        uncounted: namespaces, not all of them if there are many, with topics or subscriptions whose
            names the broker's metrics cannot hold; they are missing in the counters.
        replicators: the counters of replication to the remote clusters that were asked for.
        replicators_error: why those of some topic are as they were before; empty if none are.
    """

    topics: Sequence[TopicCount]
    started_s: float | None = None
    uncounted: Collection[str] = ()
    replicators: Sequence[ReplicatorCount] = ()
    replicators_error: str = ""


@dataclass(slots=True)
class NamespaceCount:
    """The counts of a namespace between two polls, and its participants at the second."""

    messages: int = 0
    bytes: int = 0
    out_messages: int = 0
    out_bytes: int = 0
    producers: int = 0
    consumers: int = 0
    producer_topics: int = 0
    consumer_topics: int = 0
    throttles: int = 0
    #: Whether these counters began anew, as they do with every update of the broker's statistics.
    throttles_unsure: bool = False

    def add(self, other: NamespaceCount) -> None:
        """Add the counts of another namespace."""
        self.messages += other.messages
        self.bytes += other.bytes
        self.out_messages += other.out_messages
        self.out_bytes += other.out_bytes
        self.producers += other.producers
        self.consumers += other.consumers
        self.producer_topics += other.producer_topics
        self.consumer_topics += other.consumer_topics
        self.throttles += other.throttles
        self.throttles_unsure = self.throttles_unsure or other.throttles_unsure


_GROWING = ("messages", "bytes", "out_messages", "out_bytes", "throttles")


class CounterBook:
    """The counters as of the last poll."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, str, str], TopicCount] | None = None

    @property
    def topics(self) -> int:
        """The number of topics at the last poll."""
        return sum(not count.is_of_part for count in (self._last or {}).values())

    @property
    def published_topics(self) -> frozenset[str]:
        """The topics that producers were connected to."""
        counts = (self._last or {}).values()
        return frozenset(count.topic for count in counts if count.producers and count.topic)

    def poll(self, counts: Iterable[TopicCount]) -> Mapping[str, NamespaceCount]:
        """Return the counts since the last poll, by home (owners.py)."""
        last, self._last = self._last, {}
        found: dict[str, NamespaceCount] = {}
        for count in counts:
            key = count.namespace, count.topic, count.subscription, count.remote
            self._last[key] = count
            home = home_of(count.owner) if count.is_of_part else count.namespace
            total = found.get(home)
            if total is None:
                total = found[home] = NamespaceCount()
            total.producers += count.producers
            total.consumers += count.consumers
            total.producer_topics += count.producers > 0
            total.consumer_topics += count.consumers > 0
            if last is None:
                continue
            before = last.get(key)
            for name in _GROWING:
                now = getattr(count, name)
                was = 0 if before is None else getattr(before, name)
                setattr(total, name, getattr(total, name) + (now - was if now >= was else now))
            if before is not None and count.throttles < before.throttles:
                total.throttles_unsure = True
        return found
