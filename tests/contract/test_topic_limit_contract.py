"""TopicLimitStore: what every store of topics' limits promises, over memory and ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.adapters.zookeeper.topic_limits import ZooKeeperTopicLimits
from coordinator.core.model import Dimension, Rates
from coordinator.core.topics import TopicName
from coordinator.ports import (
    AlreadyExists,
    GroupStore,
    NotFound,
    Origin,
    TopicLimit,
    TopicLimits,
    TopicLimitStore,
    VersionConflict,
)
from tests.contract.listening import Heard
from tests.contract.sessions import new_root, patient, running
from tests.memory.store import MemoryStore
from tests.memory.topic_limits import MemoryTopicLimits

Open = Callable[[], Awaitable[tuple[GroupStore, TopicLimitStore]]]

ORDERS = TopicName("persistent", "shop", "eu", "orders")
ODD = TopicName("non-persistent", "shop", "eu", "a%2Fb ü,c?")
LIMIT = TopicLimit(ORDERS, Rates(publish_messages=100, dispatch_bytes=0))


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.cluster)])
async def open_stores(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """A function that opens the same, at first empty, stores as one more sidecar."""
    if request.param == "memory":
        groups = MemoryStore()
        shared = MemoryTopicLimits(groups)

        async def share() -> tuple[GroupStore, TopicLimitStore]:
            return groups, shared

        yield share
        return
    hosts, root = request.getfixturevalue("zookeeper_hosts"), new_root()
    async with AsyncExitStack() as opened:

        async def connect() -> tuple[GroupStore, TopicLimitStore]:
            session = patient(hosts, root)
            limits = ZooKeeperTopicLimits(session)
            await opened.enter_async_context(running(session, limits))
            return ZooKeeperStore(session), limits

        yield connect


@pytest.fixture
async def limits(open_stores: Open) -> TopicLimitStore:
    """One sidecar's store."""
    return (await open_stores())[1]


@pytest.mark.parametrize("topic", [ORDERS, ODD], ids=["plain", "odd"])
async def test_limits_read_back_as_they_were_written(
    limits: TopicLimitStore, topic: TopicName
) -> None:
    """All rates, 0 and unlimited included, of a topic with any name; and listeners hear the same."""
    heard: Heard[TopicLimits] = Heard()
    limits.watch(heard)
    assert await heard.until(lambda _: True) == {}
    written = await limits.write(replace(LIMIT, topic=topic))

    assert await limits.read(topic) == written
    assert replace(written, version=None) == replace(LIMIT, topic=topic)
    assert await heard.until(lambda known: known != {}) == {str(topic): written}
    assert limits.known() == {str(topic): written}


async def test_a_topic_without_limits_is_not_found(limits: TopicLimitStore) -> None:
    """Reading, replacing and removing say so alike."""
    for call in (
        limits.read(ORDERS),
        limits.write(replace(LIMIT, version=7)),
        limits.remove(replace(LIMIT, version=7)),
    ):
        with pytest.raises(NotFound):
            await call


async def test_limits_are_created_once(limits: TopicLimitStore) -> None:
    """The second creation changes nothing."""
    created = await limits.write(LIMIT)
    with pytest.raises(AlreadyExists):
        await limits.write(replace(LIMIT, limits=Rates(publish_bytes=1)))
    assert await limits.read(ORDERS) == created


async def test_only_the_version_that_was_read_is_replaced_or_removed(
    limits: TopicLimitStore,
) -> None:
    """Older, newer, and -1, which is "any version" to ZooKeeper."""
    first = await limits.write(LIMIT)
    second = await limits.write(replace(first, limits=Rates(dispatch_messages=5)))
    assert first.version is not None
    assert second.version is not None
    for version in (first.version, second.version + 1, -1):
        with pytest.raises(VersionConflict):
            await limits.write(replace(LIMIT, version=version))
        with pytest.raises(VersionConflict):
            await limits.remove(replace(LIMIT, version=version))
    assert await limits.read(ORDERS) == second


async def test_a_version_outlives_no_recreation(limits: TopicLimitStore) -> None:
    """A reader of the removed limits cannot overwrite or remove those set since."""
    stale = await limits.write(LIMIT)
    await limits.remove(stale)
    current = await limits.write(LIMIT)
    with pytest.raises(VersionConflict):
        await limits.write(replace(stale, limits=Rates(publish_bytes=1)))
    with pytest.raises(VersionConflict):
        await limits.remove(stale)
    assert await limits.read(ORDERS) == current


