"""Every group at a glance: how it stands, since when, what is used, and within which bounds."""

from __future__ import annotations

import pytest

from coordinator.core.events import (
    ConnectionChanged,
    ConnectionState,
    GroupsChanged,
)
from coordinator.core.model import Dimension, Rates, ResourceGroup
from coordinator.insight.model import board
from coordinator.insight.model.board import Board
from coordinator.insight.model.preview import BrokerPreview, preview
from coordinator.insight.model.settling import GroupStatus
from tests.core.cluster import GROUP, Cluster

MESSAGES = Dimension.PUBLISH_MESSAGES


def busy_cluster() -> Cluster:
    """b1 and b2 want more than there is, b3 wants 200 messages/s."""
    cluster = Cluster(limit=3_000)
    for broker, demand in (("b1", 5_000), ("b2", 5_000), ("b3", 200)):
        cluster.start(broker, demand)
    cluster.run(15)
    return cluster


def test_a_busy_group_shows_its_use_and_who_is_throttled() -> None:
    """Over all brokers, from any one's view."""
    cluster = busy_cluster()
    shown = Board()

    for broker in cluster.states:
        row = shown.sample(cluster.states[broker], GROUP, cluster.now_ns)

        assert row is not None
        assert row.standing is GroupStatus.SETTLED
        assert row.throttled == ("b1", "b2")
        assert row.foremost is MESSAGES
        assert 950 <= row.used_permille <= 1_010
        assert row.dimensions[MESSAGES].participants == 3


def test_a_strict_group_settles_whatever_those_hold_who_take_no_part() -> None:
    """The books name every broker; only a participant has a target to miss."""
    cluster = Cluster(limit=3_000, policy="strict")
    for broker, demand in (("b1", 5_000), ("b2", 5_000), ("b3", 5_000)):
        cluster.start(broker, demand)
    cluster.run(15)
    cluster.want("b3", 0)
    cluster.run(5)
    rows = [Board().sample(state, GROUP, cluster.now_ns) for state in cluster.states.values()]

    assert [row.standing for row in rows if row is not None] == [GroupStatus.SETTLED] * 3


def test_a_change_shows_as_converging_until_it_is_settled() -> None:
    """The row says since when."""
    cluster = busy_cluster()
    shown, state = Board(), cluster.states["b1"]
    shown.sample(state, GROUP, cluster.now_ns)
    cluster.set_limit(6_000)
    changed_ns = cluster.now_ns

    row = shown.sample(state, GROUP, cluster.now_ns)
    assert row is not None
    assert (row.standing, row.since_ns) == (GroupStatus.CONVERGING, changed_ns)
    cluster.run(10)
    row = shown.sample(state, GROUP, cluster.now_ns)
    assert row is not None
    assert row.standing is GroupStatus.SETTLED


def test_idle_unlimited_and_degraded_groups_say_so() -> None:
    """The groups have no participant, no limit, and a sidecar that is cut off."""
    cluster = Cluster(limit=100)
    cluster.start("b1")
    cluster.run(3)
    state, shown = cluster.states["b1"], Board()
    free = ResourceGroup("free", Rates())
    cluster.send("b1", GroupsChanged((cluster.group(), free)))

    standings = [shown.sample(state, name, cluster.now_ns) for name in (GROUP, "free")]
    assert [row.standing for row in standings if row] == [GroupStatus.IDLE, GroupStatus.UNLIMITED]
    cluster.send("b1", ConnectionChanged(ConnectionState.SUSPENDED))
    row = shown.sample(state, GROUP, cluster.now_ns)
    assert row is not None
    assert row.standing is GroupStatus.DEGRADED
    assert shown.sample(state, "gone", cluster.now_ns) is None


def test_more_columns_mean_a_shorter_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never shorter than ten samples, never longer than is useful."""
    cluster = busy_cluster()
    shown = Board()
    shown.sample(cluster.states["b1"], GROUP, cluster.now_ns)

    shown.begin({GROUP})
    assert shown.kept_samples == board.KEPT_SAMPLES
    monkeypatch.setattr(board, "MAX_CELLS", 60)
    shown.begin({GROUP})
    assert shown.kept_samples == 20
    monkeypatch.setattr(board, "MAX_CELLS", 3)
    shown.begin({GROUP})
    assert shown.kept_samples == 10


def test_a_group_that_is_gone_is_forgotten() -> None:
    """Its row and its past."""
    cluster = busy_cluster()
    shown = Board()
    shown.sample(cluster.states["b1"], GROUP, cluster.now_ns)

    shown.begin(set())

    assert shown.rows == {}
    assert shown.series(GROUP, MESSAGES).times_ns == ()


def test_a_preview_is_what_follows_from_the_same_facts() -> None:
    """The small one keeps what it wants, the others share what is added; nothing has changed."""
    cluster = busy_cluster()
    state = cluster.states["b1"]
    changed = ResourceGroup(GROUP, Rates(publish_messages=5_000))

    (found,) = preview(state, changed)

    assert (found.limit_now, found.limit_then) == (3_000, 5_000)
    now = {each.broker: each.now or 0 for each in found.brokers}
    then = {each.broker: each.then or 0 for each in found.brokers}
    assert now["b3"] == then["b3"]
    assert then["b1"] - now["b1"] == pytest.approx(1_000, abs=1)
    assert state.groups is not None
    assert state.groups[GROUP].limits.publish_messages == 3_000


def test_a_preview_of_a_lifted_limit_is_unlimited() -> None:
    """None, as everywhere."""
    cluster = busy_cluster()

    (found,) = preview(cluster.states["b1"], ResourceGroup(GROUP, Rates()))

    assert found.limit_then is None
    assert all(each.then is None for each in found.brokers)
    assert isinstance(found.brokers[0], BrokerPreview)


def test_nobody_waits_for_a_limit_that_is_tried_out() -> None:
    """Clients wait for another limit; the row says that this one holds nothing back."""
    cluster = busy_cluster()
    cluster.enforcement = "observe"
    shown = Board()
    assert (first := shown.sample(cluster.states["b1"], GROUP, cluster.now_ns)) is not None
    assert first.throttled == ("b1", "b2")
    for broker in cluster.states:
        cluster.tell_group(broker)

    row = shown.sample(cluster.states["b1"], GROUP, cluster.now_ns)
    assert row is not None
    assert (row.observed, row.throttled) == (True, ())
