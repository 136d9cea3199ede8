"""Limits of single topics, kept as Pulsar's publish and dispatch rates of these topics."""

from __future__ import annotations

from contextlib import suppress

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Rates
from coordinator.native.engine.counting import TopicCount
from coordinator.native.engine.rate_policy import DISPATCH, NO_RATE, PUBLISH, PolicyRate
from coordinator.native.shell.topic_limiting import TopicLimiting
from coordinator.ports import BrokerUnreachable
from tests.memory.native import MemoryRatePolicies
from tests.native.shell.test_dispatching import PARTED, A, B
from tests.native.shell.test_dispatching import World as DispatchWorld

S = NANOS_PER_SECOND
FREE = "persistent://t/free/a"
"""A topic of a namespace without a group."""

LIMITS = Rates(publish_messages=900, dispatch_messages=100)


class World(DispatchWorld):
    """A sidecar that keeps topics' limits, beside its 200/s of a group's dispatch limit of 600/s."""

    def __init__(self, rank: int | None = 0, *, topic_policies: bool = True) -> None:
        super().__init__(rank, topic_policies=topic_policies)
        self.policies.owners.add(FREE)
        self.publish_rates = MemoryRatePolicies(A, B, PARTED, FREE, policy=PUBLISH)
        self.limiting = TopicLimiting(
            self.publish_rates, self.policies, self.dispatch, self.seen, self.clock
        )
        self.limiting.rank = rank

    async def passes(self, seconds: int) -> None:
        """Take a step each second."""
        for _ in range(seconds):
            self.clock.advance(S)
            await self.limiting.step()

    def publish_rate(self, topic: str) -> PolicyRate:
        """As Pulsar has it."""
        return PUBLISH.rate_in(self.publish_rates.rates.get(topic, ""))


