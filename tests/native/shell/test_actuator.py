"""The loops of native enforcement: when a sidecar writes in its broker's name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction

from coordinator.core.handling import handling_of
from coordinator.core.model import Attachments, Dimension, ExactRates, Member, Rates, ResourceGroup
from coordinator.core.topics import TopicName
from coordinator.insight.model.conditions import ConditionKind
from coordinator.native.engine.conditions import NOT_NATIVE, STRICT_HERE
from coordinator.native.engine.entries import Amounts, Record
from coordinator.native.engine.outside import TopicPolicies
from coordinator.native.engine.rate_policy import PUBLISH, REPLICATION
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.table import Statement
from coordinator.native.shell import actuator
from coordinator.native.shell.actuator import NativeActuator
from coordinator.ports import Catalogue, TopicLimit, Versioned
from coordinator.runtime.supervision import TaskSupervisor
from tests.memory.native import MemoryEntryTopics, MemoryNativeAdmin, MemoryRatePolicies
from tests.memory.surroundings import ManualClock
from tests.native.shell.test_upkeep import Answers, Pulsar, S

_TURNS = 50


class World:
    """One sidecar whose core has told it a limit of a group."""

    def __init__(self, *, behind_gate: bool = False) -> None:
        self.clock, self.topics = ManualClock(100 * S), MemoryEntryTopics()
        self.heard: list[Statement] = []
        self.topics.watch(self.heard.append)
        self.steering, self.pulsar = Steering(behind_gate=behind_gate), Pulsar()
        self.supervisor = TaskSupervisor()
        self.native = NativeActuator(
            "broker-1",
            self.steering,
            self.topics.open("broker-1"),
            self.pulsar,
            TopicPolicies(
                MemoryRatePolicies(policy=PUBLISH),
                MemoryRatePolicies(),
                MemoryRatePolicies(policy=REPLICATION),
            ),
            Answers(None),
            self.clock,
            poll_s=0,
        )
        self.native.set_attachments(Attachments({}, {"t/n": "g"}))

    async def tell(self, messages: int) -> None:
        """Set the limit, and let all loops have their turns."""
        self.native.set_limits("g", Rates(publish_messages=messages))
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def written(self) -> list[int]:
        """Messages of the entries so far."""
        return [
            said.amounts["g"].messages
            for said in self.heard
            if said.sidecar and "g" in said.amounts
        ]


def catalogue(**limits: Rates) -> Catalogue:
    """Groups with these limits, to which nothing is attached."""
    return Catalogue(
        {name: Versioned(ResourceGroup(name, each), 1) for name, each in limits.items()}
    )


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    """Its loops."""
    task = asyncio.create_task(world.native.run(world.supervisor))
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    yield
    task.cancel()
    await asyncio.wait({task})


async def test_a_sidecar_that_has_just_started_lets_its_brokers_own_reports_stand() -> None:
    """Its first limit is the arrival reserve, and the broker has clients that it would throttle."""
    world = World()
    async with running(world):
        await world.tell(6)
        await world.native.start()
        world.topics.say(Statement("pulsar://a:6650", {"g": Amounts(200)}, producer="broker"))
        await world.tell(6)
        assert world.written() == []
        world.clock.advance(S)
        await world.tell(200)
        assert set(world.written()) == {200}


def test_a_lease_that_is_extended_keeps_the_fraction_of_a_limit() -> None:
    """Two thirds a second are six in nine turns, and nothing once the lease is over."""
    world = World(behind_gate=True)
    two_thirds = ExactRates.from_mapping({Dimension.PUBLISH_MESSAGES: Fraction(2, 3)})
    world.native.set_limits("g", two_thirds, leased=True)

    def parts(turns: int) -> list[int | None]:
        found = []
        for _ in range(turns):
            world.clock.advance(S)
            world.native.hold_lease(until_ns)
            world.steering.decide(world.clock.now_ns())
            found.append(world.native.state().groups[0].part[0])
        return found

    until_ns = world.clock.now_ns() + 60 * S
    assert sum(part or 0 for part in parts(9)) == 6
    until_ns = world.clock.now_ns()
    assert parts(9) == [0] * 9


async def test_nobody_waits_for_entries_that_are_not_written() -> None:
    """The core's round goes on at once."""
    world, called = World(), []
    async with running(world):
        world.native.set_limits("g", Rates(publish_messages=6))
        world.native.when_in_force(lambda: called.append(True))
    assert called == [True]


async def test_a_loop_that_fails_is_counted_and_stops_no_other() -> None:
    """Nothing that comes from outside ends the sidecar, whatever it is."""
    world = World(behind_gate=True)

    async def fail(group: str) -> Record | None:
        raise ZeroDivisionError(group)

    world.pulsar.record = fail  # type: ignore[method-assign]
    async with running(world):
        await world.tell(6)
    assert world.supervisor.failures.keys() == {"native upkeep"}
    assert set(world.written()) == {6}


async def test_reports_go_on_while_no_entry_can_be_made() -> None:
    """After a second, as where no broker takes any."""
    world, called = World(behind_gate=True), []

    def fail(now_ns: int) -> None:
        raise ZeroDivisionError(now_ns)

    async with running(world):
        await world.tell(6)
        world.steering.decide = fail  # type: ignore[method-assign]
        world.native.set_limits("g", Rates(publish_messages=7))
        world.native.when_in_force(lambda: called.append(True))
        assert called == []
        world.clock.advance(2 * S)
        await world.tell(8)
    assert called == [True]


async def test_behind_a_gate_entries_are_written_from_the_first_limit_on() -> None:
    """No client comes before the gate opens."""
    world = World(behind_gate=True)
    async with running(world):
        await world.tell(6)
        assert set(world.written()) == {6}


