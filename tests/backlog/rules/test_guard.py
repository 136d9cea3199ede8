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
    evicted_target,
)
from coordinator.backlog.rules.model import BacklogQuota, Position, QuotaPolicy
from tests.backlog.rules.world import World
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


def test_another_policy_takes_over_from_the_old_one() -> None:
    """Held producers are released before the backlog is evicted."""
    world, guarding = exceeding(QuotaPolicy.HOLD), guard()
    guarding.decide([world.view()], world.now_ms)
    world.topic.quota = BacklogQuota(size_bytes=1024, size_policy=QuotaPolicy.EVICT)
    world.pass_s(60)
    world.check()
    deeds = [action.deed for action in guarding.decide([world.view()], world.now_ms)]
    assert deeds == [EnforcementAction.RELEASE, EnforcementAction.EVICT]


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


def test_actions_are_remembered_with_their_outcome_and_bounded() -> None:
    """The oldest are forgotten."""
    world, guarding = exceeding(QuotaPolicy.HOLD), guard()
    (action,) = guarding.decide([world.view()], world.now_ms)
    for number in range(ACTIONS + 10):
        guarding.done(action, f"done {number}")
    assert len(guarding.actions) == ACTIONS
    assert guarding.actions[-1].outcome == f"done {ACTIONS + 9}"
