"""GroupStore, definitions: what every store promises of groups, over memory and ZooKeeper."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.owners import namespace_owner, tenant_owner
from coordinator.ports import AlreadyExists, GroupStore, InUse, NotFound, VersionConflict
from tests.contract.stores import ACME, GOLD, OpenStore


async def test_a_created_group_reads_back_as_it_was_written(store: GroupStore) -> None:
    """All fields, 0 and unlimited included; only the configuration version is the store's."""
    group = ResourceGroup(
        "gold.eu-1:a=b",
        Rates(publish_messages=1, publish_bytes=2**62, dispatch_messages=0, dispatch_bytes=None),
        law="max-min",
        weights="topics",
        overshoot_policy="eager",
        partition_policy="stop",
    )
    created = await store.create_group(group)
    assert await store.read_group(group.name) == created
    version = created.group.configuration_version
    assert created.group == replace(group, configuration_version=version)


async def test_a_missing_group_is_not_found(store: GroupStore) -> None:
    """Reading, updating and deleting say so alike."""
    with pytest.raises(NotFound):
        await store.read_group("gold")
    with pytest.raises(NotFound):
        await store.update_group(GOLD, 0)
    with pytest.raises(NotFound):
        await store.delete_group("gold")


async def test_a_group_is_created_once(store: GroupStore) -> None:
    """The second creation changes nothing."""
    created = await store.create_group(GOLD)
    with pytest.raises(AlreadyExists):
        await store.create_group(replace(GOLD, limits=Rates()))
    assert await store.read_group("gold") == created


async def test_an_update_replaces_the_whole_definition(store: GroupStore) -> None:
    """Merging partial updates is the REST's business."""
    created = await store.create_group(GOLD)
    changed = replace(GOLD, limits=Rates(publish_bytes=7), overshoot_policy="eager")
    updated = await store.update_group(changed, created.version)
    assert updated.group.limits == Rates(publish_bytes=7)
    assert updated.group.overshoot_policy == "eager"
    assert await store.read_group("gold") == updated


async def test_an_update_of_another_version_is_refused_and_changes_nothing(
    store: GroupStore,
) -> None:
    """Older, newer, and -1, which is "any version" to ZooKeeper."""
    created = await store.create_group(GOLD)
    updated = await store.update_group(GOLD, created.version)
    # -1 is "any version" to ZooKeeper, and must not be that here.
    for version in (created.version, updated.version + 1, -1):
        with pytest.raises(VersionConflict):
            await store.update_group(replace(GOLD, limits=Rates()), version)
    assert await store.read_group("gold") == updated


async def test_the_configuration_version_grows_with_every_change_also_across_recreation(
    store: GroupStore,
) -> None:
    """Reports name it to say which definition they mean."""
    first = await store.create_group(GOLD)
    second = await store.update_group(GOLD, first.version)
    await store.delete_group("gold")
    third = await store.create_group(GOLD)
    versions = [v.group.configuration_version for v in (first, second, third)]
    assert versions == sorted(set(versions))


async def test_a_version_outlives_no_recreation(store: GroupStore) -> None:
    """A reader of the deleted group cannot overwrite or delete the one created since."""
    stale = await store.create_group(GOLD)
    await store.delete_group("gold")
    current = await store.create_group(GOLD)

    with pytest.raises(VersionConflict):
        await store.update_group(replace(GOLD, limits=Rates()), stale.version)
    with pytest.raises(VersionConflict):
        await store.delete_group("gold", version=stale.version)
    assert await store.read_group("gold") == current
    await store.delete_group("gold", version=current.version)


async def test_recreation_between_reading_and_writing_is_never_overwritten(
    open_store: OpenStore,
) -> None:
    """One counts by compare-and-set while another deletes and creates: no count of a dead group lives."""
    writer, other = await open_store(), await open_store()
    await writer.create_group(ResourceGroup("counter", Rates(publish_messages=0)))
    lives = 0

    async def recreate() -> None:
        nonlocal lives
        for _ in range(15):
            await other.delete_group("counter")
            lives += 1
            # Every life begins at another thousand, so what belongs to which can be seen.
            await other.create_group(
                ResourceGroup("counter", Rates(publish_messages=1_000 * lives))
            )

    async def count() -> None:
        while lives < 15:
            with contextlib.suppress(NotFound, VersionConflict):
                current = await writer.read_group("counter")
                reached = current.group.limits.publish_messages or 0
                raised = replace(current.group, limits=Rates(publish_messages=reached + 1))
                await writer.update_group(raised, current.version)
            await asyncio.sleep(0)

    await asyncio.gather(recreate(), count())
    final = (await other.read_group("counter")).group.limits.publish_messages
    assert final is not None
    assert final // 1_000 == 15


