"""The terms of backlog, as immutable values.

A *cursor* records the entries of a topic that a subscription has acknowledged: all up to its *mark-delete
position*, and single entries behind it. A topic's *backlog* is that of its oldest cursor: the durable one
whose mark-delete position is the lowest. Its *age* counts from the publish time of the first
unacknowledged message, its *size* is that of all entries from there on. A *quota* bounds either
(PIP-323).

Readers do not hold a topic's backlog: their cursors are not durable. Pulsar's own cursors do hold it, and
are marked, since no consumer can shorten such a backlog.

``None`` is "no quota" or "not known", where Pulsar writes -1. Times are milliseconds of the epoch, as
producers and brokers stamp them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate
from typing import Final, NamedTuple

_INTERNAL_CURSORS: Final = ("pulsar.dedup", "__compaction")
_INTERNAL_PREFIX: Final = "pulsar.repl"


class Position(NamedTuple):
    """The position of an entry: ledger and entry; positions sort in the order of publishing."""

    ledger: int
    entry: int


class QuotaType(Enum):
    """The measure that a quota bounds, by the value of PIP-323's label."""

    SIZE = "size"
    TIME = "time"


class QuotaPolicy(Enum):
    """The action on an exceeded quota, by Pulsar's names."""

    HOLD = "producer_request_hold"
    REFUSE = "producer_exception"
    EVICT = "consumer_backlog_eviction"


@dataclass(frozen=True, slots=True)
class BacklogQuota:
    """The quota in force for a topic, at whatever level it is set.

    Args:
        size_bytes: of the backlog; None is no limit.
        age_s: of its oldest message; None is no limit.
        size_policy: the action when the size is exceeded.
        age_policy: the action when the age is exceeded.
    """

    size_bytes: int | None = None
    age_s: int | None = None
    size_policy: QuotaPolicy = QuotaPolicy.HOLD
    age_policy: QuotaPolicy = QuotaPolicy.HOLD

    def limit_of(self, quota_type: QuotaType) -> int | None:
        """Return the limit in bytes or seconds."""
        return self.size_bytes if quota_type is QuotaType.SIZE else self.age_s

    def policy_of(self, quota_type: QuotaType) -> QuotaPolicy:
        """Return the action when this quota is exceeded."""
        return self.size_policy if quota_type is QuotaType.SIZE else self.age_policy


NO_QUOTA: Final = BacklogQuota()


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A broker's summary of one of its topics, as old as its own statistics.

    Args:
        topic: full name, partition included.
        size_bytes: of the backlog, as the broker estimates it.
        storage_bytes: of all stored entries.
        published_bytes: since the broker loaded the topic.
        backlogs: subscription to unacknowledged entries.
        producers: names of those connected, the first of many.
        producer_count: the number connected.
        consumers: the number connected, by subscription.
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
        """Return whether a subscription or a cursor of Pulsar's own has unacknowledged entries."""
        return self.size_bytes > 0 or any(self.backlogs.values())

    @property
    def fingerprint(self) -> object:
        """Return a value that stays the same until a message is published or acknowledged."""
        return (self.storage_bytes, self.published_bytes, tuple(sorted(self.backlogs.items())))

    def fingerprint_after(self, left: Mapping[str, int]) -> object:
        """Return the fingerprint that stands for a topic as a later answer shows it.

        A summary is older than an answer, and a later one can equal it again after a seek back: what was
        acknowledged in between is taken off, so that this later one is known for a change. Entries that
        are acknowledged one by one lie among those that are left, so a backlog is never raised.

        Args:
            left: subscription to the entries behind its position, as answered.
        """
        backlogs = {
            name: min(entries, left.get(name, entries)) for name, entries in self.backlogs.items()
        }
        return replace(self, backlogs=backlogs).fingerprint


@dataclass(frozen=True, slots=True)
class Glance:
    """The backlog in a topic's statistics, all at once.

    Args:
        size_bytes: of the backlog.
        publish_ms: when its oldest message was published; None is no backlog.
        subscription: its subscription; None is no backlog, or a cursor that is no subscription's.
        without_quota: whether the broker reports that no quota is in force.
    """

    size_bytes: int
    publish_ms: int | None
    subscription: str | None
    without_quota: bool


