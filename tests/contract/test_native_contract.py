"""Native enforcement gets from Pulsar what it needs: one suite for memory and for a real broker."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from coordinator.adapters.broker.native_admin import HttpNativeAdmin
from coordinator.adapters.pulsar.native_topic import NativeTopic
from coordinator.native.engine.conditions import TRANSPORT
from coordinator.native.engine.entries import NOTHING, Amounts, Record
from coordinator.native.engine.outside import EntryTopic, NativeAdmin
from coordinator.native.engine.table import Statement
from coordinator.ports import Refused
from deploy.local.state import Broker
from deploy.local.topics import Topics
from tests.memory.native import MemoryEntryTopics, MemoryNativeAdmin

BACKENDS = ["memory", pytest.param("pulsar", marks=pytest.mark.cluster)]
TENANT = "native-contract"
OpenTopic = Callable[[str], EntryTopic]


@pytest.fixture(params=BACKENDS)
async def admin(request: pytest.FixtureRequest) -> AsyncIterator[NativeAdmin]:
    """A broker's admin REST with the namespaces ``a`` and ``b`` of the tenant."""
    if request.param == "memory":
        in_memory = MemoryNativeAdmin()
        in_memory.groups = {f"{TENANT}/a": "", f"{TENANT}/b": "", "other/c": ""}
        yield in_memory
        return
    broker: Broker = request.getfixturevalue("pulsar_broker")
    topics = Topics([broker])
    topics.create_tenant(TENANT)
    for name in ("a", "b"):
        topics.create_namespace(f"{TENANT}/{name}", 4)
    async with HttpNativeAdmin(broker.web_url) as real:
        yield real
        for name in ("a", "b"):
            await real.attach(f"{TENANT}/{name}", "")


@pytest.fixture(params=BACKENDS)
async def open_topic(request: pytest.FixtureRequest) -> AsyncIterator[OpenTopic]:
    """A function that opens the topic as one more sidecar."""
    if request.param == "memory":
        yield MemoryEntryTopics().open
        return
    broker: Broker = request.getfixturevalue("pulsar_broker")
    opened: list[NativeTopic] = []

    def connect(sidecar: str) -> EntryTopic:
        topic = NativeTopic(f"pulsar://127.0.0.1:{broker.broker_port}", sidecar)
        opened.append(topic)
        return topic

    async with AsyncExitStack() as stack:
        yield connect
        for topic in opened:
            stack.push_async_callback(topic.stop)


async def started(topic: EntryTopic) -> EntryTopic:
    """The topic, once entries can be written."""
    if isinstance(topic, NativeTopic):
        await topic.start()
    async with asyncio.timeout(30):
        while not topic.health().connected:
            await asyncio.sleep(0.05)
    return topic


def keeper(broker: str, heard: list[Statement]) -> Callable[[Statement], None]:
    """Keeps what is said in a broker's name."""

    def keep(said: Statement) -> None:
        if said.broker == broker:
            heard.append(said)

    return keep


def name() -> str:
    """The record of a group that does not exist."""
    return f"contract-{uuid.uuid4().hex[:12]}"


async def test_the_facts_of_a_broker(admin: NativeAdmin) -> None:
    """In whose name it reports, how often, and that it does."""
    facts = await admin.facts()
    assert facts.service_url.startswith("pulsar://")
    assert facts.interval_s >= 1
    assert facts.transport == TRANSPORT
    assert facts.version[0].isdigit()


async def test_a_record_is_created_changed_and_removed(admin: NativeAdmin) -> None:
    """Each unit is limited or not; one that is not there is None."""
    group = name()
    assert await admin.record(group) is None
    for record in (Record(1_500, -1), Record(-1, 2**40), Record(2**31 - 1, 1)):
        await admin.set_record(group, record)
        assert await admin.record(group) == record
    assert group in await admin.record_names()
    await admin.remove_record(group)
    assert await admin.record(group) is None
    assert group not in await admin.record_names()


async def test_namespaces_are_attached_moved_and_detached(admin: NativeAdmin) -> None:
    """A group that a namespace is in cannot be removed."""
    first, second = name(), name()
    for group in (first, second):
        await admin.set_record(group, Record(9, 9))
    namespace = f"{TENANT}/a"
    assert await admin.group_of(namespace) == ""
    for group in (first, second):
        await admin.attach(namespace, group)
        assert await admin.group_of(namespace) == group
    with pytest.raises(Refused):
        await admin.remove_record(second)
    await admin.attach(namespace, "")
    assert await admin.group_of(namespace) == ""
    for group in (first, second):
        await admin.remove_record(group)


async def test_what_does_not_exist_is_told_from_what_is_empty(admin: NativeAdmin) -> None:
    """A namespace without a group, one that is not there, a tenant without any."""
    assert await admin.group_of(f"{TENANT}/b") == ""
    assert await admin.group_of(f"{TENANT}/nowhere") is None
    assert list(await admin.namespaces("no-such-tenant")) == []
    assert {f"{TENANT}/a", f"{TENANT}/b"} <= set(await admin.namespaces(TENANT))
    assert TENANT in await admin.tenants()


@pytest.mark.parametrize("local", ["cluster/n", "n n", "..", ""])
async def test_a_namespace_of_a_name_that_cannot_be_asked_for_is_an_error(
    admin: NativeAdmin, local: str
) -> None:
    """Brokers of old releases list some with a cluster; no request is sent."""
    for ask in (admin.group_of(f"{TENANT}/{local}"), admin.attach(f"{TENANT}/{local}", "")):
        with pytest.raises(ValueError, match="is not a name"):
            await ask


async def test_all_sidecars_hear_all_entries_and_who_wrote_them(open_topic: OpenTopic) -> None:
    """The own ones too, in the order in which one sidecar wrote them."""
    mine, theirs = await started(open_topic("mine")), await started(open_topic("theirs"))
    heard: dict[str, list[Statement]] = {"mine": [], "theirs": []}
    group, broker = name(), f"pulsar://{name()}:6650"
    for who, topic in (("mine", mine), ("theirs", theirs)):
        topic.watch(keeper(broker, heard[who]))
    taken: list[bool] = []
    for amounts, stands_in in (
        (Amounts(1, 2**40), False),
        (Amounts(3_000, 5), True),
        (NOTHING, False),
    ):
        mine.write(broker, {group: amounts}, taken.append, stands_in=stands_in)
    async with asyncio.timeout(60):
        while min(len(heard["mine"]), len(heard["theirs"]), len(taken)) < 3:
            await asyncio.sleep(0.02)
    assert taken == [True] * 3
    for found in heard.values():
        assert [said.amounts[group] for said in found] == [
            Amounts(1, 2**40), Amounts(3_000, 5), NOTHING,
        ]  # fmt: skip
        assert {said.sidecar for said in found} == {"mine"}
        assert [said.stands_in for said in found] == [False, True, False]
        assert len({said.producer for said in found}) == 1
    assert mine.health().written >= 3
