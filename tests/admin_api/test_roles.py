"""Attaching roles, patterns of roles, and the roles without an attachment."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

from coordinator.core.model import MonitoringClass
from coordinator.insight.model.gate_views import RoleView
from tests.admin_api.keys import access, token
from tests.admin_api.world import FixedGate, World

ROLES = "/quota/v1/roles"
DEFAULT = "/quota/v1/default-role/resourcegroup"


def path_of(role: str) -> str:
    """The path of a role's group."""
    return f"{ROLES}/{quote(role, safe='')}/resourcegroup"


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ("*", "matches every role; attach the default"),
        ("**", "matches every role; attach the default"),
        ("*-a", "a pattern has one *, at its end, as in team-*"),
        ("a*b", "a pattern has one *, at its end"),
        ("a\nb", "use printable letters"),
        ("a\x00b", "use printable letters"),
        ("x" * 10_240, "use at most 255 bytes"),
    ],
)
async def test_a_role_that_cannot_be_attached_is_refused_by_name(
    client: httpx.AsyncClient, orders: str, world: World, role: str, reason: str
) -> None:
    """Nothing is attached, detached or written down."""
    await client.put(f"{path_of('alice')}/{orders}")
    for answer in (
        await client.put(f"{path_of(role)}/{orders}"),
        await client.delete(path_of(role)),
        await client.get(path_of(role)),
    ):
        assert answer.status_code == 400
        assert reason in answer.json()["reason"]
        assert len(answer.text) < 400
    assert world.views.shown.attachments.roles == {"alice": orders}


async def test_a_role_needs_a_group_that_can_have_traffic(
    client: httpx.AsyncClient, orders: str, world: World
) -> None:
    """One with children is 409, with where to attach it."""
    await client.put("/admin/v2/resourcegroups/child", json={"parent": orders})
    refused = await client.put(f"{path_of('alice')}/{orders}")
    assert refused.status_code == 409
    assert "attach to one of these" in refused.json()["reason"]
    assert world.views.shown.attachments.roles == {}


async def test_a_group_with_roles_becomes_no_parent(client: httpx.AsyncClient, orders: str) -> None:
    """The refusal names the role."""
    await client.put(f"{path_of('alice')}/{orders}")
    refused = await client.put("/admin/v2/resourcegroups/child", json={"parent": orders})
    assert refused.status_code == 400
    assert "role alice belong to orders" in refused.json()["reason"]


async def test_only_a_super_user_attaches_roles(world: World) -> None:
    """A tenant's admin would take another tenant's role out of its limit."""
    async with world.client(token("admin"), access=access()) as root:
        await root.put("/admin/v2/resourcegroups/tight", json={"publishRateInMsgs": 50})
    async with world.client(token("alice"), access=access()) as client:
        for method, path in (
            ("PUT", f"{path_of('bob')}/tight"),
            ("POST", f"{path_of('alice')}/tight"),
            ("DELETE", path_of("alice")),
            ("PUT", f"{DEFAULT}/tight"),
            ("DELETE", DEFAULT),
        ):
            refused = await client.request(method, path)
            assert refused.status_code == 403, path
            assert refused.json()["reason"] == "Role alice is no super-user"
        assert (await client.get(path_of("bob"))).status_code == 200
    async with world.client(None, access=access()) as client:
        assert (await client.get(ROLES)).status_code == 401


SEEN = (
    RoleView("team-a", "orders", MonitoringClass.PUBLISH, 2, 1_234, 56_789, 12_300_000_000),
    RoleView("team-b", "orders", MonitoringClass.PUBLISH, 1, 9_999, 1, 0),
    RoleView("team-a", "orders", MonitoringClass.DISPATCH, 5, 7, 7, 0),
    RoleView("(others)", "", MonitoringClass.PUBLISH, 1, 1, 1, 0),
)


async def test_roles_are_told_with_the_time_for_which_they_were_held(world: World) -> None:
    """As a list, in metrics, and in the explanation of their group."""
    world.throttle_orders()
    async with world.client(gate=FixedGate(roles=SEEN)) as client:
        await client.put("/admin/v2/resourcegroups/orders", json={"publishRateInMsgs": 9})
        await client.put(f"{path_of('team-*')}/orders")
        listed = (await client.get(ROLES)).json()
        metrics = (await client.get("/metrics")).text
        told = (await client.get("/quota/v1/explain/orders")).json()["roles"]

    assert [(each["role"], each["heldMillis"]) for each in listed][:2] == [
        ("team-a", 12_300),
        ("team-b", 0),
    ]
    labels = 'group="orders",monitoring_class="Publish",role="team-a"'
    assert f"pulsar_quota_role_throttled_seconds_total{{{labels}}} 12.3" in _sorted(metrics)
    assert f"pulsar_quota_role_participants{{{labels}}} 2.0" in _sorted(metrics)
    assert told == [
        "Role team-a: 2 producers, 1,234 messages, held for 12.3 s at this gate.",
        "Role team-b: 1 producer, 9,999 messages, never held at this gate.",
    ]


def _sorted(metrics: str) -> set[str]:
    """Lines with their labels in the order of the alphabet."""
    found = set()
    for line in metrics.splitlines():
        name, brace, rest = line.partition("{")
        labels, _, value = rest.rpartition("} ")
        found.add(f"{name}{{{','.join(sorted(labels.split(',')))}}} {value}" if brace else line)
    return found


async def test_a_broker_without_a_gate_says_that_it_knows_no_roles(world: World) -> None:
    """Where the limit is explained."""
    world.throttle_orders()
    async with world.client(enforcement_path="native") as client:
        await client.put("/admin/v2/resourcegroups/orders", json={"publishRateInMsgs": 9})
        await client.put(f"{path_of('alice')}/orders")
        told = (await client.get("/quota/v1/explain/orders")).json()["roles"]
    assert told == ["Roles are not limited here: brokers' own limiters do not know them."]


async def test_a_gate_to_which_no_client_proves_a_role_says_so(world: World) -> None:
    """All are anonymous there."""
    world.throttle_orders()
    async with world.client(proves_roles=False) as client:
        await client.put("/admin/v2/resourcegroups/orders", json={"publishRateInMsgs": 9})
        assert (await client.get("/quota/v1/explain/orders")).json()["roles"] == []
        await client.put(f"{path_of('alice')}/orders")
        (told,) = (await client.get("/quota/v1/explain/orders")).json()["roles"]
        health = (await client.get("/quota/v1/health")).json()
    assert told.startswith("No client can prove a role at this gate, so all are anonymous")
    assert health["provesRoles"] is False
