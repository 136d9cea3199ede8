"""The ports that reconciliation needs, as protocols; adapters implement them.

The rules are those of ``coordinator.ports``: answer or raise, no type of a library. The broker's counters
are those of native enforcement (`coordinator.native.engine.outside.BrokerCounters`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from coordinator.insight.model.gate_views import StrandedClient
from coordinator.insight.model.reconciliation_views import EscapedTraffic
from coordinator.reconciliation.engine.ways import ListedPublisher


class PassedCounters(Protocol):
    """The gate's counters, as far as reconciliation needs them."""

    async def published_totals(self) -> Mapping[str, tuple[int, int]]:
        """Return the messages and bytes published to each namespace since the gate's start."""
        ...

    async def published_topics(self) -> frozenset[str]:
        """Return the full names of the topics that producers are connected to."""
        ...

    async def stranded(self) -> Sequence[StrandedClient]:
        """Return clients that look a topic up again and again and never open it at the gate."""
        ...

    async def broker_side_addresses(self) -> frozenset[tuple[str, int]]:
        """Return the addresses that the broker sees of the gate's connections."""
        ...


class EscapeRecorder(Protocol):
    """Keeps escaped traffic for later analysis; it does not block or raise."""

    def escaped(self, escaped: Sequence[EscapedTraffic], elapsed_ns: int, now_ns: int) -> None:
        """Traffic of each namespace went round the gate in this time."""
        ...


class PublisherLists(Protocol):
    """The broker's lists of publishers. Each raises BrokerUnreachable, Refused, NotFound."""

    async def publishers(self, topic: str) -> Sequence[ListedPublisher]:
        """Return the publishers of a topic, by its full name."""
        ...

    async def topics(self, namespace: str) -> Sequence[str]:
        """Return some topics of a namespace, by full name."""
        ...
