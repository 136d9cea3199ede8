"""EscrowStore: what every store of escrow records promises, over memory and ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from coordinator.adapters.zookeeper.escrow import ZooKeeperEscrow
from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.core.escrow.books import TOTAL
from coordinator.core.model import Account, EscrowRecord, Rates, ResourceGroup
from coordinator.ports import (
    AlreadyExists,
    EscrowStore,
    GroupStore,
    InUse,
    NotFound,
    VersionConflict,
)
from tests.contract.listening import Heard
from tests.contract.sessions import new_root, patient, running
from tests.memory.escrow import MemoryEscrow
from tests.memory.store import MemoryStore

Open = Callable[[], Awaitable[tuple[GroupStore, EscrowStore]]]
Records = tuple[EscrowRecord, ...]

GOLD = ResourceGroup("gold", Rates(publish_messages=100), overshoot_policy="strict")
B1, B2 = Account("b-1.eu:8080", 4_294_967_297), Account("b2", 2)
FIRST = EscrowRecord("gold", 0, -1, {B1: (TOTAL,) * 4})


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.cluster)])
async def open_stores(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """A function that opens the same, at first empty, stores as one more sidecar."""
    if request.param == "memory":
        groups = MemoryStore()
        shared = MemoryEscrow(groups)

        async def share() -> tuple[GroupStore, EscrowStore]:
            return groups, shared

        yield share
        return
    hosts, root = request.getfixturevalue("zookeeper_hosts"), new_root()
    async with AsyncExitStack() as opened:

        async def connect() -> tuple[GroupStore, EscrowStore]:
            session = patient(hosts, root)
            store, escrow = ZooKeeperStore(session), ZooKeeperEscrow(session)
            await opened.enter_async_context(running(session, store, escrow))
            return store, escrow

        yield connect


@pytest.fixture
async def escrow(open_stores: Open) -> EscrowStore:
    """One sidecar's escrow records, in a store that has the group gold."""
    groups, escrow = await open_stores()
    await groups.create_group(GOLD)
    return escrow


async def test_a_founded_record_is_heard_as_it_was_written(escrow: EscrowStore) -> None:
    """Only generation and version are the store's."""
    heard: Heard[Records] = Heard()
    escrow.watch(heard)
    assert await heard.until(lambda _: True) == ()
    written = await escrow.write(FIRST)

    assert await heard.until(lambda records: records != ()) == (written,)
    assert written == replace(FIRST, generation=written.generation, version=0)


async def test_a_record_is_founded_once(escrow: EscrowStore) -> None:
    """The second creator hears that there is one; nothing was changed."""
    first = await escrow.write(FIRST)
    with pytest.raises(AlreadyExists):
        await escrow.write(replace(FIRST, bases={B2: (TOTAL,) * 4}))
    heard: Heard[Records] = Heard()
    escrow.watch(heard)

    assert await heard.until(lambda records: records != ()) == (first,)


async def test_an_inheritance_replaces_exactly_the_version_it_was_made_from(
    escrow: EscrowStore,
) -> None:
    """Bases may be negative; who comes second with the same version has lost."""
    first = await escrow.write(FIRST)
    bases = {B1: (TOTAL + 5, TOTAL, 0, 0), B2: (-5, 0, TOTAL, TOTAL)}
    second = await escrow.write(replace(first, bases=bases, claimed=frozenset({Account("b9", 1)})))
    with pytest.raises(VersionConflict):
        await escrow.write(replace(first, bases={B2: (TOTAL,) * 4}))

    assert second == replace(first, version=1, bases=bases, claimed=frozenset({Account("b9", 1)}))
    heard: Heard[Records] = Heard()
    escrow.watch(heard)
    assert await heard.until(lambda records: records == (second,))


async def test_a_group_that_is_not_there_has_no_record(escrow: EscrowStore) -> None:
    """Creating and replacing say so alike."""
    with pytest.raises(NotFound):
        await escrow.write(replace(FIRST, group="silver"))
    with pytest.raises(NotFound):
        await escrow.write(replace(FIRST, version=0))
    with pytest.raises(NotFound):
        await escrow.remove(replace(FIRST, version=0))


async def test_only_the_record_of_a_group_that_is_gone_is_removed(open_stores: Open) -> None:
    """Founded again it has a higher generation; the group's name is as free as before."""
    groups, escrow = await open_stores()
    await groups.create_group(GOLD)
    first = await escrow.write(FIRST)
    with pytest.raises(InUse):
        await escrow.remove(first)
    await groups.delete_group("gold")
    with pytest.raises(VersionConflict):
        await escrow.remove(replace(first, version=7))
    await escrow.remove(first)
    heard: Heard[Records] = Heard()
    escrow.watch(heard)
    await heard.until(lambda records: records == ())
    with pytest.raises(NotFound):
        await groups.read_group("gold")
    await groups.create_group(GOLD)
    second = await escrow.write(FIRST)

    assert second.generation > first.generation


async def test_bases_that_do_not_add_up_are_not_written(escrow: EscrowStore) -> None:
    """No sidecar would follow such books."""
    with pytest.raises(ValueError, match="add up"):
        await escrow.write(replace(FIRST, bases={B1: (TOTAL, TOTAL, TOTAL, TOTAL - 1)}))
    with pytest.raises(ValueError, match="is not a name"):
        await escrow.write(replace(FIRST, group="a/b"))


async def test_every_sidecar_hears_of_every_others_writes(open_stores: Open) -> None:
    """Of three that create it at once one wins, and all hear the same."""
    opened = [await open_stores() for _ in range(3)]
    await opened[0][0].create_group(GOLD)
    heard: list[Heard[Records]] = []
    for _, escrow in opened:
        heard.append(Heard())
        escrow.watch(heard[-1])
    outcomes = await asyncio.gather(
        *(escrow.write(FIRST) for _, escrow in opened), return_exceptions=True
    )
    won = [outcome for outcome in outcomes if isinstance(outcome, EscrowRecord)]

    assert len(won) == 1
    assert sum(isinstance(outcome, AlreadyExists) for outcome in outcomes) == 2
    for listener in heard:
        assert await listener.until(lambda records: records != ()) == (won[0],)
