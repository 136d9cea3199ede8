"""One policy of a topic holds the rates of all its remote clusters, in entries."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Attachments, Rates
from coordinator.native.engine.counting import ReplicatorCount
from coordinator.native.engine.owners import owner_of
from coordinator.native.engine.rate_policy import NO_RATE, REPLICATION, PolicyRate
from coordinator.native.engine.replication import ReplicationBook
from coordinator.native.shell.kept_rates import NOTHING_SET, find
from coordinator.native.shell.replicating import ReplicatorRates
from tests.memory.native import MemoryRatePolicies, in_ten_seconds
from tests.native.shell import test_dispatching as dispatching

S = NANOS_PER_SECOND
TOPIC, SPACE = "persistent://t/n/a", "t/n"
WEST, EAST = (owner_of(TOPIC, remote=name) for name in ("west", "east"))
BY_OPERATOR = in_ten_seconds(500)


class World:
    """A topic whose entries have some messages each."""

    def __init__(self, in_each: int = 1) -> None:
        self.policies = MemoryRatePolicies(SPACE, TOPIC, policy=REPLICATION)
        self.book = ReplicationBook()
        self.rates = ReplicatorRates(self.policies, self.book)
        self.written = self.published = 0
        self.writes(in_each)

    def writes(self, in_each: int) -> None:
        """The topic is written in such entries for a while, and then rests."""
        for entries in [100] * 60 + [0]:
            self.written += entries
            self.published += entries * in_each
            self.book.poll(
                ReplicatorCount(TOPIC, name, self.published, 0, 0, self.written, 0)
                for name in ("west", "east")
            )

    async def want(self, owner: str, messages: int) -> None:
        """One cluster is to have this rate."""
        await self.rates.set_rate(owner, REPLICATION.body_of(PolicyRate(messages)))

    async def seen(self, owner: str) -> PolicyRate:
        """The rate of one cluster."""
        return REPLICATION.rate_in(await self.rates.rate(owner))

    @property
    def in_pulsar(self) -> PolicyRate:
        """The policy."""
        return REPLICATION.rate_in(self.policies.rates.get(TOPIC, ""))


async def test_a_policy_is_the_lowest_of_its_clusters_rates() -> None:
    """Each cluster sees its own; one that leaves leaves the other's, and the last one none."""
    world = World()
    await world.rates.keep(WEST, NOTHING_SET)
    await world.want(WEST, 600)
    assert await world.seen(EAST) == NO_RATE
    await world.want(EAST, 50)
    assert world.in_pulsar == PolicyRate(50)
    assert [await world.seen(each) for each in (WEST, EAST)] == [PolicyRate(600), PolicyRate(50)]
    await world.rates.leave(EAST)
    assert world.in_pulsar == PolicyRate(600)
    await world.rates.leave(WEST)
    assert (world.policies.rates, world.policies.texts) == ({}, {})


async def test_clusters_that_leave_together_leave_nothing_behind() -> None:
    """Of many topics at once, at a broker that takes its time, as where their group loses its limit."""
    world = World()
    topics = [f"persistent://t/n/{number}" for number in range(4)]
    world.policies.owners.update(topics)
    owners = [owner_of(topic, remote=name) for topic in topics for name in ("west", "east")]
    for owner in owners:
        await world.rates.keep(owner, NOTHING_SET)
        await world.want(owner, 50)
    set_rate = world.policies.set_rate

    async def slow(owner: str, body: str) -> None:
        for _ in range(9):
            await asyncio.sleep(0)
        await set_rate(owner, body)

    world.policies.set_rate = slow  # type: ignore[method-assign]
    await asyncio.gather(*map(world.rates.leave, owners))
    assert (world.policies.rates, world.policies.texts) == ({}, {})


async def test_messages_become_entries_in_pulsar() -> None:
    """A policy is written again once entries have become larger or smaller by a tenth."""
    world = World(10)
    await world.want(WEST, 600)
    assert world.in_pulsar == PolicyRate(60)
    assert await world.seen(WEST) == PolicyRate(600)
    for in_each, entries in ((10, 60), (20, 30), (1, 600)):
        world.writes(in_each)
        await world.rates.refresh([WEST])
        found = world.in_pulsar.messages
        assert found == pytest.approx(entries, rel=0.1)


async def test_what_an_operator_has_set_is_kept_as_it_was_written() -> None:
    """It is the most, in messages of the topic's entries: 50 entries of 10 messages a second."""
    world = World(10)
    world.policies.rates[TOPIC] = BY_OPERATOR
    found = await find(world.rates, WEST)
    assert (found.kept, found.by_operator) == (None, PolicyRate(500))
    await world.rates.keep(WEST, found.body)
    assert world.policies.texts == {TOPIC: BY_OPERATOR}
    await world.want(WEST, 300)
    assert (await find(world.rates, EAST)).by_operator == PolicyRate(500)
    await world.rates.leave(WEST)
    assert (world.policies.rates, world.policies.texts) == ({TOPIC: BY_OPERATOR}, {})


async def test_two_clusters_that_find_a_topic_at_once_keep_its_rate_once() -> None:
    """As where both were attached together."""
    world = World()
    world.policies.rates[TOPIC] = BY_OPERATOR
    found = [await find(world.rates, each) for each in (WEST, EAST)]
    for owner, each in zip((WEST, EAST), found, strict=True):
        await world.rates.keep(owner, each.body)
    assert world.policies.texts == {TOPIC: BY_OPERATOR}


