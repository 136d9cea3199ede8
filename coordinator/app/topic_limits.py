"""The limits of single topics, on their way from the store to the gate.

A topic's limit is meant for all its partitions together, and each partition is owned by some broker.
Every gate therefore needs the number of partitions, to give each its part. The own broker is asked for
it, when a limit changes and then every 30 s, for partitions can be added. Until it answers, a topic
counts as not partitioned, and each partition gets the whole limit, as with Pulsar's own.

Scalable topics have no partitions: their limits are the core's (topic_groups.py).

The broker is asked one question at a time and at most 20 a second; with 1,000 topics a new number of
partitions is seen after a minute.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import structlog

from coordinator.core.model import Rates
from coordinator.core.topics import SCALABLE, TopicName
from coordinator.ports import BrokerAdmin, BrokerUnreachable, TopicLimits

REFRESH_S: Final = 30.0
"""The time for which an answer of the broker is used."""

_PAUSE_S: Final = 0.05

_log = structlog.get_logger(__name__)


class TopicGate(Protocol):
    """The gate's interface for single topics."""

    def set_topic_limits(self, topic: TopicName, limits: Rates, *, partitions: int = 1) -> None:
        """Limit a topic, all its partitions together; no rates, no limit."""


class TopicLimitCourier:
    """Bring the limits of topics to the gate, with the topics' numbers of partitions.

    Args:
        gate: enforces them.
        broker: knows the number of partitions of a topic.
    """

    def __init__(self, gate: TopicGate, broker: BrokerAdmin) -> None:
        self._gate = gate
        self._broker = broker
        self._limits: TopicLimits = {}
        #: By topic, as of the broker's last answer.
        self._partitions: dict[str, int] = {}
        self._news = asyncio.Event()
        #: Set when the limits were told for the first time.
        self.informed = asyncio.Event()

    def changed(self, limits: TopicLimits) -> None:
        """Take over the limits in the store."""
        before = self._limits
        limits = {name: each for name, each in limits.items() if each.topic.domain != SCALABLE}
        self._limits = limits
        for name, limit in before.items():
            if name not in limits:
                self._partitions.pop(name, None)
                self._gate.set_topic_limits(limit.topic, Rates())
        for name, limit in limits.items():
            if before.get(name) != limit:
                self._apply(name)
        self._news.set()
        self.informed.set()

    async def run(self) -> None:
        """Ask the broker for numbers of partitions, for ever."""
        while True:
            self._news.clear()
            unknown = [name for name in self._limits if name not in self._partitions]
            for name in unknown or tuple(self._limits):
                await self._ask(name)
            if not unknown:
                await self._rest()

    async def _ask(self, name: str) -> None:
        limit = self._limits.get(name)
        if limit is None:
            return  # removed since
        try:
            partitions = await self._broker.partitions_of(limit.topic)
        except BrokerUnreachable as error:
            _log.info("partitions not known yet", topic=name, reason=str(error))
            partitions = self._partitions.get(name, 1)
        before = self._partitions.get(name, 1)
        if name in self._limits:
            self._partitions[name] = partitions
            if partitions != before:
                self._apply(name)
        await asyncio.sleep(_PAUSE_S)

    async def _rest(self) -> None:
        """Wait until the answers are old, or there are new limits."""
        try:
            async with asyncio.timeout(REFRESH_S):
                await self._news.wait()
        except TimeoutError:
            return

    def _apply(self, name: str) -> None:
        limit, partitions = self._limits[name], self._partitions.get(name, 1)
        self._gate.set_topic_limits(limit.topic, limit.limits, partitions=partitions)
