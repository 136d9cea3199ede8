"""By no path of the API can a tenant's admin lift what a super-user put on the tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.admin_api.keys import access, token
from tests.admin_api.world import World

GROUPS = "/admin/v2/resourcegroups"
TENANT = "/admin/v2/tenants/public/resourcegroup"
NAMESPACE = "/admin/v2/namespaces/public/default/resourcegroup"
TOPIC = "/quota/v1/persistent/public/default/orders"
MESSAGES = "publishThrottlingRateInMsg"
ALLOWED = {"allowedTenants": ["public"]}
BYTES = "publishThrottlingRateInByte"


@pytest.fixture
async def root(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A super-user, with two groups that allow the tenant."""
    async with world.client(token("admin"), access=access()) as client:
        await client.put(f"{GROUPS}/tight", json={"publishRateInMsgs": 50} | ALLOWED)
        await client.put(f"{GROUPS}/loose", json=ALLOWED)
        yield client


@pytest.fixture
async def alice(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """The tenant's admin."""
    async with world.client(token("alice"), access=access()) as client:
        yield client


@pytest.mark.parametrize("owner", [TENANT, NAMESPACE])
async def test_an_attachment_stands(
    root: httpx.AsyncClient, alice: httpx.AsyncClient, owner: str
) -> None:
    """Detaching it and attaching another group are 403 and name the reason; a super-user may."""
    assert (await root.post(f"{owner}/tight")).status_code == 204
    for method, path in (
        ("DELETE", owner),
        ("DELETE", f"{owner}/"),
        ("POST", f"{owner}/loose"),
        ("PUT", f"{owner}/loose"),
    ):
        refused = await alice.request(method, path)
        assert refused.status_code == 403, (method, path)
        reason = refused.json()["reason"]
        assert reason.startswith("Role alice is no super-user, and one attached ")
        assert reason.endswith("public: only a super-user may change that") or "default" in reason
    assert (await alice.post(f"{owner}/tight")).status_code == 204
    assert (await alice.delete(owner)).status_code == 403, "attaching it again made it hers"
    assert (await alice.get(owner)).text == "tight"
    assert (await root.delete(owner)).status_code == 204


async def test_a_namespace_may_be_limited_further_but_not_freed(
    root: httpx.AsyncClient, alice: httpx.AsyncClient, world: World
) -> None:
    """Attaching one of its own adds a group; the tenant's goes on counting."""
    await root.post(f"{TENANT}/tight")
    assert (await alice.post(f"{NAMESPACE}/loose")).status_code == 204

    attachments = world.views.shown.attachments
    assert attachments.groups_of("public", "default") == ("loose", "tight")
    assert (await alice.delete(NAMESPACE)).status_code == 204


async def test_what_the_tenants_admin_attached_is_his(
    root: httpx.AsyncClient, alice: httpx.AsyncClient
) -> None:
    """Until a super-user takes it."""
    assert (await alice.post(f"{TENANT}/loose")).status_code == 204
    assert (await alice.post(f"{TENANT}/tight")).status_code == 204
    assert (await root.post(f"{TENANT}/tight")).status_code == 204
    assert (await alice.post(f"{TENANT}/loose")).status_code == 403


async def test_a_roll_back_is_a_super_users_and_so_is_what_it_restores(
    root: httpx.AsyncClient, alice: httpx.AsyncClient
) -> None:
    """The trail is closed to the tenant's admin; of two changes the later one counts."""
    await alice.post(f"{TENANT}/loose")
    await alice.delete(TENANT)
    entries = (await root.get("/quota/v1/audit")).json()
    assert [entry["actor"] for entry in entries[:2]] == ["alice", "alice"]
    path = f"/quota/v1/audit/{entries[0]['id']}/rollback"
    assert (await alice.post(path)).status_code == 403
    assert (await root.post(path)).status_code == 204
    assert (await alice.delete(TENANT)).status_code == 403


async def test_a_topics_limit_stands(root: httpx.AsyncClient, alice: httpx.AsyncClient) -> None:
    """Raised, lowered, lifted or removed: 403, and the reason names what is the super-user's."""
    await root.post(f"{TOPIC}/publishRate", json={MESSAGES: 50})
    for changed in ({MESSAGES: 51}, {MESSAGES: 49}, {MESSAGES: -1}, {}, {MESSAGES: 0, BYTES: 1}):
        refused = await alice.post(f"{TOPIC}/publishRate", json=changed)
        assert refused.status_code == 403, changed
        assert "set publishRateInMsgs of persistent://public/default/orders" in refused.text
    assert (await alice.delete(f"{TOPIC}/publishRate")).status_code == 403
    assert (await root.get(f"{TOPIC}/publishRate")).json()[MESSAGES] == 50
    assert (await root.delete(f"{TOPIC}/publishRate")).status_code == 204


async def test_beside_it_the_tenants_admin_sets_his_own(
    root: httpx.AsyncClient, alice: httpx.AsyncClient
) -> None:
    """He sets, changes and lifts limits of the same topic, in the same body too."""
    await root.post(f"{TOPIC}/publishRate", json={MESSAGES: 50})
    for size in (700, 70, -1, 7):
        both = {MESSAGES: 50, BYTES: size}
        assert (await alice.post(f"{TOPIC}/publishRate", json=both)).status_code == 204
    dispatch = {"dispatchThrottlingRateInMsg": 9}
    assert (await alice.post(f"{TOPIC}/dispatchRate", json=dispatch)).status_code == 204
    assert (await alice.delete(f"{TOPIC}/dispatchRate")).status_code == 204
    shown = (await root.get(f"{TOPIC}/publishRate")).json()
    assert (shown[MESSAGES], shown[BYTES]) == (50, 7)


async def test_a_super_user_who_sets_the_same_makes_it_his(
    root: httpx.AsyncClient, alice: httpx.AsyncClient
) -> None:
    """Though no number changes; what he does not speak of stays the tenant's."""
    await alice.post(f"{TOPIC}/publishRate", json={MESSAGES: 50})
    await alice.post(f"{TOPIC}/dispatchRate", json={"dispatchThrottlingRateInMsg": 9})
    await root.post(f"{TOPIC}/publishRate", json={MESSAGES: 50})
    assert (await alice.delete(f"{TOPIC}/publishRate")).status_code == 403
    assert (await alice.delete(f"{TOPIC}/dispatchRate")).status_code == 204


async def test_without_tokens_everybody_may_still_do_everything(world: World) -> None:
    """There are no roles, so an attachment belongs to no admin."""
    async with world.client() as client:
        await client.put(f"{GROUPS}/tight", json={"publishRateInMsgs": 50})
        await client.post(f"{TENANT}/tight")
        assert (await client.delete(TENANT)).status_code == 204
