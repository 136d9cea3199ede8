"""GroupStore, attachments: what every store promises of them, over memory and ZooKeeper."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.owners import OwnerKind, TrafficOwner, namespace_owner, uses_of
from coordinator.ports import (
    AlreadyExists,
    Catalogue,
    GroupStore,
    InUse,
    NotAllowed,
    NotFound,
    Origin,
    Protected,
    VersionConflict,
    Versioned,
)
from tests.contract.listening import Heard
from tests.contract.stores import ACME, GOLD, ORDERS, SILVER, OpenStore


async def test_an_attachment_is_replaced_only_if_it_is_the_expected_one(store: GroupStore) -> None:
    """A group's name, or None for "not attached"."""
    await store.create_group(GOLD)
    await store.create_group(SILVER)
    await store.attach(ACME, "gold", expected=None)
    for expected in (None, "silver"):
        with pytest.raises(VersionConflict):
            await store.attach(ACME, "silver", expected=expected)
        with pytest.raises(VersionConflict):
            await store.detach(ACME, expected=expected)
    await store.attach(ACME, "silver", expected="gold")
    await store.detach(ACME, expected="silver")
    with pytest.raises(VersionConflict):
        await store.detach(ORDERS, expected="gold")
    await store.attach(ORDERS, "gold", expected=None)
    await store.detach(ORDERS, expected="gold")


async def test_attachments_do_not_change_a_groups_versions(store: GroupStore) -> None:
    """Attachments do not disturb an editor of the definition."""
    created = await store.create_group(GOLD)
    await store.attach(ACME, "gold")
    await store.attach(ORDERS, "gold")
    assert await store.read_group("gold") == created
    await store.update_group(GOLD, created.version)


async def test_a_group_in_use_cannot_be_deleted(store: GroupStore) -> None:
    """A tenant's attachment and a namespace's each stand in the way."""
    await store.create_group(GOLD)
    await store.attach(ACME, "gold")
    await store.attach(ORDERS, "gold")
    with pytest.raises(InUse):
        await store.delete_group("gold")
    await store.detach(ACME)
    with pytest.raises(InUse):
        await store.delete_group("gold")
    await store.detach(ORDERS)
    await store.delete_group("gold")


async def test_attaching_to_a_missing_group_is_refused(store: GroupStore) -> None:
    """The earlier attachment stays."""
    await store.create_group(SILVER)
    await store.attach(ACME, "silver")
    with pytest.raises(NotFound):
        await store.attach(ACME, "gold")
    with pytest.raises(NotFound):
        await store.attach(ORDERS, "gold")
    heard: Heard[Catalogue] = Heard()
    store.watch(heard)
    catalogue = await heard.until(lambda c: bool(c.groups))
    assert catalogue.attachments.tenants == {"acme": "silver"}
    assert catalogue.attachments.namespaces == {}


async def test_attaching_again_replaces_the_earlier_attachment(store: GroupStore) -> None:
    """The group attached to before is free."""
    await store.create_group(GOLD)
    await store.create_group(SILVER)
    await store.attach(ACME, "gold")
    await store.attach(ACME, "gold")
    await store.attach(ACME, "silver")
    await store.delete_group("gold")
    with pytest.raises(InUse):
        await store.delete_group("silver")


ALICE = Origin("alice", tenant="acme")
ROOT = Origin("root")


async def test_what_a_super_user_attached_only_a_super_user_changes(store: GroupStore) -> None:
    """The tenant's admin can neither replace nor detach it, nor make it his by attaching it again."""
    for group in (GOLD, SILVER):
        await store.create_group(group)
    await store.attach(ACME, "gold", by=ROOT)
    await store.attach(ORDERS, "gold", by=ROOT)
    for _ in range(2):
        with pytest.raises(Protected, match=r"Role alice is no super-user.*attached tenants/acme"):
            await store.detach(ACME, by=ALICE)
        with pytest.raises(Protected):
            await store.attach(ACME, "silver", by=ALICE)
        with pytest.raises(Protected, match="namespaces/acme/orders"):
            await store.detach(ORDERS, by=ALICE)
        with pytest.raises(Protected):
            await store.attach(ORDERS, "silver", by=ALICE)
        await store.attach(ACME, "gold", by=ALICE)
        await store.attach(ORDERS, "gold", by=ALICE)
    entries = await store.audit_entries(100)
    assert len(entries) == 4, "what is refused, or changes nothing, leaves no entry"
    await store.detach(ACME, by=ROOT)
    await store.attach(ACME, "silver", by=ALICE)
    await store.detach(ACME, by=ALICE)


async def test_what_a_tenants_admin_attached_is_his_until_a_super_user_takes_it(
    store: GroupStore,
) -> None:
    """By attaching it, to the same group too, which is written down."""
    for group in (GOLD, SILVER):
        await store.create_group(group)
    await store.attach(ACME, "gold", by=ALICE)
    await store.attach(ACME, "silver", by=ALICE)
    await store.detach(ACME, by=ALICE)
    await store.attach(ACME, "gold", by=ALICE)
    await store.attach(ACME, "gold", by=ROOT)
    with pytest.raises(Protected):
        await store.detach(ACME, by=ALICE)
    entries = await store.audit_entries(2)
    assert [entry.origin for entry in entries] == [ROOT, ALICE]


