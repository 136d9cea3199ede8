"""The backlog monitor's shell: check all topics of the own broker periodically, and some on demand.

Checks run one after the other, each over all topics of the broker; questioner.py asks the questions. A
broker that stops answering ends the check; the next one comes in its time.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

import structlog

from coordinator.backlog.rules.answers import SubscriptionBacklog
from coordinator.backlog.rules.evictions import EvictionCounts
from coordinator.backlog.rules.model import Cursor, Position
from coordinator.backlog.rules.monitor import BacklogMonitor
from coordinator.backlog.rules.outside import BacklogSource
from coordinator.backlog.rules.views import BacklogView
from coordinator.backlog.shell.questioner import GIVE_UP, Questioner
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.ports import Clock, PortError

CHECK_BUCKETS_S: Final = (5, 10, 30, 60, 300)
"""Pulsar's buckets for the duration of a check."""

SUBSCRIPTIONS_MAX: Final = 100
"""Subscriptions of a topic whose age is reported on demand, the oldest first."""

_TURN: Final = 200
"""Topics that are recorded before the loop has its turn: about 3 ms."""

_log = structlog.get_logger(__name__)

Listener = Callable[[tuple[BacklogView, ...]], None]


@dataclass(frozen=True, slots=True)
class Checks:
    """The durations of checks since the start.

    Args:
        counts: the number of checks, one per `CHECK_BUCKETS_S`, and the longer ones.
        total_s: all of them together.
        topics: the number of topics in the last one.
        questions: the number of questions beside the summaries.
        problem: why the last one failed; empty when it did not.
    """

    counts: tuple[int, ...] = (0,) * (len(CHECK_BUCKETS_S) + 1)
    total_s: float = 0.0
    topics: int = 0
    questions: int = 0
    problem: str = ""

    @property
    def count(self) -> int:
        """Return the number of checks."""
        return sum(self.counts)


