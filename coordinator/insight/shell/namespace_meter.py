"""Move the traffic counts of each namespace from the gate to the recorder, once a second.

It runs only while a recorder is configured: no decision of a sidecar uses these counts.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from coordinator.core.traffic import NamespaceTraffic
from coordinator.ports import Clock, Recorder

_PERIOD_S: Final = 1.0
"""The interval between counts: short enough to tell seconds apart; a thousand busy namespaces take two
milliseconds of it."""


class NamespaceGate(Protocol):
    """The gate's interface for namespaces."""

    async def namespace_traffic(self, *, whole: bool = False) -> tuple[NamespaceTraffic, ...]:
        """Return the counts of namespaces since the last call: all, or those whose turn it is."""


class NamespaceMeter:
    """Move counts to a recorder.

    Args:
        gate: the source of counts.
        recorder: keeps them.
        clock: monotonic time.
    """

    def __init__(self, gate: NamespaceGate, recorder: Recorder, clock: Clock) -> None:
        self._gate = gate
        self._recorder = recorder
        self._clock = clock

    async def run(self) -> None:
        """Count for ever, and once more at the end."""
        try:
            while True:
                await self.count()
                await asyncio.sleep(_PERIOD_S)
        finally:
            await self.count(whole=True)

    async def count(self, *, whole: bool = False) -> None:
        """Hand the counts since the last call to the recorder."""
        counted = await self._gate.namespace_traffic(whole=whole)
        self._recorder.namespaces_counted(counted, self._clock.now_ns())
