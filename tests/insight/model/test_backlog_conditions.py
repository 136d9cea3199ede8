"""Backlogs near their quota, or beyond it, are conditions."""

from __future__ import annotations

import pytest

from coordinator.backlog.rules.model import BacklogQuota
from coordinator.backlog.rules.views import BacklogView
from coordinator.core.settings import ConditionThresholds
from coordinator.insight.model import backlog_conditions
from coordinator.insight.model.backlog_conditions import BacklogConditions
from coordinator.insight.model.conditions import Condition, ConditionKind
from tests.backlog.rules.world import TOPIC, World

KIB = 1024


def world_with(quota: BacklogQuota, messages: int) -> World:
    """A topic with messages of 1 KiB that billing has not acknowledged."""
    world = World()
    world.topic.acknowledged = {"billing": 0}
    world.topic.quota = quota
    world.publish(messages)
    world.check()
    return world


def seen(world: World, thresholds: ConditionThresholds | None = None) -> list[Condition]:
    """Return the present conditions of b1."""
    return seen_of([world.view()], thresholds or ConditionThresholds())


def seen_of(views: list[BacklogView], thresholds: ConditionThresholds) -> list[Condition]:
    """Return the present conditions of b1 with these topics."""
    conditions = BacklogConditions("b1", thresholds)
    for view in views:
        conditions.look_at(view)
    return conditions.found


def test_a_backlog_without_a_quota_is_no_condition() -> None:
    """Unless it is older than anything may be."""
    world = world_with(BacklogQuota(), 20)
    world.pass_s(10**6)

    assert seen(world) == []


def test_a_backlog_near_its_quota_names_topic_broker_and_subscription() -> None:
    """From the part on that the thresholds name."""
    world = world_with(BacklogQuota(size_bytes=20 * KIB), 17)
    (condition,) = seen(world)

    assert condition == Condition(
        ConditionKind.BACKLOG_NEAR_QUOTA,
        f"b1 {TOPIC}",
        f"the backlog of {TOPIC} is at 85% of its size quota; oldest is billing at b1",
    )
    assert seen(world, ConditionThresholds(near_limit_permille=900)) == []


def test_of_two_quotas_the_one_is_told_of_which_more_is_used() -> None:
    """A topic has one condition at a time."""
    world = world_with(BacklogQuota(size_bytes=24 * KIB, age_s=1_000), 20)
    world.pass_s(950)

    (condition,) = seen(world)
    assert "95% of its time quota" in condition.sentence


def test_an_exceeded_quota_is_not_near_it_any_more() -> None:
    """It is another kind, and more of a hurry."""
    world = world_with(BacklogQuota(age_s=60), 1)
    world.pass_s(61)

    (condition,) = seen(world)
    assert condition.kind is ConditionKind.BACKLOG_EXCEEDED
    assert "exceeds its time quota" in condition.sentence


def test_a_message_that_waits_too_long_is_told_whatever_the_quota() -> None:
    """Beyond the bound of the thresholds, and not at it."""
    world = world_with(BacklogQuota(), 1)
    thresholds = ConditionThresholds(backlog_age_s=3_600)
    world.pass_s(3_600)
    assert seen(world, thresholds) == []

    world.pass_s(1)
    (condition,) = seen(world, thresholds)
    assert condition.kind is ConditionKind.BACKLOG_AGES
    assert (
        condition.sentence
        == f"a message of {TOPIC} has waited for 3,601 s; oldest is billing at b1"
    )


def test_acknowledging_ends_it() -> None:
    """An acknowledged backlog ends the condition."""
    world = world_with(BacklogQuota(size_bytes=10 * KIB), 20)
    assert seen(world)
    world.topic.acknowledged["billing"] = 19
    world.check()

    assert seen(world) == []


def test_conditions_of_a_kind_name_a_bounded_number_of_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first of them by name; other kinds have room of their own."""
    monkeypatch.setattr(backlog_conditions, "MAX_TOPICS", 2)
    world = world_with(BacklogQuota(size_bytes=10 * KIB), 20)
    thresholds = ConditionThresholds(backlog_age_s=0.5)
    assert len(seen_of([world.view()] * 3, thresholds)) == 2

    world.pass_s(1)
    assert len(seen_of([world.view()] * 3, thresholds)) == 4
