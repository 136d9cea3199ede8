"""The audit of one connection: what its engine records, with the client's address."""

from __future__ import annotations

from typing import Protocol

from coordinator.gate.limits.metering import Advance, MeteredLimiter
from coordinator.gate.protocol.commands import ProducerCommand
from coordinator.gate.protocol.refusals import RefusalReason
from coordinator.insight.model.gate_views import Debtor


class AuditHost(Protocol):
    """The gate, as the audit of a connection sees it."""

    def refused(self, peer: str, reason: RefusalReason, detail: str) -> None:
        """Take the first refusal of this reason on the client's connection."""

    def exempted(self, peer: str, producer: ProducerCommand) -> None:
        """Take the news that a producer of geo-replication is not limited."""

    def migrated(self, peer: str, url: str) -> None:
        """Take the news that the broker sends a client to another cluster."""

    def indebted(self, limiter: MeteredLimiter, debtor: Debtor, owed_ns: int) -> None:
        """Take the news that a client took a limit in advance."""


class ClientAudit:
    """Passes on what the engine of a connection records; see `ConnectionAudit`.

    Args:
        host: the gate.
        peer: the client, as host:port.
    """

    def __init__(self, host: AuditHost, peer: str) -> None:
        self._host = host
        self._peer = peer

    def refused(self, reason: RefusalReason, detail: str) -> None:
        """See `ConnectionAudit`."""
        self._host.refused(self._peer, reason, detail)

    def exempted(self, producer: ProducerCommand) -> None:
        """See `ConnectionAudit`."""
        self._host.exempted(self._peer, producer)

    def migrated(self, url: str) -> None:
        """See `ConnectionAudit`."""
        self._host.migrated(self._peer, url)

    def indebted(self, limiter: MeteredLimiter, advance: Advance) -> None:
        """See `ConnectionAudit`."""
        role, topic, messages, size, owed_ns = advance
        self._host.indebted(limiter, Debtor(self._peer, role, topic, messages, size), owed_ns)
