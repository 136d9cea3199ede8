"""The page of topics in Chromium: what partitions use, and delayed messages."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from coordinator.core.topics import TopicName
from coordinator.insight.model.delayed import DelayedTopic, DelayedView
from coordinator.insight.shell.partition_meter import PartitionMeter
from tests.browser.test_dashboard import opened
from tests.browser.world import DashboardWorld
from tests.insight.shell.test_partition_meter import SECOND, TOPIC, Counts
from tests.memory.surroundings import ManualClock

pytestmark = [pytest.mark.slow, pytest.mark.verify]


async def metered(world: DashboardWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic of three partitions, one of which uses 95 % of its limit, and a quiet one."""

    async def three(_: TopicName) -> int:
        return 3

    monkeypatch.setattr(world.broker, "partitions_of", three)
    gate, clock = Counts(), ManualClock()
    world.partitions = PartitionMeter(gate, clock)
    gate.publish(TOPIC, 950)
    gate.publish("persistent://shop/orders/quiet", 10)
    await world.partitions.count()
    clock.advance(SECOND)


async def test_the_busiest_partition_comes_first_with_how_many_would_do(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above four fifths of its limit; below, nothing is advised."""
    world = DashboardWorld()
    await metered(world, monkeypatch)
    async with world.running(), opened(browser, world, "#/topics") as (page, mistakes):
        busy = page.get_by_role("row").filter(has_text=TOPIC)
        await expect(busy).to_contain_text("950 msg/s of 1,000 msg/s")
        await expect(busy).to_contain_text("4 partitions, now 3")
        await expect(busy.get_by_role("meter")).to_have_attribute("aria-valuenow", "95")
        quiet = page.get_by_role("row").filter(has_text="orders/quiet")
        await expect(quiet).to_contain_text("never")
        await expect(quiet).not_to_contain_text("partitions, now")
        assert await page.get_by_role("rowheader").all_inner_texts() == [
            TOPIC,
            "persistent://shop/orders/quiet",
        ]
        await expect(page.get_by_role("main")).to_contain_text("They are not counted apart")
        assert mistakes == []


async def test_topics_whose_time_of_delivery_has_no_effect_are_named(browser: Browser) -> None:
    """In the words of the API; without a limit of partitions it says how to have one."""
    world = DashboardWorld()
    world.delayed = DelayedView(1_200, 300, (DelayedTopic(TOPIC, 1_200, 300),))
    async with world.running(), opened(browser, world, "#/topics") as (page, mistakes):
        warning = page.get_by_role("listitem").filter(has_text="300 of 1,200 delayed messages")
        await expect(warning).to_contain_text("were due when they were published")
        await expect(page.get_by_role("main")).to_contain_text("partition_publish_rate_in_msgs")
        assert mistakes == []
