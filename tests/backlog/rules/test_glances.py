"""Glances at topics that are new: what they spare a check, and what they leave to later ones."""

from __future__ import annotations

import pytest

from coordinator.backlog.rules import monitor
from coordinator.backlog.rules.model import NO_QUOTA, BacklogQuota, Position, QuotaPolicy
from coordinator.backlog.rules.monitor import PLACES_PER_CHECK, BacklogMonitor
from coordinator.backlog.rules.questions import AskStorage
from tests.backlog.rules.world import START_MS, TOPIC, World
from tests.memory.backlog import MemoryTopicStorage


@pytest.fixture
def glancing(monkeypatch: pytest.MonkeyPatch) -> World:
    """A monitor that glances at every new topic."""
    monkeypatch.setattr(monitor, "PLACES_PER_CHECK", 0)
    return World()


def test_of_many_new_topics_most_are_glanced_at() -> None:
    """One question for each brings what it takes to say its age; where it lies comes in later checks."""
    world = World()
    count = 2 * PLACES_PER_CHECK + 10
    names = [f"{TOPIC}-{number}" for number in range(count)]
    for number, name in enumerate(names):
        world.topics[name] = MemoryTopicStorage(acknowledged={"a": 0})
        world.topics[name].publish(START_MS - number, 1024)
    world.check()
    assert [world.view(name).age_s for name in names] == [n / 1000 for n in range(count)]
    assert {world.view(name).subscription for name in names} == {"a"}
    assert {world.view(name).quota for name in names} == {NO_QUOTA}
    places = PLACES_PER_CHECK
    first = {"AskGlance": count - places, **dict.fromkeys(["AskStorage", "AskEntry"], places)}
    assert world.asked == {**first, "AskQuota": places}
    for placed in (2 * places, count, count):
        world.pass_s(1)
        world.check()
        assert sum(world.view(name).position is not None for name in names) == placed
        assert world.asked["AskStorage"] == world.asked["AskEntry"] == placed
    assert world.asked["AskGlance"] == count - places
    assert [world.view(name).age_s for name in names] == [(3_000 + n) / 1000 for n in range(count)]


def test_a_topic_that_was_glanced_at_is_looked_at_in_full_when_it_moves(glancing: World) -> None:
    """A glance is for what is new; the mark-delete position says what has to be read."""
    glancing.topic.acknowledged = {"a": 0}
    glancing.publish(3, every_ms=1_000)
    glancing.check()
    assert (glancing.view().age_s, glancing.view().size_bytes) == (3.0, 3 * 1024)
    glancing.topic.acknowledged["a"] = 1
    glancing.check()
    assert (glancing.view().age_s, glancing.view().position) == (2.0, Position(1, 1))
    assert glancing.asked["AskGlance"] == 1


def test_a_quota_that_a_glance_tells_of_is_asked_for(glancing: World) -> None:
    """Statistics have its limits, and not what happens at them."""
    glancing.topic.acknowledged = {"a": 0}
    glancing.topic.quota = BacklogQuota(size_bytes=1024, size_policy=QuotaPolicy.EVICT)
    glancing.publish(3)
    glancing.check()
    assert glancing.view().quota == glancing.topic.quota


def test_a_cursor_that_a_glance_cannot_name_is_found_in_the_storage(glancing: World) -> None:
    """Pulsar's own cursors are no subscriptions."""
    glancing.topic.acknowledged = {"pulsar.dedup": 0, "a": 2}
    glancing.publish(3)
    glancing.check()
    assert (glancing.view().subscription, glancing.view().age_s) == ("pulsar.dedup", 0.0)
    assert glancing.asked["AskStorage"] == 1


def test_a_topic_with_many_subscriptions_behind_is_not_glanced_at(glancing: World) -> None:
    """An entry would be read for each of them, where one is enough."""
    glancing.topic.acknowledged = dict.fromkeys("abcdef", 0)
    glancing.publish()
    glancing.check()
    assert glancing.asked == {"AskStorage": 1, "AskEntry": 1, "AskQuota": 1}


def test_a_glance_that_fails_is_not_tried_again(glancing: World) -> None:
    """Old releases do not know how; what they know is asked for in the next check."""
    glancing.topic.acknowledged = {"a": 0}
    glancing.publish()
    (question,) = glancing.monitor.begin([glancing.topic.summary(TOPIC)], glancing.now_ms)
    glancing.monitor.failed(question, "500")
    assert (glancing.view().age_s, glancing.view().problem) == (None, "500")
    glancing.check()
    assert (glancing.view().age_s, glancing.view().problem) == (0.0, "")
    assert glancing.asked == {"AskStorage": 1, "AskEntry": 1, "AskQuota": 1}


def test_who_has_caught_up_before_the_glance_has_no_backlog(glancing: World) -> None:
    """The broker's summary is older than its answer."""
    glancing.topic.acknowledged = {"a": 0}
    glancing.publish(2)
    summary = glancing.topic.summary(TOPIC)
    glancing.monitor.begin([summary], glancing.now_ms)
    glancing.topic.acknowledged["a"] = 2
    assert glancing.monitor.glanced(TOPIC, glancing.topic.glance(), glancing.now_ms) == []
    view = glancing.view()
    assert (view.age_s, view.subscription, view.size_bytes) == (None, None, 0)
    # The next summary is that one still, or shows the same again after a seek back.
    assert glancing.monitor.begin([summary], glancing.now_ms) == [AskStorage(TOPIC)]
    glancing.check()
    assert glancing.monitor.begin([glancing.topic.summary(TOPIC)], glancing.now_ms) == []


@pytest.mark.usefixtures("glancing")
def test_an_estimating_monitor_glances_at_nothing() -> None:
    """A glance reads entries."""
    estimating = World(BacklogMonitor(precise=False))
    estimating.topic.acknowledged = {"a": 0}
    estimating.publish(7)
    estimating.check()
    assert estimating.asked == {"AskStorage": 1, "AskClosings": 1, "AskQuota": 1}
