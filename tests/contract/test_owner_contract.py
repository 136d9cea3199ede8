"""GroupStore, roles, subscriptions and remote clusters: what every store promises of them."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.core.owners import (
    cluster_owner,
    namespace_owner,
    role_owner,
    subscription_owner,
    uses_of,
)
from coordinator.ports import (
    Catalogue,
    GroupStore,
    InUse,
    NotFound,
    Origin,
    Protected,
    VersionConflict,
)
from tests.contract.listening import Heard
from tests.contract.sessions import new_root, patient, running
from tests.contract.stores import GOLD, SILVER, OpenStore

ALICE, TEAM, OTHERS = role_owner("alice"), role_owner("team-*"), role_owner("")
ODD = role_owner("spiffe://ä/b c,d=e")


async def test_roles_patterns_and_the_default_are_attached_and_told(store: GroupStore) -> None:
    """Each replaces an earlier attachment of its own alone."""
    await store.create_group(GOLD)
    await store.create_group(SILVER)
    for owner in (ALICE, TEAM, OTHERS, ODD):
        await store.attach(owner, "gold", expected=None)
    await store.attach(TEAM, "silver", expected="gold")
    await store.detach(OTHERS)
    heard: Heard[Catalogue] = Heard()
    store.watch(heard)
    wanted = {"alice": "gold", "team-*": "silver", ODD.name: "gold"}
    catalogue = await heard.until(lambda c: c.attachments.roles == wanted)
    assert catalogue.attachments.tenants == catalogue.attachments.namespaces == {}
    assert not catalogue.faults


AUDIT = subscription_owner("persistent://acme/orders/new/audit log")
WEST = cluster_owner("west")


async def test_subscriptions_and_remote_clusters_are_kept_apart_from_roles(
    store: GroupStore,
) -> None:
    """This holds for the same name, too."""
    await store.create_group(GOLD)
    for owner in (AUDIT, WEST, role_owner("west")):
        await store.attach(owner, "gold", expected=None)
    heard: Heard[Catalogue] = Heard()
    store.watch(heard)
    catalogue = await heard.until(lambda c: bool(c.attachments.roles))
    assert catalogue.attachments.clusters == {"west": "gold"}
    assert catalogue.attachments.roles == {"west": "gold"}
    subscription = "persistent/acme/orders/new/audit log"
    assert catalogue.attachments.subscriptions == {subscription: "gold"}
    assert uses_of(catalogue.attachments, "gold") == (
        "replication with west",
        "role west",
        f"subscription {subscription}",
    )
    for owner in (role_owner("west"), AUDIT):
        await store.detach(owner)
    with pytest.raises(InUse):
        await store.delete_group("gold")
    await store.detach(WEST)
    await store.delete_group("gold")
    assert (await store.audit_entries(2))[1].subject == "clusters/west"


async def test_a_group_with_a_role_cannot_be_deleted(store: GroupStore) -> None:
    """A role's attachment to a missing group is refused, and the earlier one stays."""
    await store.create_group(GOLD)
    await store.attach(OTHERS, "gold")
    with pytest.raises(NotFound):
        await store.attach(OTHERS, "silver")
    with pytest.raises(InUse):
        await store.delete_group("gold")
    with pytest.raises(VersionConflict):
        await store.detach(OTHERS, expected=None)
    await store.detach(OTHERS, expected="gold")
    await store.detach(OTHERS)
    await store.delete_group("gold")


async def test_the_attachment_of_a_role_is_in_the_trail(store: GroupStore) -> None:
    """With who made it, and what was attached before; what changes nothing is not."""
    await store.create_group(GOLD)
    root = Origin("root")
    for _ in range(2):
        await store.attach(ODD, "gold", by=root)
    with pytest.raises(Protected):
        await store.detach(ODD, by=Origin("eve", tenant="public"))
    await store.attach(OTHERS, "gold", by=root)
    await store.detach(ODD, by=root)
    entries = await store.audit_entries(3)
    assert [(entry.subject, entry.before, entry.after) for entry in entries] == [
        (ODD.subject, "gold", None),
        ("roles/", None, "gold"),
        (ODD.subject, None, "gold"),
    ]


async def test_a_group_is_deleted_or_gets_the_role_never_both(open_store: OpenStore) -> None:
    """Two sidecars at once; the loser is told."""
    stores = [await open_store() for _ in range(2)]
    for _ in range(10):
        await stores[0].create_group(GOLD)
        calls = [stores[0].delete_group("gold"), stores[1].attach(TEAM, "gold")]
        deleted, attached = await asyncio.gather(*calls, return_exceptions=True)
        assert (deleted is None) != (attached is None)
        assert isinstance(deleted if attached is None else attached, InUse | NotFound)
        if attached is None:
            await stores[0].detach(TEAM)
            await stores[0].delete_group("gold")


@pytest.mark.cluster
async def test_what_stands_among_the_roles_and_is_none_is_a_fault_of_its_own(
    zookeeper_hosts: str,
) -> None:
    """It disturbs no other, it goes with its node, and the place is no tenant's."""
    session = patient(zookeeper_hosts, new_root())
    store = ZooKeeperStore(session)
    heard: Heard[Catalogue] = Heard()
    store.watch(heard)
    async with running(session, store):
        await store.create_group(GOLD)
        await store.attach(TEAM, "gold")
        path = session.path("attachments", "namespaces", ":roles:", "=2A")
        await _create(session, path, b'{"group":"gold","schema":2}')
        catalogue = await heard.until(lambda c: bool(c.faults) and bool(c.attachments.roles))
        assert "matches every role" in catalogue.faults[path]
        assert catalogue.attachments.roles == {"team-*": "gold"}
        await session.call(lambda client: client.delete_async(path))
        await heard.until(lambda c: not c.faults)
        with pytest.raises(ValueError, match=":roles: is no tenant"):
            await store.attach(namespace_owner(":roles:", "alice"), "gold")


async def _create(session: ZooKeeperSession, path: str, data: bytes) -> None:
    await session.call(lambda client: client.create_async(path, data))
