"""Which topics have how old a backlog: what to ask the broker next, and what follows from its answers.

A check goes over all topics that the own broker has loaded::

    summary of all topics --> has something moved? --no--> the answers of the last check stand
                                     | yes
                                     v
                         storage of the topic: the oldest cursor
                                     |
                  its mark-delete position is a new one? --no--> the publish time stands
                                     | yes
                    precise          v            estimated
          the first entry behind it        when its ledger was closed

So nothing is read while nothing moves, and of what moves one entry, as in the broker itself (PIP-323).
``estimated`` reads no entry: a message is taken to be as old as its ledger's end, and one in the open
ledger has no age. What no check has found, has no age either: an age is never made up. An age counts
from the publish time at the moment it is asked for, so it grows between checks; a producer whose clock
is ahead gets an age of 0 and is told of.

A quota can change while nothing moves, so known ones are asked for again, a number of them in each check.

Who asks is the shell's concern: how many questions at once, and how fast. A question that was not
answered is asked again in the next check; a topic that is gone, or has another owner now, is forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from coordinator.core.backlog.exceedances import Exceedances
from coordinator.core.backlog.model import (
    BacklogQuota,
    Position,
    TopicStorage,
    TopicSummary,
    is_internal,
)
from coordinator.core.backlog.views import BacklogView

SAMPLES: Final = 20
"""Checks that a trend is made of."""

QUOTAS_PER_CHECK: Final = 1_000
"""Known quotas that a check asks for again, those asked longest ago first. With more topics behind, one
that is changed is seen some checks later: a question takes the broker 2 ms of processor time."""

SKEW_MS: Final = 1_000
"""A message from so far in the future was stamped by a clock that is ahead."""

_IMPLAUSIBLE_MS: Final = 60_000
"""A message published so long before its ledger was opened was stamped by a clock that is behind."""


@dataclass(frozen=True, slots=True)
class AskStorage:
    """Which ledgers and cursors does a topic have?"""

    topic: str


@dataclass(frozen=True, slots=True)
class AskEntry:
    """When was an entry published?"""

    topic: str
    position: Position


@dataclass(frozen=True, slots=True)
class AskClosings:
    """When was each ledger of a topic closed?"""

    topic: str


@dataclass(frozen=True, slots=True)
class AskQuota:
    """Which quota is in force for a topic?"""

    topic: str


Question = AskStorage | AskEntry | AskClosings | AskQuota


@dataclass(slots=True)
class _Row:
    """What is known of one topic."""

    summary: TopicSummary
    size_bytes: int = 0
    #: What the storage was last read at; None is to be read.
    fingerprint: object = None
    subscription: str | None = None
    mark_delete: Position | None = None
    position: Position | None = None
    publish_ms: int | None = None
    opened_ms: int | None = None
    in_open_ledger: bool = False
    quota: BacklogQuota | None = None
    #: 0 is to be asked.
    quota_asked_ms: int = 0
    checked_ms: int = 0
    problem: str = ""
    sizes: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    ages: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def age_s(self, now_ms: int) -> float | None:
        return None if self.publish_ms is None else max(0, now_ms - self.publish_ms) / 1000

    def clear(self) -> None:
        """There is no backlog."""
        self.subscription = self.mark_delete = self.position = self.publish_ms = None


class BacklogMonitor:
    """What is known of the backlogs of all topics of one broker.

    Args:
        precise: whether the oldest message is read, or taken to be as old as its ledger.
        quota_ttl_ms: how long a quota is believed before it is asked for again.
    """

    def __init__(self, *, precise: bool = True, quota_ttl_ms: int = 30_000) -> None:
        self._precise = precise
        self._quota_ttl_ms = quota_ttl_ms
        self._rows: dict[str, _Row] = {}
        self._topics: dict[str, TopicSummary] = {}
        self._closings: dict[str, Mapping[int, int]] = {}
        self._exceedances = Exceedances()

    @property
    def topics(self) -> tuple[str, ...]:
        """All persistent topics that the broker has loaded, by name."""
        return tuple(sorted(self._topics))

    @property
    def known(self) -> tuple[str, ...]:
        """Topics that have or had a backlog since they were loaded, by name."""
        return tuple(sorted(self._rows))

    def view(self, topic: str, now_ms: int) -> BacklogView | None:
        """One topic's backlog; None when the broker has not loaded it, as of the last check."""
        summary = self._topics.get(topic)
        if summary is None:
            return None
        return self._view(self._rows.get(topic) or _Row(summary), now_ms)

    def views(self, now_ms: int) -> tuple[BacklogView, ...]:
        """Every topic that has or had a backlog since it was loaded, by name."""
        return tuple(self._view(row, now_ms) for _, row in sorted(self._rows.items()))

    def begin(self, summaries: Iterable[TopicSummary], now_ms: int) -> list[Question]:
        """A check begins with what the broker says of all its topics; what to ask it next."""
        self._topics = {summary.topic: summary for summary in summaries}
        for topic in self._rows.keys() - self._topics.keys():
            self._forget(topic)
        questions: list[Question] = []
        for topic, summary in self._topics.items():
            row = self._rows.get(topic)
            if row is None and not summary.has_backlog:
                continue
            if row is None:
                row = self._rows[topic] = _Row(summary)
            questions += self._look_at(row, summary, now_ms)
        return questions + self._ask_quotas(now_ms)

    def look_again(self, topic: str, now_ms: int) -> list[Question]:
        """Ask about one topic between two checks, whatever the broker's summary says."""
        row = self._rows.get(topic)
        if row is None:
            summary = self._topics.setdefault(topic, TopicSummary(topic))
            row = self._rows[topic] = _Row(summary)
        quota = [_ask_quota(row, now_ms)] if self._wants_quota(row, now_ms) else []
        return [AskStorage(topic), *quota]

    def storage_read(self, topic: str, storage: TopicStorage, now_ms: int) -> list[Question]:
        """The broker said which ledgers and cursors a topic has; what to ask it next."""
        row = self._rows.get(topic)
        if row is None:
            return []
        row.problem, row.checked_ms = "", now_ms
        row.fingerprint = row.summary.fingerprint
        row.opened_ms = storage.opened_ms
        oldest = storage.oldest()
        if oldest is None:
            row.size_bytes = 0
            row.clear()
            return []
        row.subscription = oldest.name
        row.size_bytes = storage.size_after(oldest.mark_delete)
        position = storage.first_after(oldest.mark_delete)
        assert position is not None, "the oldest cursor has a backlog"
        row.in_open_ledger = storage.is_open(position.ledger)
        if oldest.mark_delete == row.mark_delete and row.publish_ms is not None:
            return []
        row.mark_delete, row.position, row.publish_ms = oldest.mark_delete, position, None
        return self._ask_age(row)

    def entry_read(self, topic: str, position: Position, publish_ms: int, now_ms: int) -> None:
        """The broker said when an entry was published."""
        row = self._rows.get(topic)
        if row is not None and row.position == position:
            row.publish_ms, row.checked_ms = publish_ms, now_ms

    def closings_read(self, topic: str, closings: Mapping[int, int], now_ms: int) -> None:
        """The broker said when each ledger of a topic was closed."""
        row = self._rows.get(topic)
        if row is not None and row.position is not None:
            self._closings[topic] = closings
            row.publish_ms, row.checked_ms = closings.get(row.position.ledger), now_ms

    def quota_read(self, topic: str, quota: BacklogQuota) -> None:
        """The broker said which quota is in force for a topic."""
        row = self._rows.get(topic)
        if row is not None:
            row.quota = quota

    def failed(self, question: Question, reason: str) -> None:
        """The broker did not answer: what was known stands, and is asked for again."""
        row = self._rows.get(question.topic)
        if row is not None:
            row.problem = reason
            row.fingerprint = None
            if row.quota is None:
                row.quota_asked_ms = 0

    def gone(self, topic: str) -> None:
        """There is no such topic any more, or another broker owns it."""
        self._forget(topic)
        self._topics.pop(topic, None)

    def finish(self, topic: str, now_ms: int) -> BacklogView | None:
        """A check is over: note where a topic stands; None when it was forgotten meanwhile."""
        row = self._rows.get(topic)
        if row is None:
            return None
        at_s, age_s = now_ms / 1000, row.age_s(now_ms)
        row.sizes.append((at_s, row.size_bytes))
        if age_s is None:
            row.ages.clear()
        else:
            row.ages.append((at_s, age_s))
        self._exceedances.note(self._view(row, now_ms), now_ms)
        return self._view(row, now_ms)

    def _look_at(self, row: _Row, summary: TopicSummary, now_ms: int) -> list[Question]:
        row.summary = summary
        if not summary.has_backlog:
            row.clear()
            row.size_bytes = 0
            row.fingerprint, row.checked_ms, row.problem = summary.fingerprint, now_ms, ""
        elif row.fingerprint == summary.fingerprint:
            row.checked_ms = now_ms
        else:
            row.size_bytes = summary.size_bytes
            return [AskStorage(summary.topic)]
        return []

    def _ask_quotas(self, now_ms: int) -> list[Question]:
        """All that are not known, and of those known for long the oldest."""
        wanted = [
            row
            for row in self._rows.values()
            if row.summary.has_backlog and self._wants_quota(row, now_ms)
        ]
        unknown = [row for row in wanted if row.quota is None]
        known = nsmallest(
            QUOTAS_PER_CHECK,
            (row for row in wanted if row.quota is not None),
            key=lambda row: row.quota_asked_ms,
        )
        return [_ask_quota(row, now_ms) for row in (*unknown, *known)]

    def _wants_quota(self, row: _Row, now_ms: int) -> bool:
        return now_ms - row.quota_asked_ms >= self._quota_ttl_ms

    def _ask_age(self, row: _Row) -> list[Question]:
        assert row.position is not None
        topic = row.summary.topic
        if self._precise:
            return [AskEntry(topic, row.position)]
        if row.in_open_ledger:
            return []  # nobody knows when it will have been closed
        row.publish_ms = self._closings.get(topic, {}).get(row.position.ledger)
        return [] if row.publish_ms is not None else [AskClosings(topic)]

    def _forget(self, topic: str) -> None:
        self._rows.pop(topic, None)
        self._closings.pop(topic, None)

    def _view(self, row: _Row, now_ms: int) -> BacklogView:
        summary = row.summary
        return BacklogView(
            topic=summary.topic,
            size_bytes=row.size_bytes,
            age_s=row.age_s(now_ms),
            subscription=row.subscription,
            internal=row.subscription is not None and is_internal(row.subscription),
            position=row.position,
            publish_ms=row.publish_ms,
            estimated=not self._precise,
            skewed=row.publish_ms is not None and row.publish_ms > now_ms + SKEW_MS,
            implausible=self._is_implausible(row),
            quota=row.quota,
            backlogs=summary.backlogs,
            producers=summary.producers,
            producer_count=summary.producer_count,
            consumers=summary.consumers,
            checked_ms=row.checked_ms,
            problem=row.problem,
            sizes=tuple(row.sizes),
            ages=tuple(row.ages),
            history=self._exceedances.of(summary.topic),
        )

    @staticmethod
    def _is_implausible(row: _Row) -> bool:
        if row.publish_ms is None or row.opened_ms is None or not row.in_open_ledger:
            return False
        return row.publish_ms < row.opened_ms - _IMPLAUSIBLE_MS


def _ask_quota(row: _Row, now_ms: int) -> AskQuota:
    row.quota_asked_ms = now_ms
    return AskQuota(row.summary.topic)
