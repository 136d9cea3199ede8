"""A gate behind its ports: instructions are calls, questions are coroutines.

The gate usually runs in another process than the coordinator (coordinator/gate/process), so an answer may
take time; instructions take none. Here the gate is in the same process, and both happen at once.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.core.model import NamespaceTraffic, Rates, Traffic
from coordinator.gate.server.proxy import Gate
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.model.gate_views import (
    ConnectionFigures,
    GateFigures,
    GateLimits,
    HoldView,
)


class GateDesk:
    """Takes instructions and questions for a gate; the instructions are the gate's own methods.

    Args:
        gate: the gate.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._resumed: Callable[[], None] | None = None
        self.set_limits = gate.set_limits
        self.hold_lease = gate.hold_lease
        self.remove_limits = gate.remove_limits
        self.set_attachments = gate.set_attachments
        self.set_broker_limits = gate.set_broker_limits
        self.set_topic_limits = gate.set_topic_limits
        self.set_partition_limits = gate.set_partition_limits
        self.set_topic_block = gate.set_topic_block
        self.set_subscribe_rate = gate.set_subscribe_rate
        self.refresh_certificate = gate.refresh_certificate
        self.drain = gate.drain
        self.close = gate.close

    async def start(self) -> int:
        """Accept clients; return the plain port.

        Raises:
            OSError: a port cannot be had.
            TlsError: the certificate cannot be used.
        """
        await self._gate.start()
        return self._gate.port

    def watch_traffic(self, resumed: Callable[[], None]) -> None:
        """Call this when traffic passes or waits again after a `collect` that found none."""
        self._resumed = resumed

    def when_in_force(self, then: Callable[[], None]) -> None:
        """Call this at once, since all instructions are in force already."""
        then()

    async def confirm(self) -> None:
        """Answer, when all earlier instructions are in force."""

    async def collect(self) -> tuple[Traffic, ...]:
        """See `Gate.collect`."""
        counted = self._gate.collect()
        if self._resumed is not None and all(traffic.is_quiet for traffic in counted):
            self._gate.when_traffic(self._resumed)
        return counted

    async def partition_traffic(self) -> tuple[Traffic, ...]:
        """See `Gate.partition_traffic`."""
        return self._gate.partition_traffic()

    async def namespace_traffic(self) -> tuple[NamespaceTraffic, ...]:
        """See `Gate.namespace_traffic`."""
        return self._gate.namespace_traffic()

    async def published_totals(self) -> dict[str, tuple[int, int]]:
        """See `Gate.published_totals`."""
        return self._gate.published_totals()

    async def broker_side_addresses(self) -> frozenset[tuple[str, int]]:
        """See `Gate.broker_side_addresses`."""
        return self._gate.broker_side_addresses()

    async def published_topics(self) -> frozenset[str]:
        """See `Gate.published_topics`."""
        return self._gate.published_topics()

    async def figures(self) -> GateFigures:
        """See `Gate.figures`."""
        return self._gate.figures()

    async def limits(self) -> GateLimits:
        """See `Gate.limits`."""
        return self._gate.limits()

    async def partition_limits(self) -> Rates:
        """See `Gate.partition_limits`."""
        return self._gate.partition_limits

    async def holds(self) -> tuple[HoldView, ...]:
        """See `Gate.holds`."""
        return tuple(self._gate.holds())

    async def delayed(self) -> DelayedView | None:
        """See `Gate.delayed`."""
        return self._gate.delayed()

    async def connection_figures(self) -> tuple[ConnectionFigures, ...]:
        """See `Gate.connection_figures`."""
        return self._gate.connection_figures()
