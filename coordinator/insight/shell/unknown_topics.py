"""Yield a condition while clients use topics whose names the gate does not know."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from coordinator.insight.model.conditions import Condition, ConditionKind
from coordinator.insight.model.gate_views import UnknownTopicsView

ASKED_EVERY_S: Final = 2.0
_NAMED: Final = 3


class UnknownTopicsWatch:
    """Ask the gate, and tell what it said.

    Args:
        counts: returns what the gate counted.
        broker: the name of its broker.
    """

    def __init__(self, counts: Callable[[], Awaitable[UnknownTopicsView]], broker: str) -> None:
        self._counts = counts
        self._broker = broker
        self._seen = UnknownTopicsView()

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            await self.look()
            await asyncio.sleep(ASKED_EVERY_S)

    async def look(self) -> None:
        """Ask once."""
        self._seen = await self._counts()

    def conditions(self, _now_ns: int) -> Iterator[Condition]:
        """Yield the condition, while a producer or consumer of such a topic is connected."""
        if self._seen.participants:
            names = ", ".join(self._seen.names[-_NAMED:])
            yield Condition(
                ConditionKind.UNKNOWN_TOPICS,
                self._broker,
                f"{self._seen.participants} producers and consumers at {self._broker} use topics of "
                f"unknown names, such as {names}; {self._seen.messages:,} messages have passed",
            )
