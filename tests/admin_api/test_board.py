"""The dashboard's sources: overview, past, preview, events, operations, and its own files."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import httpx
import pytest
from fastapi import Request
from starlette.types import Message

from admin_api.errors import ApiError
from admin_api.routes import dashboard, events
from admin_api.routes.events import _stream
from coordinator.core.events import MembersChanged
from coordinator.core.model import Member, Rates, ResourceGroup
from coordinator.insight.model.operations import OperationStage
from coordinator.ports import Origin, StoreUnreachable
from tests.admin_api.world import World
from tests.turns import turns_of

GROUP_PATH = "/admin/v2/resourcegroups/orders"


async def test_the_overview_pages_filters_and_sorts(
    client: httpx.AsyncClient, world: World
) -> None:
    """Counts are of all that match, rows of the page."""
    for number in range(5):
        body = {"publishRateInMsgs": 100 * number} if number else {}
        await client.put(f"/admin/v2/resourcegroups/team-{number}", json=body)
    await world.watch.look()

    page = (await client.get("/quota/v1/overview?sort=limit&limit=2&offset=1")).json()
    assert [row["group"] for row in page["rows"]] == ["team-3", "team-2"]
    assert (page["groups"], page["matching"]) == (5, 5)
    assert page["standings"] == {"idle": 4, "unlimited": 1}
    page = (await client.get("/quota/v1/overview?sort=admitted")).json()
    assert sorted(row["group"][-1] for row in page["rows"]) == ["0", "1", "2", "3", "4"]
    page = (await client.get("/quota/v1/overview?sort=name&reverse=true&contains=EAM-")).json()
    assert [row["group"][-1] for row in page["rows"]] == ["4", "3", "2", "1", "0"]
    page = (await client.get("/quota/v1/overview?standing=unlimited")).json()
    assert [(row["group"], row["foremost"]) for row in page["rows"]] == [("team-0", None)]
    await client.put("/admin/v2/resourcegroups/team", json={})
    await world.watch.look()
    page = (await client.get("/quota/v1/overview?group=team")).json()
    assert [row["group"] for row in page["rows"]] == ["team"]


@pytest.mark.parametrize("path", ["overview", "groups", "usage", "limits", "certificate"])
async def test_a_long_list_leaves_rounds_their_turns(
    client: httpx.AsyncClient, world: World, path: str
) -> None:
    """One every few groups, since it is made on the loop that they are closed on."""
    for number in range(100):
        await world.store.create_group(ResourceGroup(f"g{number}", Rates(publish_messages=100)))
    await world.watch.look()

    short = await turns_of(client.get(f"/quota/v1/{path}?limit=1"))
    long = await turns_of(client.get(f"/quota/v1/{path}?limit=100"))

    assert long >= short + 9


async def test_the_past_comes_with_what_happened(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """Samples after the one that is known, and marks of their time."""
    await world.watch.look()
    world.clock.advance(1_000_000_000)
    await client.put(GROUP_PATH, json={"publishRateInMsgs": 4_000})
    await world.watch.look()
    world.clock.advance(500_000_000)

    past = (await client.get("/quota/v1/history/orders")).json()
    assert (past["limit"], past["agesMillis"]) == ([3_000, 4_000], [1_500, 500])
    assert past["marks"][-1]["text"] == (
        "The definition of orders changed: publishRateInMsgs 3,000 → 4,000."
    )
    newer = (await client.get("/quota/v1/history/orders?after=0")).json()
    assert (newer["first"], newer["limit"]) == (1, [4_000])
    assert (await client.get("/quota/v1/history/none")).status_code == 404


async def test_a_preview_changes_nothing(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """It is checked as the change itself would be."""
    path = "/quota/v1/preview/orders"
    found = (await client.post(path, json={"publishRateInMsgs": 5_000})).json()

    assert [(each["limitNow"], each["limitThen"]) for each in found] == [(3_000, 5_000)]
    assert (await world.store.read_group("orders")).group.limits.publish_messages == 3_000
    refused = await client.post(path, json={"law": "of the jungle"})
    assert (refused.status_code, refused.json()["reason"][:4]) == (400, "law:")


async def test_choices_are_what_a_change_accepts(client: httpx.AsyncClient, orders: str) -> None:
    """A change accepts every one of them."""
    choices = (await client.get("/quota/v1/choices")).json()

    names = ["enforcement", "law", "onLimit", "overshootPolicy", "partitionPolicy", "weights"]
    assert sorted(choices) == names
    for field, names in choices.items():
        for name in names:
            answer = await client.post("/quota/v1/preview/orders", json={field: name})
            assert answer.status_code == 200


async def test_a_change_names_its_operation(client: httpx.AsyncClient, orders: str) -> None:
    """Limits and attachments; what changes nothing has none."""
    changed = await client.put(GROUP_PATH, json={"publishRateInMsgs": 1})
    attached = await client.post("/admin/v2/namespaces/public/default/resourcegroup/orders")
    again = await client.put(GROUP_PATH, json={"publishRateInMsgs": 1})
    detached = await client.delete("/admin/v2/namespaces/public/default/resourcegroup")

    assert "Pulsar-Quota-Operation" not in again.headers
    ids = [int(each.headers["Pulsar-Quota-Operation"]) for each in (changed, attached, detached)]
    listed = (await client.get("/quota/v1/operations?group=orders")).json()
    assert [each["id"] for each in listed][:3] == ids[::-1]
    assert [each["text"] for each in listed] == [
        "public/default detached",
        "public/default attached",
        "publishRateInMsgs 3,000 → 1",
        "created: publishRateInMsgs 3,000",
    ]
    one = (await client.get(f"/quota/v1/operations/{ids[0]}")).json()
    assert one["state"] == OperationStage.SUPERSEDED.value
    assert (await client.get("/quota/v1/operations/99999")).status_code == 404


async def test_a_store_that_takes_no_operation_does_not_stop_the_change(
    client: httpx.AsyncClient, world: World, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change stands; only following it does not."""

    async def refuse(_: object) -> None:
        raise StoreUnreachable("no answer")

    monkeypatch.setattr(world.operations, "open", refuse)
    changed = await client.put(GROUP_PATH, json={"publishRateInMsgs": 1})

    assert changed.status_code == 204
    assert "Pulsar-Quota-Operation" not in changed.headers
    assert (await world.store.read_group("orders")).group.limits.publish_messages == 1