async def test_a_tenants_admin_attaches_to_a_group_that_allows_his_tenant_alone(
    store: GroupStore,
) -> None:
    """Of every kind of owner; what stands is not attached again once the group is closed."""
    closed = await store.create_group(replace(GOLD, allowed_tenants=("bank", "shop")))
    await store.create_group(SILVER)
    await store.attach(namespace_owner("acme", "held"), "silver", by=ALICE)
    reader = TrafficOwner(OwnerKind.SUBSCRIPTION, "persistent/acme/orders/t/s")
    refused = "Role alice acts for tenant acme, which ResourceGroup gold does not allow"
    for attaching in (
        store.attach(ACME, "gold", by=ALICE),
        store.attach(ORDERS, "gold", by=ALICE),
        store.attach(namespace_owner("acme", "held"), "gold", by=ALICE),
        store.attach(reader, "gold", by=ALICE),
    ):
        with pytest.raises(NotAllowed, match=refused):
            await attaching
    entries = await store.audit_entries(100)
    assert len(entries) == 3, "what is refused leaves no entry"
    opened = await store.update_group(GOLD, closed.version)
    await store.attach(reader, "gold", by=ALICE)
    await store.update_group(replace(GOLD, allowed_tenants=()), opened.version)
    with pytest.raises(NotAllowed):
        await store.attach(reader, "gold", by=ALICE)
    await store.attach(reader, "gold", by=ROOT)


async def test_no_attachment_comes_after_the_group_was_closed(open_store: OpenStore) -> None:
    """The definition that allows it is still the group's when it is written."""
    stores = [await open_store() for _ in range(2)]
    for number in range(20):
        group = replace(GOLD, name=f"g{number}")
        created = await stores[0].create_group(group)
        closing = stores[0].update_group(replace(group, allowed_tenants=()), created.version)
        attaching = stores[1].attach(namespace_owner("acme", f"n{number}"), group.name, by=ALICE)
        closed, attached = await asyncio.gather(closing, attaching, return_exceptions=True)
        assert isinstance(closed, Versioned)
        assert attached is None or isinstance(attached, NotAllowed)
        assert (await stores[0].audit_entries(1))[0].subject == f"groups/{group.name}"


async def test_a_tenants_admin_never_wins_against_a_super_user(open_store: OpenStore) -> None:
    """In either order: after both, the attachment of the super-user stands."""
    stores = [await open_store() for _ in range(2)]
    for group in (GOLD, SILVER):
        await stores[0].create_group(group)
    for number in range(20):
        name = f"n{number}"
        calls = [
            stores[0].attach(namespace_owner("acme", name), "gold", by=ROOT),
            stores[1].attach(namespace_owner("acme", name), "silver", by=ALICE),
        ]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert found[0] is None
        assert found[1] is None or isinstance(found[1], Protected)
        await stores[0].detach(namespace_owner("acme", name), expected="gold", by=ROOT)


async def test_detaching_what_is_not_attached_is_fine(store: GroupStore) -> None:
    """Nothing to do is no error."""
    await store.detach(ACME)
    await store.detach(ORDERS)


async def test_a_tenant_and_its_namespace_are_attached_apart(store: GroupStore) -> None:
    """Detaching one leaves the other."""
    await store.create_group(GOLD)
    await store.create_group(SILVER)
    await store.attach(ACME, "gold")
    await store.attach(ORDERS, "silver")
    await store.detach(ACME)
    heard: Heard[Catalogue] = Heard()
    store.watch(heard)
    catalogue = await heard.until(lambda c: not c.attachments.tenants and bool(c.groups))
    assert catalogue.attachments.namespaces == {"acme/orders": "silver"}


async def test_deleting_and_attaching_at_once_never_leaves_an_attachment_to_no_group(
    open_store: OpenStore,
) -> None:
    """Three sidecars play at random on two groups and three owners."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it when the test fails
    dice = random.Random(seed)
    stores = [await open_store() for _ in range(3)]
    heard: Heard[Catalogue] = Heard()
    stores[0].watch(heard)
    for number in range(30):
        await asyncio.gather(*(_act_at_random(store, dice, actions=6) for store in stores))
        # A sidecar that hears of this group has heard of all earlier writes.
        milestone = f"round-{number}"
        await stores[0].create_group(ResourceGroup(milestone, Rates()))
        catalogue = await heard.until(partial(_has_group, milestone))
        attachments = catalogue.attachments
        for name in (*attachments.tenants.values(), *attachments.namespaces.values()):
            assert name in catalogue.groups
        for name in ("gold", "silver"):
            if name in catalogue.groups and uses_of(attachments, name):
                with pytest.raises(InUse):
                    await stores[1].delete_group(name)


def _has_group(name: str, catalogue: Catalogue) -> bool:
    return name in catalogue.groups


async def _act_at_random(store: GroupStore, dice: random.Random, actions: int) -> None:
    """Create, delete, attach and detach few enough things that every action meets another."""
    for _ in range(actions):
        group = dice.choice(("gold", "silver"))
        namespace = dice.choice(("orders", "bills"))
        calls: list[Callable[[], Awaitable[object]]] = [
            partial(store.create_group, ResourceGroup(group, Rates())),
            partial(store.delete_group, group),
            partial(store.attach, ACME, group),
            partial(store.detach, ACME),
            partial(store.attach, namespace_owner("acme", namespace), group),
            partial(store.detach, namespace_owner("acme", namespace)),
        ]
        with contextlib.suppress(NotFound, AlreadyExists, InUse):
            await dice.choice(calls)()
