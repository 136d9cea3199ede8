"""The broker's counters, read again and again: what was published, and who is connected.

Polls are as far apart as engine/poll_pace.py says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import structlog

from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass
from coordinator.native.engine.conditions import Observed
from coordinator.native.engine.counting import CounterBook
from coordinator.native.engine.dispatch import DispatchSteering
from coordinator.native.engine.entries import NOTHING
from coordinator.native.engine.outside import OwnerCounters
from coordinator.native.engine.poll_pace import PollPace
from coordinator.native.engine.replication import ReplicationBook
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.table import Statement
from coordinator.native.engine.topic_limits import TopicLimitBook
from coordinator.ports import BrokerUnreachable, Clock, PortError

POLLS_EVERY_S: Final = 0.5
"""From one poll to the next, at least, where the broker's counters are all that is known of traffic."""

log = structlog.get_logger(__name__)


class Listener(Protocol):
    """Told at once of participants that come and go."""

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, participants: int
    ) -> None:
        """Take the news that a group's first participant appeared here, or that its last one left."""


class Polling:
    """Reads one broker's counters, and hands what was counted since the last time to the steering.

    Args:
        counters: of the own broker.
        steering: takes the counts.
        dispatch: takes what each topic's consumers were sent.
        limits: takes what passed topics with limits of their own.
        replication: takes what was replicated to attached clusters.
        seen: takes the reason why they cannot be read.
        clock: monotonic time.
        least_s: the least time between two polls; 0 polls never, since a gate counts.
    """

    def __init__(
        self,
        counters: OwnerCounters,
        steering: Steering,
        dispatch: DispatchSteering,
        limits: TopicLimitBook,
        replication: ReplicationBook,
        seen: Observed,
        clock: Clock,
        least_s: float,
    ) -> None:
        self._counters = counters
        self._steering = steering
        self._dispatch = dispatch
        self._limits = limits
        self._replication = replication
        self._seen = seen
        self._clock = clock
        self._pace = PollPace(least_s)
        #: Set when the next poll is to be taken soon.
        self._news = asyncio.Event()
        #: Whether the counters are to be read at all.
        self.is_wanted = least_s > 0
        self._book = CounterBook()
        self._polled_ns: int | None = None
        self._connected: dict[str, tuple[int, int]] = {}
        #: When the broker's process started, as of the last poll; None before the first.
        self._started_s: float | None = None
        #: Whether the broker could not be reached before the first poll that it answered.
        self._came_later = False
        #: Told of participants; None before anything listens.
        self.listener: Listener | None = None
        #: Called after each poll that the broker has answered.
        self.polled: Callable[[], None] = lambda: None
        #: Called by the first poll after a quiet collection.
        self.resumed: Callable[[], None] | None = None
        #: Whether the last collection had no traffic in it.
        self.is_quiet = False

    @property
    def every_s(self) -> float:
        """The time from one poll to the next, in seconds."""
        return self._pace.latest_s

    @property
    def has_news(self) -> bool:
        """Whether the next poll is to be taken soon."""
        return self._news.is_set()

    @property
    def topics(self) -> int:
        """The number of topics at the last poll."""
        return self._book.topics

    @property
    def published_topics(self) -> frozenset[str]:
        """The full names of the topics that producers are connected to."""
        return self._book.published_topics

    def participants(self) -> tuple[int, int]:
        """Return the producers and consumers of all groups, as of the last poll."""
        connected = self._connected.values()
        return sum(each[0] for each in connected), sum(each[1] for each in connected)

    def heard(self, said: Statement) -> None:
        """Take a report of the own broker."""
        is_new_use = any(
            any(said.amounts.get(native.name, NOTHING)) and not native.count.messages
            for native in self._steering.by_set.values()
        )
        if self._pace.heard(said.producer, is_new_use=is_new_use):
            self._news.set()

    def settings_changed(self) -> None:
        """Take the news that groups, attachments or limits of topics have changed."""
        self._news.set()

    async def run(self) -> None:
        """Poll for ever."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            self._news.clear()
            await self.poll()
            await asyncio.sleep(began_s + self._pace.soonest_s - loop.time())
            with suppress(TimeoutError):
                async with asyncio.timeout_at(began_s + self._pace.latest_s):
                    await self._news.wait()

    async def poll(self) -> None:
        """Poll once; a broker that does not answer is asked again at the next poll."""
        try:
            await self._read()
            self._seen.counters_error = ""
        except PortError as error:
            self._news.set()
            if str(error) != self._seen.counters_error:
                log.warning("counters cannot be read", reason=str(error))
            self._seen.counters_error = str(error)
            if self._polled_ns is None and isinstance(error, BrokerUnreachable):
                self._came_later = True

    async def _read(self) -> None:
        began_ns = self._clock.now_ns()
        homes = self._steering.homes
        remotes = homes.remotes if self._seen.can_throttle_replication else ()
        reading = await self._counters.read(homes.subscriptions, remotes)
        now_ns = self._clock.now_ns()
        self._pace.took((now_ns - began_ns) / NANOS_PER_SECOND)
        # The counters are of some moment in between.
        at_ns = (began_ns + now_ns) // 2
        elapsed_ns = at_ns - self._polled_ns if self._polled_ns is not None else 0
        self._polled_ns = at_ns
        counts = (*reading.topics, *self._replication.poll(reading.replicators))
        found = self._book.poll(counts)
        self._seen.replication_error = reading.replicators_error
        self._seen.uncounted = tuple(sorted(reading.uncounted))
        self._seen.lists_topics = not any(c.consumers and not c.topic for c in reading.topics)
        # A broker fails to answer for many reasons; that its process started tells of a new one.
        if self._came_later or self._is_another_process(reading.started_s):
            self._steering.broker_started(now_ns)
        self._came_later, self._started_s = False, reading.started_s or self._started_s
        self._dispatch.poll(counts, elapsed_ns, now_ns)
        self._limits.poll(reading.topics, elapsed_ns)
        connected = self._steering.count(found, elapsed_ns, now_ns)
        log.debug("polled", elapsed_ms=elapsed_ns // 1_000_000, found=found)
        if self._pace.polled(
            {home: each for home, each in found.items() if home in self._steering.homes.all},
            connected,
            elapsed_ns,
            is_reported=not (self._limits.topics or self._dispatch.is_limited),
        ):
            self._news.set()
        self._tell_participants(connected)
        self.polled()
        if self.is_quiet and self.resumed is not None:
            self.is_quiet = False
            self.resumed()

    def _is_another_process(self, started_s: float | None) -> bool:
        known = self._started_s is not None and started_s is not None
        return known and started_s != self._started_s

    def _tell_participants(self, connected: dict[str, tuple[int, int]]) -> None:
        before, self._connected = self._connected, connected
        if self.listener is None:
            return
        for group in before.keys() | connected.keys():
            were, are = before.get(group, (0, 0)), connected.get(group, (0, 0))
            for index, monitoring_class in enumerate(
                (MonitoringClass.PUBLISH, MonitoringClass.DISPATCH)
            ):
                if bool(were[index]) != bool(are[index]):
                    self.listener.participants_changed(group, monitoring_class, are[index])
