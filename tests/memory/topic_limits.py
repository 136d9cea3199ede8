"""The limits of single topics in memory: deterministic and complete, for tests and a single process.

Several sidecars can share one. Listeners are called before the write returns. Limits that could not be
written to ZooKeeper are refused here too, by the same codec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coordinator.core.topics import TopicName
from coordinator.ports import (
    ANONYMOUS,
    AlreadyExists,
    NotFound,
    Origin,
    TopicLimit,
    TopicLimits,
    VersionConflict,
)
from coordinator.wire.audit import topic_subject
from coordinator.wire.documents import encode_topic_limit, validate_limited_topic
from tests.memory.store import MemoryStore


class MemoryTopicLimits:
    """`coordinator.ports.TopicLimitStore` in memory, beside the store that has the groups."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._listeners: list[Callable[[TopicLimits], None]] = []
        self._limits: dict[str, TopicLimit] = {}

    def watch(self, listener: Callable[[TopicLimits], None]) -> None:
        """See `TopicLimitStore`."""
        self._listeners.append(listener)
        listener(self.known())

    def known(self) -> TopicLimits:
        """See `TopicLimitStore`."""
        return dict(self._limits)

    async def read(self, topic: TopicName) -> TopicLimit:
        """See `TopicLimitStore`."""
        self._store.check_reachable()
        try:
            return self._limits[str(validate_limited_topic(topic))]
        except KeyError:
            raise NotFound(f"there are no limits of {topic}") from None

    async def write(self, limit: TopicLimit, *, by: Origin = ANONYMOUS) -> TopicLimit:
        """See `TopicLimitStore`."""
        self._store.check_reachable()
        encode_topic_limit(limit.topic, limit.limits, limit.tenants_own)
        known = self._limits.get(str(limit.topic))
        if limit.version is not None:
            known = self._find(limit)
        elif known is not None:
            raise AlreadyExists(f"there are limits of {limit.topic} already")
        written = replace(limit, version=self._store.next_version())
        self._limits[str(limit.topic)] = written
        before = None if known is None else known.limits
        self._store.record(topic_subject(limit.topic), before, limit.limits, by)
        self._tell()
        return written

    async def remove(self, limit: TopicLimit, *, by: Origin = ANONYMOUS) -> None:
        """See `TopicLimitStore`."""
        self._store.check_reachable()
        known = self._find(limit)
        del self._limits[str(limit.topic)]
        self._store.record(topic_subject(limit.topic), known.limits, None, by)
        self._tell()

    def _find(self, limit: TopicLimit) -> TopicLimit:
        known = self._limits.get(str(limit.topic))
        if known is None:
            raise NotFound(f"there are no limits of {limit.topic}")
        if known.version != limit.version:
            raise VersionConflict(f"the limits of {limit.topic} were changed meanwhile")
        return known

    def _tell(self) -> None:
        limits = self.known()
        for listener in tuple(self._listeners):
            listener(limits)