async def test_a_sidecar_that_stops_writes_no_more_and_keeps_nobody_waiting() -> None:
    """It hears others that stop with it leave, and takes nothing of what their brokers have."""
    world, called = World(behind_gate=True), []
    async with running(world):
        await world.tell(6)
        world.native.stop_writing()
        before = len(world.heard)
        await world.tell(600)
        world.native.when_in_force(lambda: called.append(True))
    assert set(world.written()) == {6}
    assert len(world.heard) == before
    assert called == [True]


def test_limits_that_no_broker_can_hold_are_told_until_they_are_gone() -> None:
    """Below Pulsar's least rate at each broker; behind a gate, none."""
    for behind_gate in (False, True):
        native = World(behind_gate=behind_gate).native
        native.members_changed((Member("broker-1", 1), Member("broker-2", 2)))
        fine = Rates(publish_messages=4)
        native.catalogue_changed(
            catalogue(
                g=Rates(publish_messages=0),
                few=Rates(publish_messages=3, publish_bytes=4),
                out=Rates(dispatch_messages=1),
                fine=fine,
            )
        )
        told = {found.code: found.text for found in native.conditions(0)}
        assert (NOT_NATIVE in told) is not behind_gate
        if not behind_gate:
            assert "dispatch of out below 2" in told[NOT_NATIVE]
            assert "publishing of few below 4" in told[NOT_NATIVE]
            assert "publishing of g below 4" in told[NOT_NATIVE]
            assert "fine" not in told[NOT_NATIVE]
        native.catalogue_changed(catalogue(fine=fine))
        assert NOT_NATIVE not in {found.code for found in native.conditions(0)}


def test_what_is_in_the_way_is_shown_as_a_condition_with_a_remedy_of_its_own() -> None:
    """Limits that no broker can hold are left out: they are as their operator set them."""
    native = World().native
    limits = Rates(publish_messages=700, dispatch_messages=0)
    strictly = ResourceGroup("g", limits, overshoot_policy="strict")
    native.catalogue_changed(Catalogue({"g": Versioned(strictly, 1)}))
    found = {each.subject: each for each in native.inexact(0)}
    known = {each.code: each for each in native.conditions(0)}

    assert known.keys() >= {NOT_NATIVE, STRICT_HERE}
    assert found.keys() == {f"broker-1 {code}" for code in known if code != NOT_NATIVE}
    for each in found.values():
        assert each.kind is ConditionKind.NATIVE_INEXACT
        assert each.remedy == known[each.subject.split()[1]].fix


def test_a_group_of_a_tree_has_a_record_of_the_most_that_it_may_have() -> None:
    """That is its parent's limit if it has none; a broker's own limiter can hold its part of that."""
    native = World().native
    shop = ResourceGroup("shop", Rates(publish_messages=700))
    found = Catalogue(
        {"shop": Versioned(shop, 1), "g": Versioned(ResourceGroup("g", Rates(), parent="shop"), 2)}
    )

    native.catalogue_changed(found)
    assert NOT_NATIVE not in {each.code for each in native.state().conditions}
    assert [view.record[0] for view in native.state().groups] == [350 + 32]
    native.set_attachments(Attachments({}, {"t/n": "g"}, roles={"team-*": "g"}))
    texts = [each.text for each in native.state().conditions if each.code == NOT_NATIVE]
    assert texts == ["limited, and not by brokers: role team-* of g"]


def test_refusals_and_credit_are_told_as_beyond_brokers() -> None:
    """A broker's own limiter delays what is above the record, and saves nothing up."""
    native = World().native
    group = ResourceGroup("g", Rates(publish_messages=700), on_limit="refuse", burst_seconds=5)

    native.set_handling("g", handling_of(group))
    native.catalogue_changed(Catalogue({"g": Versioned(group, 1)}))
    texts = [each.text for each in native.state().conditions if each.code == NOT_NATIVE]
    assert texts == ["limited, and not by brokers: refusing publishes of g, the burst of g"]


def test_topics_limits_that_no_policy_holds_are_told() -> None:
    """Of scalable topics, those that are not persistent, and of less than one a second; no others."""
    world = World()
    limits = Rates(publish_messages=10)
    for domain, partitions in (("persistent", 10), ("non-persistent", 1)):
        topic = TopicName(domain, "t", "n", "a")
        world.native.set_topic_limits(topic, limits, partitions=partitions)
    scalable = TopicName("topic", "t", "n", "a")
    world.native.topic_limits_changed({str(scalable): TopicLimit(scalable, limits)})
    told = "limited, and not by brokers: non-persistent://t/n/a, as it is not persistent, topic://t/n/a"
    assert [each.text for each in world.native.conditions(0)] == [told]
    world.native.set_topic_limits(TopicName("non-persistent", "t", "n", "a"), Rates())
    world.native.topic_limits_changed({})
    world.native.set_topic_limits(TopicName("persistent", "t", "n", "a"), limits, partitions=11)
    (condition,) = world.native.conditions(0)
    assert "persistent://t/n/a below 11 a second" in condition.text


async def test_namespaces_of_all_tenants_are_listed_to_find_those_that_are_detached() -> None:
    """A tenant may have nothing else that is attached."""
    pulsar, steering = MemoryNativeAdmin(), Steering()
    pulsar.groups |= {"t/n": "g", "t/left": "", "other/left": ""}
    steering.set_attachments(Attachments({}, {"t/n": "g"}))

    assert await actuator._detached(steering, pulsar) == frozenset({"t/left", "other/left"})
