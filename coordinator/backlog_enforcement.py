"""Carries out what is to be done about exceeded backlog quotas: at the gate, and at the broker.

Between two checks of the monitor it looks, every few seconds, at the topics of the namespaces that are
guarded: those with a backlog, and those that somebody publishes to through the gate. What it does is
logged and remembered; what fails is done again with the next look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from coordinator.backlog import BacklogWatch
from coordinator.core.backlog.guard import (
    Action,
    BacklogGuard,
    Block,
    Deed,
    Enforcement,
    behind,
    block_of,
    evicted_target,
)
from coordinator.core.backlog.model import Position, QuotaType, TopicStorage
from coordinator.ports import BacklogSource, PortError

TOPICS_MAX: Final = 1_000
"""Topics of one look, two seconds' worth of questions at the usual pace: those that are held or refused,
then the others by name. What is left over is left to the broker's own check."""

_log = structlog.get_logger(__name__)


class BlockingGate(Protocol):
    """The gate, as far as exceeded quotas go."""

    def set_topic_block(self, topic: str, block: Block | None) -> None:
        """Hold or refuse publishes to a topic, or let them pass again."""
        ...

    async def published_topics(self) -> frozenset[str]:
        """The topics that producers are connected to."""
        ...


class BacklogEnforcement:
    """Looks, decides and acts.

    Args:
        watch: knows the backlogs.
        guard: decides.
        source: evicts.
        gate: holds and refuses.
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
        wall_ms: Callable[[], int],
        interval_s: float = 5.0,
    ) -> None:
        self._watch = watch
        self._guard = guard
        self._source = source
        self._gate = gate
        self._wall_ms = wall_ms
        self.interval_s = interval_s

    def set_namespaces(self, namespaces: Mapping[str, Enforcement]) -> None:
        """Guard these namespaces from now on."""
        self._guard.namespaces = namespaces

    def actions(self) -> tuple[Action, ...]:
        """What was done lately, oldest first."""
        return tuple(self._guard.actions)

    def blocked(self) -> tuple[Action, ...]:
        """Topics whose publishes are held or refused now, or would be if it was not a dry run."""
        return tuple(self._guard.blocked.values())

    def wants(self, topic: str) -> Enforcement | None:
        """What is wanted for a topic; None is nothing."""
        return self._guard.wants(topic)

    @property
    def evictions(self) -> Mapping[tuple[str, QuotaType], int]:
        """Evictions since the start, by topic and type."""
        return self._guard.evictions

    @property
    def broker_evictions(self) -> Mapping[QuotaType, int]:
        """The same of the whole broker."""
        return self._guard.broker_evictions

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(self.interval_s)
            await self.look()

    async def look(self) -> None:
        """Look at the guarded topics once and do what follows."""
        if not self._guard.namespaces and not self._guard.blocked:
            return
        published = await self._gate.published_topics()
        names = {*self._watch.known, *published, *self._guard.blocked}
        guarded = sorted(
            (name for name in names if self._guard.wants(name) is not None),
            key=lambda name: (name not in self._guard.blocked, name),
        )
        views = await self._watch.look(guarded[:TOPICS_MAX]) if guarded else ()
        self._guard.keep(self._watch.topics)
        for action in self._guard.decide(views, self._wall_ms()):
            await self._carry_out(action)

    async def _carry_out(self, action: Action) -> None:
        try:
            outcome = await self._do(action)
        except PortError as error:
            outcome = f"failed: {error}"
        finished = self._guard.done(action, outcome)
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
        if action.deed is Deed.EVICT:
            return await self._evict(action)
        if not action.dry_run:
            block = None if action.deed is Deed.RELEASE else block_of(action)
            self._gate.set_topic_block(action.topic, block)
        return "dry run" if action.dry_run else "done"

    async def _evict(self, action: Action) -> str:
        """Evict, by what the topic looks like at this very moment; in words, what was."""
        storage = await self._source.storage(action.topic)
        position = await self._boundary(action, storage)
        said = []
        if position is not None:
            for subscription in behind(storage, position):
                said.append(f"{subscription} to {position.ledger}:{position.entry}")
                if not action.dry_run:
                    await self._source.expire_to(action.topic, subscription, position)
        if said and not action.dry_run:
            self._guard.evicted(action)
        words = ", ".join(said) or "nothing that a consumer could have acknowledged"
        return f"dry run: {words}" if action.dry_run else words

    async def _boundary(self, action: Action, storage: TopicStorage) -> Position | None:
        """Up to where is too much; None when nothing is."""
        target = evicted_target(action.limit)
        if action.quota_type is QuotaType.SIZE:
            return storage.leaving(target)
        return await self._last_before(action.topic, storage, self._wall_ms() - target * 1_000)

    async def _last_before(
        self, topic: str, storage: TopicStorage, moment_ms: int
    ) -> Position | None:
        """The last entry that was published before a moment and is not acknowledged by everybody.

        Entries are taken to be in the order of their publish times, as Pulsar takes them, and halved:
        20 of a million are read.
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
