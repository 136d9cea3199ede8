"""A sidecar with native enforcement answers and refuses by its own rules."""

from __future__ import annotations

from dataclasses import replace

from tests.admin_api.world import FixedNative, World
from tests.native.engine.test_views import state

GROUPS = "/admin/v2/resourcegroups"


async def test_strict_is_refused_with_the_reason() -> None:
    """This holds for a new group, for its preview and for a roll-back; a gate may keep it."""
    world = World()
    async with world.client() as gated, world.client(enforcement_path="native") as native:
        asked = {"publishRateInMsgs": 5, "overshootPolicy": "strict"}
        refused = await native.put(f"{GROUPS}/orders", json=asked)
        assert refused.status_code == 400
        assert "once an interval" in refused.json()["reason"]
        previewed = await native.post("/quota/v1/preview/orders", json=asked)
        assert (previewed.status_code, previewed.json()) == (400, refused.json())
        assert (await gated.put(f"{GROUPS}/orders", json=asked)).is_success
        eased = {"overshootPolicy": "balanced"}
        assert (await native.put(f"{GROUPS}/orders", json=eased)).is_success
        entry = (await native.get("/quota/v1/audit")).json()[0]["id"]
        back = await native.post(f"/quota/v1/audit/{entry}/rollback")
        assert back.status_code == 400
        assert world.views.shown.groups["orders"].group.overshoot_policy == "balanced"


async def test_a_tree_is_made_as_with_gates() -> None:
    """Brokers hold each group to its part of the parent's limit."""
    world = World()
    async with world.client(enforcement_path="native") as native:
        await native.put(f"{GROUPS}/shop", json={"publishRateInMsgs": 50})
        child = {"parent": "shop", "publishGuaranteeInMsgs": 30}
        assert (await native.put(f"{GROUPS}/web", json=child)).is_success
        refused = await native.put(f"{GROUPS}/more", json=child)
        assert refused.status_code == 400
        assert "add up to 60" in refused.json()["reason"]


async def test_who_holds_a_limit_is_said_everywhere() -> None:
    """Explain and certificate say it for a group, health for the broker."""
    world = World()
    async with world.client(enforcement_path="native", native=FixedNative(state())) as client:
        await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 3_000})
        world.throttle_orders()
        explained = (await client.get("/quota/v1/explain/orders")).json()
        other = (await client.get("/quota/v1/explain/orders?broker=broker-2")).json()
        certified = (await client.get("/quota/v1/certificate/orders")).json()["certificates"]
        health = (await client.get("/quota/v1/health")).json()
    assert "attached" in explained["slack"]
    assert other["slack"] == ""
    assert [each["slack"] for each in certified] == [explained["slack"]]
    assert health["enforcementPath"] == "native"


def many(*names: str) -> FixedNative:
    """Native enforcement with these groups, each of which stands for itself."""
    told = state()
    views = [replace(told.groups[0], name=name, groups=(name,)) for name in names]
    return FixedNative(replace(told, groups=tuple(views)))


async def test_its_groups_come_in_pages_by_name() -> None:
    """Each page has all the other facts, and of groups only its own are looked at."""
    native = many("c", "a", "b")
    async with World().client(enforcement_path="native", native=native) as client:
        first = await client.get("/quota/v1/native?limit=2")
        second = await client.get(first.links["next"]["url"])

    assert [each["name"] for each in first.json()["groups"]] == ["a", "b"]
    assert [each["name"] for each in second.json()["groups"]] == ["c"]
    assert "next" not in second.links
    assert native.asked == [["a", "b"], ["c"]]
    assert first.json() | {"groups": ()} == second.json() | {"groups": ()}


async def test_of_native_groups_only_those_of_the_asked_one_are_looked_at() -> None:
    """There may be thousands, and a request waits for all that are."""
    native = many("orders", "audit")
    world = World()
    async with world.client(enforcement_path="native", native=native) as client:
        await client.put(f"{GROUPS}/orders", json={"publishRateInMsgs": 3_000})
        world.throttle_orders()
        for path in ("explain/orders", "certificate/orders", "certificate"):
            assert (await client.get(f"/quota/v1/{path}")).is_success

    assert native.asked == [["orders"]] * 3
