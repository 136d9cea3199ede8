"""REST shows the use that partitions make of their limits."""

from __future__ import annotations

import pytest

from coordinator.core.topics import TopicName
from coordinator.insight.shell.partition_meter import PartitionMeter
from tests.admin_api.world import World
from tests.insight.shell.test_partition_meter import SECOND, TOPIC, Counts


async def test_above_four_fifths_it_says_how_many_partitions_would_do(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three partitions, one of which uses 95 %: four would use no more than 80 % each."""

    async def three(_: TopicName) -> int:
        return 3

    monkeypatch.setattr(world.broker, "partitions_of", three)
    gate = Counts()
    meter = PartitionMeter(gate, world.clock)
    gate.publish(TOPIC, 950)
    gate.publish("persistent://shop/orders/quiet", 10)
    await meter.count()
    world.clock.advance(SECOND)
    async with world.client(partitions=meter) as client:
        busy, quiet = (await client.get("/quota/v1/gate/partitions")).json()
    assert (busy["partitions"], busy["advisedPartitions"], busy["used"]) == (3, 4, 0.95)
    assert "with 4 partitions instead of 3" in busy["advice"]
    assert (quiet["advisedPartitions"], quiet["advice"]) == (0, "")
    assert busy["minutes"]["publishRateInMsgs"]["peakSecond"] == 950


async def test_without_limits_of_partitions_the_list_is_empty(world: World) -> None:
    """The API asks no other sidecar."""
    async with world.client() as client:
        assert (await client.get("/quota/v1/gate/partitions")).json() == []
