"""Attaching namespaces as Pulsar answers it, and tenants in the same way."""

from __future__ import annotations

import httpx
import pytest

from tests.admin_api.world import World

NAMESPACE = "/admin/v2/namespaces/public/default/resourcegroup"
TENANT = "/admin/v2/tenants/public/resourcegroup"
both_owners = pytest.mark.parametrize("owner", [NAMESPACE, TENANT])


@both_owners
@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.shows("pip-82/attach-tenant")
async def test_attaching(client: httpx.AsyncClient, orders: str, owner: str, method: str) -> None:
    """Pulsar attaches with POST, PIP-82 with PUT; the answer to a read is the bare name."""
    attached = await client.request(method, f"{owner}/{orders}")
    found = await client.get(owner)

    assert (attached.status_code, attached.content) == (204, b"")
    assert "content-type" not in attached.headers
    assert (found.status_code, found.content) == (200, b"orders")
    assert found.headers["content-type"] == "application/json"


@both_owners
async def test_nothing_attached_is_an_empty_body(client: httpx.AsyncClient, owner: str) -> None:
    """Pulsar answers 200 with nothing in it."""
    found = await client.get(owner)

    assert (found.status_code, found.content) == (200, b"")
    assert found.headers["content-type"] == "application/json"


@both_owners
async def test_detaching_twice_is_fine(client: httpx.AsyncClient, orders: str, owner: str) -> None:
    """The second DELETE finds nothing to do and says the same."""
    await client.post(f"{owner}/{orders}")

    answers = [await client.delete(owner), await client.delete(owner)]

    assert [answer.status_code for answer in answers] == [204, 204]
    assert (await client.get(owner)).content == b""


@both_owners
async def test_path_may_end_in_a_slash(client: httpx.AsyncClient, orders: str, owner: str) -> None:
    """Pulsar's server does not care for the slash at the end."""
    await client.post(f"{owner}/{orders}")

    assert (await client.get(f"{owner}/")).content == b"orders"
    assert (await client.delete(f"{owner}/")).status_code == 204


@both_owners
async def test_later_attachment_replaces_the_earlier(
    client: httpx.AsyncClient, orders: str, owner: str
) -> None:
    """An owner belongs to one group at a time, and the earlier one is free again."""
    await client.put("/admin/v2/resourcegroups/other", json={})
    await client.post(f"{owner}/{orders}")

    await client.post(f"{owner}/other")

    assert (await client.get(owner)).content == b"other"
    assert (await client.delete(f"/admin/v2/resourcegroups/{orders}")).status_code == 204


@both_owners
async def test_unknown_group(client: httpx.AsyncClient, owner: str) -> None:
    """ResourceGroupsTest: attaching to what is not there fails."""
    refused = await client.post(f"{owner}/none")

    assert (refused.status_code, refused.json()) == (
        412,
        {"reason": "ResourceGroup does not exist"},
    )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/admin/v2/namespaces/public/nope/resourcegroup", "Namespace does not exist"),
        ("/admin/v2/namespaces/nope/nope/resourcegroup", "Namespace does not exist"),
        ("/admin/v2/tenants/nope/resourcegroup", "Tenant does not exist"),
    ],
)
async def test_unknown_owner(
    client: httpx.AsyncClient, orders: str, path: str, reason: str
) -> None:
    """Every method asks the broker whether a namespace or tenant exists."""
    answers = [
        await client.get(path),
        await client.post(f"{path}/{orders}"),
        await client.delete(path),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert [answer.json() for answer in answers] == [{"reason": reason}] * 3


async def test_unknown_group_is_said_before_unknown_namespace(client: httpx.AsyncClient) -> None:
    """Pulsar looks at the group first."""
    refused = await client.post("/admin/v2/namespaces/public/nope/resourcegroup/none")

    assert refused.status_code == 412


@both_owners
async def test_silent_broker_is_503(
    client: httpx.AsyncClient, world: World, orders: str, owner: str
) -> None:
    """Without an answer the API does not know whether an owner exists."""
    world.broker.answering = False

    answers = [await client.get(owner), await client.post(f"{owner}/{orders}")]

    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["reason"].startswith("The broker does not say whether")


@both_owners
async def test_what_is_attached_needs_no_broker(
    client: httpx.AsyncClient, world: World, orders: str, owner: str
) -> None:
    """An attachment that outlived its owner is seen and removed, or its group would stay for ever."""
    await client.post(f"{owner}/{orders}")
    world.broker.answering = False

    assert (await client.get(owner)).content == b"orders"
    assert (await client.delete(owner)).status_code == 204


@pytest.mark.parametrize("tenant", ["a%20b", "a%2Fb", "%2E%2E", "%C3%BC", "x" * 256])
async def test_bad_owner_names(client: httpx.AsyncClient, orders: str, tenant: str) -> None:
    """Pulsar's rule for names, and its status."""
    for path in (f"namespaces/{tenant}/n", f"namespaces/t/{tenant}", f"tenants/{tenant}"):
        refused = await client.post(f"/admin/v2/{path}/resourcegroup/{orders}")

        assert refused.status_code == 412
        assert "name is not valid" in refused.json()["reason"]
