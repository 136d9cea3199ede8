"""Pulsar's resource-group REST, case by case as a live Pulsar 4.2.4 answers it.

The cases of upstream's ResourceGroupsTest come first.
"""

from __future__ import annotations

import httpx
import pytest

from coordinator.core.model import Rates, ResourceGroup
from tests.admin_api.world import World

GROUPS = "/admin/v2/resourcegroups"
FULL = {
    "publishRateInMsgs": 100,
    "publishRateInBytes": 10_000,
    "dispatchRateInMsgs": 100,
    "dispatchRateInBytes": 1_000,
}
UNLIMITED = dict.fromkeys(FULL, -1)
ATTACH = "/admin/v2/namespaces/public/default/resourcegroup"


LARGEST = {"publishRateInMsgs": 2**31 - 1, "publishRateInBytes": 2**63 - 1}


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        pytest.param(FULL, FULL, id="full"),
        pytest.param({}, UNLIMITED, id="nothing"),
        pytest.param(LARGEST, UNLIMITED | LARGEST, id="largest"),
        *(
            pytest.param({"publishRateInMsgs": twelve}, UNLIMITED | {"publishRateInMsgs": 12})
            for twelve in (12, "12", " 12 ", 12.0)
        ),
    ],
)
async def test_a_group_is_read_as_it_was_put(
    client: httpx.AsyncClient, sent: dict[str, object], read: dict[str, int]
) -> None:
    """ResourceGroupsTest: it is not limited where nothing is said.

    Messages are a Java int, bytes a Java long. Jackson reads "12" as 12, so tools may send it.
    """
    created = await client.put(f"{GROUPS}/rg1", json=sent)

    assert created.status_code == 204
    assert (await client.get(f"{GROUPS}/rg1")).json() == read


async def test_update_is_partial(client: httpx.AsyncClient) -> None:
    """ResourceGroupsTest: what an update leaves out keeps its value."""
    await client.put(f"{GROUPS}/rg1", json=FULL)

    await client.put(f"{GROUPS}/rg1", json={"publishRateInMsgs": 50, "publishRateInBytes": 5_000})

    changed = FULL | {"publishRateInMsgs": 50, "publishRateInBytes": 5_000}
    assert (await client.get(f"{GROUPS}/rg1")).json() == changed


@pytest.mark.parametrize("sent", [0.5, "0.5", 1_000.125])
async def test_a_limit_of_messages_may_have_a_fraction(
    client: httpx.AsyncClient, sent: float | str
) -> None:
    """It is read as it was put, and an update of another field keeps it."""
    put = await client.put(f"{GROUPS}/rg1", json={"publishRateInMsgs": sent})
    again = await client.put(f"{GROUPS}/rg1", json={"dispatchRateInBytes": 10})

    assert (put.status_code, again.status_code) == (204, 204)
    for path in (f"{GROUPS}/rg1", "/quota/v1/groups/rg1"):
        found = (await client.get(path)).json()
        assert found["publishRateInMsgs"] == float(sent)
        assert found["dispatchRateInBytes"] == 10


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"publishRateInBytes": 0.5}, "publishRateInBytes: must be a whole number"),
        ({"law": "static"}, "publishRateInMsgs: a fraction needs law max-min, but law is static"),
        ({"publishRateInBytes": 1}, "publishRateInMsgs: a fraction needs publishRateInBytes -1"),
        ({"parent": "shop"}, "publishRateInMsgs: a fraction needs a group without a parent"),
    ],
)
async def test_a_fraction_that_cannot_be_shared_is_refused_and_changes_nothing(
    client: httpx.AsyncClient, body: dict[str, object], reason: str
) -> None:
    """The field and the fix are named, by the preview of the change, too."""
    await client.put(f"{GROUPS}/shop", json={"publishRateInMsgs": 100})
    await client.put(f"{GROUPS}/rg1", json={"publishRateInMsgs": 0.5})

    for answer in (
        await client.put(f"{GROUPS}/rg1", json=body),
        await client.post("/quota/v1/preview/rg1", json=body),
    ):
        assert answer.status_code == 400
        assert answer.json()["reason"].startswith(reason)
    assert (await client.get(f"{GROUPS}/rg1")).json() == UNLIMITED | {"publishRateInMsgs": 0.5}


async def test_unknown_group_cannot_be_read_or_deleted(client: httpx.AsyncClient) -> None:
    """ResourceGroupsTest; where Pulsar answers a delete with 500, we say the same as for a read."""
    for response in (await client.get(f"{GROUPS}/none"), await client.delete(f"{GROUPS}/none")):
        assert response.status_code == 404
        assert response.json() == {"reason": "ResourceGroup does not exist"}