async def test_what_others_write_meanwhile_is_seen_by_every_cluster() -> None:
    """As entries of the topic, each with ten messages."""
    world = World(10)
    await world.want(WEST, 300)
    world.policies.rates[TOPIC] = REPLICATION.body_of(PolicyRate(7))
    assert [await world.seen(each) for each in (WEST, EAST)] == [PolicyRate(70)] * 2


async def test_the_default_of_a_namespace_bounds_its_topics() -> None:
    """A topic has none of its own then."""
    world = World()
    world.policies.rates[SPACE] = REPLICATION.body_of(PolicyRate(40))
    found = await find(world.rates, WEST)
    assert (found.body, found.by_operator) == ("", PolicyRate(40))


async def test_a_text_that_is_no_rate_bounds_nothing_and_gives_nothing_back() -> None:
    """A tenant may write beside its topic what it likes."""
    world = World()
    world.policies.texts[TOPIC] = "[no rate"
    assert (await find(world.rates, WEST)).by_operator == NO_RATE
    await world.want(WEST, 300)
    await world.rates.leave(WEST)
    assert (world.policies.rates, world.policies.texts) == ({}, {})


async def test_a_topic_that_is_gone_is_forgotten() -> None:
    """Clusters that have no rate any more are, too, as where the topic has moved."""
    world = World()
    await world.want(WEST, 600)
    await world.want(EAST, 50)
    await world.rates.refresh([WEST])
    assert world.in_pulsar == PolicyRate(600)
    world.policies.owners.clear()
    world.writes(10)
    await world.rates.refresh([WEST])
    await world.rates.refresh([WEST])
    assert world.rates._shared == {}


class Sidecar(dispatching.World):
    """One of three sidecars; a group has 300/s of dispatch here for what is replicated to west."""

    def __init__(self) -> None:
        super().__init__()
        whole = {"g": Rates(dispatch_messages=600), "wan": Rates(dispatch_messages=900)}
        self.steering.set_whole(whole)
        self.steering.set_limits("wan", Rates(dispatch_messages=300))
        self.attach("west")
        self.replicated = 0

    def attach(self, *clusters: str) -> None:
        """These remote clusters belong to the group."""
        attached = Attachments({}, {"t/n": "g"}, clusters=dict.fromkeys(clusters, "wan"))
        self.steering.set_attachments(attached)

    async def replicates(self, *topics: str, seconds: int, each: int = 1_000) -> None:
        """Replicate these topics to west at this rate."""
        for _ in range(2 * seconds):
            self.clock.advance(S // 2)
            self.replicated += each // 2
            counts = [
                ReplicatorCount(topic, remote, 10**6, 10**8, 0, self.replicated, 10**6)
                for topic in topics
                for remote in self.steering.homes.remotes
            ]
            self.dispatch.poll(self.book.poll(counts), S // 2, self.clock.now_ns())
            await self.dispatching.step()

    def messages(self, topic: str) -> int | None:
        """The rate of a topic's replication in Pulsar."""
        rates = self.replicator_rates.rates
        return REPLICATION.rate_in(rates.get(topic, "")).messages


async def test_a_part_is_shared_by_the_topics_that_are_replicated() -> None:
    """Their dispatch to consumers has no rate for that, and keeps its own limit."""
    sidecar = Sidecar()
    await sidecar.replicates(dispatching.A, dispatching.B, seconds=8)
    assert [sidecar.messages(topic) for topic in (dispatching.A, dispatching.B)] == [150, 150]
    assert sidecar.policies.rates.keys() <= {"t/n"}
    assert sidecar.replicator_rates.texts == {dispatching.A: "none", dispatching.B: "none"}


async def test_a_cluster_that_is_attached_no_more_leaves_no_rate_behind() -> None:
    """At once; one of which the group loses its limit neither."""
    for loses_limit in (False, True):
        sidecar = Sidecar()
        await sidecar.replicates(dispatching.A, seconds=8)
        assert sidecar.messages(dispatching.A) == 300
        if loses_limit:
            sidecar.steering.remove_limits("wan")
        else:
            sidecar.attach()
        await sidecar.replicates(dispatching.A, seconds=1)
        assert (sidecar.replicator_rates.rates, sidecar.replicator_rates.texts) == ({}, {})


async def test_a_topic_that_was_deleted_is_not_asked_for_for_ever() -> None:
    """Its cluster was detached meanwhile, and nothing is left to give back."""
    sidecar = Sidecar()
    await sidecar.replicates(dispatching.A, seconds=8)
    sidecar.replicator_rates.owners.discard(dispatching.A)
    sidecar.attach()
    await sidecar.replicates(dispatching.A, seconds=1)
    assert sidecar.dispatch.written_topics() == ()


async def test_a_topic_that_moves_away_keeps_its_rate() -> None:
    """It is its new broker's from then on."""
    sidecar = Sidecar()
    await sidecar.replicates(dispatching.A, seconds=8)
    await sidecar.replicates(dispatching.B, seconds=8)
    assert sidecar.messages(dispatching.A) == 300
    assert sidecar.dispatch.written_topics() == (owner_of(dispatching.B, remote="west"),)


async def test_a_sidecar_goes_on_from_the_rate_that_it_finds_in_pulsar() -> None:
    """As after its own restart; what the operator had set stays kept."""
    sidecar = Sidecar()
    sidecar.replicator_rates.rates[dispatching.A] = REPLICATION.body_of(PolicyRate(290))
    sidecar.replicator_rates.texts[dispatching.A] = BY_OPERATOR
    await sidecar.replicates(dispatching.A, seconds=1, each=290)
    assert sidecar.messages(dispatching.A) in (290, 300)
    assert sidecar.replicator_rates.texts == {dispatching.A: BY_OPERATOR}
