"""GroupStore, attachments: what every store promises of them, over memory and ZooKeeper."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from coordinator.core.model import Rates, ResourceGroup
from coordinator.ports import (
    AlreadyExists,
    Catalogue,
    GroupStore,
    InUse,
    NotFound,
    VersionConflict,
)
from tests.contract.listening import Heard
from tests.contract.stores import GOLD, SILVER, OpenStore


async def test_an_attachment_is_replaced_only_if_it_is_the_expected_one(store: GroupStore) -> None:
    """A group's name, or None for "not attached"."""
    await store.create_group(GOLD)
    await store.create_group(SILVER)
    await store.attach_tenant("acme", "gold", expected=None)
    for expected in (None, "silver"):
        with pytest.raises(VersionConflict):
            await store.attach_tenant("acme", "silver", expected=expected)
        with pytest.raises(VersionConflict):
            await store.detach_tenant("acme", expected=expected)
    await store.attach_tenant("acme", "silver", expected="gold")
    await store.detach_tenant("acme", expected="silver")
    with pytest.raises(VersionConflict):
        await store.detach_namespace("acme", "orders", expected="gold")
    await store.attach_namespace("acme", "orders", "gold", expected=None)
    await store.detach_namespace("acme", "orders", expected="gold")


async def test_attachments_do_not_change_a_groups_versions(store: GroupStore) -> None:
    """Whoever edits a definition is not disturbed by attachments."""
    created = await store.create_group(GOLD)
    await store.attach_tenant("acme", "gold")
    await store.attach_namespace("acme", "orders", "gold")
    assert await store.read_group("gold") == created
    await store.update_group(GOLD, created.version)


async def test_a_group_in_use_cannot_be_deleted(store: GroupStore) -> None:
    """A tenant's attachment and a namespace's each stand in the way."""
    await store.create_group(GOLD)
    await store.attach_tenant("acme", "gold")
    await store.attach_namespace("acme", "orders", "gold")
    with pytest.raises(InUse):
        await store.delete_group("gold")
    await store.detach_tenant("acme")
    with pytest.raises(InUse):
        await store.delete_group("gold")
    await store.detach_namespace("acme", "orders")
    await store.delete_group("gold")


async def test_attaching_to_a_missing_group_is_refused(store: GroupStore) -> None:
    """The earlier attachment stays."""
    await store.create_group(SILVER)
    await store.attach_tenant("acme", "silver")
    with pytest.raises(NotFound):
        await store.attach_tenant("acme", "gold")
    with pytest.raises(NotFound):
        await store.attach_namespace("acme", "orders", "gold")
    heard: Heard[Catalogue] = Heard()
    store.watch(heard)
    catalogue = await heard.until(lambda c: bool(c.groups))
    assert catalogue.attachments.tenants == {"acme": "silver"}
    assert catalogue.attachments.namespaces == {}


async def test_attaching_again_replaces_the_earlier_attachment(store: GroupStore) -> None:
    """The group attached to before is free."""
    await store.create_group(GOLD)
    await store.create_group(SILVER)
    await store.attach_tenant("acme", "gold")
    await store.attach_tenant("acme", "gold")
    await store.attach_tenant("acme", "silver")
    await store.delete_group("gold")
    with pytest.raises(InUse):
        await store.delete_group("silver")


async def test_detaching_what_is_not_attached_is_fine(store: GroupStore) -> None:
    """Nothing to do is no error."""
    await store.detach_tenant("acme")
    await store.detach_namespace("acme", "orders")


async def test_a_tenant_and_its_namespace_are_attached_apart(store: GroupStore) -> None:
    """Detaching one leaves the other."""
    await store.create_group(GOLD)
    await store.create_group(SILVER)
    await store.attach_tenant("acme", "gold")
    await store.attach_namespace("acme", "orders", "silver")
    await store.detach_tenant("acme")
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
        # Whoever hears of this group has heard of all that was written before it.
        milestone = f"round-{number}"
        await stores[0].create_group(ResourceGroup(milestone, Rates()))
        catalogue = await heard.until(partial(_has_group, milestone))
        attachments = catalogue.attachments
        for name in (*attachments.tenants.values(), *attachments.namespaces.values()):
            assert name in catalogue.groups
        for name in ("gold", "silver"):
            if name in catalogue.groups and attachments.uses_of(name):
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
            partial(store.attach_tenant, "acme", group),
            partial(store.detach_tenant, "acme"),
            partial(store.attach_namespace, "acme", namespace, group),
            partial(store.detach_namespace, "acme", namespace),
        ]
        with contextlib.suppress(NotFound, AlreadyExists, InUse):
            await dice.choice(calls)()
