"""The limits of single topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.model import Dimension, Rates
from coordinator.core.topics import TopicName
from coordinator.ports.audit import ANONYMOUS, Origin


@dataclass(frozen=True, slots=True)
class TopicLimit:
    """The limits of one topic, beside those of its groups, for all its partitions together.

    Args:
        topic: which; never one partition of a topic.
        limits: per second; not all unlimited.
        version: what a compare-and-set write must name, one of the whole store: it never returns. None
            is not in the store yet.
        tenants_own: those of the limits that the tenant's admin set, and may change; all others are a
            super-user's, as are those of which it was not written down.
    """

    topic: TopicName
    limits: Rates
    version: int | None = None
    tenants_own: frozenset[Dimension] = frozenset()


TopicLimits = Mapping[str, TopicLimit]
"""By the topic's full name."""

TOPIC_LIMITS_MAX = 10_000
"""Topics that may have limits of their own; every sidecar knows them all."""


class TopicLimitStore(Protocol):
    """The durable limits of single topics; a change and its audit entry are written together."""

    def watch(self, listener: Callable[[TopicLimits], None]) -> None:
        """Call the listener with all limits now and after every change."""

    def known(self) -> TopicLimits:
        """The last copy that arrived here; empty before the first."""

    async def read(self, topic: TopicName) -> TopicLimit:
        """Read one topic's limits from the store itself, not from a cache.

        Raises:
            NotFound: it has none.
            Unreadable: it has, but this release cannot understand them.
            StoreUnreachable: the store did not answer.
        """

    async def write(self, limit: TopicLimit, *, by: Origin = ANONYMOUS) -> TopicLimit:
        """Replace a topic's limits if they still have this version; create them if that is None.

        Raises:
            NotFound: there are none to replace.
            AlreadyExists: there are some already.
            VersionConflict: they have another version.
            StoreUnreachable: the store did not answer.
            ValueError: no reader could understand them, or that is no name of a topic with limits.
        """

    async def remove(self, limit: TopicLimit, *, by: Origin = ANONYMOUS) -> None:
        """Remove a topic's limits if they still have this version.

        Raises:
            NotFound: there are none.
            VersionConflict: they have another version.
            StoreUnreachable: the store did not answer.
        """