async def test_every_change_leaves_one_audit_entry(open_stores: Open) -> None:
    """In the trail of the groups, with who, before and after."""
    groups, limits = await open_stores()
    by = Origin("alice", "10.1.2.3")
    first = await limits.write(LIMIT, by=by)
    changed = replace(first, limits=Rates(publish_bytes=7))
    await limits.remove(await limits.write(changed))

    entries = await groups.audit_entries(10)

    assert {entry.subject for entry in entries} == {"topics/persistent://shop/eu/orders"}
    assert [(e.before, e.after) for e in reversed(entries)] == [
        (None, LIMIT.limits),
        (LIMIT.limits, changed.limits),
        (changed.limits, None),
    ]
    assert entries[-1].origin == by


@pytest.mark.parametrize(
    ("topic", "limits_", "message"),
    [
        (ORDERS, Rates(), "must limit something"),
        (ORDERS, Rates(publish_messages=-2), "must be an integer from -1"),
        (replace(ORDERS, local_name="orders-partition-3"), LIMIT.limits, "is one partition"),
        (replace(ORDERS, local_name="a\nb"), LIMIT.limits, "is not a topic"),
        (replace(ORDERS, local_name="a/b"), LIMIT.limits, "is not a topic"),
        (replace(ORDERS, local_name="x" * 256), LIMIT.limits, "is not a topic"),
        (replace(ORDERS, namespace="cluster/eu"), LIMIT.limits, "is not a name"),
        (replace(ORDERS, tenant=".."), LIMIT.limits, "is not a name"),
    ],
)
async def test_an_unreadable_limit_is_not_written(
    limits: TopicLimitStore, topic: TopicName, limits_: Rates, message: str
) -> None:
    """With the reason, before anything happens."""
    with pytest.raises(ValueError, match=message):
        await limits.write(TopicLimit(topic, limits_))
    assert limits.known() == {}


async def test_every_sidecar_hears_of_every_others_writes(open_stores: Open) -> None:
    """Of three that create at once one wins; a removal is heard by all."""
    opened = [(await open_stores())[1] for _ in range(3)]
    heard: list[Heard[TopicLimits]] = []
    for limits in opened:
        heard.append(Heard())
        limits.watch(heard[-1])
    outcomes = await asyncio.gather(
        *(limits.write(LIMIT) for limits in opened), return_exceptions=True
    )
    (won,) = [outcome for outcome in outcomes if isinstance(outcome, TopicLimit)]

    assert sum(isinstance(outcome, AlreadyExists) for outcome in outcomes) == 2
    for listener in heard:
        assert await listener.until(lambda known: known != {}) == {str(ORDERS): won}
    await opened[0].remove(won)
    for listener in heard:
        assert await listener.until(lambda known: known == {}) == {}


@pytest.mark.cluster
async def test_limits_that_cannot_be_read_leave_the_last_ones_in_force(
    zookeeper_hosts: str,
) -> None:
    """An entry edited with a ZooKeeper shell is nonsense; other topics keep working."""
    session = patient(zookeeper_hosts, new_root())
    limits = ZooKeeperTopicLimits(session)
    async with running(session, limits):
        heard: Heard[TopicLimits] = Heard()
        limits.watch(heard)
        written = await limits.write(LIMIT)
        await heard.until(lambda known: known != {})
        path = session.path("limits", "shop", "eu", "persistent,orders")
        await session.call(lambda client: client.set_async(path, b"{]"))
        other = await limits.write(replace(LIMIT, topic=ODD))

        known = await heard.until(lambda known: str(ODD) in known)

        assert known == {str(ORDERS): written, str(ODD): other}


async def test_whose_a_limit_is_comes_back(limits: TopicLimitStore) -> None:
    """Those that the tenant's admin set are written down; of none it is said by saying nothing."""
    own = frozenset({Dimension.DISPATCH_BYTES})
    written = await limits.write(replace(LIMIT, tenants_own=own))
    assert await limits.read(ORDERS) == written
    assert written.tenants_own == own
    again = await limits.write(replace(written, tenants_own=frozenset()))
    assert await limits.read(ORDERS) == again
