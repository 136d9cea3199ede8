"""The ports that backlog quotas need, as protocols; adapters implement them.

The rules are those of ``coordinator.ports``: answer or raise, no type of a library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from coordinator.backlog.rules.evictions import Counted
from coordinator.backlog.rules.model import (
    BacklogQuota,
    Glance,
    Position,
    TopicStorage,
    TopicSummary,
)


class BacklogSource(Protocol):
    """The own broker's admin REST, as far as backlogs go.

    Topics are named in full, a partition by its own name. Of every call: NotFound is that there is no
    such topic, or that another broker owns it; Refused that the broker does not allow the question, or
    that none fits about a topic of this name; Unreadable that a message has no publish time;
    BrokerUnreachable that it did not answer, or not what was asked.
    """

    async def cluster(self) -> str:
        """The name of the cluster that the broker belongs to."""

    async def summaries(self) -> tuple[TopicSummary, ...]:
        """All persistent topics that the broker has loaded; as old as its own statistics."""

    async def glance(self, topic: str) -> Glance:
        """A topic's backlog all at once; reads an entry for each subscription that is behind."""

    async def storage(self, topic: str) -> TopicStorage:
        """A topic's ledgers and cursors, from the broker's memory."""

    async def published_ms(self, topic: str, position: Position) -> int:
        """When an entry was published; reads it."""

    async def closed_ms(self, topic: str) -> Mapping[int, int]:
        """When each closed ledger of a topic was closed; reads metadata."""

    async def quota(self, topic: str) -> BacklogQuota:
        """The quota in force: of the topic, its namespace or the broker, in this order.

        Partitions have that of their topic, whichever of their names is given.
        """

    async def evictions(self) -> Counted:
        """The evictions that the broker's own check has made, since it loaded each topic."""

    async def expire_to(self, topic: str, subscription: str, position: Position) -> None:
        """Acknowledge everything up to a position; what is acknowledged already stays so."""
