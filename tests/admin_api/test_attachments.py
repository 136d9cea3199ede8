"""Attaching namespaces as Pulsar answers it, and every other owner of traffic in the same way."""

from __future__ import annotations

import httpx
import pytest

from tests.admin_api.world import World

NAMESPACE = "/admin/v2/namespaces/public/default/resourcegroup"
TENANT = "/admin/v2/tenants/public/resourcegroup"
SUBSCRIPTION = "/quota/v1/subscriptions/persistent/public/default/orders/audit%20log/resourcegroup"
ROLES = {
    "alice": "alice",
    "team-*": "team-*",
    "spiffe:%2F%2Fa%2Fb%20c": "spiffe://a/b c",
    "%C3%A4@b.c": "ä@b.c",
    "%2E%2E": "..",
    "a%25b": "a%b",
    "a%252Fb": "a%2Fb",
}
OWNERS: dict[str, dict[str, object]] = {
    NAMESPACE: {"namespaces": ["public/default"]},
    TENANT: {"tenants": ["public"]},
    "/quota/v1/default-role/resourcegroup": {"defaultRole": True},
    SUBSCRIPTION: {"subscriptions": ["persistent/public/default/orders/audit log"]},
    SUBSCRIPTION.replace("%20", "%2F"): {
        "subscriptions": ["persistent/public/default/orders/audit/log"]
    },
    "/quota/v1/clusters/west/replication/resourcegroup": {"remoteClusters": ["west"]},
    **{f"/quota/v1/roles/{path}/resourcegroup": {"roles": [role]} for path, role in ROLES.items()},
}
"""By the path of its group, an owner as the definition of the group lists it."""

NOTHING: dict[str, object] = {
    **{each: [] for each in ("tenants", "namespaces", "roles", "subscriptions", "remoteClusters")},
    "defaultRole": False,
}
both_owners = pytest.mark.parametrize("owner", [NAMESPACE, TENANT])
every_owner = pytest.mark.parametrize("owner", list(OWNERS))


@every_owner
@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.shows("pip-82/attach-tenant")
async def test_attaching(client: httpx.AsyncClient, orders: str, owner: str, method: str) -> None:
    """Pulsar attaches with POST, PIP-82 with PUT; a read answers the bare name, the group lists it."""
    attached = await client.request(method, f"{owner}/{orders}")
    found = await client.get(owner)
    group = (await client.get(f"/quota/v1/groups/{orders}")).json()

    assert (attached.status_code, attached.content) == (204, b"")
    assert "content-type" not in attached.headers
    assert (found.status_code, found.content) == (200, b"orders")
    assert found.headers["content-type"] == "application/json"
    assert group["attachments"] == NOTHING | OWNERS[owner]


@every_owner
async def test_detaching_twice_is_fine(client: httpx.AsyncClient, orders: str, owner: str) -> None:
    """The second DELETE finds nothing to do and says the same; Pulsar reads 200 with nothing in it."""
    before = await client.get(owner)
    await client.post(f"{owner}/{orders}")

    answers = [await client.delete(owner), await client.delete(owner)]

    assert [answer.status_code for answer in answers] == [204, 204]
    for found in (before, await client.get(owner)):
        assert (found.status_code, found.content) == (200, b"")
        assert found.headers["content-type"] == "application/json"


@every_owner
async def test_path_may_end_in_a_slash(client: httpx.AsyncClient, orders: str, owner: str) -> None:
    """Pulsar's server does not care for the slash at the end."""
    await client.post(f"{owner}/{orders}")

    assert (await client.get(f"{owner}/")).content == b"orders"
    assert (await client.delete(f"{owner}/")).status_code == 204


@every_owner
async def test_later_attachment_replaces_the_earlier(
    client: httpx.AsyncClient, orders: str, owner: str
) -> None:
    """An owner belongs to one group at a time, and the earlier one is free again."""
    await client.put("/admin/v2/resourcegroups/other", json={})
    await client.post(f"{owner}/{orders}")

    assert (await client.delete(f"/admin/v2/resourcegroups/{orders}")).status_code == 412
    await client.post(f"{owner}/other")

    assert (await client.get(owner)).content == b"other"
    assert (await client.delete(f"/admin/v2/resourcegroups/{orders}")).status_code == 204


@every_owner
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
