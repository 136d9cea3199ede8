"""Trees of groups over REST: written, refused by name, and shown."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from coordinator.core.model import Dimension
from coordinator.insight.model.trees import TreeGroupView, TreeView
from tests.admin_api.world import World

GROUPS = "/admin/v2/resourcegroups"
DEFINED = "/quota/v1/groups"
TREES = "/quota/v1/trees"


async def put(client: httpx.AsyncClient, name: str, **fields: Any) -> httpx.Response:
    """Create or change a group."""
    return await client.put(f"{GROUPS}/{name}", json=fields)


@pytest.fixture
async def shop(client: httpx.AsyncClient) -> None:
    """A tree: shop with 1,000 messages/s, of which web is guaranteed 600."""
    await put(client, "shop", publishRateInMsgs=1_000)
    made = await put(client, "web", parent="shop", publishGuaranteeInMsgs=600, weight=2)
    assert made.status_code == 204, made.text


async def reason(response: httpx.Response, status: int = 400) -> str:
    """Return why a request was refused."""
    assert response.status_code == status, response.text
    return str(response.json()["reason"])


@pytest.mark.usefixtures("shop")
async def test_a_place_in_a_tree_is_read_back_and_pulsars_tools_see_a_group_alone(
    client: httpx.AsyncClient,
) -> None:
    """An update of other fields keeps it, so a tool that puts back what it read loses nothing."""
    seen = (await client.get(f"{GROUPS}/web")).json()
    assert set(seen) == {
        "publishRateInMsgs",
        "publishRateInBytes",
        "dispatchRateInMsgs",
        "dispatchRateInBytes",
    }
    await put(client, "web", **(seen | {"publishRateInMsgs": 800}))

    found = (await client.get(f"{DEFINED}/web")).json()
    assert (found["parent"], found["weight"], found["publishRateInMsgs"]) == ("shop", 2, 800)
    assert (found["publishGuaranteeInMsgs"], found["dispatchGuaranteeInBytes"]) == (600, 0)
    listed = (await client.get(DEFINED)).json()
    assert {each["name"]: each["children"] for each in listed} == {"shop": ["web"], "web": []}
    assert (await client.get(f"{DEFINED}/shop")).json()["children"] == ["web"]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        ("x", {"parent": "gone"}, "parent: there is no resource group gone"),
        ("shop", {"parent": "web"}, "parent: no group can be above itself"),
        ("x", {"parent": "a/b"}, "parent: must be a group's name or empty"),
        ("x", {"parent": 7}, "parent: must be a group's name or empty"),
        ("x", {"parent": "shop", "publishGuaranteeInMsgs": 401}, "would add up to 1,001"),
        (
            "x",
            {"parent": "shop", "publishGuaranteeInMsgs": -1},
            "publishGuaranteeInMsgs: must be a",
        ),
        (
            "x",
            {"parent": "shop", "publishGuaranteeInMsgs": 2**31},
            "whole number from 0 to 21474836",
        ),
        (
            "x",
            {"parent": "shop", "publishGuaranteeInMsgs": True},
            "publishGuaranteeInMsgs: must be",
        ),
        (
            "x",
            {"parent": "shop", "dispatchGuaranteeInBytes": 1},
            "nor a group above it limits that",
        ),
        ("x", {"parent": "shop", "weight": 0}, "weight: must be a whole number from 1 to 1000"),
        ("x", {"parent": "shop", "overshootPolicy": "strict"}, "strict is for the root of a tree"),
        ("x", {"weight": 2}, "weight: counts among the children of a parent"),
        ("shop", {"publishRateInMsgs": 599}, "the guarantees below shop would add up to 600"),
        (
            "shop",
            {"overshootPolicy": "eager"},
            "overshootPolicy: eager is not possible in a tree",
        ),
        ("web", {"parent": ""}, "publishGuaranteeInMsgs: is a part of a parent's limit"),
        ("shop", {"burstSeconds": 5}, "burstSeconds: shop shares its limit"),
        ("shop", {"onLimit": "refuse"}, "onLimit: shop shares its limit"),
        ("shop", {"publishRateInMsgs": 1000.5}, "publishRateInMsgs: shop shares its limit in"),
    ],
)
async def test_what_makes_no_tree_is_refused_and_changes_nothing(
    client: httpx.AsyncClient, name: str, fields: dict[str, Any], told: str
) -> None:
    """By field, with the fix; also before it is made, by the preview."""
    before = (await client.get(DEFINED)).json()

    assert told in await reason(await put(client, name, **fields))
    assert told in await reason(await client.post(f"/quota/v1/preview/{name}", json=fields))
    assert (await client.get(DEFINED)).json() == before


@pytest.mark.usefixtures("shop")
async def test_a_parent_has_no_owners_and_is_not_deleted_before_its_children(
    client: httpx.AsyncClient,
) -> None:
    """Its limit is its children's; the reasons name them."""
    attach = "/admin/v2/namespaces/public/default/resourcegroup"
    refused = await client.post(f"{attach}/shop")
    assert "shop shares its limit among web" in await reason(refused, 409)
    told = await reason(await client.delete(f"{GROUPS}/shop"), 412)
    assert told.startswith("ResourceGroup is in use: it is the parent of web")

    assert (await client.post(f"{attach}/web")).status_code == 204
    assert "public/default belong to web" in await reason(await put(client, "x", parent="web"))
    await client.delete(attach)
    for name in ("web", "shop"):
        assert (await client.delete(f"{GROUPS}/{name}")).status_code == 204