async def test_a_limit_becomes_the_topics_rates_and_goes_again() -> None:
    """Of a partitioned topic each partition has its part."""
    world = World()
    world.policies.owners.add("persistent://t/free/parted")
    world.publish_rates.owners.add("persistent://t/free/parted")
    for topic, partitions in ((FREE, 1), ("persistent://t/free/parted", 4)):
        world.limiting.set_limit(topic, LIMITS, partitions)
        await world.passes(1)
        assert world.publish_rate(topic) == PolicyRate(900 // partitions)
        assert world.rate(topic) == PolicyRate(100 // partitions)
        world.limiting.set_limit(topic, Rates(), 1)
        await world.passes(1)
        assert world.publish_rate(topic) == world.rate(topic) == NO_RATE
    assert world.publish_rates.texts == world.policies.texts == {}
    assert world.limiting.book.topics == {}


async def test_what_an_operator_has_set_is_the_most_and_comes_back() -> None:
    """In each unit; a text that is no rate bounds nothing, and is not given back."""
    world = World()
    set_by_operator = PUBLISH.body_of(PolicyRate(50, 7_000))
    world.publish_rates.rates[FREE] = set_by_operator
    world.limiting.set_limit(FREE, LIMITS, 1)
    await world.passes(1)
    assert world.publish_rate(FREE) == PolicyRate(50, 7_000)
    world.limiting.set_limit(FREE, Rates(publish_messages=20), 1)
    await world.passes(1)
    assert world.publish_rate(FREE) == PolicyRate(20, 7_000)
    world.limiting.set_limit(FREE, Rates(), 1)
    await world.passes(1)
    assert world.publish_rates.rates[FREE] == set_by_operator

    world.publish_rates.texts[FREE] = "[no rate"
    world.limiting.set_limit(FREE, LIMITS, 1)
    await world.passes(1)
    assert world.publish_rate(FREE) == PolicyRate(900)
    world.limiting.set_limit(FREE, Rates(), 1)
    await world.passes(1)
    assert world.publish_rates.rates == {}


async def test_what_others_set_meanwhile_is_set_again_and_told() -> None:
    """Within half a minute; what was there at first is what comes back."""
    world = World()
    world.limiting.set_limit(FREE, LIMITS, 1)
    await world.passes(1)
    for meddled in (PUBLISH.body_of(PolicyRate(100_000)), "", PUBLISH.body_of(PolicyRate(1))):
        world.publish_rates.rates[FREE] = meddled
        await world.passes(31)
        assert world.publish_rate(FREE) == PolicyRate(900)
    assert list(world.seen.edited) == [FREE]
    world.limiting.set_limit(FREE, Rates(), 1)
    await world.passes(1)
    assert world.publish_rates.rates == {}


async def test_a_peer_that_knows_of_more_partitions_earlier_edits_nothing() -> None:
    """Its rates stay, and nothing is told; this sidecar hears of them within half a minute or so."""
    world, parted = World(), "persistent://t/free/parted"
    both = (world.policies, world.publish_rates)
    for policies in both:
        policies.owners |= {parted, f"{parted}-partition-0", f"{parted}-partition-1"}
    world.limiting.set_limit(parted, LIMITS, 2)
    await world.passes(1)
    assert (world.publish_rate(parted), world.rate(parted)) == (PolicyRate(450), PolicyRate(50))
    for policies, rate in zip(both, (25, 225), strict=True):
        policies.owners |= {f"{parted}-partition-{number}" for number in (2, 3)}
        policies.rates[parted] = policies.policy.body_of(PolicyRate(rate))
    await world.passes(65)
    world.limiting.set_limit(parted, LIMITS, 4)
    await world.passes(1)
    assert (world.publish_rate(parted), world.rate(parted)) == (PolicyRate(225), PolicyRate(25))
    assert world.seen.edited == {}


async def test_a_restart_forgets_nothing() -> None:
    """Another sidecar finds what the first one kept, and goes on; it takes a sidecar's rate for none."""
    world = World()
    world.limiting.set_limit(FREE, LIMITS, 1)
    await world.passes(1)
    other = World()
    other.publish_rates, other.policies = world.publish_rates, world.policies
    other.limiting = TopicLimiting(
        world.publish_rates, world.policies, other.dispatch, other.seen, other.clock
    )
    other.limiting.rank = 0
    other.limiting.set_limit(FREE, Rates(publish_messages=1_800), 1)
    await other.passes(1)
    assert other.publish_rate(FREE) == PolicyRate(1_800)
    assert other.rate(FREE) == NO_RATE
    other.limiting.set_limit(FREE, Rates(), 1)
    await other.passes(1)
    assert other.publish_rates.rates == other.publish_rates.texts == {}


async def test_the_part_of_a_groups_limit_and_the_topics_own_both_hold() -> None:
    """The topic has the lower one, the others have what it leaves. Idle, it has the floor."""
    world = World()
    world.limiting.set_limit(A, Rates(dispatch_messages=30), 1)
    await world.passes(1)
    assert world.rate(A) == PolicyRate(30)
    await world.sends(A, B, seconds=4)
    assert (world.rate(A), world.rate(B)) == (PolicyRate(30), PolicyRate(170))
    world.limiting.set_limit(A, Rates(dispatch_messages=5_000), 1)
    await world.sends(A, B, seconds=12)
    await world.passes(1)
    assert (world.rate(A), world.rate(B)) == (PolicyRate(100), PolicyRate(100))
    await world.sends(B, seconds=13)
    assert world.rate(A) == PolicyRate(10)
    world.limiting.set_limit(A, Rates(), 1)
    await world.sends(A, seconds=2)
    await world.passes(1)
    await world.sends(B, seconds=13)
    assert A not in world.policies.rates
    assert A not in world.policies.texts


async def test_a_lifted_rate_of_a_topic_with_a_part_is_nobodys_but_a_sidecars() -> None:
    """It comes down again, and is not kept as what an operator had set."""
    world = World()
    world.limiting.set_limit(A, Rates(dispatch_messages=30), 1)
    await world.passes(1)
    await world.sends(A, seconds=3)
    world.policies.rates[A] = DISPATCH.body_of(PolicyRate(100_000))
    await world.sends(A, seconds=3, each=2_000)
    assert world.rate(A) == PolicyRate(30)
    assert world.policies.texts[A] == "none"


async def test_a_namespace_that_is_limited_no_more_leaves_topics_their_own_limits() -> None:
    """The group's part goes, the topic's limit stays."""
    world = World()
    world.limiting.set_limit(A, Rates(dispatch_messages=150), 1)
    await world.passes(1)
    await world.sends(A, B, seconds=14)
    assert world.rate(A) == PolicyRate(100)
    world.limit(None, None)
    await world.sends(A, B, seconds=4)
    assert world.rate(A) == PolicyRate(150)
    assert B not in world.policies.rates


async def test_a_topic_that_there_is_not_yet_has_its_limit_once_it_is_loaded() -> None:
    """The others have theirs meanwhile."""
    world = World()
    late = "persistent://t/free/late"
    for topic in (late, FREE):
        world.limiting.set_limit(topic, LIMITS, 1)
    await world.passes(2)
    assert world.publish_rate(FREE) == PolicyRate(900)
    for policies in (world.publish_rates, world.policies):
        policies.owners.add(late)
    await world.passes(1)
    assert world.publish_rate(late) == NO_RATE
    world.limiting.book.poll([TopicCount("t/free", late)], S)
    await world.passes(1)
    assert world.publish_rate(late) == PolicyRate(900)


async def test_a_broker_that_does_not_answer_is_asked_again() -> None:
    """The failure is raised, for a condition to tell; nothing is taken for right."""
    world = World()
    world.limiting.set_limit(FREE, LIMITS, 1)
    set_rate = world.publish_rates.set_rate

    async def fails(owner: str, body: str) -> None:
        raise BrokerUnreachable("503")

    world.publish_rates.set_rate = fails  # type: ignore[method-assign]
    with pytest.raises(BrokerUnreachable):
        await world.passes(1)
    assert not list(world.limiting.book.held())
    world.publish_rates.set_rate = set_rate  # type: ignore[method-assign]
    await world.passes(1)
    assert world.publish_rate(FREE) == PolicyRate(900)
    assert world.publish_rates.texts[FREE] == "none"


async def test_without_topic_policies_nothing_is_written() -> None:
    """The same holds for a sidecar that is no member."""
    for world in (World(topic_policies=False), World(rank=None)):
        world.limiting.set_limit(FREE, LIMITS, 1)
        await world.passes(9)
        assert world.publish_rates.rates == {}


async def test_an_attached_subscription_has_a_rate_before_anything_consumes_it() -> None:
    """At most the whole limit of its group, and at most what operators set for all of its topic's."""
    world = World()
    one, other = "persistent/t/free/a/one", "persistent/t/free/a/other"
    for owner in (one, other):
        world.policies.owners.add(owner)
    world.policies.defaults[other] = DISPATCH.body_of(PolicyRate(50))
    limits = dict.fromkeys((one, other), Rates(dispatch_messages=300))
    world.limiting.set_subscriptions(limits)
    await world.passes(1)
    assert (world.rate(one), world.rate(other)) == (PolicyRate(300), PolicyRate(50))
    world.limiting.set_subscriptions(limits | {one: Rates(dispatch_messages=700)})
    await world.passes(1)
    assert world.rate(one) == PolicyRate(700)
    assert list(world.limiting.book.held()) == []
    world.limiting.set_subscriptions({})
    await world.passes(1)
    assert world.policies.rates == world.policies.texts == {}


async def test_topics_whose_policies_cannot_be_written_keep_no_other_from_its_turn() -> None:
    """A dozen that a broker refuses, for ever, come first by name."""
    world = World()
    refused = [f"persistent://t/free/{number:02}" for number in range(12)]
    set_rate = world.publish_rates.set_rate

    async def refuses(owner: str, body: str) -> None:
        if owner in refused:
            raise BrokerUnreachable("409")
        await set_rate(owner, body)

    world.publish_rates.set_rate = refuses  # type: ignore[method-assign]
    for topic in (*refused, FREE):
        for policies in (world.publish_rates, world.policies):
            policies.owners.add(topic)
        world.limiting.set_limit(topic, LIMITS, 1)
    for _ in range(5):
        with suppress(BrokerUnreachable):
            await world.passes(1)
    assert world.publish_rate(FREE) == PolicyRate(900)
