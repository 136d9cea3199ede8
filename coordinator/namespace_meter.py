"""What passes of each namespace, from the gate to the recorder, once a second.

Only while something is recorded: nothing in a sidecar goes by these counts.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from coordinator.core.model import NamespaceTraffic
from coordinator.ports import Clock, Recorder

_PERIOD_S: Final = 1.0
"""Often enough to tell seconds apart; a thousand busy namespaces take two milliseconds of it."""


class NamespaceGate(Protocol):
    """The gate, as far as namespaces go."""

    async def namespace_traffic(self) -> tuple[NamespaceTraffic, ...]:
        """What was counted of each since the last time."""
        ...


class NamespaceMeter:
    """Brings counts to a recorder.

    Args:
        gate: counts.
        recorder: keeps them.
        clock: monotonic time.
    """

    def __init__(self, gate: NamespaceGate, recorder: Recorder, clock: Clock) -> None:
        self._gate = gate
        self._recorder = recorder
        self._clock = clock

    async def run(self) -> None:
        """Count for ever, and once more in the end."""
        try:
            while True:
                await self.count()
                await asyncio.sleep(_PERIOD_S)
        finally:
            await self.count()

    async def count(self) -> None:
        """Hand over what was counted since the last time."""
        self._recorder.namespaces_counted(
            await self._gate.namespace_traffic(), self._clock.now_ns()
        )
