"""Rates of replication to one remote cluster each, where Pulsar has one rate for all clusters of a topic.

Each remote cluster of a topic has a limiter of its own at the broker, and all of them have the rate of
the topic's policy ``replicatorDispatchRate``. So the policy is the lowest of the rates that the topic's
remote clusters are to have: none passes more than its part, and what a cluster cannot use because another
one has less goes to other topics, as its demand is what it uses.

Rates here are of messages, and those in Pulsar of entries (engine/replication.py). A policy is written
again when the entries of its topic have become larger or smaller by a tenth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from coordinator.core.topics import namespace_in
from coordinator.native.engine.outside import RatePolicies
from coordinator.native.engine.owners import topic_of
from coordinator.native.engine.rate_policy import NO_RATE, REPLICATION, PolicyRate, lower_of
from coordinator.native.engine.replication import ReplicationBook
from coordinator.native.shell.kept_rates import NOTHING_SET, give_back, rate_of
from coordinator.ports import NotFound

_NEAR_PERMILLE: Final = 100
_AGAIN_AT_ONCE: Final = 4
"""Policies that are written again in a step, as entries have changed."""


@dataclass(slots=True)
class _Shared:
    """The policy of one topic.

    Args:
        wanted: the rate that each remote cluster is to have, by owner.
        written: the policy as it was written last.
    """

    wanted: dict[str, PolicyRate] = field(default_factory=dict)
    written: PolicyRate = NO_RATE


class ReplicatorRates:
    """`coordinator.native.engine.outside.OwnerRates` of replication (owners.py).

    Args:
        policies: reads and writes the policies of topics.
        book: knows the size of their entries.
    """

    policy = REPLICATION

    def __init__(self, policies: RatePolicies, book: ReplicationBook) -> None:
        self._policies = policies
        self._book = book
        self._shared: dict[str, _Shared] = {}
        #: What topics had, as it was read in this step.
        self._found: dict[str, str] = {}
        #: Writes of one topic must not overtake each other, nor what is given back.
        self._writes = asyncio.Lock()

    async def rate(self, owner: str) -> str:
        """See `OwnerRates`; empty where the policy is that of other clusters alone."""
        topic = topic_of(owner)
        body = await self._policies.rate(topic)
        shared = self._shared.get(topic)
        if shared is not None and rate_of(REPLICATION, body) == shared.written:
            return REPLICATION.body_of(shared.wanted.get(owner, NO_RATE))
        self._found[topic] = body
        return self._in_messages(owner, body)

    async def set_rate(self, owner: str, body: str) -> None:
        """See `OwnerRates`."""
        async with self._writes:
            shared = self._shared.setdefault(topic_of(owner), _Shared())
            shared.wanted[owner] = REPLICATION.rate_in(body)
            await self._write(topic_of(owner), shared)

    async def kept(self, owner: str) -> str | None:
        """See `OwnerRates`."""
        text = await self._policies.kept(topic_of(owner))
        return text if text in (None, NOTHING_SET) else self._in_messages(owner, text or "")

    async def keep(self, owner: str, text: str | None) -> None:
        """Keep what was read last beside the topic, as it was read, or remove it."""
        topic = topic_of(owner)
        await self._policies.keep(topic, text and (self._found.get(topic) or NOTHING_SET))

    async def default(self, owner: str) -> str:
        """Return the rate that operators have set for all topics of the namespace."""
        return self._in_messages(owner, await self._policies.rate(namespace_in(topic_of(owner))))

    async def partitions(self, owner: str) -> int:
        """See `OwnerRates`."""
        return await self._policies.partitions(topic_of(owner))

    async def leave(self, owner: str) -> None:
        """Take a cluster's rate away; the last one gives the topic's former policy back."""
        topic = topic_of(owner)
        async with self._writes:
            shared = self._shared.pop(topic, _Shared())
            shared.wanted.pop(owner, None)
            with suppress(NotFound):
                if shared.wanted:
                    self._shared[topic] = shared
                    await self._write(topic, shared)
                else:
                    await give_back(self._policies, topic)

    async def refresh(self, owners: Collection[str]) -> None:
        """Write policies again whose topics have entries of another size now.

        Args:
            owners: that have rates; all others are forgotten.
        """
        self._found.clear()
        known = frozenset(owners)
        for topic, shared in list(self._shared.items()):
            for owner in shared.wanted.keys() - known:
                del shared.wanted[owner]
            if not shared.wanted:
                del self._shared[topic]
        off = [
            (topic, shared)
            for topic, shared in self._shared.items()
            if not _is_near(shared.written, self._lowest(shared))
        ]
        for topic, shared in off[:_AGAIN_AT_ONCE]:
            try:
                async with self._writes:
                    await self._write(topic, shared)
            except NotFound:
                self._shared.pop(topic, None)

    async def _write(self, topic: str, shared: _Shared) -> None:
        rate = self._lowest(shared)
        await self._policies.set_rate(topic, REPLICATION.body_of(rate))
        shared.written = rate

    def _lowest(self, shared: _Shared) -> PolicyRate:
        lowest = NO_RATE
        for owner, rate in shared.wanted.items():
            lowest = lower_of(lowest, self._book.in_entries(owner, rate))
        return lowest

    def _in_messages(self, owner: str, body: str) -> str:
        return REPLICATION.body_of(self._book.in_messages(owner, rate_of(REPLICATION, body)))


def _is_near(one: PolicyRate, other: PolicyRate) -> bool:
    return all(_is_near_to(*pair) for pair in zip(one, other, strict=True))


def _is_near_to(one: int | None, other: int | None) -> bool:
    if one is None or other is None:
        return one == other
    return abs(one - other) * 1000 <= max(one, other) * _NEAR_PERMILLE
