"""GroupStore, watching: what every store tells its listeners, over memory and ZooKeeper."""

from __future__ import annotations

from dataclasses import replace

from coordinator.ports import Catalogue, GroupStore
from tests.contract.listening import Heard
from tests.contract.stores import ACME, GOLD, ORDERS, OpenStore


async def test_a_watcher_hears_the_whole_catalogue_at_once_and_after_every_change(
    store: GroupStore,
) -> None:
    """Every kind of change, one after the other."""
    created = await store.create_group(GOLD)
    await store.attach(ACME, "gold")
    heard: Heard[Catalogue] = Heard()
    store.watch(heard)
    await heard.until(
        lambda c: dict(c.groups) == {"gold": created} and c.attachments.tenants == {"acme": "gold"}
    )
    updated = await store.update_group(GOLD, created.version)
    await heard.until(lambda c: c.groups["gold"] == updated)
    await store.attach(ORDERS, "gold")
    await heard.until(lambda c: c.attachments.namespaces == {"acme/orders": "gold"})
    await store.detach(ACME)
    await heard.until(lambda c: not c.attachments.tenants)
    await store.detach(ORDERS)
    await heard.until(lambda c: not c.attachments.namespaces)
    await store.delete_group("gold")
    last = await heard.until(lambda c: not c.groups)
    assert last == Catalogue()


async def test_a_watcher_of_an_empty_store_hears_that_it_is_empty(store: GroupStore) -> None:
    """Nothing is news too: there are no groups to wait for."""
    heard: Heard[Catalogue] = Heard()
    store.watch(heard)
    assert await heard.until(lambda _: True) == Catalogue()


async def test_a_catalogue_once_heard_never_changes(store: GroupStore) -> None:
    """It is a snapshot, not a view."""
    heard: Heard[Catalogue] = Heard()
    store.watch(heard)
    empty = await heard.until(lambda _: True)
    await store.create_group(GOLD)
    await heard.until(lambda c: "gold" in c.groups)
    assert empty == Catalogue()


async def test_every_sidecar_hears_of_every_others_changes(open_store: OpenStore) -> None:
    """This holds for every writer."""
    stores = [await open_store() for _ in range(3)]
    heard: list[Heard[Catalogue]] = []
    for store in stores:
        heard.append(Heard())
        store.watch(heard[-1])
    for index, store in enumerate(stores):
        await store.create_group(replace(GOLD, name=f"group-{index}"))
    for listener in heard:
        await listener.until(lambda c: len(c.groups) == len(stores))
