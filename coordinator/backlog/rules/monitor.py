"""The backlog and its age of every topic: the next questions to the broker, and the use of its answers.

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

No entry of an idle topic is read, and one entry of a topic that moves, as in the broker itself (PIP-323).

After a start there may be thousands of unknown topics. For those beyond the first `PLACES_PER_CHECK` a
check asks for a *glance*: the topic's statistics contain size, age, subscription and whether there is a
quota at all, in one question instead of three. They do not contain the position of the oldest message; it
is asked for when the topic moves, and for idle topics a number at a time. A glance makes the broker read
an entry for each subscription that is behind, so a topic with many is not glanced at, nor is any in
``estimated``.

``estimated`` reads no entry: a message is taken to be as old as its ledger's end, and one in the open
ledger has no age. A message that no check has found has no age either: ages are never invented. An age
counts from the publish time at the moment it is asked for, so it grows between checks; a producer whose
clock is ahead gets an age of 0 and is reported.

A broker of Pulsar 5 answers no such question about a segment of a scalable topic. The backlog of a
segment is that of its summary, its subscription the one with the most entries, and it has no age.

A quota is that of all partitions or segments of a topic. It can change while the topic is idle, so known
ones are asked for again, a number of them in each check.

The shell asks the questions and decides their concurrency and pace. A question that was not answered is
asked again in the next check; a topic that is deleted, or has another owner now, is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Final
from weakref import WeakValueDictionary

from coordinator.backlog.rules.exceedances import Exceedances
from coordinator.backlog.rules.model import (
    NO_QUOTA,
    BacklogQuota,
    Glance,
    Position,
    QuotaPolicy,
    QuotaType,
    TopicStorage,
    TopicSummary,
)
from coordinator.backlog.rules.questions import (
    AskClosings,
    AskEntry,
    AskGlance,
    AskQuota,
    AskStorage,
    Question,
)
from coordinator.backlog.rules.rows import InForce, TopicRow
from coordinator.backlog.rules.views import BacklogView
from coordinator.core.topics import SEGMENT, TopicName

QUOTAS_PER_CHECK: Final = 1_000
"""Known quotas that a check asks for again, the oldest answers first. With more topics, a changed quota
is seen some checks later: a question takes the broker 1 ms of processor time."""

PLACES_PER_CHECK: Final = 250
"""Idle topics whose storage a check asks for: new ones, and those glanced at."""

GLANCED_SUBSCRIPTIONS: Final = 5
"""The most subscriptions behind of a topic that is glanced at: an entry is read for each of them."""


class BacklogMonitor:
    """The known backlogs of all topics of one broker.

    Args:
        precise: whether the oldest message is read, or taken to be as old as its ledger.
        quota_ttl_ms: how long a quota is believed before it is asked for again.
    """

    def __init__(self, *, precise: bool = True, quota_ttl_ms: int = 30_000) -> None:
        self._precise = precise
        self._quota_ttl_ms = quota_ttl_ms
        self._rows: dict[str, TopicRow] = {}
        #: By the name without partitions, as long as there is a row of one.
        self._in_force: WeakValueDictionary[str, InForce] = WeakValueDictionary()
        self._topics: dict[str, TopicSummary] = {}
        self._closings: dict[str, Mapping[int, int]] = {}
        self._exceedances = Exceedances()

    @property
    def topics(self) -> tuple[str, ...]:
        """Return all persistent topics that the broker has loaded, by name."""
        return tuple(sorted(self._topics))

    @property
    def known(self) -> tuple[str, ...]:
        """Return the topics that have or had a backlog since they were loaded, by name."""
        return tuple(sorted(self._rows))

    @property
    def exceedances(self) -> Mapping[tuple[str, QuotaType], int]:
        """Return the exceedances that began since the start, by tenant/namespace and type."""
        return self._exceedances.begun

    @property
    def is_evicted_from(self) -> bool:
        """Return whether the broker evicts from a topic that is known, when its quota is exceeded."""
        quotas = (row.in_force.quota or NO_QUOTA for row in self._rows.values())
        return any(
            quota.limit_of(kind) is not None and quota.policy_of(kind) is QuotaPolicy.EVICT
            for quota in quotas
            for kind in QuotaType
        )

    def view(self, topic: str, now_ms: int) -> BacklogView | None:
        """Return one topic's backlog; None if the broker had not loaded it at the last check."""
        summary = self._topics.get(topic)
        if summary is None:
            return None
        return self._view(self._rows.get(topic) or TopicRow(summary, InForce(topic)), now_ms)

    def views(self, now_ms: int) -> tuple[BacklogView, ...]:
        """Return every topic that has or had a backlog since it was loaded, by name."""
        return tuple(self._view(row, now_ms) for _, row in sorted(self._rows.items()))

    def begin(self, summaries: Iterable[TopicSummary], now_ms: int) -> list[Question]:
        """Begin a check with the broker's summaries of all its topics; return the next questions."""
        self._topics = {summary.topic: summary for summary in summaries}
        for topic in self._rows.keys() - self._topics.keys():
            self._forget(topic)
        questions: list[Question] = []
        for topic, row in self._rows.items():
            questions += self._look_at(row, self._topics[topic], now_ms)
        return [*questions, *self._ask_places(now_ms), *self._ask_quotas(now_ms)]

    def look_again(self, topic: str, now_ms: int) -> list[Question]:
        """Return questions about one topic between two checks, whatever the broker's summary says."""
        row = self._rows.get(topic)
        if row is None:
            summary = self._topics.setdefault(topic, TopicSummary(topic))
            row = self._add_row(summary)
        return [*self._ask_storage(row, now_ms), *self._ask_quota(row, now_ms)]

    def glanced(self, topic: str, glance: Glance, now_ms: int) -> list[Question]:
        """Take in a topic's statistics; return the next questions."""
        row = self._answered(topic, now_ms)
        if row is None:
            return []
        row.size_bytes, row.subscription = glance.size_bytes, glance.subscription
        row.publish_ms = glance.publish_ms
        if glance.without_quota:
            row.in_force.quota, row.in_force.asked_ms = NO_QUOTA, now_ms
        if glance.publish_ms is None:
            row.fingerprint = row.summary.fingerprint_after(dict.fromkeys(row.summary.backlogs, 0))
        elif glance.subscription is None:
            return [AskStorage(topic)]
        return self._ask_unknown_quota(row, now_ms)

    def storage_read(self, topic: str, storage: TopicStorage, now_ms: int) -> list[Question]:
        """Take in the ledgers and cursors of a topic; return the next questions."""
        row = self._answered(topic, now_ms)
        if row is None:
            return []
        row.opened_ms = storage.opened_ms
        left = {each.name: storage.entries_after(each.mark_delete) for each in storage.cursors}
        row.fingerprint = row.summary.fingerprint_after(left)
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
        quota = self._ask_unknown_quota(row, now_ms)
        if oldest.mark_delete == row.mark_delete and row.publish_ms is not None:
            return quota
        row.mark_delete, row.position, row.publish_ms = oldest.mark_delete, position, None
        return [*self._ask_age(row), *quota]

    def entry_read(self, topic: str, position: Position, publish_ms: int, now_ms: int) -> None:
        """Take in the publish time of an entry."""
        row = self._rows.get(topic)
        if row is not None and row.position == position:
            row.publish_ms, row.checked_ms = publish_ms, now_ms

    def closings_read(self, topic: str, closings: Mapping[int, int], now_ms: int) -> None:
        """Take in the time at which each ledger of a topic was closed."""
        row = self._rows.get(topic)
        if row is not None and row.position is not None:
            self._closings[topic] = closings
            row.publish_ms, row.checked_ms = closings.get(row.position.ledger), now_ms

    def quota_read(self, topic: str, quota: BacklogQuota) -> None:
        """Take in the quota in force for a topic and its partitions or segments."""
        in_force = self._in_force.get(topic)
        if in_force is not None:
            in_force.quota, in_force.problem = quota, ""

    def failed(self, question: Question, reason: str) -> None:
        """Note an unanswered question: the known facts stand, and it is asked again."""
        if isinstance(question, AskQuota):
            in_force = self._in_force.get(question.topic)
            if in_force is not None:
                in_force.problem, in_force.asked_ms = reason, 0
            return
        row = self._rows.get(question.topic)
        if row is not None:
            row.problem, row.fingerprint = reason, None

    def gone(self, topic: str) -> None:
        """Forget a topic that is deleted or has another owner."""
        self._forget(topic)
        self._topics.pop(topic, None)

    def finish(self, topic: str, now_ms: int) -> BacklogView | None:
        """End a check of a topic: record its backlog; return None if it was forgotten meanwhile."""
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

    def _look_at(self, row: TopicRow, summary: TopicSummary, now_ms: int) -> list[Question]:
        row.summary = summary
        if not summary.has_backlog:
            row.clear()
            row.size_bytes = 0
            row.fingerprint, row.checked_ms, row.problem = summary.fingerprint, now_ms, ""
        elif row.fingerprint == summary.fingerprint:
            row.checked_ms = now_ms
        else:
            row.size_bytes = summary.size_bytes
            return self._ask_storage(row, now_ms)
        return []

    def _ask_storage(self, row: TopicRow, now_ms: int) -> list[Question]:
        """Ask for the storage of a topic; take the summary of a segment for the answer."""
        if not row.is_segment:
            return [AskStorage(row.summary.topic)]
        self._answered(row.summary.topic, now_ms)
        backlogs = row.summary.backlogs
        row.subscription = max(backlogs, key=lambda name: backlogs[name], default=None)
        return self._ask_unknown_quota(row, now_ms)

    def _answered(self, topic: str, now_ms: int) -> TopicRow | None:
        """Return the row of an answer, up to date with its summary; None if it was forgotten."""
        row = self._rows.get(topic)
        if row is not None:
            row.problem, row.checked_ms = "", now_ms
            row.fingerprint = row.summary.fingerprint
        return row

    def _ask_places(self, now_ms: int) -> Iterator[Question]:
        """Ask for the storage of some topics, new ones first; glance at the new ones beyond the bound."""
        glanced = [row for row in self._rows.values() if row.is_glanced]
        room = PLACES_PER_CHECK
        for topic, summary in self._topics.items():
            if topic in self._rows or not summary.has_backlog:
                continue
            row = self._add_row(summary)
            if row.is_segment:
                yield from self._ask_storage(row, now_ms)
            elif room or not self._can_glance(summary):
                room = max(0, room - 1)
                yield AskStorage(topic)
            else:
                yield AskGlance(topic)
        for row in glanced[:room]:
            yield AskStorage(row.summary.topic)

    def _can_glance(self, summary: TopicSummary) -> bool:
        behind = sum(entries > 0 for entries in summary.backlogs.values())
        return self._precise and behind <= GLANCED_SUBSCRIPTIONS

    def _ask_quotas(self, now_ms: int) -> list[Question]:
        """Ask for the quotas with the oldest answers; a topic's first one follows its own answer."""
        rows = {
            row.in_force.topic: row
            for row in self._rows.values()
            if row.summary.has_backlog and row.fingerprint is not None
        }
        longest_ago = nsmallest(
            QUOTAS_PER_CHECK, rows.values(), key=lambda row: row.in_force.asked_ms
        )
        return [question for row in longest_ago for question in self._ask_quota(row, now_ms)]

    def _ask_unknown_quota(self, row: TopicRow, now_ms: int) -> list[Question]:
        return self._ask_quota(row, now_ms) if row.in_force.quota is None else []

    def _ask_quota(self, row: TopicRow, now_ms: int) -> list[Question]:
        """Ask for a quota unless its answer is recent; a clock that was set back makes none recent."""
        if 0 <= now_ms - row.in_force.asked_ms < self._quota_ttl_ms:
            return []
        row.in_force.asked_ms = now_ms
        return [AskQuota(row.in_force.topic)]

    def _ask_age(self, row: TopicRow) -> list[Question]:
        assert row.position is not None
        topic = row.summary.topic
        if self._precise:
            return [AskEntry(topic, row.position)]
        if row.in_open_ledger:
            return []  # the time of its closing is unknown
        row.publish_ms = self._closings.get(topic, {}).get(row.position.ledger)
        return [] if row.publish_ms is not None else [AskClosings(topic)]

    def _add_row(self, summary: TopicSummary) -> TopicRow:
        name = TopicName.parse(summary.topic)
        whole = summary.topic if name is None else str(name.whole)
        in_force = self._in_force.setdefault(whole, InForce(whole))
        is_segment = name is not None and name.domain == SEGMENT
        row = TopicRow(summary, in_force, summary.size_bytes, is_segment=is_segment)
        self._rows[summary.topic] = row
        return row

    def _forget(self, topic: str) -> None:
        self._rows.pop(topic, None)
        self._closings.pop(topic, None)

    def _view(self, row: TopicRow, now_ms: int) -> BacklogView:
        history = self._exceedances.of(row.summary.topic)
        return row.view(now_ms, precise=self._precise, history=history)
