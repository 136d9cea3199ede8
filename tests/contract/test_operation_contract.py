"""OperationStore: what every store of operations promises, over memory and ZooKeeper."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from coordinator.adapters.zookeeper.operations import ZooKeeperOperations
from coordinator.core.model import Dimension
from coordinator.insight.model.operations import Operation, OperationStage
from coordinator.insight.model.outside import OPERATIONS_LENGTH, OperationStore, RecordedOperation
from coordinator.ports import NotFound, share_of
from tests.contract.sessions import new_root, patient, running
from tests.memory.operations import MemoryOperations

CHANGE = Operation(
    id=-1,
    group="orders",
    version=7,
    subject="groups/orders",
    text="publishRateInMsgs 1 → 2",
    actor="admin",
    taker="b1",
    before={Dimension.PUBLISH_MESSAGES: {"b1": 1, "b-2.eu:8080": 0}},
)


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.cluster)])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[OperationStore]:
    """An empty store."""
    if request.param == "memory":
        yield MemoryOperations()
        return
    hosts = request.getfixturevalue("zookeeper_hosts")
    session = patient(hosts, new_root())
    async with running(session):
        yield ZooKeeperOperations(session)


def settled(recorded: RecordedOperation) -> RecordedOperation:
    """The same, settled."""
    ended = replace(
        recorded.operation,
        stage=OperationStage.SETTLED,
        settle_ns=1_200_000_000,
        residual_permille=3,
        moved={Dimension.PUBLISH_MESSAGES: {"b1": 1}},
    )
    return replace(recorded, operation=ended)


async def test_an_opened_operation_reads_back_as_it_was_written(store: OperationStore) -> None:
    """All fields; the id and the time are the store's."""
    first = await store.open(CHANGE)
    second = await store.open(replace(CHANGE, group="bills"))

    assert first.operation == replace(CHANGE, id=first.operation.id)
    assert second.operation.id > first.operation.id >= 0
    assert first.at_ms > 0
    assert await store.opened() == (first, second)
    assert await store.ended(10) == ()


async def test_an_ended_operation_is_no_longer_open_and_keeps_its_time(
    store: OperationStore,
) -> None:
    """It moves; its outcome and when it was accepted stay."""
    recorded = settled(await store.open(CHANGE))

    await store.end(recorded)

    assert await store.opened() == ()
    assert await store.ended(10) == (recorded,)


async def test_an_operation_ends_once(store: OperationStore) -> None:
    """Of two who follow it the second is told, and changes nothing."""
    recorded = await store.open(CHANGE)
    await store.end(settled(recorded))

    with pytest.raises(NotFound):
        await store.end(replace(recorded, operation=replace(recorded.operation, text="other")))

    assert await store.ended(10) == (settled(recorded),)


async def test_the_newest_ended_come_first(store: OperationStore) -> None:
    """In the order in which they were accepted, not ended; as many as asked for."""
    opened = [await store.open(CHANGE) for _ in range(3)]
    for recorded in reversed(opened):
        await store.end(settled(recorded))

    assert await store.ended(2) == (settled(opened[2]), settled(opened[1]))


@pytest.mark.slow
async def test_a_tenants_admin_pushes_out_operations_of_his_tenant_alone(
    store: OperationStore,
) -> None:
    """Some more than its share may wait for the next trim."""
    for tenant in ("", "bank"):
        await store.end(settled(await store.open(replace(CHANGE, tenant=tenant))))
    share = share_of(OPERATIONS_LENGTH)
    for _ in range(share + 40):
        await store.end(settled(await store.open(replace(CHANGE, tenant="acme"))))

    kept = [recorded.operation.tenant for recorded in await store.ended(2 * OPERATIONS_LENGTH)]

    assert kept[-2:] == ["bank", ""]
    assert share <= kept.count("acme") <= share + 20


@pytest.mark.verify
@pytest.mark.slow
async def test_ended_operations_are_bounded(store: OperationStore) -> None:
    """The oldest are dropped; some more than the bound may wait for the next trim."""
    for _ in range(OPERATIONS_LENGTH + 40):
        await store.end(settled(await store.open(CHANGE)))

    kept = await store.ended(2 * OPERATIONS_LENGTH)

    assert OPERATIONS_LENGTH <= len(kept) <= OPERATIONS_LENGTH + 20