@dataclass(frozen=True, slots=True)
class Cursor:
    """The acknowledged entries of one subscription.

    Args:
        name: of the subscription.
        mark_delete: the position up to which all entries are acknowledged.
        durable: whether the broker keeps it; a reader's is not.
    """

    name: str
    mark_delete: Position
    durable: bool = True

    @property
    def internal(self) -> bool:
        """Return whether it is Pulsar's own: of deduplication, compaction or geo-replication."""
        return is_internal(self.name)


@dataclass(frozen=True, slots=True)
class Ledger:
    """A part of a topic's storage, with the number and total bytes of its entries."""

    number: int
    entries: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TopicStorage:
    """A topic's ledgers, in order, and its cursors.

    Clients may make any number of subscriptions, and a topic that is kept for long has thousands of
    ledgers. So a question about one cursor does not go over all ledgers.

    Args:
        ledgers: the last one is open.
        cursors: of all subscriptions.
        opened_ms: when the open ledger was opened; None is not known.
    """

    ledgers: Sequence[Ledger]
    cursors: Sequence[Cursor]
    opened_ms: int | None = None
    _numbers: Sequence[int] = field(init=False, repr=False, compare=False)
    #: Entries and bytes of each ledger and all later ones; at the end, of none.
    _entries_from: Sequence[int] = field(init=False, repr=False, compare=False)
    _bytes_from: Sequence[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, values in (
            ("_numbers", [ledger.number for ledger in self.ledgers]),
            ("_entries_from", _sums_from([ledger.entries for ledger in self.ledgers])),
            ("_bytes_from", _sums_from([ledger.size_bytes for ledger in self.ledgers])),
        ):
            object.__setattr__(self, name, values)

    def first_after(self, position: Position) -> Position | None:
        """Return the first entry behind a position; None when there is none."""
        return next((Position(number, first) for number, first, _ in self._behind(position)), None)

    def entries_after(self, position: Position) -> int:
        """Return the number of entries behind a position."""
        place, own = self._place(position)
        before = 0 if own is None else min(position.entry + 1, own.entries)
        return self._entries_from[place] - before

    def nth_after(self, position: Position, index: int) -> Position:
        """Return the entry behind a position with ``index`` others before it; raises IndexError."""
        for number, first, entries in self._behind(position):
            if index < entries:
                return Position(number, first + index)
            index -= entries
        raise IndexError(f"{index} entries too far behind {position}")

    def size_after(self, position: Position) -> int:
        """Return the bytes behind a position; its own ledger counts by its share of entries."""
        place, own = self._place(position)
        if own is None:
            return self._bytes_from[place]
        left = max(0, own.entries - position.entry - 1)
        return self._bytes_from[place + 1] + own.size_bytes * left // max(1, own.entries)

    def _place(self, position: Position) -> tuple[int, Ledger | None]:
        """Return the index of the first ledger that is not before a position, and its own ledger."""
        place = bisect_left(self._numbers, position.ledger)
        is_own = place < len(self._numbers) and self._numbers[place] == position.ledger
        return place, self.ledgers[place] if is_own else None

    def _behind(self, position: Position) -> Iterator[tuple[int, int, int]]:
        """Yield each ledger with entries behind a position: its number, the first entry, their number."""
        place, own = self._place(position)
        if own is not None and position.entry + 1 < own.entries:
            yield own.number, position.entry + 1, own.entries - position.entry - 1
        for index in range(place + (own is not None), len(self.ledgers)):
            ledger = self.ledgers[index]
            if ledger.entries:
                yield ledger.number, 0, ledger.entries

    def leaving(self, size_bytes: int) -> Position | None:
        """Return the first position with at most this many bytes behind it; None without entries."""
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
        """Return the durable cursor that is furthest behind, if it has a backlog; ties by name."""
        behind = [
            cursor
            for cursor in self.cursors
            if cursor.durable and self.first_after(cursor.mark_delete) is not None
        ]
        return min(behind, key=lambda cursor: (cursor.mark_delete, cursor.name), default=None)

    def is_open(self, ledger: int) -> bool:
        """Return whether a ledger is the one that is written to."""
        return bool(self.ledgers) and self.ledgers[-1].number == ledger


def _sums_from(values: Sequence[int]) -> list[int]:
    """Return the sum of each value and all later ones; at the end, of none."""
    return [*accumulate(reversed(values), initial=0)][::-1]


def is_internal(subscription: str) -> bool:
    """Return whether a cursor of this name is Pulsar's own."""
    return subscription in _INTERNAL_CURSORS or subscription.startswith(_INTERNAL_PREFIX)
