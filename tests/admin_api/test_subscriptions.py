"""Attaching single subscriptions, and the replication of remote clusters."""

from __future__ import annotations

import httpx
import pytest

from tests.admin_api.keys import access, token
from tests.admin_api.world import World

AUDIT = "/quota/v1/subscriptions/persistent/public/default/orders/audit%20log/resourcegroup"
WEST = "/quota/v1/clusters/west/replication/resourcegroup"


@pytest.mark.parametrize(
    ("path", "listed"),
    [
        (AUDIT, {"subscriptions": ["persistent/public/default/orders/audit log"]}),
        (
            AUDIT.replace("%20", "%2F"),
            {"subscriptions": ["persistent/public/default/orders/audit/log"]},
        ),
        (WEST, {"remoteClusters": ["west"]}),
    ],
)
async def test_it_is_attached_told_and_detached(
    client: httpx.AsyncClient, orders: str, path: str, listed: dict[str, list[str]]
) -> None:
    """As tenants are; the definition lists it, and the group cannot be deleted meanwhile."""
    assert (await client.put(f"{path}/{orders}")).status_code == 204
    assert (await client.get(path)).text == orders
    found = (await client.get(f"/quota/v1/groups/{orders}")).json()["attachments"]
    assert {name: owners for name, owners in found.items() if owners} == listed
    assert (await client.delete(f"/admin/v2/resourcegroups/{orders}")).status_code == 412
    for _ in range(2):
        assert (await client.delete(path)).status_code == 204
    assert (await client.get(path)).text == ""
    assert (await client.put(f"{path}/nothing")).status_code == 412


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("subscriptions/other/public/default/t/s", 400, "write persistent/tenant/namespace/topic"),
        ("subscriptions/persistent/public/default/t-partition-1/s", 400, "name the topic"),
        ("subscriptions/persistent/public/default/t/a%0Ab", 400, "printable"),
        (f"subscriptions/persistent/public/default/t/{'s' * 10_240}", 400, "at most 255 bytes"),
        ("subscriptions/persistent/pub%20lic/default/t/s", 412, "Tenant name is not valid"),
        ("clusters/a%20b/replication", 400, "cluster 'a b': use 1 to 255"),
        (f"clusters/{'c' * 10_240}/replication", 400, "use 1 to 255"),
    ],
)
async def test_what_cannot_be_attached_is_refused_by_name(
    client: httpx.AsyncClient, orders: str, world: World, path: str, status: int, reason: str
) -> None:
    """Nothing is attached."""
    refused = await client.put(f"/quota/v1/{path}/resourcegroup/{orders}")
    assert refused.status_code == status
    assert reason in refused.json()["reason"]
    attachments = world.views.shown.attachments
    assert not attachments.subscriptions
    assert not attachments.clusters


async def test_a_tenants_admin_attaches_subscriptions_of_his_tenant_alone(world: World) -> None:
    """He cannot lift a super-user's attachment; replication is a super-user's."""
    async with world.client(token("admin"), access=access()) as root:
        for group in ("tight", "loose"):
            body = {"dispatchRateInMsgs": 50, "allowedTenants": ["public"]}
            await root.put(f"/admin/v2/resourcegroups/{group}", json=body)
    async with world.client(token("alice"), access=access()) as alice:
        assert (await alice.put(f"{AUDIT}/tight")).status_code == 204
        assert (await alice.delete(AUDIT)).status_code == 204
        assert (await alice.put(f"{AUDIT.replace('public', 'shop')}/tight")).status_code == 403
        assert (await alice.put(f"{WEST}/tight")).status_code == 403
        assert (await alice.delete(WEST)).status_code == 403
    async with world.client(token("admin"), access=access()) as root:
        await root.put(f"{AUDIT}/tight")
    async with world.client(token("alice"), access=access()) as alice:
        assert (await alice.put(f"{AUDIT}/loose")).status_code == 403
        assert (await alice.delete(AUDIT)).status_code == 403
    assert list(world.views.shown.attachments.subscriptions.values()) == ["tight"]


async def test_a_subscriptions_attachment_is_rolled_back(
    client: httpx.AsyncClient, orders: str, world: World
) -> None:
    """From the trail, by its subject."""
    for path in (AUDIT, WEST):
        await client.put(f"{path}/{orders}")
        entry = (await client.get("/quota/v1/audit", params={"limit": 1})).json()[0]
        assert (await client.post(f"/quota/v1/audit/{entry['id']}/rollback")).status_code == 204
    attachments = world.views.shown.attachments
    assert not attachments.subscriptions
    assert not attachments.clusters
