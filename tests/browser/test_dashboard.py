"""The dashboard in Chromium, in front of a real sidecar with peers that report to it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal

import httpx
import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Route, expect

from admin_api.requests.access import Access
from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.owners import namespace_owner
from tests.admin_api.keys import access, token
from tests.browser.world import DashboardWorld

pytestmark = [pytest.mark.slow, pytest.mark.verify]

expect.set_options(timeout=20_000)


def _complaint(said: ConsoleMessage) -> list[str]:
    refused = said.text.startswith("Failed to load resource")
    return [said.text] if said.type in ("error", "warning") and not refused else []


_OVERLAPPING = """row => {
  const texts = [...row.cells].map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return { what: cell.textContent, lines: [...range.getClientRects()] };
  });
  const cross = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return texts.flatMap((one, at) => texts.slice(at + 1)
    .filter((other) => one.lines.some((a) => other.lines.some((b) => cross(a, b))))
    .map((other) => `${one.what} | ${other.what}`));
}"""
"""The cells of a row whose text lies on that of another."""


_SEEN_AT = """new MutationObserver((_, seen) => {
  if (!document.querySelector(".chart svg .area")) return;
  window.seenAt = performance.now();
  seen.disconnect();
}).observe(document, { childList: true, subtree: true });"""
"""Notes when the chart is in the page, in milliseconds since the page was asked for."""

_TOUCHING = """() => [...document.querySelectorAll(".tag")].flatMap((tag) => {
  tag.textContent = "converging";
  const badge = tag.getBoundingClientRect();
  const row = tag.closest("li, .head, tr");
  const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
  const touched = [];
  while (walker.nextNode()) {
    if (tag.contains(walker.currentNode)) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    for (const text of range.getClientRects()) {
      const apart = text.left >= badge.right + 6 || text.right <= badge.left - 6
        || text.top >= badge.bottom || text.bottom <= badge.top;
      if (!apart) touched.push(walker.currentNode.textContent);
    }
  }
  return touched;
})"""
"""Texts that are nearer than six pixels to a badge of their row."""


@asynccontextmanager
async def opened(
    browser: Browser,
    world: DashboardWorld,
    path: str = "",
    *,
    width: int = 1280,
    scheme: Literal["light", "dark"] = "light",
) -> AsyncIterator[tuple[Page, list[str]]]:
    """A page of the dashboard, and what the browser complains of in its console.

    That an answer was a refusal is no complaint: the page says why.
    """
    mistakes: list[str] = []
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    page = await context.new_page()
    page.on("pageerror", lambda error: mistakes.append(str(error)))
    page.on("console", lambda said: mistakes.extend(_complaint(said)))
    await page.goto(f"{world.url}/{path}")
    yield page, mistakes
    await context.close()


@asynccontextmanager
async def orders(rules: Access | None = None) -> AsyncIterator[DashboardWorld]:
    """Three brokers want more than the 3,000 messages/s of orders; bills has room."""
    world = DashboardWorld()
    await world.limit("orders", publish_messages=3_000)
    await world.limit("bills", publish_messages=1_000)
    await world.store.attach(namespace_owner("acme", "orders"), "orders")
    for broker in ("broker-2", "broker-3"):
        world.join(broker, {"orders": None, "bills": 100})
    async with world.running(rules):
        world.own_traffic("orders")
        yield world


async def test_the_overview_shows_every_group_with_what_it_uses(browser: Browser) -> None:
    """Limit, part used, throttled brokers, state, and how old all that is."""
    async with orders() as world, opened(browser, world) as (page, mistakes):
        row = page.get_by_role("row").filter(has_text="orders")
        await expect(row).to_contain_text("3,000")
        await expect(row).to_contain_text("settled")
        await expect(row).to_contain_text("broker-1, broker-2 and 1 more")
        bills = page.get_by_role("row").filter(has_text="bills")
        await expect(bills.get_by_role("meter")).to_have_attribute("aria-valuenow", "20")
        await expect(page.get_by_role("status").first).to_contain_text("s old")
        assert mistakes == []


async def test_a_limit_that_is_tried_out_says_that_it_holds_nothing_back(browser: Browser) -> None:
    """Though its brokers want more than it has, the page shows none as throttled for it."""
    async with orders() as world:
        found = await world.store.read_group("orders")
        await world.store.update_group(replace(found.group, enforcement="observe"), found.version)
        async with opened(browser, world) as (page, mistakes):
            row = page.get_by_role("row").filter(has_text="orders")
            await expect(row).to_contain_text("tried out: holds nothing back")
            await expect(row).not_to_contain_text("broker-2")
            assert mistakes == []


async def test_nothing_asks_for_a_person_until_something_does(browser: Browser) -> None:
    """The banner says what is wrong, in words."""
    async with orders() as world, opened(browser, world) as (page, _):
        await expect(page.get_by_role("row").filter(has_text="orders")).to_be_visible()
        await expect(page.get_by_role("alert")).to_be_hidden()
        world.membership.suspend()
        await expect(page.get_by_role("alert")).to_contain_text("ZooKeeper")


async def test_a_group_shows_its_brokers_and_why(browser: Browser) -> None:
    """The explanation, a row for every broker, a chart and its equivalent in words."""
    async with orders() as world, opened(browser, world, "#/groups/orders") as (page, mistakes):
        why = page.locator(".sentence")
        await expect(why).to_contain_text("brokers want more messages than there are")
        table = page.get_by_role("table", name="What every broker wants")
        await expect(table.get_by_role("rowheader")).to_have_count(3)
        await expect(page.locator(".chart svg").first).to_be_visible()
        words = page.locator("section[aria-label='Over time'] p")
        await expect(words).to_contain_text("broker-2 ")
        await expect(page.get_by_text("acme/orders")).to_be_visible()
        assert mistakes == []


async def test_a_group_with_relatives_shows_what_its_tree_has_and_borrows(browser: Browser) -> None:
    """A row per group, children indented; a group alone shows no tree."""
    world = DashboardWorld()
    await world.limit("shop", publish_messages=1_000)
    for name, guarantee in (("orders", 600), ("web", None)):
        guarantees = Rates(publish_messages=guarantee)
        child = ResourceGroup(name, Rates(), parent="shop", guarantees=guarantees)
        await world.store.create_group(child)
    await world.limit("alone", publish_messages=5)
    for broker in ("broker-2", "broker-3"):
        world.join(broker, {"orders": 0, "web": None})
    async with world.running(), opened(browser, world, "#/groups/web") as (page, mistakes):
        world.own_traffic("web")
        rows = page.get_by_role("table", name="What every group of the tree").get_by_role("row")
        await expect(rows).to_have_count(4)
        await expect(rows.filter(has_text="orders")).to_contain_text("600")
        await expect(rows.filter(has_text="web")).to_contain_text("more")
        await expect(page.locator(".sentence")).to_contain_text("are borrowed of shop")
        await page.get_by_role("link", name="orders").click()
        await expect(page.locator(".sentence")).to_contain_text("It lends")
        await page.goto(f"{world.url}/#/groups/alone")
        await expect(page.locator(".sentence")).to_contain_text("has no producers of alone")
        await expect(page.get_by_role("heading", name="Tree")).to_be_hidden()
        assert mistakes == []


async def test_the_chart_says_what_a_broker_admitted_at_a_place(browser: Browser) -> None:
    """The pointer over the chart brings the time, each broker's rate and the limit."""
    async with orders() as world, opened(browser, world, "#/groups/orders") as (page, mistakes):
        await expect(page.locator(".chart .area")).to_have_count(3)
        await expect(page.locator(".chart .limit")).to_have_count(1)
        await page.locator(".chart").hover()
        hint = page.locator(".chart .hint")
        await expect(hint).to_contain_text("broker-2: ")
        await expect(hint).to_contain_text("limit: 3,000")
        await page.mouse.move(0, 0)
        await expect(hint).to_be_hidden()
        assert mistakes == []