async def test_attached_group_cannot_be_deleted(client: httpx.AsyncClient, orders: str) -> None:
    """ResourceGroupsTest: deletion works after the namespace is detached, not before."""
    await client.post(f"{ATTACH}/{orders}")

    refused = await client.delete(f"{GROUPS}/{orders}")
    await client.delete(ATTACH)
    deleted = await client.delete(f"{GROUPS}/{orders}")

    reason = "ResourceGroup is in use by public/default; detach first"
    assert (refused.status_code, refused.json()) == (412, {"reason": reason})
    assert deleted.status_code == 204
    assert (await client.get(GROUPS)).json() == []


async def test_answers_are_pulsars_bytes(client: httpx.AsyncClient) -> None:
    """Tools read these bodies as text, so not even a blank differs."""
    await client.put(f"{GROUPS}/rg2", json=FULL)
    await client.put(f"{GROUPS}/rg1", json={})

    group = await client.get(f"{GROUPS}/rg2")
    names = await client.get(GROUPS)

    assert group.text == (
        '{"publishRateInMsgs":100,"publishRateInBytes":10000,'
        '"dispatchRateInMsgs":100,"dispatchRateInBytes":1000}'
    )
    assert group.headers["content-type"] == "application/json"
    assert names.text == '["rg1","rg2"]'


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_done_is_204_without_body_or_type(
    client: httpx.AsyncClient, orders: str, method: str
) -> None:
    """Pulsar's 204 announces no content type."""
    response = await client.request(method, f"{GROUPS}/{orders}", content=b"{}")

    assert (response.status_code, response.content) == (204, b"")
    assert "content-type" not in response.headers


async def test_minus_one_lifts_a_limit(client: httpx.AsyncClient, world: World) -> None:
    """-1 is not limited, which the store has as None; null is as good as absent."""
    await client.put(f"{GROUPS}/rg1", json=FULL)

    await client.put(f"{GROUPS}/rg1", json={"publishRateInMsgs": -1, "dispatchRateInMsgs": None})

    found = await world.store.read_group("rg1")
    assert found.group.limits == Rates(None, 10_000, 100, 1_000)


async def test_zero_lets_nothing_pass(client: httpx.AsyncClient, world: World) -> None:
    """0 is stored as 0: it is a limit, not the absence of one."""
    await client.put(f"{GROUPS}/rg1", json={"publishRateInMsgs": 0})

    assert (await world.store.read_group("rg1")).group.limits.publish_messages == 0


async def test_body_needs_no_content_type(client: httpx.AsyncClient) -> None:
    """The API also reads the type that `curl -d` sends by default."""
    headers = {"content-type": "application/x-www-form-urlencoded"}

    response = await client.put(
        f"{GROUPS}/rg1", content=b'{"publishRateInMsgs":1}', headers=headers
    )

    assert response.status_code == 204


async def test_own_settings_are_stored(client: httpx.AsyncClient, world: World) -> None:
    """law, weights, overshootPolicy and partitionPolicy are part of the definition."""
    settings = {
        "law": "max-min",
        "weights": "topics",
        "overshootPolicy": "eager",
        "partitionPolicy": "stop",
    }

    await client.put(f"{GROUPS}/rg1", json=settings)

    found = (await world.store.read_group("rg1")).group
    assert (found.law, found.weights, found.overshoot_policy, found.partition_policy) == tuple(
        settings.values()
    )


async def test_own_settings_show_only_where_they_differ(client: httpx.AsyncClient) -> None:
    """A group that uses nothing of ours looks as in Pulsar; nothing is lost by reading and putting."""
    await client.put(f"{GROUPS}/plain", json={"overshootPolicy": "balanced"})
    await client.put(f"{GROUPS}/special", json={"overshootPolicy": "eager"})

    assert (await client.get(f"{GROUPS}/plain")).json() == UNLIMITED
    special = (await client.get(f"{GROUPS}/special")).json()
    assert special == UNLIMITED | {"overshootPolicy": "eager"}


async def test_update_without_change_writes_nothing(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """A repeated PUT makes no new definition."""
    before = await world.store.read_group(orders)

    await client.put(f"{GROUPS}/{orders}", json={"publishRateInMsgs": 3_000})

    assert await world.store.read_group(orders) == before


async def test_singular_path_of_pip_82_answers_too(client: httpx.AsyncClient) -> None:
    """PIP-82 writes `resourcegroup`, and lists at the path with a slash at its end."""
    singular = "/admin/v2/resourcegroup"

    assert (await client.put(f"{singular}/rg1", json=FULL)).status_code == 204
    assert (await client.get(f"{singular}/rg1")).json() == FULL
    for path in (singular, f"{singular}/", f"{GROUPS}/"):
        assert (await client.get(path)).json() == ["rg1"]
    assert (await client.delete(f"{singular}/rg1")).status_code == 204


async def test_group_written_elsewhere_is_read(client: httpx.AsyncClient, world: World) -> None:
    """A group is read from the store itself."""
    await world.store.create_group(ResourceGroup("theirs", Rates(publish_bytes=7)))

    assert (await client.get(f"{GROUPS}/theirs")).json() == UNLIMITED | {"publishRateInBytes": 7}
