"""The enforcer acts on exceeded quotas, at a gate and a broker in memory."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from coordinator.backlog.rules.guard import Enforcement, EnforcementAction
from coordinator.backlog.rules.model import (
    BacklogQuota,
    Position,
    QuotaPolicy,
    QuotaType,
    TopicStorage,
)
from coordinator.backlog.shell import enforcer
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.ports import BrokerUnreachable, NotFound, PortError, Refused
from tests.admin_api.backlog_world import TOPIC, BacklogWorld

ENFORCED = {"shop/orders": Enforcement.ENFORCE}
DRY = {"shop/orders": Enforcement.DRY_RUN}


async def exceeding(policy: QuotaPolicy, namespaces: dict[str, Enforcement]) -> BacklogWorld:
    """20 KiB of backlog where 10 are allowed, seen by a check."""
    world = BacklogWorld(namespaces)
    world.topic().quota = BacklogQuota(size_bytes=10 * 1024, size_policy=policy)
    world.publish(20)
    await world.watch.check()
    return world


DEEDS = {
    QuotaPolicy.HOLD: EnforcementAction.HOLD,
    QuotaPolicy.REFUSE: EnforcementAction.REFUSE,
    QuotaPolicy.EVICT: EnforcementAction.EVICT,
}


def told(world: BacklogWorld) -> tuple[object, ...]:
    """Return the one action: of which kind, against which quota, and with which figures."""
    (action,) = world.enforcement.guard.actions
    return action.deed, action.quota_type, action.value, action.limit, action.dry_run


@pytest.mark.parametrize("policy", [QuotaPolicy.HOLD, QuotaPolicy.REFUSE])
async def test_the_gate_holds_or_refuses_until_the_quota_is_kept(policy: QuotaPolicy) -> None:
    """With the reason; the next look after the backlog has shrunk lets publishes pass again."""
    world = await exceeding(policy, ENFORCED)
    await world.enforcement.look()
    assert told(world) == (DEEDS[policy], QuotaType.SIZE, 20 * 1024, 10 * 1024, False)
    block = world.gate.blocks[TOPIC]
    assert block.refused is (policy is QuotaPolicy.REFUSE)
    assert block.reason == "backlog quota exceeded: 20480 of 10240 bytes"
    world.topic().acknowledged["a"] = 15
    await world.enforcement.look()
    assert world.gate.blocks == {}
    assert [action.deed for action in world.enforcement.guard.actions][
        -1
    ] is EnforcementAction.RELEASE


async def test_a_backlog_is_evicted_down_to_nine_tenths_and_counted() -> None:
    """Once; the next look finds nothing to do."""
    world = await exceeding(QuotaPolicy.EVICT, ENFORCED)
    await world.enforcement.look()
    await world.enforcement.look()
    assert told(world) == (EnforcementAction.EVICT, QuotaType.SIZE, 20 * 1024, 10 * 1024, False)
    view = world.watch.view(TOPIC)
    assert view is not None
    assert view.size_bytes == 9 * 1024
    assert world.enforcement.guard.evictions.topics == {(TOPIC, QuotaType.SIZE): 1}
    assert world.enforcement.guard.evictions.broker == {QuotaType.SIZE: 1}
    (action,) = world.enforcement.guard.actions
    assert action.outcome == "a to 3:0"


async def test_a_broker_that_is_slow_to_move_a_cursor_has_evicted_once() -> None:
    """It answers first, so the next look asks for the same again; a later excess counts anew."""
    world = await exceeding(QuotaPolicy.EVICT, ENFORCED)
    await world.enforcement.look()
    world.topic().acknowledged["a"] = 0
    await world.enforcement.look()
    assert world.enforcement.guard.evictions.broker == {QuotaType.SIZE: 1}
    await world.enforcement.look()
    world.publish(5)
    await world.enforcement.look()
    assert world.enforcement.guard.evictions.broker == {QuotaType.SIZE: 2}


@pytest.mark.parametrize("old", [1, 3, 5, 100])
async def test_an_age_is_evicted_to_nine_tenths_of_it(old: int) -> None:
    """Every subscription loses its older messages, at the price of a few read entries."""
    world = BacklogWorld(ENFORCED)
    world.topic().quota = BacklogQuota(age_s=60, age_policy=QuotaPolicy.EVICT)
    world.topic().acknowledged["b"] = old + 2
    world.publish(old)
    world.pass_s(7)
    world.publish(2)
    world.pass_s(54)
    world.publish(7)
    await world.watch.check()
    world.source.asked.clear()
    await world.enforcement.look()
    assert world.topic().acknowledged == {"a": old, "b": old + 2}
    assert world.enforcement.guard.evictions.broker == {QuotaType.TIME: 1}
    assert sum(call == "published_ms" for call, _ in world.source.asked) <= 9


async def test_an_age_that_nobody_exceeds_any_more_is_not_evicted() -> None:
    """The consumer acknowledged the old messages between the check and the action."""
    world = BacklogWorld(ENFORCED)
    world.topic().quota = BacklogQuota(age_s=60, age_policy=QuotaPolicy.EVICT)
    world.publish(3)
    world.pass_s(61)
    await world.watch.check()
    world.topic().acknowledged["a"] = 3
    world.publish(1)
    await world.enforcement.look()
    assert world.topic().acknowledged == {"a": 3}
    assert not world.enforcement.guard.evictions.topics


@pytest.mark.parametrize("policy", list(QuotaPolicy))
async def test_a_dry_run_changes_nothing_and_writes_down_what_it_would_have(
    policy: QuotaPolicy,
) -> None:
    """Gate and broker stay as they are, and no eviction counts."""
    world = await exceeding(policy, DRY)
    await world.enforcement.look()
    assert world.gate.blocks == {}
    assert world.topic().acknowledged == {"a": 0}
    assert not world.enforcement.guard.evictions.topics
    assert told(world) == (DEEDS[policy], QuotaType.SIZE, 20 * 1024, 10 * 1024, True)
    assert world.enforcement.guard.actions[0].outcome.startswith("dry run")


async def test_a_namespace_that_is_not_named_is_left_alone() -> None:
    """The enforcer does not even read it."""
    world = await exceeding(QuotaPolicy.EVICT, {})
    world.source.asked.clear()
    await world.enforcement.look()
    assert world.source.asked == []


async def test_a_topic_that_is_published_to_is_looked_at_before_the_broker_tells_of_it() -> None:
    """Its statistics are up to a minute old."""
    world = BacklogWorld(ENFORCED)
    world.topic().quota = BacklogQuota(size_bytes=1024, size_policy=QuotaPolicy.HOLD)
    world.publish(5)
    world.gate.publishing.add(TOPIC)
    await world.enforcement.look()
    assert TOPIC in world.gate.blocks


async def test_a_topic_that_moved_away_is_released() -> None:
    """Its new owner's sidecar decides; this one's broker answers 307."""
    world = await exceeding(QuotaPolicy.HOLD, ENFORCED)
    await world.enforcement.look()
    del world.source.topics[TOPIC]
    await world.enforcement.look()
    assert world.gate.blocks == {}


async def test_two_sidecars_never_evict_the_same_topic() -> None:
    """Each asks its own broker, and only the owner has the topic; twice would evict no more, anyway."""
    owner = await exceeding(QuotaPolicy.EVICT, ENFORCED)
    other = BacklogWorld(ENFORCED)
    other.gate.publishing.add(TOPIC)
    for _ in range(3):
        await other.enforcement.look()
        await owner.enforcement.look()
    assert [world.enforcement.guard.evictions.broker.total() for world in (owner, other)] == [1, 0]
    assert owner.topic().acknowledged == {"a": 11}


@pytest.mark.parametrize("error", [NotFound("gone"), BrokerUnreachable("timed out")])
async def test_an_eviction_that_fails_is_told_and_tried_again(error: Exception) -> None:
    """The next look finds the quota still exceeded."""
    world = await exceeding(QuotaPolicy.EVICT, ENFORCED)
    world.source.trouble["expire_to"] = error  # type: ignore[assignment]
    await world.enforcement.look()
    assert world.enforcement.guard.actions[-1].outcome == f"failed: {error}"
    assert not world.enforcement.guard.evictions.topics
    world.source.trouble.clear()
    await world.enforcement.look()
    assert world.enforcement.guard.evictions.broker == {QuotaType.SIZE: 1}


@pytest.mark.parametrize("error", [Refused("a name"), BrokerUnreachable("timed out")])
async def test_an_eviction_that_fails_half_way_is_counted_and_told(
    error: PortError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscription that is refused, as its client chose the name, keeps no other from its turn."""
    world = await exceeding(QuotaPolicy.EVICT, ENFORCED)
    world.topic().acknowledged = {"a": 0, "b": 1, "c": 2}
    expire_to = world.source.expire_to

    async def all_but_b(topic: str, subscription: str, position: Position) -> None:
        if subscription == "b":
            raise error
        await expire_to(topic, subscription, position)

    monkeypatch.setattr(world.source, "expire_to", all_but_b)
    await world.enforcement.look()
    goes_on = isinstance(error, Refused)
    assert world.topic().acknowledged == {"a": 11, "b": 1, "c": 11 if goes_on else 2}
    assert f"failed: {error}" in world.enforcement.guard.actions[-1].outcome
    assert world.enforcement.guard.evictions.broker == {QuotaType.SIZE: 1}


