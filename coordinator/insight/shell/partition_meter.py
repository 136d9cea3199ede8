"""Count the use of each partition's limit, second by second, for the advice on partitions.

It counts only while partitions have a limit (configuration keys ``partition_*``); the counts come from
their limiters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, Protocol

from coordinator.core.model import NANOS_PER_SECOND, Dimension, Rates
from coordinator.core.traffic import Traffic
from coordinator.insight.model.conditions import Condition, ConditionKind
from coordinator.insight.model.partitions import PartitionView
from coordinator.insight.model.seconds import TrafficSeconds
from coordinator.insight.model.specification import ADVISED
from coordinator.ports import Clock

_PERIOD_S: Final = 0.2
"""The interval between counts: at most a fifth of a second's traffic falls into the next one."""

MAX_PARTITIONS: Final = 1_000
"""Partitions that have a condition, the busiest first; more would say no more than these."""

_PARTITIONS_PER_STEP: Final = 50
"""Partitions that are looked at before the loop has its turn: about 2 ms."""

_UNLIMITED_PERIOD_S: Final = 1.0
"""The interval while there is nothing to count."""


class PartitionGate(Protocol):
    """The gate's interface for partitions."""

    async def partition_limits(self) -> Rates:
        """Return the limit of each partition."""

    async def partition_traffic(self) -> tuple[Traffic, ...]:
        """Return the counts since the last call, under the topics' names."""


class PartitionMeter:
    """Count the partitions' traffic and keep it by the second.

    Args:
        gate: the source of counts.
        clock: monotonic time.
    """

    def __init__(self, gate: PartitionGate, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._seconds = TrafficSeconds()
        #: The time of each partition's last count.
        self._counted_ns: dict[str, int] = {}
        #: The limit of each partition at the last count.
        self._limits = Rates()
        #: The second of the last look, and the partitions that were near their limit then.
        self._looked_s: int | None = None
        self._near: tuple[PartitionView, ...] = ()

    async def run(self) -> None:
        """Count for ever."""
        while True:
            await asyncio.sleep(_PERIOD_S if self._limits != Rates() else _UNLIMITED_PERIOD_S)
            await self.count()

    async def count(self) -> None:
        """Add the traffic since the last call; forget partitions that were quiet for two minutes."""
        now_ns = self._clock.now_ns()
        self._limits = await self._gate.partition_limits()
        traffic = await self._gate.partition_traffic()
        self._seconds.add(traffic, now_ns)
        for each in traffic:
            self._counted_ns[each.group] = now_ns
        old = [
            topic
            for topic, counted_ns in self._counted_ns.items()
            if now_ns - counted_ns > 120 * NANOS_PER_SECOND
        ]
        if old:
            for topic in old:
                del self._counted_ns[topic]
            self._seconds.keep(self._counted_ns)
        if now_ns // NANOS_PER_SECOND != self._looked_s:  # figures are those of whole seconds
            self._looked_s = now_ns // NANOS_PER_SECOND
            self._near = await self._look()

    async def views(self) -> tuple[PartitionView, ...]:
        """Return every partition that was used lately, the one that uses most of its limit first."""
        return await self._views(await self._gate.partition_limits())

    def near_limit(self) -> tuple[PartitionView, ...]:
        """Return the partitions of whose limit a second used too much, as of the last whole second."""
        return self._near

    def conditions(self, _now_ns: int) -> Iterator[Condition]:
        """Yield the conditions of partitions near their limit."""
        for view in self.near_limit()[:MAX_PARTITIONS]:
            if view.busiest is not None:
                sentence = (
                    f"{view.topic} uses {view.used:.0%} of its {view.busiest.value} in a second"
                )
                yield Condition(ConditionKind.PARTITION_NEAR_LIMIT, view.topic, sentence)

    async def _look(self) -> tuple[PartitionView, ...]:
        if self._limits == Rates():
            return ()
        return tuple(view for view in await self._views(self._limits) if view.used > ADVISED)

    async def _views(self, limits: Rates) -> tuple[PartitionView, ...]:
        now_ns = self._clock.now_ns()
        found = []
        for number, topic in enumerate(tuple(self._counted_ns), 1):
            minutes = {
                dimension: minute
                for dimension in Dimension
                if limits.of(dimension) is not None
                and (minute := self._seconds.view(topic, dimension, now_ns)) is not None
            }
            found.append(PartitionView.of(topic, limits, minutes))
            if not number % _PARTITIONS_PER_STEP:
                await asyncio.sleep(0)
        return tuple(sorted(found, key=lambda view: (-view.used, view.topic)))
