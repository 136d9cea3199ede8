"""Subscriptions and remote clusters that cannot be attached, and the callers who may attach them."""

from __future__ import annotations

import httpx
import pytest

from tests.admin_api.keys import access, token
from tests.admin_api.test_attachments import SUBSCRIPTION
from tests.admin_api.world import World

WEST = "/quota/v1/clusters/west/replication/resourcegroup"


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
        assert (await alice.put(f"{SUBSCRIPTION}/tight")).status_code == 204
        assert (await alice.delete(SUBSCRIPTION)).status_code == 204
        other = SUBSCRIPTION.replace("public", "shop")
        assert (await alice.put(f"{other}/tight")).status_code == 403
        assert (await alice.put(f"{WEST}/tight")).status_code == 403
        assert (await alice.delete(WEST)).status_code == 403
    async with world.client(token("admin"), access=access()) as root:
        await root.put(f"{SUBSCRIPTION}/tight")
    async with world.client(token("alice"), access=access()) as alice:
        assert (await alice.put(f"{SUBSCRIPTION}/loose")).status_code == 403
        assert (await alice.delete(SUBSCRIPTION)).status_code == 403
    assert list(world.views.shown.attachments.subscriptions.values()) == ["tight"]