async def test_events_begin_after_the_last_one_that_is_known(world: World) -> None:
    """The ring first, then what is new, each with its number."""
    world.handle(MembersChanged(()))
    for incarnation in (1, 2):
        world.handle(MembersChanged((Member("b1", incarnation),)))
    newest = world.watch.events.kept.notes()[-1].number
    stream = _stream(world.backend, newest - 1)

    assert (await anext(stream)).startswith("retry: ")
    event = (await anext(stream)).splitlines()
    assert event[:2] == [f"id: {newest}", "event: joined"]
    assert (
        json.loads(event[2].removeprefix("data: "))["text"]
        == "b1 joined again: 1 broker is a member now."
    )
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    world.handle(MembersChanged(()))
    assert "b1 left" in await waiting
    await stream.aclose()


async def test_a_note_that_comes_while_a_stream_begins_is_told_once(world: World) -> None:
    """It is neither among those that the log had already nor left out."""
    world.handle(MembersChanged(()))
    stream = _stream(world.backend, -1)
    assert (await anext(stream)).startswith("retry: ")
    for incarnation in (1, 2, 3):
        world.handle(MembersChanged((Member("b1", incarnation),)))

    notes = world.watch.events.kept.notes()
    told = [(await anext(stream)).splitlines()[0] for _ in notes]
    world.handle(MembersChanged(()))
    later = world.watch.events.kept.notes(notes[-1].number)
    told += [(await anext(stream)).splitlines()[0] for _ in later]
    await stream.aclose()

    assert told == [f"id: {note.number}" for note in (*notes, *later)]


async def test_a_reader_that_falls_behind_is_told_and_let_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue is bounded, and it delays no other reader."""
    monkeypatch.setattr(events, "MAX_WAITING", 2)
    world.handle(MembersChanged(()))
    stream = _stream(world.backend, -1)
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    for incarnation in range(1, 6):
        world.handle(MembersChanged((Member("b1", incarnation),)))
    rest = [await waiting, *[part async for part in stream]]

    assert rest[-1].startswith("event: behind")
    assert len(rest) <= 4


async def test_readers_of_events_are_bounded(client: httpx.AsyncClient, world: World) -> None:
    """One more gets 503 and a reason."""
    world.app.state.event_readers["admin"] = events.MAX_READERS
    refused = await client.get("/quota/v1/events")

    assert (refused.status_code, refused.json()["reason"][:10]) == (503, "64 readers")


async def test_readers_count_from_their_request_to_the_end_of_their_stream(world: World) -> None:
    """Those that ask at once count before the first of their streams has begun."""
    scope = {"type": "http", "app": world.app, "headers": []}
    request, caller = Request(scope), Origin("admin")
    streams = [await events.stream_events(request, caller) for _ in range(events.MAX_READERS)]
    with pytest.raises(ApiError, match="64 readers follow the events already"):
        await events.stream_events(request, caller)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None: ...

    await streams[0](scope, receive, send)
    await events.stream_events(request, caller)
    assert world.app.state.event_readers == {"admin": events.MAX_READERS}


@pytest.mark.parametrize("path", ["/", "/dashboard/main.js", "/dashboard/chart.js"])
async def test_the_page_and_its_files_need_no_token_and_run_nothing_foreign(
    world: World, path: str
) -> None:
    """The policy allows this address alone, and nothing that is written into the page."""
    async with world.client() as client:
        answer = await client.get(path)
        again = await client.get(path, headers={"If-None-Match": answer.headers["ETag"]})

    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert again.status_code == 304


@pytest.mark.parametrize("name", ["..%2Fapp.py", "app.py", "nothing.js", "%2e%2e"])
async def test_only_the_pages_own_files_are_served(client: httpx.AsyncClient, name: str) -> None:
    """No other file of the host is served."""
    assert (await client.get(f"/dashboard/{name}")).status_code == 404


def test_every_module_of_the_page_is_fetched_at_once() -> None:
    """One that the page does not name is asked for only when its importer has been read."""
    folder = Path(dashboard.__file__).parent.parent / "dashboard"
    named = re.findall(
        r"(?:modulepreload\" href|module\" src)=\"/dashboard/([a-z]+\.js)\"",
        (folder / "index.html").read_text(encoding="utf-8"),
    )

    assert sorted(named) == sorted({each.name for each in folder.glob("*.js")} - {"docs.js"})
