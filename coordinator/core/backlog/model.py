"""The words of backlog, as immutable values.

A *cursor* is what a subscription has acknowledged of a topic: everything up to its *mark-delete
position*, and single entries behind it. A topic's *backlog* is that of its oldest cursor: the durable
one whose mark-delete position is the lowest. Its *age* counts from when the first unacknowledged message
was published, its *size* is that of all entries from there on. A *quota* bounds either (PIP-323).

Readers do not hold a topic's backlog: their cursors are not durable. Pulsar's own cursors do, and a
backlog that no consumer can shorten is worth telling apart.

``None`` is "no quota" or "not known", where Pulsar writes -1. Times are milliseconds of the epoch, as
producers and brokers stamp them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

_INTERNAL_CURSORS: Final = ("pulsar.dedup", "__compaction")
_INTERNAL_PREFIX: Final = "pulsar.repl"


class Position(NamedTuple):
    """Where an entry lies: ledger and entry; they sort in the order of publishing."""

    ledger: int
    entry: int


class QuotaType(Enum):
    """What a quota bounds, by the value of PIP-323's label."""

    SIZE = "size"
    TIME = "time"


class QuotaPolicy(Enum):
    """What happens when a quota is exceeded, by Pulsar's names."""

    HOLD = "producer_request_hold"
    REFUSE = "producer_exception"
    EVICT = "consumer_backlog_eviction"


@dataclass(frozen=True, slots=True)
class BacklogQuota:
    """The quota that is in force for a topic, wherever it is set.

    Args:
        size_bytes: of the backlog; None is no limit.
        age_s: of its oldest message; None is no limit.
        size_policy: what happens when the size is exceeded.
        age_policy: what happens when the age is.
    """

    size_bytes: int | None = None
    age_s: int | None = None
    size_policy: QuotaPolicy = QuotaPolicy.HOLD
    age_policy: QuotaPolicy = QuotaPolicy.HOLD

    def limit_of(self, quota_type: QuotaType) -> int | None:
        """Bytes or seconds."""
        return self.size_bytes if quota_type is QuotaType.SIZE else self.age_s

    def policy_of(self, quota_type: QuotaType) -> QuotaPolicy:
        """What happens when it is exceeded."""
        return self.size_policy if quota_type is QuotaType.SIZE else self.age_policy


NO_QUOTA: Final = BacklogQuota()


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """What a broker says of each of its topics at once, as old as its own statistics.

    Args:
        topic: full name, partition included.
        size_bytes: of the backlog, as the broker estimates it.
        storage_bytes: of everything that is stored.
        published_bytes: since the broker loaded the topic.
        backlogs: subscription to unacknowledged entries.
        producers: names of those connected, the first of many.
        producer_count: how many are connected.
        consumers: how many of each subscription are connected.
    """

    topic: str
    size_bytes: int = 0
    storage_bytes: int = 0
    published_bytes: int = 0
    backlogs: Mapping[str, int] = field(default_factory=dict)
    producers: tuple[str, ...] = ()
    producer_count: int = 0
    consumers: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_backlog(self) -> bool:
        """Whether something is unacknowledged, by a subscription or by a cursor of Pulsar's own."""
        return self.size_bytes > 0 or any(self.backlogs.values())

    @property
    def fingerprint(self) -> object:
        """As long as it is the same nobody has published or acknowledged anything."""
        return (self.storage_bytes, self.published_bytes, tuple(sorted(self.backlogs.items())))


@dataclass(frozen=True, slots=True)
class Glance:
    """What a topic's statistics say of its backlog, all at once.

    Args:
        size_bytes: of the backlog.
        publish_ms: when its oldest message was published; None is no backlog.
        subscription: whose that is; None is no backlog, or a cursor that is no subscription's.
        without_quota: whether the broker says that no quota is in force.
    """

    size_bytes: int
    publish_ms: int | None
    subscription: str | None
    without_quota: bool


@dataclass(frozen=True, slots=True)
class Cursor:
    """What one subscription has acknowledged.

    Args:
        name: of the subscription.
        mark_delete: everything up to here.
        durable: whether the broker keeps it; a reader's is not.
    """

    name: str
    mark_delete: Position
    durable: bool = True

    @property
    def internal(self) -> bool:
        """Whether it is Pulsar's own: of deduplication, compaction or geo-replication."""
        return is_internal(self.name)


@dataclass(frozen=True, slots=True)
class Ledger:
    """A part of a topic's storage: so many entries, of so many bytes together."""

    number: int
    entries: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TopicStorage:
    """A topic's ledgers, in order, and its cursors.

    Args:
        ledgers: the last one is open.
        cursors: of all subscriptions.
        opened_ms: when the open ledger was opened; None is not known.
    """

    ledgers: Sequence[Ledger]
    cursors: Sequence[Cursor]
    opened_ms: int | None = None

    def first_after(self, position: Position) -> Position | None:
        """The first entry behind a position; None when there is none."""
        return next((Position(number, first) for number, first, _ in self._behind(position)), None)

    def entries_after(self, position: Position) -> int:
        """How many entries there are behind a position."""
        return sum(entries for _, _, entries in self._behind(position))

    def nth_after(self, position: Position, index: int) -> Position:
        """The entry behind a position that has so many others before it; raises IndexError."""
        for number, first, entries in self._behind(position):
            if index < entries:
                return Position(number, first + index)
            index -= entries
        raise IndexError(f"{index} entries too far behind {position}")

    def _behind(self, position: Position) -> Iterator[tuple[int, int, int]]:
        """Of each ledger with entries behind a position: its number, the first of them, how many."""
        for ledger in self.ledgers:
            if ledger.number < position.ledger:
                continue
            first = position.entry + 1 if ledger.number == position.ledger else 0
            if first < ledger.entries:
                yield ledger.number, first, ledger.entries - first

    def size_after(self, position: Position) -> int:
        """Bytes behind a position, of the ledger that it lies in by its share of entries."""
        size = 0
        for ledger in self.ledgers:
            if ledger.number > position.ledger:
                size += ledger.size_bytes
            elif ledger.number == position.ledger and ledger.entries:
                left = max(0, ledger.entries - position.entry - 1)
                size += ledger.size_bytes * left // ledger.entries
        return size

    def leaving(self, size_bytes: int) -> Position | None:
        """The first position behind which there are at most so many bytes; None without entries."""
        found: Position | None = None
        left = 0
        for ledger in reversed(self.ledgers):
            if not ledger.entries:
                continue
            if left + ledger.size_bytes <= size_bytes:
                left += ledger.size_bytes
                found = Position(ledger.number, -1)
                continue
            kept = max(0, size_bytes - left) * ledger.entries // ledger.size_bytes
            return Position(ledger.number, ledger.entries - kept - 1)
        return found

    def oldest(self) -> Cursor | None:
        """The durable cursor that is furthest behind, if one has a backlog; of equal ones by name."""
        behind = [
            cursor
            for cursor in self.cursors
            if cursor.durable and self.first_after(cursor.mark_delete) is not None
        ]
        return min(behind, key=lambda cursor: (cursor.mark_delete, cursor.name), default=None)

    def is_open(self, ledger: int) -> bool:
        """Whether a ledger is the one that is written to."""
        return bool(self.ledgers) and self.ledgers[-1].number == ledger


def is_internal(subscription: str) -> bool:
    """Whether a cursor of this name is Pulsar's own."""
    return subscription in _INTERNAL_CURSORS or subscription.startswith(_INTERNAL_PREFIX)
