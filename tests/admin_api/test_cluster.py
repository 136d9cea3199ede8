"""The cluster's specification over REST."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.admin_api.world import World, usage_row

PATH = "/quota/v1/cluster/specification"


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a sidecar with a group for the whole cluster."""
    async with world.client(cluster_group="cluster") as client:
        yield client


async def test_a_specification_becomes_the_limits_of_the_clusters_group(
    client: httpx.AsyncClient,
) -> None:
    """The share of production divides it, and the API reads it back from the limits."""
    body = {"rateInMsgs": 40_000, "productionShare": 0.25}
    answer = await client.put(PATH, json=body)
    assert answer.status_code == 204
    group = (await client.get("/admin/v2/resourcegroups/cluster")).json()
    assert (group["publishRateInMsgs"], group["dispatchRateInMsgs"]) == (10_000, 30_000)
    found = (await client.get(PATH)).json()
    assert (found["rateInMsgs"], found["rateInBytes"], found["productionShare"]) == (
        40_000,
        -1,
        0.25,
    )
    assert found["advice"] == []


async def test_above_four_fifths_a_larger_one_is_advised(
    client: httpx.AsyncClient, world: World
) -> None:
    """The use of all brokers together counts."""
    await client.put(PATH, json={"rateInMsgs": 4_000})
    world.views.rows = (
        usage_row("broker-1", admitted=900, limit=1_000, throttled_permille=0),
        usage_row("broker-2", admitted=900, limit=1_000, throttled_permille=0),
    )
    found = (await client.get(PATH)).json()
    assert found["used"]["publishRateInMsgs"] == 1_800
    (advice,) = found["advice"]
    assert (advice["limit"], advice["enough"]) == (2_000, 4_500)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"rateInMsgs": -5}, "rateInMsgs"),
        ({"rateInMsgs": 1.5}, "rateInMsgs"),
        ({"productionShare": 1.1}, "productionShare"),
        ({"productionShare": "much"}, "productionShare"),
        ({"productionShare": True}, "productionShare: must be a number from 0 to 1, but is a bool"),
    ],
)
async def test_nonsense_is_refused_by_name_and_changes_nothing(
    client: httpx.AsyncClient, body: dict[str, object], field: str
) -> None:
    """The group is not even created."""
    answer = await client.put(PATH, json=body)
    assert answer.status_code == 400
    assert field in answer.json()["reason"]
    assert (await client.get(PATH)).status_code == 404


async def test_without_a_group_for_the_cluster_it_says_how_to_have_one(world: World) -> None:
    """It is a key of the configuration."""
    async with world.client() as client:
        answer = await client.get(PATH)
    assert answer.status_code == 404
    assert "cluster_group" in answer.json()["reason"]


async def test_a_rate_of_delayed_messages_that_cannot_be_leaves_the_rest_as_it_was(
    world: World,
) -> None:
    """Its group is checked before either of the two is written."""
    groups = "/admin/v2/resourcegroups"
    async with world.client(cluster_group="cluster", delayed_group="late") as client:
        await client.put(f"{groups}/all-late", json={"publishRateInMsgs": 100})
        late = {"parent": "all-late", "publishRateInMsgs": 80, "publishGuaranteeInMsgs": 60}
        assert (await client.put(f"{groups}/late", json=late)).status_code == 204
        assert (await client.put(PATH, json={"rateInMsgs": 1_000})).status_code == 204

        refused = await client.put(PATH, json={"rateInMsgs": 9_000, "delayedRateInMsgs": 50})
        found = (await client.get(PATH)).json()
        taken = await client.put(PATH, json={"rateInMsgs": 9_000, "delayedRateInMsgs": 70})

    assert refused.status_code == 400
    assert refused.json()["reason"].startswith(
        "delayedRateInMsgs: of the group late: publishGuaranteeInMsgs: 60 is more than late may have"
    )
    assert (found["rateInMsgs"], found["delayedRateInMsgs"]) == (1_000, 80)
    assert taken.status_code == 204
