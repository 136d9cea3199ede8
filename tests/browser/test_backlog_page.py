"""The page of backlogs in Chromium."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from admin_api.backend import Backlogs
from coordinator.backlog.rules.guard import Enforcement
from coordinator.backlog.rules.model import BacklogQuota, QuotaPolicy
from tests.admin_api.backlog_world import TOPIC, BacklogWorld
from tests.browser.test_dashboard import opened
from tests.browser.world import DashboardWorld

pytestmark = [pytest.mark.slow, pytest.mark.verify]


async def evicted() -> Backlogs:
    """A topic that uses most of its quota, because an eviction has cut it."""
    backlog = BacklogWorld({"shop/orders": Enforcement.ENFORCE})
    backlog.topic().quota = BacklogQuota(
        size_bytes=10 * 1024, age_s=3_600, size_policy=QuotaPolicy.EVICT
    )
    for _ in range(5):
        backlog.publish(4)
        backlog.pass_s(10)
        await backlog.watch.check()
    await backlog.enforcement.look()
    await backlog.watch.check()
    return backlog.backlogs()


async def test_topics_are_shown_with_age_quota_and_what_was_done(browser: Browser) -> None:
    """The one that uses most of its quota first; evictions below."""
    world = DashboardWorld()
    world.backlogs = await evicted()
    async with world.running(), opened(browser, world, "#/backlogs") as (page, mistakes):
        row = page.get_by_role("row").filter(has_text=TOPIC)
        await expect(row).to_contain_text("30 s")
        await expect(row.get_by_role("meter")).to_have_attribute("aria-valuenow", "90")
        await expect(page.get_by_role("listitem").filter(has_text="evict")).to_contain_text("a to")
        assert mistakes == []


async def test_a_sidecar_that_does_not_look_says_how_to_make_it(browser: Browser) -> None:
    """In the reason that the API gives."""
    world = DashboardWorld()
    async with world.running(), opened(browser, world, "#/backlogs") as (page, mistakes):
        await expect(page.get_by_role("main")).to_contain_text("backlog_check_seconds")
        assert mistakes == []