async def test_the_chart_is_there_within_two_seconds_on_a_busy_machine(browser: Browser) -> None:
    """Two processes keep two cores busy; the browser's own clock counts from the start of the page."""
    spin = [sys.executable, "-c", "while True: pass"]
    busy = [await asyncio.create_subprocess_exec(*spin) for _ in range(2)]
    try:
        async with orders() as world, opened(browser, world) as (page, _):
            # The browser itself is warm, as an operator's is.
            await expect(page.get_by_role("row").filter(has_text="orders")).to_be_visible()
            drawn = await page.context.new_page()
            await drawn.add_init_script(_SEEN_AT)
            await drawn.goto(f"{world.url}/#/groups/orders")
            async with asyncio.timeout(
                20
            ):  # the page's policy forbids Playwright's own way of waiting
                while not (seen_ms := await drawn.evaluate("window.seenAt")):
                    await asyncio.sleep(0.02)
            assert seen_ms < 2_000
    finally:
        for process in busy:
            process.kill()
            await process.wait()


async def test_the_form_is_empty_until_the_group_is_known(browser: Browser) -> None:
    """A field never shows a default in place of what the group is."""
    async with orders() as world:
        found = await world.store.read_group("orders")
        changed = replace(found.group, weights="topics", partition_policy="safe")
        await world.store.update_group(changed, found.version)
        async with opened(browser, world) as (page, mistakes):
            answer = asyncio.Event()

            async def late(route: Route) -> None:
                await answer.wait()
                await route.continue_()

            await page.route("**/quota/v1/groups/orders", late)
            await page.get_by_role("link", name="orders").click()
            await expect(page.get_by_text("settled for")).to_be_visible()
            await expect(page.locator("form.change :is(input, select, button)")).to_have_count(0)
            answer.set()
            await expect(page.get_by_label("Weights")).to_have_value("topics")
            cut_off = page.get_by_label("When cut off from ZooKeeper")
            await expect(cut_off).to_have_value("safe")
            await expect(page.get_by_label("publish messages, msg/s")).to_have_value("3000")
            assert mistakes == []


