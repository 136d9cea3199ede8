"""A tenant's admin cannot use up what others need: each bound leaves them room."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from admin_api.changes import definitions, topic_limits
from admin_api.requests.access import Access
from admin_api.routes import events
from coordinator.adapters.tokens import TokenVerifier
from coordinator.ports import AUDIT_LENGTH, share_of
from tests.admin_api.keys import KEYS, token
from tests.admin_api.world import World

GROUP = "/admin/v2/resourcegroups/open"
ACCESS = Access(
    TokenVerifier(KEYS, "sub"), ("admin",), {"public": ("alice", "carol"), "shop": ("bob",)}
)
PUBLISH = {"publishThrottlingRateInMsg": 5}


@pytest.fixture
async def root(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A super-user, with a group that both tenants' admins may attach to."""
    async with world.client(token("admin"), access=ACCESS) as client:
        await client.put(GROUP, json={"allowedTenants": ["public", "shop"]})
        yield client


@pytest.fixture
async def alice(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """An admin of the tenant public."""
    async with world.client(token("alice"), access=ACCESS) as client:
        yield client


@pytest.fixture
async def bob(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """The admin of the tenant shop."""
    async with world.client(token("bob"), access=ACCESS) as client:
        yield client


def topic(number: int, tenant: str = "public") -> str:
    """Return the path of a topic's limits."""
    return f"/quota/v1/persistent/{tenant}/default/t{number}/publishRate"


def reader(number: int, tenant: str = "public") -> str:
    """Return the path of a subscription's group."""
    return f"/quota/v1/subscriptions/persistent/{tenant}/default/t/s{number}/resourcegroup"


async def test_topics_with_limits_of_one_tenant_are_a_tenth_of_all(
    root: httpx.AsyncClient,
    alice: httpx.AsyncClient,
    bob: httpx.AsyncClient,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of all its admins together; what a super-user sets does not count, and one removed gives room."""
    monkeypatch.setattr(topic_limits, "TOPIC_LIMITS_MAX", 20)
    await root.post(topic(0), json=PUBLISH)
    for number in (1, 2):
        assert (await alice.post(topic(number), json=PUBLISH)).status_code == 204
    async with world.client(token("carol"), access=ACCESS) as carol:
        refused = await carol.post(topic(3), json=PUBLISH)
    assert refused.status_code == 409
    assert refused.json()["reason"] == (
        "2 topics of tenant public have limits that its admins set, the most that they may; remove one, "
        "use a group, or ask a super-user"
    )
    assert (await alice.post(topic(1), json={"publishThrottlingRateInMsg": 6})).status_code == 204
    assert (await bob.post(topic(1, "shop"), json=PUBLISH)).status_code == 204
    assert (await root.post(topic(4), json=PUBLISH)).status_code == 204
    assert (await alice.delete(topic(1))).status_code == 204
    assert (await alice.post(topic(3), json=PUBLISH)).status_code == 204


async def test_owners_of_one_tenant_are_a_tenth_of_all(
    root: httpx.AsyncClient,
    alice: httpx.AsyncClient,
    bob: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tenant, namespaces and subscriptions count together; moving one is no new one."""
    monkeypatch.setattr(definitions, "ATTACHMENTS_MAX", 30)
    await root.put("/admin/v2/resourcegroups/other", json={"allowedTenants": ["public"]})
    for path in ("/admin/v2/tenants/public/resourcegroup", reader(1), reader(2)):
        assert (await alice.post(f"{path}/open")).status_code == 204
    for path in (reader(3), "/admin/v2/namespaces/public/default/resourcegroup"):
        refused = await alice.post(f"{path}/open")
        assert refused.status_code == 409
        assert refused.json()["reason"] == (
            "3 owners of tenant public are attached, the most that its admins may attach; detach one "
            "first, or ask a super-user"
        )
    assert (await alice.post(f"{reader(1)}/other")).status_code == 204
    assert (await bob.post(f"{reader(1, 'shop')}/open")).status_code == 204
    assert (await root.post(f"{reader(3)}/open")).status_code == 204
    await alice.delete(reader(1))
    await alice.delete(reader(2))
    assert (await alice.post(f"{reader(4)}/open")).status_code == 204


async def test_all_owners_have_a_bound(
    root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Super-users meet it, too: 409 with the bound."""
    monkeypatch.setattr(definitions, "ATTACHMENTS_MAX", 2)
    for number in (1, 2):
        assert (await root.post(f"{reader(number)}/open")).status_code == 204
    refused = await root.post("/quota/v1/roles/batch/resourcegroup/open")
    assert refused.status_code == 409
    assert refused.json()["reason"] == "2 owners are attached to groups; detach one first"


@pytest.mark.slow
async def test_a_tenants_admin_pushes_no_others_change_out_of_the_trails(
    root: httpx.AsyncClient, alice: httpx.AsyncClient, bob: httpx.AsyncClient
) -> None:
    """Of the audit trail and of operations; his own oldest go."""
    await bob.post(f"{reader(1, 'shop')}/open")
    share = share_of(AUDIT_LENGTH)
    for _ in range(share):
        await alice.post(f"{reader(1)}/open")
        await alice.delete(reader(1))
    for path in ("/quota/v1/audit", "/quota/v1/operations"):
        actors = [e["actor"] for e in (await root.get(path, params={"limit": 1_000})).json()]
        assert actors[-2:] == ["bob", "admin"], path
    trail = (await root.get("/quota/v1/audit", params={"limit": 1_000})).json()
    assert [entry["actor"] for entry in trail].count("alice") == share


async def test_readers_of_events_of_one_role_are_a_tenth_of_all(
    alice: httpx.AsyncClient, world: World
) -> None:
    """One more of that role gets 503."""
    share = share_of(events.MAX_READERS)
    async with world.client(token("alice"), access=ACCESS) as client:
        transport = client._transport
        assert isinstance(transport, httpx.ASGITransport)
        transport.app.state.event_readers["alice"] = share  # type: ignore[attr-defined]
        refused = await client.get("/quota/v1/events")
    assert refused.status_code == 503
    assert refused.json()["reason"] == "6 readers of role alice follow the events already; end one"
