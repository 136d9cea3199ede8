"""The story behind a limit, over the API: asked for with the explanation."""

from __future__ import annotations

import httpx
import pytest

from coordinator.core.events import MembersChanged
from coordinator.core.model import Member
from tests.admin_api.world import World

PATH = "/quota/v1/explain/orders"


@pytest.fixture
async def told(client: httpx.AsyncClient, world: World) -> World:
    """Seconds ago: 20 a second member came, 10 orders was created with a limit."""
    world.handle(MembersChanged((Member("broker-1", 1),)))
    world.clock.advance(10_000_000_000)
    world.handle(MembersChanged((Member("broker-1", 1), Member("broker-2", 1))))
    world.clock.advance(10_000_000_000)
    await client.put("/admin/v2/resourcegroups/orders", json={"publishRateInMsgs": 3_000})
    world.clock.advance(10_000_000_000)
    world.throttle_orders()
    return world


async def test_a_story_is_told_oldest_first_with_ages_and_decisions(
    client: httpx.AsyncClient, told: World
) -> None:
    """Events of all groups stand beside those of the group."""
    story = (await client.get(f"{PATH}?story=true")).json()["story"]

    *_, joined, created = story["events"]
    assert joined["ageMillis"] == 20_000
    assert joined["event"] == "broker-2 joined: 2 brokers are members now."
    assert joined["decisions"] == []
    assert created["ageMillis"] == 10_000
    assert created["event"] == "The group orders was created: publishRateInMsgs 3,000."
    (decision,) = created["decisions"]
    assert (decision["dimension"], decision["binding"]) == ("publishRateInMsgs", "reserve")
    assert (decision["limitBefore"], decision["localLimit"]) == (-1, 7)
    assert decision["sentence"] == (
        "broker-1 sets publishRateInMsgs to 7 messages/s. broker-1 is STARTING and holds its arrival "
        "reserve until every member has reported."
    )
    assert story["beginning"] == "The story is whole since this sidecar started."


async def test_without_the_question_there_is_no_story(
    client: httpx.AsyncClient, told: World
) -> None:
    """The explanation itself stays as it was."""
    assert (await client.get(PATH)).json()["story"] is None


async def test_a_story_of_the_past_ends_there(client: httpx.AsyncClient, told: World) -> None:
    """With the age of an explanation, later events are left out."""
    await told.watch.look()
    told.clock.advance(10_000_000_000)
    await client.put("/admin/v2/resourcegroups/orders", json={"publishRateInMsgs": 6_000})

    then = (await client.get(f"{PATH}?story=true&ageMillis=5000")).json()["story"]
    now = (await client.get(f"{PATH}?story=true")).json()["story"]
    assert [event["event"] for event in now["events"][len(then["events"]) :]] == [
        "The definition of orders changed: publishRateInMsgs 3,000 → 6,000."
    ]


@pytest.mark.parametrize(
    ("broker", "reason"),
    [("broker-2", "kept by its own sidecar, 127.0.0.1:8088"), ("broker-9", "is no member")],
)
async def test_the_story_of_another_broker_is_with_its_sidecar(
    client: httpx.AsyncClient, told: World, broker: str, reason: str
) -> None:
    """404, and where to ask."""
    answer = await client.get(f"{PATH}?story=true&broker={broker}")

    assert answer.status_code == 404
    assert reason in answer.json()["reason"]