async def test_the_form_comes_once_the_sidecar_answers(browser: Browser) -> None:
    """A question that gets no answer is shown, and asked again."""
    async with orders() as world, opened(browser, world) as (page, _):
        answers = iter([503])

        async def refuse_once(route: Route) -> None:
            status = next(answers, None)
            if status is None:
                await route.continue_()
            else:
                await route.fulfill(status=status, json={"reason": "not connected to ZooKeeper"})

        await page.route("**/quota/v1/choices", refuse_once)
        await page.get_by_role("link", name="orders").click()
        await expect(page.get_by_text("not connected to ZooKeeper")).to_be_visible()
        await expect(page.get_by_label("publish messages, msg/s")).to_have_value("3000")
        await expect(page.get_by_text("not connected to ZooKeeper")).to_have_count(0)


@pytest.mark.parametrize("width", [360, 1280])
async def test_a_badge_touches_no_text_beside_it(browser: Browser, width: int) -> None:
    """The test writes the longest word that a badge may have into each."""
    async with orders() as world:
        async with httpx.AsyncClient(base_url=world.url, trust_env=False) as client:
            path = "/admin/v2/resourcegroups/orders"
            (await client.put(path, json={"publishRateInMsgs": 2_000})).raise_for_status()
        for path in ("#/groups/orders", "#/operations", "#/events"):
            async with opened(browser, world, path, width=width) as (page, _):
                await expect(page.locator(".feed li .tag").first).to_be_visible()
                assert await page.evaluate(_TOUCHING) == [], path


async def test_a_group_shows_what_was_decided_and_why(browser: Browser) -> None:
    """The newest first, each with the reason that was given then."""
    async with orders() as world, opened(browser, world, "#/groups/orders") as (page, mistakes):
        decided = page.get_by_role("list", name="Decisions, newest first")
        await expect(decided.get_by_role("listitem").first).to_contain_text("of the 3,000/s")
        found = await world.store.read_group("orders")
        doubled = replace(found.group, limits=Rates(publish_messages=6_000))
        await world.store.update_group(doubled, found.version)
        await expect(decided.get_by_role("listitem").first).to_contain_text("of the 6,000/s")
        assert mistakes == []