async def test_an_outcome_names_few_of_many_subscriptions() -> None:
    """It is kept and logged, and clients may make any number."""
    world = await exceeding(QuotaPolicy.EVICT, ENFORCED)
    world.topic().acknowledged = {f"s{number:03}": 0 for number in range(100)}
    await world.enforcement.look()
    assert set(world.topic().acknowledged.values()) == {11}
    outcome = world.enforcement.guard.actions[-1].outcome
    assert outcome.startswith("s000 to ")
    assert outcome.endswith(", 80 more")


async def test_evictions_of_many_subscriptions_go_on_in_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client may make any number; no other topic, and no hold, waits until all of them are through.

    The broker takes 2 s for each request here, and refuses every other name each time.
    """
    world = await exceeding(QuotaPolicy.EVICT, ENFORCED)
    later, held = f"{TOPIC}-later", f"{TOPIC}-and-held"
    world.topic().acknowledged = dict.fromkeys("abcde", 0)
    for name, policy in ((later, QuotaPolicy.EVICT), (held, QuotaPolicy.HOLD)):
        world.topic(name).quota = BacklogQuota(size_bytes=10 * 1024, size_policy=policy)
        world.publish(20, name)
    await world.watch.check()
    expire_to, asked = world.source.expire_to, []

    async def slow(topic: str, subscription: str, position: Position) -> None:
        assert held in world.gate.blocks
        asked.append(subscription if topic == TOPIC else topic)
        world.clock.advance(2 * NANOS_PER_SECOND)
        if subscription in "ace" and topic == TOPIC:
            raise Refused("a name")
        await expire_to(topic, subscription, position)

    monkeypatch.setattr(world.source, "expire_to", slow)
    outcomes = []
    for _ in range(3):
        with capture_logs() as logs:
            await world.enforcement.look()
        outcomes.append([each["outcome"] for each in logs if each.get("deed") == "evict"])
        outcomes[-1] += [each["topics"] for each in logs if "topics" in each]

    assert asked == ["a", "b", "c", "d", "e", later, "a", "c", "e"]
    assert outcomes[0] == ["b to 3:0, failed: a name, 2 left for the next look", 1]
    assert outcomes[1] == ["d to 3:0, failed: a name", "a to 3:0"]
    assert world.enforcement.guard.evictions.broker == {QuotaType.SIZE: 2}


async def test_a_look_evicts_at_least_from_one_subscription(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else nothing would go on where a broker takes longer to tell a topic's storage."""
    world = await exceeding(QuotaPolicy.EVICT, ENFORCED)
    world.topic().acknowledged = {"a": 0, "b": 0}
    storage = world.source.storage

    async def slow(topic: str) -> TopicStorage:
        world.clock.advance(60 * NANOS_PER_SECOND)
        return await storage(topic)

    monkeypatch.setattr(world.source, "storage", slow)
    for _ in range(2):
        await world.enforcement.look()

    assert world.topic().acknowledged == {"a": 11, "b": 11}


