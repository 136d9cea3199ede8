"""The dashboard shows what is so now, of what was asked for, in its unit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.async_api import Browser, expect

from admin_api.routes import events
from tests.browser.test_dashboard import opened, orders
from tests.browser.world import DashboardWorld

pytestmark = [pytest.mark.slow, pytest.mark.verify]


async def test_a_quiet_stream_of_events_is_not_called_old(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream's signs of life say that nothing has happened until now."""
    monkeypatch.setattr(events, "_BEAT_S", 0.05)
    async with orders() as world:
        context = await browser.new_context()
        page = await context.new_page()
        await page.clock.install()
        await page.goto(f"{world.url}/#/events")
        await expect(page.get_by_text("connected")).to_be_visible()
        await page.clock.run_for(30_000)
        await expect(page.locator("#freshness")).to_have_text(re.compile(r"^0\.\d s old$"))
        await context.close()


async def test_a_group_that_does_not_exist_is_said_not_to_and_shown_once_it_does(
    browser: Browser,
) -> None:
    """Cards without a figure would say that it uses nothing."""
    async with orders() as world, opened(browser, world, "#/groups/later") as (page, _):
        await expect(page.get_by_role("main").get_by_role("alert")).to_contain_text("not exist")
        await expect(page.locator(".card")).to_have_count(0)
        await expect(page.get_by_role("link", name="All groups")).to_be_visible()
        await world.limit("later", publish_messages=70)
        await expect(page.get_by_role("heading", name="Why this limit")).to_be_visible()
        await expect(page.get_by_role("main").get_by_role("alert")).to_have_count(0)


async def test_an_address_that_was_mistyped_leads_to_a_sentence(browser: Browser) -> None:
    """A percent sign alone is no encoding of a letter."""
    async with orders() as world, opened(browser, world, "#/groups/100%") as (page, mistakes):
        await expect(page.get_by_role("heading", name="100%")).to_be_visible()
        assert mistakes == []


async def test_a_group_without_a_limit_shows_what_passes(browser: Browser) -> None:
    """No decision knows its brokers; what they report does."""
    world = DashboardWorld()
    await world.limit("free")
    world.join("broker-2", {"free": 250})
    async with world.running(), opened(browser, world, "#/groups/free") as (page, mistakes):
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="broker-2"))
        await expect(row).to_contain_text("250")
        await expect(page.locator(".figures")).to_contain_text("250 msg/s")
        assert mistakes == []


async def test_decisions_are_those_of_the_dimension_that_is_shown(browser: Browser) -> None:
    """Messages and bytes are decided in one step, which has one number."""
    world = DashboardWorld()
    await world.limit("orders", publish_messages=3_000, publish_bytes=10_000_000)
    world.join("broker-2", {"orders": None})
    async with world.running(), opened(browser, world, "#/groups/orders") as (page, mistakes):
        decided = page.get_by_role("list", name="Decisions, newest first").get_by_role("listitem")
        await expect(decided.first).to_contain_text("msg/s")
        await page.get_by_role("button", name="publish bytes").click()
        await expect(decided.first).to_contain_text("B/s")
        await expect(decided.filter(has_text="msg/s")).to_have_count(0)
        await expect(page.locator(".figures")).to_contain_text("10 MB/s")
        assert mistakes == []


async def test_the_view_of_a_member_that_was_not_heard_is_not_known(browser: Browser) -> None:
    """It may go by anything."""
    async with orders() as world:
        world.ensemble.register("broker-9", "127.0.0.1:9009", b"")
        async with opened(browser, world, "#/members") as (page, mistakes):
            row = page.get_by_role("row").filter(has_text="broker-9")
            await expect(row).to_contain_text("not known")
            await expect(page.get_by_role("row").filter(has_text="broker-2")).to_contain_text(
                "the same"
            )
            assert mistakes == []


async def test_a_group_that_is_tried_out_says_so_on_its_own_page(browser: Browser) -> None:
    """Its clients wait for nothing, however much they want."""
    async with orders() as world:
        found = await world.store.read_group("orders")
        await world.store.update_group(replace(found.group, enforcement="observe"), found.version)
        async with opened(browser, world, "#/groups/orders") as (page, _):
            await expect(page.get_by_text("tried out: holds nothing back")).to_be_visible()


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3_000, "msg/s", "3,000 msg/s"),
        (12_500, "msg/s", "12.5k msg/s"),
        (0.5, "msg/s", "0.5 msg/s"),
        (999_999, "msg/s", "1M msg/s"),
        (980, "B/s", "980 B/s"),
        (10_000_000, "B/s", "10 MB/s"),
        (-1, "B/s", "unlimited"),
        (1_200_000, "B", "1.2 MB"),
    ],
)
async def test_a_rate_has_one_unit(browser: Browser, value: float, unit: str, text: str) -> None:
    """Its sign stands with the unit, as people write it."""
    async with orders() as world, opened(browser, world) as (page, _):
        script = f"import('/dashboard/format.js').then((it) => it.withUnit({value}, '{unit}'))"
        assert await page.evaluate(script) == text


async def test_on_a_phone_groups_are_sorted_by_a_list(browser: Browser) -> None:
    """There are no heads of columns to press."""
    async with orders() as world, opened(browser, world, width=390) as (page, _):
        await expect(page.get_by_role("rowheader")).to_have_text(["orders", "bills"])
        await page.get_by_label("Sort groups").select_option("by group")
        await expect(page.get_by_role("rowheader")).to_have_text(["bills", "orders"])
    async with orders() as world, opened(browser, world) as (page, _):
        await expect(page.get_by_role("rowheader")).to_have_count(2)
        await expect(page.get_by_label("Sort groups")).to_be_hidden()