async def test_a_join_is_marked_and_told(browser: Browser) -> None:
    """The event stream brings it without being asked again."""
    async with orders() as world, opened(browser, world, "#/events") as (page, _):
        await expect(page.get_by_text("connected")).to_be_visible()
        world.join("broker-9", {"orders": None})
        await expect(
            page.get_by_role("listitem").filter(has_text="broker-9 joined")
        ).to_be_visible()


async def test_a_change_is_shown_before_it_is_made(browser: Browser) -> None:
    """Apply is shut until the effect of exactly this change was shown."""
    async with orders() as world, opened(browser, world, "#/groups/orders") as (page, _):
        limit = page.get_by_label("publish messages, msg/s")
        await expect(limit).to_have_value("3000")
        apply = page.get_by_role("button", name="Apply")
        await limit.fill("6000")
        await expect(apply).to_be_disabled()
        await page.get_by_role("button", name="Preview").click()
        effect = page.get_by_role("table", name="What it would do")
        await expect(effect.get_by_role("row").nth(1)).to_contain_text("+1,000")
        assert (await world.store.read_group("orders")).group.limits.publish_messages == 3_000
        await limit.fill("9000")
        await expect(apply).to_be_disabled()
        await page.get_by_role("button", name="Preview").click()
        await apply.click()
        await expect(page.get_by_text("Accepted as operation")).to_be_visible()
        assert (await world.store.read_group("orders")).group.limits.publish_messages == 9_000


async def test_a_change_over_another_admins_is_refused(browser: Browser) -> None:
    """The form then shows what the group is now."""
    async with orders() as world, opened(browser, world, "#/groups/orders") as (page, _):
        limit = page.get_by_label("publish messages, msg/s")
        await expect(limit).to_have_value("3000")
        await limit.fill("6000")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_role("table", name="What it would do")).to_be_visible()
        found = await world.store.read_group("orders")
        await world.store.update_group(found.group, found.version)
        await page.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text("This group was changed meanwhile")).to_be_visible()
        assert (await world.store.read_group("orders")).group.limits.publish_messages == 3_000


async def test_the_list_is_found_filtered_and_sorted_by_keyboard(browser: Browser) -> None:
    """Tab, Enter and typing are enough."""
    async with orders() as world, opened(browser, world) as (page, _):
        await expect(page.get_by_role("rowheader")).to_have_count(2)
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        await page.get_by_role("button", name="Group", exact=True).focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("columnheader", name="Group")).to_have_attribute(
            "aria-sort", "ascending"
        )
        await expect(page.get_by_role("rowheader")).to_have_text(["bills", "orders"])
        await page.get_by_role("searchbox").focus()
        await page.keyboard.type("ord")
        await expect(page.get_by_role("rowheader")).to_have_text(["orders"])
        await page.get_by_role("link", name="orders").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
