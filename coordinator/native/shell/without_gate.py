"""The answers of a gate that there is not: nothing is held here, and no connection passes."""

from __future__ import annotations

import asyncio

from coordinator.core.handling import Handling
from coordinator.core.model import Rates
from coordinator.core.traffic import Traffic
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.model.gate_views import (
    ConnectionFigures,
    GateSlowness,
    HoldView,
    RoleView,
    UnknownTopicsView,
)


class WithoutGate:
    """Instructions that no broker carries out, and questions that none can answer."""

    def set_handling(self, group: str, handling: Handling) -> None:
        """Do nothing: brokers save up no credit and refuse nothing, which `beyond_brokers` tells."""

    async def role_traffic(self) -> tuple[RoleView, ...]:
        """Return nothing: a broker's own limiter knows no roles."""
        return ()

    async def drain(self, timeout_s: float) -> None:
        """Return at once: clients are the broker's."""

    async def close(self) -> None:
        """Do nothing: no socket is open here."""

    async def ends(self) -> None:
        """Wait for ever: it lives as long as the sidecar."""
        await asyncio.Event().wait()

    def slowness(self) -> GateSlowness:
        """Return that it never is: it answers from this process."""
        return GateSlowness()

    async def partition_limits(self) -> Rates:
        """Return no limit."""
        return Rates()

    async def partition_traffic(self) -> tuple[Traffic, ...]:
        """Return no counts: partitions are not observed."""
        return ()

    async def holds(self) -> tuple[HoldView, ...]:
        """Return no hold times: nothing is held here."""
        return ()

    async def unknown_topics(self) -> UnknownTopicsView:
        """Return no counts: no gate sees the names of topics."""
        return UnknownTopicsView()

    async def delayed(self) -> DelayedView | None:
        """Return None: no gate counts delayed messages."""
        return None

    async def connection_figures(self) -> tuple[ConnectionFigures, ...]:
        """Return no connections: they are the broker's."""
        return ()

    def refresh_certificate(self) -> None:
        """Do nothing: there is no certificate."""
