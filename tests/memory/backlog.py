"""A broker's topics with their backlogs in memory: ledgers, cursors and publish times, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.backlog.rules.evictions import Counted
from coordinator.backlog.rules.model import (
    NO_QUOTA,
    BacklogQuota,
    Cursor,
    Glance,
    Ledger,
    Position,
    TopicStorage,
    TopicSummary,
)
from coordinator.ports import NotFound, PortError


@dataclass
class MemoryTopicStorage:
    """One topic: every entry with its size and publish time, in ledgers.

    Args:
        entries_per_ledger: entries after which a ledger is closed.
    """

    entries_per_ledger: int = 5
    first_ledger: int = 1
    #: (bytes, publish time in ms) of each entry, in order.
    entries: list[tuple[int, int]] = field(default_factory=list)
    #: The number of entries that each subscription has acknowledged from the beginning on.
    acknowledged: dict[str, int] = field(default_factory=dict)
    quota: BacklogQuota = NO_QUOTA

    def publish(self, at_ms: int, size: int = 1024) -> None:
        """Add an entry."""
        self.entries.append((size, at_ms))

    def position_of(self, index: int) -> Position:
        """Return the position of an entry."""
        ledger, entry = divmod(index, self.entries_per_ledger)
        return Position(self.first_ledger + ledger, entry)

    def index_of(self, position: Position) -> int:
        """Return the entry at a position; the reverse of `position_of`."""
        return (position.ledger - self.first_ledger) * self.entries_per_ledger + position.entry

    def storage(self) -> TopicStorage:
        """Return the storage as a broker reports it."""
        per = self.entries_per_ledger
        parts = [self.entries[at : at + per] for at in range(0, len(self.entries), per)] or [[]]
        if len(parts[-1]) == per:
            parts.append([])
        ledgers = tuple(
            Ledger(self.first_ledger + number, len(part), sum(size for size, _ in part))
            for number, part in enumerate(parts)
        )
        cursors = tuple(
            Cursor(name, self._mark_delete(done)) for name, done in self.acknowledged.items()
        )
        opened = self.entries[-1][1] if self.entries else None
        return TopicStorage(ledgers, cursors, opened)

    def _mark_delete(self, acknowledged: int) -> Position:
        if not acknowledged:
            return Position(self.first_ledger, -1)
        return self.position_of(acknowledged - 1)

    def glance(self) -> Glance:
        """Return a glance as a broker reports it: a cursor without a subscription has no name."""
        storage, without_quota = self.storage(), self.quota == NO_QUOTA
        oldest = storage.oldest()
        if oldest is None:
            return Glance(0, None, None, without_quota)
        size_bytes = storage.size_after(oldest.mark_delete)
        _, published_ms = self.entries[self.acknowledged[oldest.name]]
        name = None if oldest.internal else oldest.name
        return Glance(size_bytes, published_ms, name, without_quota)

    def summary(self, topic: str) -> TopicSummary:
        """Return the summary as a broker reports it."""
        storage = self.storage()
        oldest = storage.oldest()
        total = sum(size for size, _ in self.entries)
        return TopicSummary(
            topic,
            size_bytes=0 if oldest is None else storage.size_after(oldest.mark_delete),
            storage_bytes=total,
            published_bytes=total,
            backlogs={name: len(self.entries) - n for name, n in self.acknowledged.items()},
        )


class MemoryBacklogSource:
    """`coordinator.ports.BacklogSource` over topics in memory; records the calls.

    Args:
        topics: by full name.
    """

    def __init__(self, topics: dict[str, MemoryTopicStorage] | None = None) -> None:
        self.topics = {} if topics is None else topics
        #: The calls, by name and topic.
        self.asked: list[tuple[str, str]] = []
        #: The evictions of the broker's own check, by topic and type.
        self.evicted: Counted = {}
        #: Raised in place of an answer, by the name of the call.
        self.trouble: dict[str, PortError] = {}

    async def cluster(self) -> str:
        """Return a constant cluster."""
        self._called("cluster", "")
        return "memory"

    async def summaries(self) -> tuple[TopicSummary, ...]:
        """See `BacklogSource`."""
        self._called("summaries", "")
        return tuple(topic.summary(name) for name, topic in self.topics.items())

    async def glance(self, topic: str) -> Glance:
        """See `BacklogSource`."""
        self._called("glance", topic)
        return self._topic(topic).glance()

    async def storage(self, topic: str) -> TopicStorage:
        """See `BacklogSource`."""
        self._called("storage", topic)
        return self._topic(topic).storage()

    async def published_ms(self, topic: str, position: Position) -> int:
        """See `BacklogSource`."""
        self._called("published_ms", topic)
        found = self._topic(topic)
        return found.entries[found.index_of(position)][1]

    async def closed_ms(self, topic: str) -> Mapping[int, int]:
        """Return when each ledger was closed: when its last entry was published."""
        self._called("closed_ms", topic)
        found = self._topic(topic)
        closed = found.storage().ledgers[:-1]
        return {
            ledger.number: found.entries[
                found.index_of(Position(ledger.number, ledger.entries - 1))
            ][1]
            for ledger in closed
        }

    async def quota(self, topic: str) -> BacklogQuota:
        """Return the quota that the test has set; of a partitioned topic, that of a partition."""
        self._called("quota", topic)
        parts = (name for name in self.topics if name.startswith(f"{topic}-partition-"))
        return self._topic(next(parts, topic)).quota

    async def evictions(self) -> Counted:
        """See `BacklogSource`."""
        self._called("evictions", "")
        return dict(self.evicted)

    async def expire_to(self, topic: str, subscription: str, position: Position) -> None:
        """See `BacklogSource`."""
        self._called("expire_to", topic)
        found = self._topic(topic)
        done = max(found.acknowledged[subscription], found.index_of(position) + 1)
        found.acknowledged[subscription] = min(len(found.entries), done)

    def _called(self, call: str, topic: str) -> None:
        self.asked.append((call, topic))
        if call in self.trouble:
            raise self.trouble[call]

    def _topic(self, topic: str) -> MemoryTopicStorage:
        try:
            return self.topics[topic]
        except KeyError:
            raise NotFound(f"there is no {topic}") from None