async def test_nothing_is_wider_than_the_screen(
    browser: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    """This holds on a phone and on a desk, in either scheme."""
    async with orders() as world:
        for path in ("", "#/groups/orders", "#/members", "#/topics", "#/operations", "#/events"):
            async with opened(browser, world, path, width=width, scheme=scheme) as (page, _):
                await expect(page.locator("main .card").first).to_be_visible()
                wide = await page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, path


async def test_a_thousand_groups_on_a_hundred_brokers_are_paged(browser: Browser) -> None:
    """Fifty rows at a time, whatever there is; the last page ends where the groups end."""
    world = DashboardWorld(round_s=1.0)
    names = [f"team-{number:04}" for number in range(1_000)]
    for name in names:
        await world.limit(name, publish_messages=1_000)
    for broker in range(2, 101):
        world.join(f"broker-{broker}", dict.fromkeys(names[broker::100], 100))
    async with world.running(), opened(browser, world) as (page, _):
        await expect(page.get_by_text("1\u201350 of 1,000")).to_be_visible()
        await expect(page.get_by_role("rowheader")).to_have_count(50)
        await page.get_by_role("searchbox").fill("team-09")
        await expect(page.get_by_text("1\u201350 of 100")).to_be_visible()
        await page.get_by_role("button", name="Next").click()
        await expect(page.get_by_text("51\u2013100 of 100")).to_be_visible()
        await expect(page.get_by_role("button", name="Next")).to_be_disabled()


async def test_a_name_is_never_markup_and_no_script_runs_that_is_not_ours(browser: Browser) -> None:
    """A broker's id comes from outside; the policy would stop what escaping missed."""
    async with orders() as world:
        world.join("<img src=x onerror=alert(1)>", {"orders": None})
        async with opened(browser, world, "#/groups/orders") as (page, mistakes):
            await expect(page.get_by_role("rowheader", name="<img src=x")).to_be_visible()
            assert await page.locator("main img").count() == 0
            await page.evaluate(
                "document.body.append(Object.assign(document.createElement('script'),"
                "{textContent: 'window.ran = true'}))"
            )
            assert await page.evaluate("window.ran") is None
            (refusal,) = mistakes
            assert refusal.startswith("Executing inline script violates")


async def test_without_a_token_the_page_asks_for_one(browser: Browser) -> None:
    """A viewer's token shows everything, and a change is refused in words."""
    async with orders(access()) as world, opened(browser, world, "#/groups/orders") as (page, _):
        await page.get_by_label("Token").fill(token("viewer"))
        await page.get_by_role("button", name="Show the dashboard").click()
        limit = page.get_by_label("publish messages, msg/s")
        await expect(limit).to_have_value("3000")
        await limit.fill("6000")
        await page.get_by_role("button", name="Preview").click()
        await page.get_by_role("button", name="Apply").click()
        await expect(page.get_by_role("alert").filter(has_text="no super-user")).to_be_visible()


async def test_a_token_that_is_being_typed_stays_when_other_questions_are_refused(
    browser: Browser,
) -> None:
    """One question is answered late, when the token is in its field already."""
    async with orders(access()) as world, opened(browser, world, "#/groups/orders") as (page, _):
        late = asyncio.Event()

        async def hold(route: Route) -> None:
            await late.wait()
            await route.continue_()

        await page.route("**/quota/v1/overview?limit=1", hold)
        await page.reload()
        await page.get_by_label("Token").fill(token("viewer"))
        late.set()
        # The page may have given the question up, so nothing tells that it acted.
        await page.wait_for_timeout(500)
        await expect(page.get_by_label("Token")).to_have_value(token("viewer"))


async def test_on_a_phone_a_long_address_covers_nothing(browser: Browser) -> None:
    """As the full name of a pod is one; the cells of a member's row stand beside and below each other."""
    async with orders() as world:
        world.join("broker-4", {}, "broker-4.broker-headless.secured.svc.cluster.local:8087")
        async with opened(browser, world, "#/members", width=375) as (page, mistakes):
            row = page.get_by_role("row").filter(has_text="broker-4.broker-headless")
            await expect(row).to_be_visible()
            assert await row.evaluate(_OVERLAPPING) == []
            assert mistakes == []


async def test_when_the_sidecar_is_gone_the_page_says_how_old_it_is(browser: Browser) -> None:
    """The last figures stay, with their age."""
    async with orders() as world:
        async with opened(browser, world) as (page, _):
            await expect(page.get_by_role("row").filter(has_text="orders")).to_be_visible()
            await page.context.set_offline(True)
            await expect(page.locator("#freshness")).to_contain_text("does not answer; shown is")
            await expect(page.get_by_role("row").filter(has_text="orders")).to_be_visible()
        await asyncio.sleep(0)


async def test_the_api_is_described_without_the_internet(browser: Browser) -> None:
    """Every endpoint at /docs, under the page's own policy, from this address alone."""
    async with orders() as world:
        context = await browser.new_context()
        page = await context.new_page()
        asked: list[str] = []
        mistakes: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: mistakes.append(str(error)))
        await page.goto(f"{world.url}/docs")
        await expect(page.get_by_text("/admin/v2/resourcegroups", exact=True)).to_be_visible()
        await expect(page.get_by_text("/quota/v1/conditions")).to_be_visible()
        assert mistakes == []
        assert [url for url in asked if not url.startswith((world.url, "data:"))] == []
        await context.close()
