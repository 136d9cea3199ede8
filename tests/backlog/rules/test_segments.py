"""Backlogs of the segments of Pulsar 5's scalable topics."""

from __future__ import annotations

import pytest

from coordinator.backlog.rules.model import BacklogQuota, QuotaPolicy, TopicSummary
from coordinator.backlog.rules.questions import AskQuota
from tests.backlog.rules.world import START_MS, World


@pytest.fixture
def world() -> World:
    """A monitor that reads the oldest message."""
    return World()


SEGMENTS = (
    "segment://shop/orders/incoming/0000-7fff-0",
    "segment://shop/orders/incoming/8000-ffff-1",
)


def test_a_segment_has_the_backlog_of_its_summary_and_no_age(world: World) -> None:
    """A broker of Pulsar 5 tells no positions of a segment, and ages are never invented."""
    monitor = world.monitor
    full = TopicSummary(SEGMENTS[0], size_bytes=4096, backlogs={"a": 1, "b": 3})

    questions = monitor.begin([full, TopicSummary(SEGMENTS[1])], START_MS)
    monitor.finish(SEGMENTS[0], START_MS)

    assert questions == [AskQuota("topic://shop/orders/incoming")]
    view = monitor.view(SEGMENTS[0], START_MS)
    assert view is not None
    assert (view.size_bytes, view.subscription, view.age_s, view.problem) == (4096, "b", None, "")
    assert monitor.known == (SEGMENTS[0],)


def test_a_segment_follows_its_summary(world: World) -> None:
    """A larger backlog is known at the next check, and a drained one is gone."""
    monitor = world.monitor
    for entries in (1, 3, 0):
        size_bytes = entries * 100
        summary = TopicSummary(SEGMENTS[0], size_bytes, backlogs={"a": entries})
        monitor.begin([summary], START_MS)
        view = monitor.view(SEGMENTS[0], START_MS)
        assert view is not None
        assert (view.size_bytes, view.subscription) == (size_bytes, "a" if entries else None)


def test_all_segments_of_a_topic_have_its_quota(world: World) -> None:
    """It is asked for once, under the name of the scalable topic."""
    monitor = world.monitor
    summaries = [TopicSummary(name, 10, backlogs={"a": 1}) for name in SEGMENTS]
    quota = BacklogQuota(size_bytes=5, size_policy=QuotaPolicy.REFUSE)

    questions = monitor.begin(summaries, START_MS)
    monitor.quota_read("topic://shop/orders/incoming", quota)

    assert questions == [AskQuota("topic://shop/orders/incoming")]
    for name in SEGMENTS:
        view = monitor.view(name, START_MS)
        assert view is not None
        assert view.quota == quota
