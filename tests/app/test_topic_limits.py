"""Limits of topics on their way from the store to the gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from coordinator.app import topic_limits
from coordinator.app.topic_limits import TopicLimitCourier
from coordinator.core.model import Rates
from coordinator.core.topics import TopicName
from coordinator.ports import TopicLimit
from tests.contract.listening import eventually
from tests.memory.store import MemoryStore
from tests.memory.surroundings import MemoryBrokerAdmin
from tests.memory.topic_limits import MemoryTopicLimits

ORDERS = TopicName("persistent", "shop", "eu", "orders")
RATES = Rates(publish_messages=100)


class Gate:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.limits: dict[TopicName, tuple[Rates, int]] = {}

    def set_topic_limits(self, topic: TopicName, limits: Rates, *, partitions: int = 1) -> None:
        self.limits[topic] = (limits, partitions)


class Site:
    """Store, courier and gate of one sidecar."""

    def __init__(self) -> None:
        self.store = MemoryTopicLimits(MemoryStore())
        self.broker = MemoryBrokerAdmin()
        self.gate = Gate()
        self.courier = TopicLimitCourier(self.gate, self.broker)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A courier at work."""
    site = Site()
    site.store.watch(site.courier.changed)
    task = asyncio.create_task(site.courier.run())
    yield site
    task.cancel()
    await asyncio.wait({task})


async def test_a_limit_acts_before_the_partitions_are_known(site: Site) -> None:
    """It is divided as soon as they are."""
    site.broker.partitions[ORDERS] = 4
    await site.store.write(TopicLimit(ORDERS, RATES))

    assert site.gate.limits == {ORDERS: (RATES, 1)}
    await eventually(lambda: site.gate.limits == {ORDERS: (RATES, 4)})
    assert site.courier.informed.is_set()


async def test_changed_and_removed_limits_keep_the_number_of_partitions(site: Site) -> None:
    """It is not asked for again; a topic that is limited anew is."""
    site.broker.partitions[ORDERS] = 4
    written = await site.store.write(TopicLimit(ORDERS, RATES))
    await eventually(lambda: site.gate.limits[ORDERS] == (RATES, 4))
    site.broker.answering = False
    changed = Rates(dispatch_bytes=7)
    written = await site.store.write(TopicLimit(ORDERS, changed, written.version))
    assert site.gate.limits[ORDERS] == (changed, 4)

    await site.store.remove(written)

    assert site.gate.limits[ORDERS] == (Rates(), 1)
    await site.store.write(TopicLimit(ORDERS, RATES))
    assert site.gate.limits[ORDERS] == (RATES, 1)


async def test_added_partitions_are_seen_in_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker is asked again; while it is silent, the last number holds."""
    monkeypatch.setattr(topic_limits, "REFRESH_S", 0.01)
    site.broker.partitions[ORDERS] = 2
    await site.store.write(TopicLimit(ORDERS, RATES))
    await eventually(lambda: site.gate.limits[ORDERS] == (RATES, 2))
    site.broker.answering = False
    await asyncio.sleep(0.2)
    assert site.gate.limits[ORDERS] == (RATES, 2)
    site.broker.answering = True
    site.broker.partitions[ORDERS] = 8

    await eventually(lambda: site.gate.limits[ORDERS] == (RATES, 8))
