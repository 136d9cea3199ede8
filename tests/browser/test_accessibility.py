"""Every page of the dashboard under axe, which knows the rules of WCAG, in both colour schemes."""

from __future__ import annotations

from typing import Literal

import httpx
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect

from coordinator.core.owners import namespace_owner
from tests.admin_api.keys import access
from tests.browser.test_backlog_page import evicted
from tests.browser.test_dashboard import opened, orders
from tests.browser.test_topics_page import metered
from tests.browser.world import DashboardWorld

pytestmark = [pytest.mark.slow, pytest.mark.verify]

PAGES = {
    "": "tbody tr",
    "#/groups/orders": ".chart svg",
    "#/members": "tbody tr",
    "#/topics": "tbody tr",
    "#/backlogs": "tbody tr",
    "#/operations": ".feed li",
    "#/events": ".feed li",
}
"""The pages, and what is there once they show something."""

SCHEMES = ("light", "dark")


async def faults(
    browser: Browser, world: DashboardWorld, path: str, shown: str, scheme: Literal["light", "dark"]
) -> list[str]:
    """Return the browser's complaints about a page, and axe's: the broken rule, and its place."""
    async with opened(browser, world, path, scheme=scheme) as (page, mistakes):
        await expect(page.locator(shown).first).to_be_visible()
        found = await Axe().run(page)
    return mistakes + [
        f"{path or '#/'} {rule['id']}: {node['html'][:200]}"
        for rule in found.response["violations"]
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_every_page_is_accessible(
    browser: Browser, scheme: Literal["light", "dark"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With figures, a chart, tags and a form on them, axe finds nothing, and the console is clean."""
    world = DashboardWorld()
    world.backlogs = await evicted()
    await metered(world, monkeypatch)
    await world.limit("orders", publish_messages=3_000)
    await world.store.attach(namespace_owner("acme", "orders"), "orders")
    world.join("broker-2", {"orders": None})
    found: list[str] = []
    async with world.running():
        world.own_traffic("orders")
        async with httpx.AsyncClient(base_url=world.url, trust_env=False) as client:
            path = "/admin/v2/resourcegroups/orders"
            (await client.put(path, json={"publishRateInMsgs": 2_000})).raise_for_status()
        for path, shown in PAGES.items():
            found += await faults(browser, world, path, shown, scheme)
    assert found == []


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_the_question_for_a_token_is_accessible(
    browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    """Its form is a page of its own."""
    async with orders(access()) as world:
        assert await faults(browser, world, "", "#token", scheme) == []
