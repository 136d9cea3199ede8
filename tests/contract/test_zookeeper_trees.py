"""The places of children below their parents in ZooKeeper, when others write there, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from kazoo.client import KazooClient

from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.core.model import Rates, ResourceGroup
from coordinator.ports import InUse, NotFound
from tests.contract.own_zookeeper import OwnZooKeeper
from tests.contract.sessions import an_operator, patient, running

pytestmark = pytest.mark.cluster

ROOT = "/trees"
SHOP = ResourceGroup("shop", Rates(publish_messages=100))
WEB = ResourceGroup("web", Rates(), parent="shop")


@pytest.fixture
async def store(own_zookeeper: OwnZooKeeper) -> AsyncIterator[ZooKeeperStore]:
    """A store with a parent and its child."""
    session = patient(own_zookeeper.hosts, ROOT)
    store = ZooKeeperStore(session)
    async with running(session, store):
        await store.create_group(SHOP)
        await store.create_group(WEB)
        yield store


@pytest.fixture
async def shell(own_zookeeper: OwnZooKeeper) -> AsyncIterator[KazooClient]:
    """Another writer: an operator, or a release that knows no trees."""
    async with an_operator(own_zookeeper.hosts) as client:
        yield client


async def test_a_place_that_a_deleted_child_left_behind_holds_no_parent(
    store: ZooKeeperStore, shell: KazooClient
) -> None:
    """A release that knows no trees deletes the group alone; the child can be created again, too."""
    await asyncio.to_thread(shell.delete, f"{ROOT}/groups/web")
    assert await asyncio.to_thread(shell.get_children, f"{ROOT}/groups/shop") == [",web"]

    await store.create_group(WEB)
    with pytest.raises(InUse):
        await store.delete_group("shop")
    await asyncio.to_thread(shell.delete, f"{ROOT}/groups/web")
    await store.delete_group("shop")
    with pytest.raises(NotFound):
        await store.read_group("shop")


async def test_a_child_that_was_moved_by_another_writer_holds_its_old_parent_no_more(
    store: ZooKeeperStore, shell: KazooClient
) -> None:
    """The definition counts, not the place; one that cannot be read keeps its place."""
    await asyncio.to_thread(shell.set, f"{ROOT}/groups/web", b"no document")
    with pytest.raises(InUse):
        await store.delete_group("shop")

    await asyncio.to_thread(shell.set, f"{ROOT}/groups/web", b'{"schema":1}')
    await store.delete_group("shop")
    assert (await store.read_group("web")).group.parent == ""


async def test_a_place_that_another_writer_removed_comes_back_with_the_next_change(
    store: ZooKeeperStore, shell: KazooClient
) -> None:
    """Until then the parent can be deleted, and its child has no parent that counts."""
    await asyncio.to_thread(shell.delete, f"{ROOT}/groups/shop/,web")
    found = await store.read_group("web")

    await store.update_group(WEB, found.version)
    with pytest.raises(InUse):
        await store.delete_group("shop")
    await asyncio.to_thread(shell.delete, f"{ROOT}/groups/shop/,web")
    await store.delete_group("web")
    await store.delete_group("shop")
