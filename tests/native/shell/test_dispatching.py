"""Dispatch rates of topics and namespaces, kept by the sidecars of their brokers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Attachments, Rates
from coordinator.native.engine.conditions import TRANSPORT, Observed
from coordinator.native.engine.counting import TopicCount
from coordinator.native.engine.dispatch import DispatchSteering
from coordinator.native.engine.entries import NOTHING
from coordinator.native.engine.outside import BrokerFacts
from coordinator.native.engine.rate_policy import DISPATCH, NO_RATE, REPLICATION, PolicyRate
from coordinator.native.engine.replication import ReplicationBook
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.table import Statement
from coordinator.native.shell.dispatching import Dispatching
from coordinator.native.shell.kept_rates import give_all_back
from coordinator.native.shell.replicating import ReplicatorRates
from coordinator.ports import BrokerUnreachable, Refused
from tests.memory.native import MemoryRatePolicies, in_ten_seconds
from tests.memory.surroundings import ManualClock

S = NANOS_PER_SECOND
A, B, PARTED = "persistent://t/n/a", "persistent://t/n/b", "persistent://t/n/parted"
BY_OPERATOR = in_ten_seconds(5_000)


class World:
    """One of three sidecars, of a group with a dispatch limit of 600/s, of which it has 200."""

    def __init__(self, rank: int | None = 0, *, topic_policies: bool = True) -> None:
        self.clock, self.seen = ManualClock(100 * S), Observed()
        self.policies = MemoryRatePolicies("t/n", A, B, PARTED)
        self.steering = Steering()
        self.limit(600, 200)
        self.steering.set_attachments(Attachments({}, {"t/n": "g"}))
        members = ("a", "b", "c")
        self.steering.set_members(members)
        for name in members:
            self.steering.take(Statement(name, {"g": NOTHING}, name, name), self.clock.now_ns())
        self.seen.facts = BrokerFacts("a", 1, TRANSPORT, topic_policies)
        self.dispatch = DispatchSteering(self.steering)
        self.book = ReplicationBook()
        self.replicator_rates = MemoryRatePolicies("t/n", A, B, PARTED, policy=REPLICATION)
        replication = ReplicatorRates(self.replicator_rates, self.book)
        self.dispatching = Dispatching(
            self.dispatch, self.policies, replication, self.seen, self.clock, self.detached
        )
        self.dispatching.rank = rank
        self.dispatching.knows_limits = True
        self.sent: dict[str, int] = {}
        self.listed = 0

    async def detached(self) -> frozenset[str] | None:
        """All that there are but those that are attached."""
        existing = {owner for owner in self.policies.owners if owner.count("/") == 1}
        self.listed += 1
        return self.steering.homes.detached(existing)

    def limit(self, whole: int | None, part: int | None) -> None:
        """Of the cluster, and of this broker."""
        self.steering.set_whole({"g": Rates(dispatch_messages=whole)})
        self.steering.set_limits("g", Rates(dispatch_messages=part))

    async def sends(self, *topics: str, seconds: int = 1, each: int = 1_000) -> None:
        """Send to these topics' consumers at this rate; other topics have no consumers left."""
        for _ in range(2 * seconds):
            self.clock.advance(S // 2)
            for topic in topics:
                self.sent[topic] = self.sent.get(topic, 0) + each // 2
            counts = [
                TopicCount("t/n", topic, 0, 0, sent, sent, 0, int(topic in topics))
                for topic, sent in self.sent.items()
            ]
            self.dispatch.poll(counts, S // 2, self.clock.now_ns())
            await self.dispatching.step()

    def rate(self, owner: str) -> PolicyRate:
        """As Pulsar has it."""
        return DISPATCH.rate_in(self.policies.rates.get(owner, ""))


async def test_the_floor_of_a_namespace_is_set_by_the_first_member() -> None:
    """By the third one four seconds later, if it is still wrong; by none that is no member."""
    for rank, seconds in ((0, 1), (2, 5)):
        world = World(rank)
        await world.sends(seconds=seconds)
        assert world.rate("t/n") == PolicyRate(10)
        assert world.policies.texts["t/n"] == "none"
    for other, seconds in ((2, 3), (None, 9)):
        world = World(other)
        await world.sends(seconds=seconds)
        assert world.policies.rates == {}


async def test_a_namespace_that_is_limited_from_now_on_has_its_floor_at_once() -> None:
    """Before a topic of it can send all of its backlog; others are looked at every two seconds."""
    world = World()
    world.policies.owners.add("t/m")
    await world.sends(seconds=1)
    world.steering.set_attachments(Attachments({}, {"t/n": "g", "t/m": "g"}))
    await world.dispatching.step()
    assert world.rate("t/m") == PolicyRate(10)


async def test_a_floor_is_written_again_once_it_is_far_off() -> None:
    """A limit that is raised by half needs no write, one that is tripled does."""
    world = World()
    await world.sends(seconds=3)
    world.limit(900, 200)
    await world.sends(seconds=3)
    assert world.rate("t/n") == PolicyRate(10)
    world.limit(1_800, 200)
    await world.sends(seconds=3)
    assert world.rate("t/n") == PolicyRate(30)


async def test_what_others_change_in_a_namespace_is_set_again() -> None:
    """Within half a minute; what was there before the first write is what comes back."""
    world = World()
    await world.sends(seconds=3)
    world.policies.rates["t/n"] = DISPATCH.body_of(PolicyRate(9_999))
    await world.sends(seconds=33)
    assert world.rate("t/n") == PolicyRate(10)
    assert world.policies.texts["t/n"] == "none"


async def test_a_rate_is_kept_before_it_is_replaced() -> None:
    """As the operator wrote it, which is the most that the topic gets: 500 a second."""
    world = World()
    world.limit(6_000, 2_000)
    world.policies.rates[A] = BY_OPERATOR
    await world.sends(A, B, seconds=4, each=5_000)
    assert world.policies.texts[A] == BY_OPERATOR
    assert world.policies.texts[B] == "none"
    assert (world.rate(A).messages, world.rate(B).messages) == (500, 1_500)


async def test_a_rate_that_cannot_be_written_is_tried_again() -> None:
    """The rate that is kept is the one from before the first try."""
    world = World()
    await world.sends(seconds=3)

    async def refuse(owner: str, body: str) -> None:
        raise BrokerUnreachable(f"{owner} {body}")

    world.policies.set_rate = refuse  # type: ignore[method-assign]
    with pytest.raises(BrokerUnreachable):
        await world.sends(A, seconds=2)
    del world.policies.set_rate
    await world.sends(A, seconds=2)
    assert world.rate(A) == PolicyRate(200)
    assert world.policies.texts[A] == "none"


async def test_a_topic_that_is_gone_stops_no_other() -> None:
    """It was deleted between the poll and the request."""
    world = World()
    world.policies.owners.remove(A)
    await world.sends(A, B, seconds=5)
    assert world.rate(B).messages
    assert A not in world.policies.rates


async def test_a_topic_that_is_refused_stops_no_other_and_is_asked_for_once_a_minute() -> None:
    """As one of a name that fits into no request; it is told."""
    world = World()
    refused = f"persistent://t/n/{'a' * 9_000}"
    asked, told = [], []
    rate = world.policies.rate

    async def answer(owner: str) -> str:
        if owner == refused:
            asked.append(owner)
            raise Refused("GET /aaa answered 414")
        return await rate(owner)

    world.policies.rate = answer  # type: ignore[method-assign]
    for _ in range(6):
        try:
            await world.sends(refused, A, B)
        except Refused as error:
            told.append(str(error))
    assert world.rate(A).messages
    assert world.rate(B).messages
    assert told == ["GET /aaa answered 414"]
    assert asked == [refused]


async def test_writes_of_a_namespace_are_few_in_a_second() -> None:
    """Forty topics that all want more at once have their rates eight seconds later."""
    world = World()
    topics = [f"persistent://t/n/many-{number}" for number in range(40)]
    world.policies.owners |= set(topics)
    await world.sends(seconds=3)
    found = []
    for _ in range(9):
        await world.sends(*topics)
        found.append(len(world.policies.rates) - 1)
    assert found[1] - found[0] <= 6
    assert found[-1] == 40


async def test_a_topic_without_consumers_gets_its_rate_back() -> None:
    """After a while, as consumers come and go."""
    world = World()
    world.policies.rates[A] = BY_OPERATOR
    await world.sends(A, B, seconds=4)
    await world.sends(B, seconds=9)
    assert world.policies.rates[A] != BY_OPERATOR
    await world.sends(B, seconds=3)
    assert world.policies.rates[A] == BY_OPERATOR
    assert A not in world.policies.texts


async def test_what_is_limited_no_more_gets_its_rates_back() -> None:
    """By the first member; topics that nothing consumes now, too, as a sidecar may have died."""
    for rank in (0, 1):
        world = World(rank)
        world.policies.rates["t/n"] = BY_OPERATOR
        await world.sends(A, B, seconds=5)
        world.policies.texts[PARTED] = BY_OPERATOR
        world.policies.rates[PARTED] = DISPATCH.body_of(PolicyRate(1))
        world.limit(None, None)
        await world.sends(seconds=5)
        assert world.policies.rates == {"t/n": BY_OPERATOR, PARTED: BY_OPERATOR}
        assert world.policies.texts == {}


async def test_rates_are_left_alone_until_all_sidecars_are_known() -> None:
    """A floor is neither set nor taken away before; where one sidecar does not write, there is none."""
    world = World()
    world.steering.set_members(("a", "b", "c", "unheard"))
    world.policies.rates["t/n"] = DISPATCH.body_of(PolicyRate(10))
    world.policies.texts["t/n"] = "none"
    await world.sends(seconds=20)
    assert world.rate("t/n") == PolicyRate(10)
    await world.sends(A, seconds=15)
    assert world.policies.rates.keys() == {A}
    world.limit(None, None)
    await world.sends(seconds=5)
    assert (world.policies.rates, world.policies.texts) == ({}, {})


async def test_without_topic_policies_nothing_is_asked() -> None:
    """A broker without them refuses each request."""
    world = World(topic_policies=False)
    await world.sends(A, seconds=5)
    assert (world.policies.rates, world.policies.texts) == ({}, {})


@pytest.mark.parametrize("rate", [100_000, 50, None])
async def test_a_rate_that_an_operator_sets_meanwhile_is_kept(rate: int | None) -> None:
    """It comes back later, and is the most that the topic gets; a lifted one lifts no limit."""
    world = World()
    await world.sends(A, seconds=4, each=200)
    assert world.rate(A) == PolicyRate(200)
    set_by_operator = DISPATCH.body_of(PolicyRate(rate))
    await world.policies.set_rate(A, set_by_operator)
    await world.sends(A, seconds=5, each=9_000)
    assert world.rate(A) == PolicyRate(min(200, rate or 200))
    assert world.policies.texts[A] == (set_by_operator or "none")


async def test_a_broker_that_answers_with_an_older_rate_is_no_operator() -> None:
    """Its cache is behind; the rate is written again."""
    world = World()
    await world.sends(A, seconds=4, each=200)
    before = world.policies.rates[A]
    world.limit(600, 100)
    await world.sends(A, seconds=3, each=200)
    assert world.rate(A) == PolicyRate(100)
    world.policies.rates[A] = before
    await world.sends(A, seconds=3, each=200)
    assert world.rate(A) == PolicyRate(100)
    assert world.policies.texts[A] == "none"


async def test_rates_are_read_again_a_few_at_a_time() -> None:
    """Forty topics take ten seconds."""
    world = World()
    world.limit(600, 600)
    topics = [f"persistent://t/n/many-{number}" for number in range(40)]
    world.policies.owners |= set(topics)
    await world.sends(*topics, seconds=12, each=14)
    read: list[str] = []
    rate = world.policies.rate

    async def noted(owner: str) -> str:
        read.append(owner)
        return await rate(owner)

    world.policies.rate = noted  # type: ignore[method-assign]
    await world.sends(*topics, each=14)
    assert 0 < len(read) <= 5
    await world.sends(*topics, seconds=10, each=14)
    assert set(read) >= set(topics)


async def test_what_others_put_in_the_place_of_a_kept_rate_is_no_rate() -> None:
    """A topic goes back to none then, and no other one is stopped by it."""
    world = World()
    await world.sends(A, B, seconds=4)
    world.policies.texts[A] = "[nonsense"
    world.limit(None, None)
    await world.sends(seconds=5)
    assert (world.policies.rates, world.policies.texts) == ({}, {})


async def test_a_kept_rate_that_others_remove_is_kept_again() -> None:
    """The floor would be taken for the operator's rate otherwise, and be the most for all topics."""
    world = World()
    world.policies.rates["t/n"] = BY_OPERATOR
    await world.sends(seconds=3)
    del world.policies.texts["t/n"]
    await world.sends(seconds=33)
    assert world.policies.texts["t/n"] == BY_OPERATOR
    assert world.rate("t/n") == PolicyRate(10)


async def test_topics_that_are_only_named_like_partitions_stop_no_other() -> None:
    """Pulsar gives them no policy; they keep the floor, and are asked for once a minute."""
    world = World()
    names = [f"persistent://t/n/alone-{number}-partition-0" for number in range(50)]
    asked: list[str] = []
    kept = world.policies.kept

    async def noted(owner: str) -> str | None:
        asked.append(owner)
        return await kept(owner)

    world.policies.kept = noted  # type: ignore[method-assign]
    await world.sends(*names, B, seconds=8)
    assert world.rate(B).messages
    assert len(asked) - len(set(asked)) <= 3


async def test_giving_back_tells_how_many_rates_it_were() -> None:
    """A second time, none."""
    policies = MemoryRatePolicies("t/n", A, B)
    policies.texts |= {"t/n": BY_OPERATOR, A: "none"}
    policies.rates |= {A: DISPATCH.body_of(PolicyRate(1)), B: BY_OPERATOR}
    assert await give_all_back(policies, "t/n", lambda _: NO_RATE) == 2
    assert policies.rates == {"t/n": BY_OPERATOR, B: BY_OPERATOR}
    assert await give_all_back(policies, "t/n", lambda _: NO_RATE) == 0


async def test_a_topic_that_is_refused_keeps_no_other_from_its_former_rate() -> None:
    """The text that is kept of the namespace stays, as it says that this is not done yet."""
    topics = [f"persistent://t/n/many-{number:02}" for number in range(20)]
    policies = MemoryRatePolicies("t/n", *topics)
    policies.texts |= dict.fromkeys(["t/n", *topics], "none")
    policies.rates |= dict.fromkeys(topics, DISPATCH.body_of(PolicyRate(1)))
    kept = policies.kept

    async def refuse(owner: str) -> str | None:
        if owner == topics[0]:
            raise Refused("GET /many-00 answered 414")
        return await kept(owner)

    policies.kept = refuse  # type: ignore[method-assign]
    with pytest.raises(Refused, match="answered 414"):
        await give_all_back(policies, "t/n", lambda _: NO_RATE)
    assert policies.rates.keys() == {topics[0]}
    assert policies.texts.keys() == {"t/n", topics[0]}


async def test_a_namespace_that_is_refused_is_asked_for_again_after_half_a_minute() -> None:
    """Each time costs a request for each topic; those that are not refused have their rates at once."""
    world = World()
    await world.sends(A, B, seconds=4)
    kept, topics = world.policies.kept, world.policies.topics
    listed: list[str] = []

    async def refuse(owner: str) -> str | None:
        if owner == A:
            raise Refused("GET /a answered 412")
        return await kept(owner)

    async def noted(namespace: str) -> Sequence[str]:
        listed.append(namespace)
        return await topics(namespace)

    world.policies.kept = refuse  # type: ignore[method-assign]
    world.policies.topics = noted  # type: ignore[method-assign]
    world.limit(None, None)
    for _ in range(20):
        with suppress(Refused):
            await world.sends()
    assert listed == ["t/n"]
    assert world.policies.texts.keys() == {"t/n", A}
    del world.policies.kept
    await world.sends(seconds=20)
    assert (world.policies.rates, world.policies.texts) == ({}, {})


async def test_what_was_detached_while_no_sidecar_ran_has_its_former_rates_at_the_next_start() -> (
    None
):
    """Of every namespace that counts against no group, and that bears the mark; once after a start."""
    topic = "persistent://t/left/a"
    world = World()
    world.policies.owners |= {"t/left", topic, "other/by-operator"}
    sidecars = DISPATCH.body_of(PolicyRate(1))
    world.policies.texts |= {"t/left": BY_OPERATOR, topic: "none"}
    world.policies.rates |= {"t/left": sidecars, topic: sidecars, "other/by-operator": BY_OPERATOR}

    await world.sends(seconds=9)

    assert world.policies.rates.keys() == {"t/n", "t/left", "other/by-operator"}
    assert (
        world.policies.rates["t/left"] == world.policies.rates["other/by-operator"] == BY_OPERATOR
    )
    assert world.policies.texts.keys() == {"t/n"}
    assert world.listed == 1


async def test_before_the_attachments_are_known_none_counts_as_detached() -> None:
    """A sidecar that is no member yet gives nothing back either."""
    for rank in (0, None):
        world = World(rank)
        world.policies.owners.add("t/left")
        world.policies.texts["t/left"] = "none"
        if rank is not None:
            world.steering = Steering()
            assert await world.detached() is None
        await world.sends(seconds=9)
        assert "t/left" in world.policies.texts


async def test_before_the_limits_of_topics_are_known_nothing_is_given_back() -> None:
    """A topic with one of its own would have none for a while."""
    world = World()
    world.dispatching.knows_limits = False
    world.policies.owners.add("t/left")
    world.policies.texts["t/left"] = "none"
    await world.sends(seconds=9)
    assert "t/left" in world.policies.texts

    world.dispatching.knows_limits = True
    await world.sends(seconds=9)
    assert "t/left" not in world.policies.texts


async def test_a_detached_namespace_that_is_refused_troubles_no_other() -> None:
    """It may be of a tenant that has never heard of limits."""
    world = World()
    world.policies.owners |= {"a/refused", "t/left"}
    world.policies.texts["t/left"] = "none"
    kept = world.policies.kept

    async def refuse(owner: str) -> str | None:
        if owner == "a/refused":
            raise Refused("GET a/refused answered 412")
        return await kept(owner)

    world.policies.kept = refuse  # type: ignore[method-assign]
    await world.sends(seconds=9)

    assert "t/left" not in world.policies.texts
