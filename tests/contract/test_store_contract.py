"""GroupStore: what every store promises, over memory and ZooKeeper."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from coordinator.adapters.memory_store import MemoryStore
from coordinator.adapters.zookeeper_session import ZooKeeperSession
from coordinator.adapters.zookeeper_store import ZooKeeperStore
from coordinator.core.model import Rates, ResourceGroup
from coordinator.ports import (
    AUDIT_LENGTH,
    AlreadyExists,
    Catalogue,
    GroupStore,
    InUse,
    NotFound,
    Origin,
    VersionConflict,
)
from tests.contract.listening import Heard

OpenStore = Callable[[], Awaitable[GroupStore]]

GOLD = ResourceGroup("gold", Rates(publish_messages=100, dispatch_bytes=0))
SILVER = ResourceGroup("silver", Rates())


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.cluster)])
async def open_store(request: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    """A function that opens the same, at first empty, store as one more sidecar."""
    if request.param == "memory":
        shared = MemoryStore()

        async def share() -> GroupStore:
            return shared

        yield share
        return
    hosts = request.getfixturevalue("zookeeper_hosts")
    root = f"/contract-{uuid.uuid4().hex}"
    opened: list[tuple[ZooKeeperSession, ZooKeeperStore]] = []

    async def connect() -> GroupStore:
        session = ZooKeeperSession(hosts, root=root)
        store = ZooKeeperStore(session)
        opened.append((session, store))
        await session.start()
        await store.start()
        return store

    yield connect
    for session, store in opened:
        await store.stop()
        await session.stop()


@pytest.fixture
async def store(open_store: OpenStore) -> GroupStore:
    """One sidecar's store."""
    return await open_store()


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
    """Who read the group that was deleted overwrites and deletes nothing of the one created since."""
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


async def test_every_change_leaves_one_audit_entry(store: GroupStore) -> None:
    """In order, with who, before and after; what changes nothing or is refused leaves none."""
    by = Origin("admin", "10.1.2.3")
    created = await store.create_group(GOLD, by=by)
    changed = replace(GOLD, limits=Rates())
    await store.update_group(changed, created.version, by=Origin("bob", undoes=0))
    await store.attach_tenant("acme", "gold")
    await store.attach_tenant("acme", "gold")
    await store.attach_namespace("acme", "orders", "gold")
    with pytest.raises(InUse):
        await store.delete_group("gold")
    with pytest.raises(VersionConflict):
        await store.update_group(GOLD, created.version)
    await store.detach_namespace("acme", "orders")
    await store.detach_tenant("acme")
    await store.detach_tenant("acme")
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


async def test_attachments_do_not_change_a_groups_versions(store: GroupStore) -> None:
    """Whoever edits a definition is not disturbed by attachments."""
    created = await store.create_group(GOLD)
    await store.attach_tenant("acme", "gold")
    await store.attach_namespace("acme", "orders", "gold")
    assert await store.read_group("gold") == created
    await store.update_group(GOLD, created.version)


async def test_a_deleted_group_is_gone(store: GroupStore) -> None:
    """Deleting frees the name."""
    await store.create_group(GOLD)
    await store.delete_group("gold")
    with pytest.raises(NotFound):
        await store.read_group("gold")


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
        partial(store.attach_tenant, name, "gold"),
        partial(store.attach_namespace, "acme", name, "gold"),
        partial(store.attach_tenant, "acme", name),
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
async def test_a_definition_that_nobody_could_read_is_not_written(
    store: GroupStore, change: dict[str, object]
) -> None:
    """It would be a fault on every sidecar."""
    with pytest.raises(ValueError, match="must be"):
        await store.create_group(replace(GOLD, **change))  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        await store.read_group("gold")


async def test_a_watcher_hears_the_whole_catalogue_at_once_and_after_every_change(
    store: GroupStore,
) -> None:
    """Every kind of change, one after the other."""
    created = await store.create_group(GOLD)
    await store.attach_tenant("acme", "gold")
    heard: Heard[Catalogue] = Heard()
    store.watch(heard)
    await heard.until(
        lambda c: dict(c.groups) == {"gold": created} and c.attachments.tenants == {"acme": "gold"}
    )
    updated = await store.update_group(GOLD, created.version)
    await heard.until(lambda c: c.groups["gold"] == updated)
    await store.attach_namespace("acme", "orders", "gold")
    await heard.until(lambda c: c.attachments.namespaces == {"acme/orders": "gold"})
    await store.detach_tenant("acme")
    await heard.until(lambda c: not c.attachments.tenants)
    await store.detach_namespace("acme", "orders")
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
    """Whoever wrote it."""
    stores = [await open_store() for _ in range(3)]
    heard: list[Heard[Catalogue]] = []
    for store in stores:
        heard.append(Heard())
        store.watch(heard[-1])
    for index, store in enumerate(stores):
        await store.create_group(replace(GOLD, name=f"group-{index}"))
    for listener in heard:
        await listener.until(lambda c: len(c.groups) == len(stores))


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