async def test_a_backlog_of_pulsars_own_cursor_is_not_evicted() -> None:
    """Deduplication has no consumer; the enforcer tells it and does not count it."""
    world = await exceeding(QuotaPolicy.EVICT, ENFORCED)
    world.topic().acknowledged = {"pulsar.dedup": 0, "a": 20}
    await world.enforcement.look()
    assert not world.enforcement.guard.evictions.topics
    assert world.enforcement.guard.actions[-1].outcome.startswith("nothing that a consumer")


async def test_namespaces_can_be_changed_while_it_runs() -> None:
    """The enforcer takes back the blocks of namespaces that are not enforced any more."""
    world = await exceeding(QuotaPolicy.HOLD, ENFORCED)
    await world.enforcement.look()
    world.enforcement.guard.namespaces = {}
    await world.enforcement.look()
    assert world.gate.blocks == {}


async def test_a_dry_run_that_becomes_serious_holds_what_it_only_recorded_and_back() -> None:
    """The configuration is read again while the quota is exceeded all the time."""
    world = await exceeding(QuotaPolicy.HOLD, DRY)
    await world.enforcement.look()
    assert world.gate.blocks == {}
    world.enforcement.guard.namespaces = ENFORCED
    for _ in range(2):
        await world.enforcement.look()
        assert world.gate.blocks.keys() == {TOPIC}
    world.enforcement.guard.namespaces = DRY
    await world.enforcement.look()
    assert world.gate.blocks == {}

    assert [(action.deed, action.dry_run) for action in world.enforcement.guard.actions] == [
        (EnforcementAction.HOLD, True),
        (EnforcementAction.RELEASE, True),
        (EnforcementAction.HOLD, False),
        (EnforcementAction.RELEASE, False),
        (EnforcementAction.HOLD, True),
    ]


async def test_what_is_held_is_looked_at_first_when_there_are_too_many_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be released as one that moved away otherwise."""
    monkeypatch.setattr(enforcer, "TOPICS_MAX", 1)
    world = await exceeding(QuotaPolicy.HOLD, ENFORCED)
    await world.enforcement.look()
    world.publish(1, "persistent://shop/orders/a-first-name")
    await world.watch.check()
    await world.enforcement.look()
    assert TOPIC in world.gate.blocks