async def test_a_deleted_group_is_gone(store: GroupStore) -> None:
    """Deleting frees the name."""
    await store.create_group(GOLD)
    await store.delete_group("gold")
    with pytest.raises(NotFound):
        await store.read_group("gold")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a\n", "ü", "a" * 256, "a,b", "a\0"])
async def test_a_name_that_is_none_is_refused_before_anything_happens(
    store: GroupStore, name: str
) -> None:
    """Slashes make child nodes, a newline at the end passes careless patterns."""
    await store.create_group(GOLD)
    calls: list[Callable[[], Awaitable[object]]] = [
        partial(store.create_group, replace(GOLD, name=name)),
        partial(store.read_group, name),
        partial(store.delete_group, name),
        partial(store.attach, tenant_owner(name), "gold"),
        partial(store.attach, namespace_owner("acme", name), "gold"),
        partial(store.attach, ACME, name),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="is not a name"):
            await call()


@pytest.mark.parametrize(
    "change",
    [
        {"limits": Rates(publish_messages=-2)},
        {"limits": Rates(publish_bytes=2**63)},
        {"law": "of the jungle"},
        {"weights": "whatever"},
        {"overshoot_policy": "whatever"},
        {"partition_policy": "whatever"},
    ],
)
async def test_an_unreadable_definition_is_not_written(
    store: GroupStore, change: dict[str, object]
) -> None:
    """It would be a fault on every sidecar."""
    with pytest.raises(ValueError, match="must be"):
        await store.create_group(replace(GOLD, **change))  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        await store.read_group("gold")


async def test_two_writers_with_compare_and_set_never_lose_an_update(
    open_store: OpenStore,
) -> None:
    """Two count to twenty each in one definition; the sum is forty."""
    rounds = 20
    stores = [await open_store(), await open_store()]
    await stores[0].create_group(ResourceGroup("counter", Rates(publish_messages=0)))

    async def count(store: GroupStore) -> None:
        done = 0
        while done < rounds:
            current = await store.read_group("counter")
            reached = current.group.limits.publish_messages or 0
            raised = replace(current.group, limits=Rates(publish_messages=reached + 1))
            try:
                await store.update_group(raised, current.version)
            except VersionConflict:
                continue
            done += 1

    await asyncio.gather(*map(count, stores))
    final = await stores[0].read_group("counter")
    assert final.group.limits.publish_messages == rounds * len(stores)


CHILD = ResourceGroup(
    "child", Rates(), parent="gold", weight=3, guarantees=Rates(publish_messages=60)
)


async def test_a_child_reads_back_with_its_place_in_the_tree(store: GroupStore) -> None:
    """Its parent, weight and guarantees; and it can be given another place."""
    await store.create_group(GOLD)
    created = await store.create_group(CHILD)
    assert replace(created.group, configuration_version=0) == CHILD

    alone = replace(CHILD, parent="", weight=1, guarantees=Rates())
    updated = await store.update_group(alone, created.version)
    assert await store.read_group("child") == updated
    again = await store.update_group(CHILD, updated.version)
    assert (await store.read_group("child")).group.parent == "gold"
    await store.delete_group("child", version=again.version)


async def test_a_child_needs_its_parent(store: GroupStore) -> None:
    """Neither created nor changed without one; nothing is half written."""
    with pytest.raises(NotFound, match="gold"):
        await store.create_group(CHILD)
    with pytest.raises(NotFound, match="child"):
        await store.read_group("child")

    alone = await store.create_group(replace(CHILD, parent=""))
    with pytest.raises(NotFound, match="gold"):
        await store.update_group(CHILD, alone.version)
    assert await store.read_group("child") == alone


async def test_a_parent_is_deleted_after_its_children(store: GroupStore) -> None:
    """Until the last of them is deleted or has another parent."""
    await store.create_group(GOLD)
    await store.create_group(CHILD)
    other = await store.create_group(replace(CHILD, name="other"))
    with pytest.raises(InUse):
        await store.delete_group("gold")

    await store.delete_group("child")
    with pytest.raises(InUse):
        await store.delete_group("gold")
    await store.update_group(replace(CHILD, name="other", parent=""), other.version)
    await store.delete_group("gold")


async def test_a_child_and_the_end_of_its_parent_exclude_each_other(open_store: OpenStore) -> None:
    """In either order no child is left without its parent."""
    one, two = await open_store(), await open_store()
    for _ in range(10):
        await one.create_group(GOLD)
        results = await asyncio.gather(
            one.create_group(CHILD), two.delete_group("gold"), return_exceptions=True
        )
        created = not isinstance(results[0], BaseException)
        assert isinstance(results[1] if created else results[0], InUse if created else NotFound)
        if created:
            await two.delete_group("child")
            await two.delete_group("gold")