class BacklogWatch:
    """Keep a monitor up to date.

    Args:
        source: the own broker.
        monitor: the monitor.
        clock: monotonic time.
        wall_ms: milliseconds of the epoch.
        interval_s: from the beginning of one check to that of the next.
        calls_per_second: questions a second, at most.
        evictions: counts those that the broker makes; None counts none.
        guard: around the call of each listener; keeps its failure from the next one.
    """

    def __init__(
        self,
        source: BacklogSource,
        monitor: BacklogMonitor,
        *,
        clock: Clock,
        wall_ms: Callable[[], int],
        interval_s: float = 60.0,
        calls_per_second: int = 500,
        evictions: EvictionCounts | None = None,
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._source = source
        #: Knows the backlogs as of the last check.
        self.monitor = monitor
        self._clock = clock
        self._wall_ms = wall_ms
        self._evictions = evictions
        #: Why the broker's evictions could not be read; empty when they could.
        self._unread = ""
        self.interval_s = interval_s
        self._questioner = Questioner(
            source,
            monitor,
            clock=clock,
            wall_ms=wall_ms,
            calls_per_second=calls_per_second,
        )
        #: One at a time: both use the monitor's rows.
        self._asking = asyncio.Lock()
        self._guard = guard
        self._listeners: list[Listener] = []
        #: The cluster's name as the broker reports it; empty before the first answer.
        self.cluster = ""
        #: All topics that have or had a backlog, by name, as of the end of the last check.
        self.checked: tuple[BacklogView, ...] = ()
        #: The figures of the checks.
        self.checks = Checks()

    def watch(self, listener: Listener) -> None:
        """Call the listener after every check with all topics that have or had a backlog."""
        self._listeners.append(listener)

    def view(self, topic: str) -> BacklogView | None:
        """Return one topic as of the last check, aged up to now; None if the broker has not loaded it."""
        return self.monitor.view(topic, self._wall_ms())

    def views(self) -> tuple[BacklogView, ...]:
        """Return all topics that have or had a backlog, aged up to now; `checked` costs nothing."""
        return self.monitor.views(self._wall_ms())

    async def run(self) -> None:
        """Check for ever."""
        while True:
            began_ns = self._clock.now_ns()
            await self.check()
            left_ns = began_ns + round(self.interval_s * NANOS_PER_SECOND) - self._clock.now_ns()
            await asyncio.sleep(max(0, left_ns) / NANOS_PER_SECOND)

    async def check(self) -> None:
        """Check all topics once; a failure is logged and reported, and changes nothing else."""
        async with self._asking:
            await self._check()

    async def look(self, topics: Iterable[str]) -> tuple[BacklogView, ...]:
        """Check some topics between two checks; return those that the broker still owns."""
        async with self._asking:
            now_ms = self._wall_ms()
            names = tuple(topics)
            await self._questioner.ask_all(
                question for name in names for question in self.monitor.look_again(name, now_ms)
            )
        found = (self.view(name) for name in names)
        return tuple(view for view in found if view is not None)

    async def subscriptions(self, topic: str) -> tuple[SubscriptionBacklog, ...]:
        """Return every subscription of a topic that has a backlog, the oldest first, as of now.

        Asks for the topic's storage and reads one entry for each position of a subscription, of at
        most `SUBSCRIPTIONS_MAX`.

        Raises:
            NotFound: there is no such topic, or another broker owns it.
            Refused: the broker does not allow the question.
            BrokerUnreachable: the broker does not answer.
        """
        storage = await self._source.storage(topic)
        first = {cursor: storage.first_after(cursor.mark_delete) for cursor in storage.cursors}
        behind = [cursor for cursor in sorted(storage.cursors, key=_by_age) if first[cursor]]
        published: dict[Position, int] = {}
        found = []
        for cursor in behind[:SUBSCRIPTIONS_MAX]:
            position = first[cursor]
            assert position is not None, "those without a backlog were left out"
            if position not in published:
                published[position] = await self._source.published_ms(topic, position)
            found.append(
                SubscriptionBacklog(
                    subscription=cursor.name,
                    internal=cursor.internal,
                    durable=cursor.durable,
                    position=position,
                    age_s=max(0, self._wall_ms() - published[position]) / 1000,
                    size=storage.size_after(cursor.mark_delete),
                )
            )
        return tuple(found)

    async def _check(self) -> None:
        began_ns = self._clock.now_ns()
        try:
            self.cluster = self.cluster or await self._source.cluster()
            summaries = await self._source.summaries()
        except PortError as error:
            self._note(began_ns, asked=0, problem=str(error))
            return
        asked = await self._questioner.ask_all(self.monitor.begin(summaries, self._wall_ms()))
        problem = ""
        if self._questioner.has_given_up:
            problem = f"given up after {GIVE_UP} questions without an answer"
        await self._finish()
        await self._read_evictions()
        self._note(began_ns, asked, problem)
        for listener in self._listeners:
            with self._guard():
                listener(self.checked)

    async def _read_evictions(self) -> None:
        """Read the broker's own evictions: once at the start, then while a quota is one that evicts."""
        evictions = self._evictions
        if evictions is None or (evictions.has_begun and not self.monitor.is_evicted_from):
            return
        reason = ""
        try:
            evictions.read(await self._source.evictions())
        except PortError as error:
            reason = str(error)
        if reason and reason != self._unread:
            _log.warning("evictions of the broker not read", reason=reason)
        self._unread = reason

    async def _finish(self) -> None:
        """Record the backlog of every topic, with turns for the loop's other work in between."""
        now_ms, views = self._wall_ms(), []
        for number, topic in enumerate(self.monitor.known, 1):
            view = self.monitor.finish(topic, now_ms)
            if view is not None:
                views.append(view)
            if not number % _TURN:
                await asyncio.sleep(0)
        self.checked = tuple(views)

    def _note(self, began_ns: int, asked: int, problem: str) -> None:
        duration_s = (self._clock.now_ns() - began_ns) / NANOS_PER_SECOND
        if problem and problem != self.checks.problem:
            _log.warning("backlog check failed", reason=problem)
        counts = list(self.checks.counts)
        counts[bisect_left(CHECK_BUCKETS_S, duration_s)] += 1
        self.checks = Checks(
            tuple(counts),
            self.checks.total_s + duration_s,
            len(self.monitor.topics),
            self.checks.questions + asked,
            problem,
        )


def _by_age(cursor: Cursor) -> tuple[Position, str]:
    return cursor.mark_delete, cursor.name
