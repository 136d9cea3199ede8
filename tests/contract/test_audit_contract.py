"""GroupStore, audit: what every store promises of the trail of changes, over memory and ZooKeeper."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from coordinator.core.model import Rates
from coordinator.core.owners import namespace_owner, tenant_owner
from coordinator.ports import (
    AUDIT_LENGTH,
    GroupStore,
    InUse,
    NotFound,
    Origin,
    VersionConflict,
    share_of,
)
from tests.contract.stores import ACME, GOLD, ORDERS


async def test_every_change_leaves_one_audit_entry(store: GroupStore) -> None:
    """In order, with who, before and after; what changes nothing or is refused leaves none."""
    by = Origin("admin", "10.1.2.3")
    created = await store.create_group(GOLD, by=by)
    changed = replace(GOLD, limits=Rates())
    await store.update_group(changed, created.version, by=Origin("bob", undoes=0))
    await store.attach(ACME, "gold")
    await store.attach(ACME, "gold")
    await store.attach(ORDERS, "gold")
    with pytest.raises(InUse):
        await store.delete_group("gold")
    with pytest.raises(VersionConflict):
        await store.update_group(GOLD, created.version)
    await store.detach(ORDERS)
    await store.detach(ACME)
    await store.detach(ACME)
    await store.delete_group("gold")

    entries = await store.audit_entries(100)

    assert [entry.id for entry in entries] == list(range(entries[0].id, -1, -1))
    assert [(e.subject, e.before, e.after) for e in reversed(entries)] == [
        ("groups/gold", None, GOLD),
        ("groups/gold", GOLD, changed),
        ("tenants/acme", None, "gold"),
        ("namespaces/acme/orders", None, "gold"),
        ("namespaces/acme/orders", "gold", None),
        ("tenants/acme", "gold", None),
        ("groups/gold", changed, None),
    ]
    assert entries[-1].origin == by
    assert entries[-2].origin == Origin("bob", undoes=0)
    assert abs(entries[-1].at_ms / 1000 - time.time()) < 60


async def test_the_audit_trail_is_read_in_pages(store: GroupStore) -> None:
    """Newest first, a single one by its id, and one that is not there is not found."""
    assert await store.audit_entries(10) == ()
    for _ in range(3):
        await store.create_group(GOLD)
        await store.delete_group("gold")

    first = await store.audit_entries(4)
    second = await store.audit_entries(4, first[-1].id)

    assert [entry.id for entry in first + second] == [5, 4, 3, 2, 1, 0]
    assert await store.audit_entry(3) == first[2]
    with pytest.raises(NotFound):
        await store.audit_entry(6)


@pytest.mark.slow
async def test_a_tenants_admin_pushes_out_entries_of_his_tenant_alone(store: GroupStore) -> None:
    """Its share of the newest is kept; each is found by its id."""
    await store.create_group(replace(GOLD, allowed_tenants=("acme", "bank")))
    await store.attach(tenant_owner("bank"), "gold", by=Origin("bob", tenant="bank"))
    alice, share = Origin("alice", tenant="acme"), share_of(AUDIT_LENGTH)
    for number in range(share // 2 + 20):
        await store.attach(namespace_owner("acme", f"n{number}"), "gold", by=alice)
        await store.detach(namespace_owner("acme", f"n{number}"), by=alice)

    entries = await store.audit_entries(2 * AUDIT_LENGTH)

    actors = [entry.origin.actor for entry in entries]
    assert actors == ["alice"] * share + ["bob", "anonymous"]
    for entry in (entries[0], entries[share - 1], entries[-2]):
        assert await store.audit_entry(entry.id) == entry
    with pytest.raises(NotFound):
        await store.audit_entry(2)


@pytest.mark.verify
@pytest.mark.slow
async def test_the_audit_trail_is_bounded(store: GroupStore) -> None:
    """The last thousand are kept, the oldest are dropped; what is dropped is not found."""
    version = (await store.create_group(GOLD)).version
    for number in range(AUDIT_LENGTH + 40):
        changed = replace(GOLD, limits=Rates(publish_messages=number))
        version = (await store.update_group(changed, version)).version

    entries = await store.audit_entries(2 * AUDIT_LENGTH)

    assert len(entries) == AUDIT_LENGTH
    assert entries[0].id == AUDIT_LENGTH + 40
    with pytest.raises(NotFound):
        await store.audit_entry(0)
