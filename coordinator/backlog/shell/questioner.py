"""Ask the own broker the questions of the backlog monitor, at a bounded pace.

The questions under way at once and the questions per second are bounded, whatever the number of topics,
because the broker answers them on threads that serve its other admin requests, too. After `GIVE_UP` in a
row without an answer the broker is left alone: the remaining questions count as not answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, assert_never

from coordinator.backlog.rules.monitor import BacklogMonitor
from coordinator.backlog.rules.outside import BacklogSource
from coordinator.backlog.rules.questions import (
    AskClosings,
    AskEntry,
    AskGlance,
    AskQuota,
    AskStorage,
    Question,
)
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.ports import BrokerUnreachable, Clock, NotFound, PortError

CONCURRENCY: Final = 4
"""Questions under way at once."""

GIVE_UP: Final = 10
"""Unanswered questions in a row after which the broker is asked no more."""


class Questioner:
    """Bring a monitor's questions to the broker, and the answers back.

    Args:
        source: the own broker.
        monitor: the author of the questions.
        clock: monotonic time.
        wall_ms: milliseconds of the epoch.
        calls_per_second: questions a second, at most.
    """

    def __init__(
        self,
        source: BacklogSource,
        monitor: BacklogMonitor,
        *,
        clock: Clock,
        wall_ms: Callable[[], int],
        calls_per_second: int,
    ) -> None:
        self._source = source
        self._monitor = monitor
        self._clock = clock
        self._wall_ms = wall_ms
        self._pause_ns = NANOS_PER_SECOND // calls_per_second
        self._next_ns = 0
        #: Questions since the last one that was answered.
        self._failures = 0

    @property
    def has_given_up(self) -> bool:
        """Return whether the broker is left alone until the next time."""
        return self._failures >= GIVE_UP

    async def ask_all(self, questions: Iterable[Question]) -> int:
        """Ask these and the questions that follow, one call at a time; return the number asked."""
        self._failures = 0
        waiting: asyncio.Queue[Question] = asyncio.Queue()
        for question in questions:
            waiting.put_nowait(question)
        asked = 0

        async def work() -> None:
            nonlocal asked
            while True:
                question = await waiting.get()
                if self.has_given_up:
                    self._monitor.failed(question, "not asked: the broker does not answer")
                else:
                    asked += 1
                    await self._keep_pace()
                    for following in await self._ask(question):
                        waiting.put_nowait(following)
                waiting.task_done()

        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(work()) for _ in range(CONCURRENCY)]
            await waiting.join()
            for worker in workers:
                worker.cancel()
        return asked

    async def _keep_pace(self) -> None:
        now_ns = self._clock.now_ns()
        self._next_ns = max(now_ns, self._next_ns + self._pause_ns)
        if self._next_ns > now_ns:
            await asyncio.sleep((self._next_ns - now_ns) / NANOS_PER_SECOND)

    async def _ask(self, question: Question) -> list[Question]:
        try:
            following = await self._answer(question)
        except PortError as error:
            following = []
            if isinstance(error, NotFound) and isinstance(question, AskGlance | AskStorage):
                self._monitor.gone(question.topic)
            else:  # an entry or a ledger may be gone while its topic is not
                self._monitor.failed(question, str(error))
            if isinstance(error, BrokerUnreachable):
                self._failures += 1
                return following
        self._failures = 0
        return following

    async def _answer(self, question: Question) -> list[Question]:
        monitor, source = self._monitor, self._source
        match question:
            case AskGlance(topic):
                return monitor.glanced(topic, await source.glance(topic), self._wall_ms())
            case AskStorage(topic):
                return monitor.storage_read(topic, await source.storage(topic), self._wall_ms())
            case AskEntry(topic, position):
                published_ms = await source.published_ms(topic, position)
                monitor.entry_read(topic, position, published_ms, self._wall_ms())
            case AskClosings(topic):
                monitor.closings_read(topic, await source.closed_ms(topic), self._wall_ms())
            case AskQuota(topic):
                monitor.quota_read(topic, await source.quota(topic))
            case _:
                assert_never(question)
        return []
