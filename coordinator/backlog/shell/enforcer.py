"""Carry out the actions on exceeded backlog quotas: at the gate, and at the broker.

Between two checks of the monitor it checks, every few seconds, the topics of the guarded namespaces:
those with a backlog, and those with a producer at the gate. Each action is logged and remembered; a
failed one is repeated at the next look.

An eviction is a request for each subscription, of which clients may make any number, so evictions come
last in a look, and end after `EVICTING_S`. The next look goes on with the subscription at which this one
stopped, in the order of topics and names: those that a broker refuses each time keep no other from its
turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import structlog

from coordinator.backlog.rules.guard import (
    Action,
    BacklogGuard,
    Block,
    EnforcementAction,
    behind,
    block_of,
    evicted_target,
)
from coordinator.backlog.rules.model import Position, QuotaType, TopicStorage
from coordinator.backlog.rules.outside import BacklogSource
from coordinator.backlog.shell.checker import BacklogWatch
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.ports import Clock, PortError, Refused

EVICTING_S: Final = 5.0
"""Seconds of a look after which no request for another subscription begins."""

TOPICS_MAX: Final = 1_000
"""Topics of one look, two seconds' worth of questions at the usual pace: blocked ones first, then the
others by name. The rest is left to the broker's own check."""

_NAMED: Final = 20
"""Subscriptions that an outcome names; clients may make any number."""

_log = structlog.get_logger(__name__)


class BlockingGate(Protocol):
    """The gate's interface for exceeded quotas."""

    def set_topic_block(self, topic: str, block: Block | None) -> None:
        """Hold or refuse publishes to a topic, or let them pass again."""

    async def published_topics(self) -> frozenset[str]:
        """Return the topics that producers are connected to."""


class _Place(NamedTuple):
    """Where evictions go on."""

    topic: str = ""
    subscription: str = ""


class BacklogEnforcement:
    """Check, decide and act.

    Args:
        watch: knows the backlogs.
        guard: decides.
        source: evicts.
        gate: holds and refuses.
        clock: monotonic time.
        wall_ms: milliseconds of the epoch.
        interval_s: from the end of one look to the beginning of the next.
    """

    def __init__(
        self,
        watch: BacklogWatch,
        guard: BacklogGuard,
        source: BacklogSource,
        gate: BlockingGate,
        *,
        clock: Clock,
        wall_ms: Callable[[], int],
        interval_s: float = 5.0,
    ) -> None:
        self._watch = watch
        #: Decides, and remembers the actions.
        self.guard = guard
        self._source = source
        self._gate = gate
        self._clock = clock
        self._wall_ms = wall_ms
        self.interval_s = interval_s
        #: Where the evictions of this look begin, and those of the next one.
        self._begin, self._next = _Place(), _Place()
        self._evicting_until_ns = 0

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(self.interval_s)
            await self.look()

    async def look(self) -> None:
        """Check the guarded topics once and act."""
        if not self.guard.namespaces and not self.guard.blocked:
            return
        published = await self._gate.published_topics()
        names = {*self._watch.monitor.known, *published, *self.guard.blocked}
        guarded = sorted(
            (name for name in names if self.guard.wants(name) is not None),
            key=lambda name: (name not in self.guard.blocked, name),
        )
        views = await self._watch.look(guarded[:TOPICS_MAX]) if guarded else ()
        evictions = []
        for action in self.guard.decide(views, self._wall_ms()):
            if action.deed is EnforcementAction.EVICT:
                evictions.append(action)
            else:
                await self._carry_out(action)
        await self._evict_in_turn(evictions)

    async def _evict_in_turn(self, evictions: list[Action]) -> None:
        """Evict from one topic after the other, until the time of a look is over."""
        self._begin, self._next = self._next, _Place()
        self._evicting_until_ns = self._clock.now_ns() + round(EVICTING_S * NANOS_PER_SECOND)
        evictions.sort(key=lambda action: (action.topic < self._begin.topic, action.topic))
        for number, action in enumerate(evictions):
            if number and self._is_over():
                self._next = self._next if self._next.topic else _Place(action.topic)
                left = len(evictions) - number
                _log.warning("evictions left for the next look", topics=left)
                return
            await self._carry_out(action)

    def _is_over(self) -> bool:
        return self._clock.now_ns() >= self._evicting_until_ns

    async def _carry_out(self, action: Action) -> None:
        try:
            outcome = await self._do(action)
        except PortError as error:
            outcome = f"failed: {error}"
        finished = self.guard.done(action, outcome)
        _log.info(
            "backlog quota",
            topic=finished.topic,
            deed=finished.deed.value,
            quota_type=finished.quota_type.value,
            value=finished.value,
            limit=finished.limit,
            dry_run=finished.dry_run,
            outcome=outcome,
        )

    async def _do(self, action: Action) -> str:
        if action.deed is EnforcementAction.EVICT:
            return await self._evict(action)
        if not action.dry_run:
            block = None if action.deed is EnforcementAction.RELEASE else block_of(action)
            self._gate.set_topic_block(action.topic, block)
        return "dry run" if action.dry_run else "done"

    async def _evict(self, action: Action) -> str:
        """Evict, by the topic's present storage; return the outcome in words."""
        storage = await self._source.storage(action.topic)
        position = await self._boundary(action, storage)
        said = [] if position is None else await self._evict_to(action, storage, position)
        words = ", ".join(said) or "nothing that a consumer could have acknowledged"
        return f"dry run: {words}" if action.dry_run else words

    async def _evict_to(
        self, action: Action, storage: TopicStorage, position: Position
    ) -> list[str]:
        """Evict up to a position; say from which subscriptions and, last, why not from others.

        One that is refused keeps no other from its turn: clients choose names that brokers refuse.
        """
        said: list[str] = []
        refusal = left = ""
        begin = self._begin.subscription if self._begin.topic == action.topic else ""
        names = sorted(name for name in behind(storage, position) if name >= begin)
        try:
            for number, subscription in enumerate(names):
                if number and self._is_over():
                    self._next = _Place(action.topic, subscription)
                    left = f"{len(names) - number} left for the next look"
                    break
                try:
                    if not action.dry_run:
                        await self._source.expire_to(action.topic, subscription, position)
                    said.append(f"{subscription} to {position.ledger}:{position.entry}")
                except Refused as error:
                    refusal = refusal or f"failed: {error}"
        finally:
            if said and not action.dry_run:
                self.guard.evicted(action, position)
        if len(said) > _NAMED:
            said[_NAMED:] = [f"{len(said) - _NAMED} more"]
        return [*said, *filter(None, (refusal, left))]

    async def _boundary(self, action: Action, storage: TopicStorage) -> Position | None:
        """Return the position up to which to evict; None if there is no excess."""
        target = evicted_target(action.limit)
        if action.quota_type is QuotaType.SIZE:
            return storage.leaving(target)
        return await self._last_before(action.topic, storage, self._wall_ms() - target * 1_000)

    async def _last_before(
        self, topic: str, storage: TopicStorage, moment_ms: int
    ) -> Position | None:
        """Return the last entry published before a moment that some cursor has not acknowledged.

        Entries are taken to be in the order of their publish times, as Pulsar takes them, and
        halved: 20 of a million are read.
        """
        oldest = storage.oldest()
        if oldest is None:
            return None
        start = oldest.mark_delete
        old, not_old = 0, storage.entries_after(start)
        while old < not_old:
            middle = (old + not_old) // 2
            entry = storage.nth_after(start, middle)
            if await self._source.published_ms(topic, entry) < moment_ms:
                old = middle + 1
            else:
                not_old = middle
        return storage.nth_after(start, old - 1) if old else None
