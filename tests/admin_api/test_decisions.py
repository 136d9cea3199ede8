"""The API lists past decisions in short, and explains one as of a time."""

from __future__ import annotations

import httpx
import pytest

from coordinator.core.events import MembersChanged
from coordinator.core.model import Member
from tests.admin_api.world import World

GROUP_PATH = "/admin/v2/resourcegroups/orders"
READ_BY_GROUP = ("groups", "usage", "explain", "decisions")


@pytest.fixture
async def past(client: httpx.AsyncClient, world: World) -> World:
    """Seconds ago: 20 limited to 3,000, of which a starting sidecar holds its reserve; 10 doubled."""
    world.handle(MembersChanged((Member("broker-1", 1), Member("broker-2", 1))))
    for limit in (3_000, 6_000):
        await client.put(GROUP_PATH, json={"publishRateInMsgs": limit})
        await world.watch.look()
        world.clock.advance(10_000_000_000)
    return world


async def test_decisions_are_listed_newest_first(client: httpx.AsyncClient, past: World) -> None:
    """A row has the age, the figures and the sentence of its moment."""
    newest, oldest = (await client.get("/quota/v1/decisions/orders")).json()

    assert (newest["ageMillis"], newest["clusterLimit"]) == (10_000, 6_000)
    assert (oldest["ageMillis"], oldest["clusterLimit"], oldest["localLimit"]) == (20_000, 3_000, 7)
    assert oldest["binding"] == "reserve"
    assert oldest["sentence"]
    limited = await client.get("/quota/v1/decisions/orders?limit=1")
    assert [each["ageMillis"] for each in limited.json()] == [10_000]


async def test_an_explanation_of_the_past_is_what_was_told_then(
    client: httpx.AsyncClient, past: World
) -> None:
    """It explains the decision in force at that time, with its age as of now."""
    then = (await client.get("/quota/v1/explain/orders?ageMillis=12000")).json()

    assert (then["clusterLimit"], then["localLimit"], then["binding"]) == (3_000, 7, "reserve")
    assert then["decidedAgeMillis"] >= 20_000


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("explain/orders?ageMillis=21000", "the history here begins 20 s ago"),
        ("explain/orders?dimension=publishRateInBytes&ageMillis=1", "the history here is empty"),
        ("explain/orders?broker=broker-2&ageMillis=1", "broker-2 decided is kept by its own"),
        ("explain/orders?broker=broker-9&ageMillis=1", "Broker broker-9 is no member"),
        ("explain/orders?broker=broker-9", "Broker broker-9 is no member"),
        ("explain/none?ageMillis=1", "ResourceGroup does not exist"),
        *((f"{what}/none", "ResourceGroup does not exist") for what in READ_BY_GROUP),
    ],
)
async def test_what_is_not_known_here_is_said_not_to_be(
    client: httpx.AsyncClient, past: World, query: str, reason: str
) -> None:
    """404: in Pulsar's words for a group, and where or since when there is more of the past."""
    answer = await client.get(f"/quota/v1/{query}")

    assert answer.status_code == 404
    assert reason in answer.json()["reason"]
