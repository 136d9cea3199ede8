"""The audit of one connection: what its engine records, in the log with the client's address."""

from __future__ import annotations

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.gate.engine.session import ConnectionAudit
from coordinator.gate.limits.metering import TOLD_NS, Advance, MeteredLimiter
from coordinator.gate.protocol.commands import ProducerCommand
from coordinator.gate.protocol.refusals import RefusalReason
from coordinator.gate.server.log_ration import LogRation
from coordinator.insight.model.gate_views import Debtor


class ClientAudit(ConnectionAudit):
    """Logs what the engine of a connection records.

    Args:
        log: takes the lines.
        peer: the client, as host:port.
    """

    def __init__(self, log: LogRation, peer: str) -> None:
        self._log = log
        self._peer = peer

    def refused(self, reason: RefusalReason, detail: str) -> None:
        """See `ConnectionAudit`."""
        self._log.warn("request refused", peer=self._peer, reason=reason.value, detail=detail)

    def exempted(self, producer: ProducerCommand) -> None:
        """See `ConnectionAudit`."""
        named = {"topic": producer.topic, "producer": producer.producer_name}
        self._log.tell("producer of geo-replication, exempt", peer=self._peer, **named)

    def migrated(self, url: str) -> None:
        """See `ConnectionAudit`."""
        self._log.tell("topic migrated to another cluster", peer=self._peer, url=url)

    def indebted(self, limiter: MeteredLimiter, advance: Advance) -> None:
        """Log who took much of a limit in advance; if the group owes it, keep it with the limit."""
        role, topic, messages, size, owed_ns = advance
        debtor = Debtor(self._peer, role, topic, messages, size)
        if limiter.debt_ns >= TOLD_NS:  # what a consumer owes alone stops no other
            limiter.debtor = debtor
        group, owed_s = limiter.counter.group, round(owed_ns / NANOS_PER_SECOND, 1)
        self._log.warn("limit taken in advance", group=group, seconds=owed_s, **debtor._asdict())
