"""Exceedances of quotas: each is remembered as it was, up to a bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.backlog.rules.exceedances import HISTORIES, HISTORY, Exceedances
from coordinator.backlog.rules.model import BacklogQuota, QuotaType
from tests.backlog.rules.world import START_MS, TOPIC, World


@pytest.fixture
def world() -> World:
    """One topic with one subscription."""
    world = World()
    world.topic.acknowledged = {"a": 0}
    return world


@pytest.mark.shows("pip-323/times-exceeded")
def test_exceedances_are_remembered_with_beginning_end_and_peak(world: World) -> None:
    """Whether it happened, when, and how far."""
    world.topic.quota = BacklogQuota(size_bytes=4096)
    for published in (4, 2, 3):
        world.publish(published)
        world.pass_s(10)
        world.check()
    world.topic.acknowledged["a"] = 9
    world.check()
    (exceedance,) = world.view().history
    assert exceedance.peak == 9 * 1024
    assert (exceedance.began_at_ms, exceedance.ended_at_ms) == (
        START_MS + 10_000,
        START_MS + 30_000,
    )


def test_both_quotas_of_a_topic_have_exceedances_of_their_own(world: World) -> None:
    """The one that is over does not end the other; a limit is remembered as it was at the end."""
    world.topic.quota = BacklogQuota(size_bytes=1024, age_s=5)
    world.publish()
    world.pass_s(10)
    world.check()
    world.topic.quota = BacklogQuota(size_bytes=2048, age_s=6)
    world.pass_s(30)
    world.check()
    world.check()
    size, age = world.view().history
    assert (size.quota_type, size.limit, size.ended_at_ms) == (
        QuotaType.SIZE,
        1024,
        START_MS + 40_000,
    )
    assert (age.quota_type, age.limit, age.ended_at_ms) == (QuotaType.TIME, 6, None)


def test_the_history_of_a_topic_is_bounded(world: World) -> None:
    """The oldest exceedances are forgotten."""
    world.topic.quota = BacklogQuota(size_bytes=1)
    for done in range(HISTORY + 5):
        world.publish()
        world.check()
        world.topic.acknowledged["a"] = done + 1
        world.check()
    assert len(world.view().history) == HISTORY


def test_a_bounded_number_of_topics_has_a_history(world: World) -> None:
    """The topic whose last exceedance is oldest is forgotten."""
    world.topic.quota = BacklogQuota(size_bytes=1)
    world.publish()
    world.check()
    exceeding, exceedances = world.view(), Exceedances()
    for number in range(HISTORIES):
        exceedances.note(replace(exceeding, topic=f"topic-{number}"), number)
    for topic in ("topic-0", "another"):
        exceedances.note(replace(exceeding, topic=topic), HISTORIES)

    assert exceedances.of("topic-1") == ()
    assert [len(exceedances.of(topic)) for topic in ("topic-0", "topic-2", "another")] == [1, 1, 1]


def test_an_exceedance_that_lasts_is_not_forgotten_for_shorter_ones(world: World) -> None:
    """Its end is still to come, and it has begun only once."""
    world.topic.quota = BacklogQuota(size_bytes=1, age_s=5)
    world.publish()
    world.pass_s(10)
    world.check()
    old, exceedances = world.view(), Exceedances()
    young = replace(old, age_s=0.0)
    for now_ms in range(2 * HISTORY + 2):
        exceedances.note(old if now_ms % 2 else young, now_ms)

    history = exceedances.of(TOPIC)
    assert len(history) == HISTORY
    assert [
        (each.began_at_ms, each.ended_at_ms)
        for each in history
        if each.quota_type is QuotaType.SIZE
    ] == [(0, None)]
    assert exceedances.begun["shop/orders", QuotaType.SIZE] == 1


def test_a_check_that_cannot_tell_ends_no_exceedance(world: World) -> None:
    """The broker did not say how old the oldest message is; without a backlog there is none."""
    world.topic.quota = BacklogQuota(age_s=5)
    world.publish()
    world.pass_s(10)
    world.check()
    seen, exceedances = world.view(), Exceedances()
    exceedances.note(seen, 1)
    exceedances.note(replace(seen, age_s=None, problem="503"), 2)
    exceedances.note(replace(seen, quota=None, problem="503"), 3)
    assert [each.ended_at_ms for each in exceedances.of(TOPIC)] == [None]

    exceedances.note(replace(seen, age_s=None, subscription=None, problem="503"), 4)

    assert [each.ended_at_ms for each in exceedances.of(TOPIC)] == [4]
