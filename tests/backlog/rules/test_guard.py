"""The guard decides the actions against exceeded quotas."""

from __future__ import annotations

import random

import pytest

from coordinator.backlog.rules.guard import (
    ACTIONS,
    BacklogGuard,
    Enforcement,
    EnforcementAction,
    behind,
    block_of,
    evicted_target,
)
from coordinator.backlog.rules.model import BacklogQuota, Position, QuotaPolicy, QuotaType
from tests.backlog.rules.world import TOPIC, World
from tests.memory.backlog import MemoryTopicStorage

NAMESPACE = "shop/orders"


def guard(wanted: Enforcement = Enforcement.ENFORCE) -> BacklogGuard:
    """A guard of the namespace of the topic."""
    return BacklogGuard({NAMESPACE: wanted})


def exceeding(policy: QuotaPolicy, messages: int = 20) -> World:
    """A topic with 20 KiB of backlog where 10 are allowed."""
    world = World()
    world.topic.acknowledged = {"a": 0}
    world.topic.quota = BacklogQuota(size_bytes=10 * 1024, size_policy=policy)
    world.publish(messages)
    world.check()
    return world


@pytest.mark.parametrize(
    ("policy", "deed"),
    [
        (QuotaPolicy.HOLD, EnforcementAction.HOLD),
        (QuotaPolicy.REFUSE, EnforcementAction.REFUSE),
        (QuotaPolicy.EVICT, EnforcementAction.EVICT),
    ],
)
def test_the_policy_of_the_quota_says_what_is_done(
    policy: QuotaPolicy, deed: EnforcementAction
) -> None:
    """One action, with what there was and what is allowed."""
    world = exceeding(policy)
    (action,) = guard().decide([world.view()], world.now_ms)
    assert (action.deed, action.quota_type, action.dry_run) == (deed, QuotaType.SIZE, False)
    assert (action.value, action.limit) == (20 * 1024, 10 * 1024)


def test_nothing_is_done_in_other_namespaces() -> None:
    """It has to be wanted."""
    world = exceeding(QuotaPolicy.EVICT)
    assert BacklogGuard({"shop/other": Enforcement.ENFORCE}).decide([world.view()], 0) == []
    assert BacklogGuard({}).decide([world.view()], 0) == []


def test_a_topic_is_held_once_and_released_when_the_quota_is_kept_again() -> None:
    """A later check does not hold it anew."""
    world, guarding = exceeding(QuotaPolicy.HOLD), guard()
    assert len(guarding.decide([world.view()], world.now_ms)) == 1
    assert guarding.decide([world.view()], world.now_ms) == []
    world.topic.acknowledged["a"] = 15
    world.check()
    (release,) = guarding.decide([world.view()], world.now_ms)
    assert release.deed is EnforcementAction.RELEASE
    assert guarding.decide([world.view()], world.now_ms) == []


def test_a_topic_that_moves_away_is_released_here() -> None:
    """The sidecar of its new owner decides about it."""
    world, guarding = exceeding(QuotaPolicy.HOLD), guard()
    guarding.decide([world.view()], world.now_ms)
    assert [action.deed for action in guarding.decide([], world.now_ms)] == [
        EnforcementAction.RELEASE
    ]
    assert not guarding.blocked


def test_another_policy_takes_over_from_the_old_one() -> None:
    """Held producers are released before the backlog is evicted."""
    world, guarding = exceeding(QuotaPolicy.HOLD), guard()
    guarding.decide([world.view()], world.now_ms)
    world.topic.quota = BacklogQuota(size_bytes=1024, size_policy=QuotaPolicy.EVICT)
    world.pass_s(60)
    world.check()
    deeds = [action.deed for action in guarding.decide([world.view()], world.now_ms)]
    assert deeds == [EnforcementAction.RELEASE, EnforcementAction.EVICT]


def test_a_dry_run_decides_the_same_and_says_so() -> None:
    """An operator can believe its list."""
    for policy in QuotaPolicy:
        world = exceeding(policy)
        (real,) = guard().decide([world.view()], world.now_ms)
        (dry,) = guard(Enforcement.DRY_RUN).decide([world.view()], world.now_ms)
        assert dry.dry_run
        assert (dry.deed, dry.value, dry.limit) == (real.deed, real.value, real.limit)


