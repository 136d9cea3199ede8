"""A tenant's admin attaches to groups that allow his tenant, by every door of the API."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from coordinator.core.owners import ALLOWED_TENANTS_MAX, uses_of
from tests.admin_api.keys import access, token
from tests.admin_api.world import Broker, World

GROUP = "/admin/v2/resourcegroups/theirs"
NAMESPACE = "/admin/v2/namespaces/public/default"
DOORS = [
    (f"{NAMESPACE}/resourcegroup/theirs", None),
    ("/admin/v2/tenants/public/resourcegroup/theirs", None),
    ("/quota/v1/subscriptions/persistent/public/default/t/s/resourcegroup/theirs", None),
    (NAMESPACE, {"resource_group_name": "theirs"}),
]
"""Every path by which a tenant's admin attaches, with the body that asks for it."""


@pytest.fixture
async def root(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A super-user, with a group that allows another tenant."""
    async with world.client(token("admin"), access=access()) as client:
        body = {"publishRateInMsgs": 50, "allowedTenants": ["shop", "bank"]}
        assert (await client.put(GROUP, json=body)).status_code == 204
        yield client


@pytest.fixture
async def alice(world: World, broker: Broker) -> AsyncIterator[httpx.AsyncClient]:
    """The admin of the tenant public."""
    changes = {"access": access(), "relay": broker.relay}
    async with world.client(token("alice"), **changes) as client:
        yield client


@pytest.mark.parametrize(("path", "body"), DOORS)
async def test_a_group_that_does_not_allow_the_tenant_is_closed_to_its_admin(
    root: httpx.AsyncClient,
    alice: httpx.AsyncClient,
    broker: Broker,
    world: World,
    path: str,
    body: object,
) -> None:
    """403 names the group, the tenant and the fix; nothing is attached, made or recorded."""
    before = (await root.get("/quota/v1/audit")).json()
    for method in ("PUT", "POST") if body is None else ("PUT",):
        refused = await alice.request(method, path, json=body)

        assert refused.status_code == 403
        assert refused.json()["reason"] == (
            "Role alice acts for tenant public, which ResourceGroup theirs does not allow: a super-user "
            "may attach to it, or add public to its allowedTenants"
        )
    assert not broker.asked
    assert uses_of(world.views.shown.attachments, "theirs") == ()
    assert (await root.get("/quota/v1/audit")).json() == before


@pytest.mark.parametrize(("path", "body"), DOORS)
async def test_a_super_user_opens_it(
    root: httpx.AsyncClient, alice: httpx.AsyncClient, world: World, path: str, body: object
) -> None:
    """For that tenant, by naming it beside the others."""
    await root.put(GROUP, json={"allowedTenants": ["bank", "public", "shop"]})
    assert (await alice.put(path, json=body)).status_code == 204
    assert len(uses_of(world.views.shown.attachments, "theirs")) == 1


async def test_a_group_that_names_no_tenant_is_for_super_users(
    root: httpx.AsyncClient, alice: httpx.AsyncClient
) -> None:
    """As one that pulsar-admin made; a PUT without the list keeps it, an empty one closes the group."""
    await root.put(GROUP, json={"publishRateInMsgs": 7})
    assert (await root.get(GROUP)).json()["allowedTenants"] == ["bank", "shop"]
    await root.put(GROUP, json={"allowedTenants": []})
    assert "allowedTenants" not in (await root.get(GROUP)).json()
    path = f"{NAMESPACE}/resourcegroup/theirs"
    assert (await alice.post(path)).status_code == 403
    assert (await root.post(path)).status_code == 204


async def test_what_is_attached_stays_when_the_group_is_closed(
    root: httpx.AsyncClient, alice: httpx.AsyncClient, world: World
) -> None:
    """The tenant's admin detaches it as ever, and cannot attach it again."""
    path = f"{NAMESPACE}/resourcegroup"
    await root.put(GROUP, json={"allowedTenants": ["public"]})
    assert (await alice.post(f"{path}/theirs")).status_code == 204
    await root.put(GROUP, json={"allowedTenants": []})
    assert uses_of(world.views.shown.attachments, "theirs") == ("public/default",)
    assert (await alice.post(f"{path}/theirs")).status_code == 403
    assert (await alice.delete(path)).status_code == 204


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        ("shop", "must be a list of tenants' names, but is 'shop'"),
        ({"shop": 1}, "must be a list of tenants' names, but is {'shop': 1}"),
        (["shop", "bank", "shop"], "shop stands twice; name it once"),
        (["a/b"], "'a/b' names no tenant: use letters, digits and -=:._"),
        ([""], "'' names no tenant"),
        ([".."], "'..' names no tenant"),
        ([7], "7 names no tenant"),
        (["x" * 256], "names no tenant"),
        (
            [f"t{number}" for number in range(ALLOWED_TENANTS_MAX + 1)],
            "names 1,001 tenants; at most 1,000 may stand",
        ),
    ],
)
async def test_a_list_that_cannot_be_is_refused(
    client: httpx.AsyncClient, world: World, names: object, fault: str
) -> None:
    """400 with the field and its fault; nothing has changed."""
    refused = await client.put(GROUP, json={"allowedTenants": names})
    assert refused.status_code == 400
    assert refused.json()["reason"].startswith("allowedTenants: ")
    assert fault in refused.json()["reason"]
    assert not world.views.shown.groups


async def test_a_change_of_the_list_is_told(client: httpx.AsyncClient) -> None:
    """In the operation, and in the audit trail, from which it is rolled back."""
    await client.put(GROUP, json={"allowedTenants": ["shop"]})
    await client.put(GROUP, json={"allowedTenants": []})
    told = (await client.get("/quota/v1/operations")).json()
    assert told[0]["text"] == "allowed tenants shop → none"
    entry = (await client.get("/quota/v1/audit", params={"limit": 1})).json()[0]
    assert [entry[each]["allowedTenants"] for each in ("before", "after")] == [["shop"], []]
    await client.post(f"/quota/v1/audit/{entry['id']}/rollback")
    assert (await client.get(GROUP)).json()["allowedTenants"] == ["shop"]