@pytest.mark.usefixtures("shop")
async def test_a_rollback_makes_no_broken_tree(client: httpx.AsyncClient) -> None:
    """A definition that was right before others came may promise too much now."""
    await put(client, "web", publishGuaranteeInMsgs=100)
    lowered = (await client.get("/quota/v1/audit?limit=1")).json()[0]
    assert (lowered["before"]["publishGuaranteeInMsgs"], lowered["after"]["parent"]) == (
        600,
        "shop",
    )
    await put(client, "orders", parent="shop", publishGuaranteeInMsgs=900)

    back = await client.post(f"/quota/v1/audit/{lowered['id']}/rollback")
    assert "would add up to 1,500" in await reason(back)
    await put(client, "orders", publishGuaranteeInMsgs=400)
    again = await client.post(f"/quota/v1/audit/{lowered['id']}/rollback")
    assert again.status_code == 204, again.text
    assert (await client.get(f"{DEFINED}/web")).json()["publishGuaranteeInMsgs"] == 600


def planted(root: str) -> TreeView:
    """A tree of one group."""
    row = TreeGroupView(root, "", 0, 1, 1_000, 0, 1_000, 1_000, None, 700, 0)
    return TreeView(root, Dimension.PUBLISH_MESSAGES, (row,))


async def test_trees_come_in_pages_and_one_by_one(client: httpx.AsyncClient, world: World) -> None:
    """The next page is of the same dimension; a group without relatives has no tree."""
    for root in ("a", "b"):
        world.views.planted[root, Dimension.PUBLISH_MESSAGES] = planted(root)
        await put(client, root)
    await put(client, "alone")

    first = await client.get(f"{TREES}?limit=1")
    second = await client.get(first.links["next"]["url"])
    assert [found[0]["root"] for found in (first.json(), second.json())] == ["a", "b"]
    assert "dimension=publishRateInMsgs" in first.links["next"]["url"]
    assert "next" not in second.links
    assert (await client.get(f"{TREES}/a")).json() == first.json()[0]
    assert first.json()[0]["groups"][0] == {
        "group": "a",
        "parent": "",
        "level": 0,
        "weight": 1,
        "limit": 1_000,
        "guarantee": 0,
        "part": 1_000,
        "entitled": 1_000,
        "wants": None,
        "admitted": 700,
        "borrowed": 0,
    }
    assert "in no tree" in await reason(await client.get(f"{TREES}/alone"), 404)
    assert "does not exist" in await reason(await client.get(f"{TREES}/none"), 404)


@pytest.mark.parametrize("key", ["cluster_group", "delayed_group"])
async def test_a_group_that_the_configuration_gives_traffic_is_no_parent(
    world: World, key: str
) -> None:
    """Its own traffic would get nothing: of the whole cluster, say."""
    async with world.client(**{key: "all"}) as client:
        await put(client, "all", publishRateInMsgs=1_000)

        told = await reason(await put(client, "web", parent="all"))
        assert told.startswith(f"parent: all has traffic of its own, as {key} in the sidecars'")
        assert (await put(client, "web", parent="", publishRateInMsgs=5)).status_code == 204