def test_a_size_is_evicted_to_nine_tenths_in_every_subscription_that_is_too_far_behind() -> None:
    """A subscription that is ahead keeps its entries, and so does a cursor of Pulsar's own."""
    world = exceeding(QuotaPolicy.EVICT)
    world.topic.acknowledged = {"a": 0, "b": 8, "c": 18, "pulsar.dedup": 0}
    world.check()
    (action,) = guard().decide([world.view()], world.now_ms)
    storage = world.topic.storage()
    position = storage.leaving(evicted_target(action.limit))
    assert position == Position(3, 0)
    assert behind(storage, position) == ["a", "b"]
    assert storage.size_after(position) == 9 * 1024


def test_a_subscription_that_has_acknowledged_up_to_a_position_is_left_alone() -> None:
    """This holds at the beginning of a ledger, where the position before is another ledger's end."""
    world = World()
    world.topic.acknowledged = {"late": 0, "done": 5}
    world.publish(8)
    storage = world.topic.storage()
    for position in (Position(1, 4), Position(2, -1)):
        assert behind(storage, position) == ["late"]


def test_entries_behind_a_position_are_counted_and_found_by_their_number() -> None:
    """Over ledgers of any length, from any entry on."""
    topic = MemoryTopicStorage(entries_per_ledger=3)
    for _ in range(10):
        topic.publish(0)
    storage, everything = topic.storage(), [topic.position_of(index) for index in range(10)]
    for index, position in enumerate(everything):
        left = everything[index + 1 :]
        assert storage.entries_after(position) == len(left)
        assert [storage.nth_after(position, n) for n in range(len(left))] == left
        with pytest.raises(IndexError, match="too far behind"):
            storage.nth_after(position, len(left))


def test_what_is_left_is_never_more_than_nine_tenths_and_nearly_that() -> None:
    """For topics of any shape with entries of one size in a ledger."""
    for seed in range(200):
        print(f"seed {seed}")  # noqa: T201  # pytest shows it when the test fails
        dice = random.Random(seed)
        topic = MemoryTopicStorage(entries_per_ledger=dice.randint(1, 7))
        size = dice.randint(1, 5_000)
        for _ in range(dice.randint(1, 60)):
            topic.publish(0, size)
        storage = topic.storage()
        allowed = dice.randint(0, 70 * size)
        position = storage.leaving(allowed)
        assert position is not None
        left = storage.size_after(position)
        assert left <= allowed
        assert allowed - left < size or left == size * len(topic.entries)


def test_evictions_are_counted_by_type_for_the_topic_and_for_the_broker() -> None:
    """They never fall: a topic that is unloaded keeps its count."""
    world, guarding = exceeding(QuotaPolicy.EVICT), guard()
    (action,) = guarding.decide([world.view()], world.now_ms)
    for place in (Position(3, 0), Position(3, 0), Position(3, 5)):  # the second moved nothing
        guarding.evicted(action, place)
    assert guarding.evictions.topics == {(TOPIC, QuotaType.SIZE): 2}
    assert guarding.evictions.broker == {QuotaType.SIZE: 2}


def test_actions_are_remembered_with_their_outcome_and_bounded() -> None:
    """The oldest are forgotten."""
    world, guarding = exceeding(QuotaPolicy.HOLD), guard()
    (action,) = guarding.decide([world.view()], world.now_ms)
    for number in range(ACTIONS + 10):
        guarding.done(action, f"done {number}")
    assert len(guarding.actions) == ACTIONS
    assert guarding.actions[-1].outcome == f"done {ACTIONS + 9}"


def test_the_reason_of_a_block_says_what_is_exceeded() -> None:
    """It is what a client is told."""
    world = exceeding(QuotaPolicy.REFUSE)
    (action,) = guard().decide([world.view()], world.now_ms)
    block = block_of(action)
    assert block.refused
    assert block.reason == "backlog quota exceeded: 20480 of 10240 bytes"
