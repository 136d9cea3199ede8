"""The conditions of a sidecar follow from the knowledge of its core."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.events import (
    ConnectionChanged,
    ConnectionState,
    DrainRequested,
    Event,
    GroupsChanged,
    MembersChanged,
)
from coordinator.core.model import Member
from coordinator.core.settings import AlarmSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model import alarm_conditions
from coordinator.insight.model.alarm_conditions import (
    CERTIFICATE_PASSES,
    LOST_FOR_NS,
    AlarmConditions,
)
from coordinator.insight.model.alarms import AlarmCondition, AlarmKind
from coordinator.insight.model.board import Board
from tests.core.cluster import GROUP, Cluster


class Watched(Cluster):
    """A cluster of which b1's sidecar watches what is the case."""

    def __init__(self, settings: AlarmSettings | None = None) -> None:
        super().__init__(limit=3_000)
        self.board = Board()
        self.conditions = AlarmConditions(settings or AlarmSettings())

    def send(self, broker: str, event: Event) -> None:
        """Give b1's core an event, and tell its conditions."""
        super().send(broker, event)
        if broker == "b1":
            self.conditions.handled(event, self.own, self.now_ns)

    @property
    def own(self) -> CoordinatorState:
        """The watching core."""
        return self.states["b1"]

    def seen(self) -> dict[AlarmKind, AlarmCondition]:
        """Return the present conditions, after enough passes for every group's turn."""
        found: list[AlarmCondition] = []
        for _ in range(CERTIFICATE_PASSES):
            row = self.board.sample(self.own, GROUP, self.now_ns)
            assert row is not None
            found = [
                *self.conditions.of_group(self.own, row, self.now_ns),
                *self.conditions.of_sidecar(self.own, self.now_ns),
            ]
        return {sighting.kind: sighting for sighting in found}


def started(cluster: Watched, **demand: int) -> Watched:
    """With these brokers, settled."""
    for broker, wants in demand.items():
        cluster.start(broker, wants)
    cluster.run(10)
    return cluster


def test_a_calm_cluster_is_no_case_for_anybody() -> None:
    """Half of the limit is used, and each sidecar is heard."""
    cluster = started(Watched(), b1=700, b2=700)

    assert cluster.seen() == {}


def test_a_group_near_its_limit_is_seen_before_anybody_waits() -> None:
    """From the part that the settings name."""
    cluster = started(Watched(), b1=1_300, b2=1_300)
    assert set(cluster.seen()) == {AlarmKind.GROUP_NEAR_LIMIT}
    assert cluster.seen()[AlarmKind.GROUP_NEAR_LIMIT].text.startswith("orders uses 8")

    later = started(Watched(AlarmSettings(near_limit_permille=950)), b1=1_300, b2=1_300)
    assert later.seen() == {}


def test_throttling_names_the_brokers() -> None:
    """Where clients wait."""
    cluster = started(Watched(), b1=5_000, b2=5_000)

    assert cluster.seen()[AlarmKind.THROTTLED] == AlarmCondition(
        AlarmKind.THROTTLED, GROUP, "clients of orders wait at b1, b2"
    )


def test_limits_that_are_tried_out_are_no_case_for_anybody() -> None:
    """No client waits for them."""
    cluster = Watched()
    cluster.enforcement = "observe"
    started(cluster, b1=5_000, b2=5_000)

    assert cluster.seen() == {}
    assert cluster.board.rows[GROUP].used_permille > 3_000


def test_a_certificate_above_the_bound_says_what_the_limits_may_add_up_to() -> None:
    """A bound below the limit itself is always exceeded; the default is not."""
    low = AlarmSettings(certificate_permille=500)
    cluster = started(Watched(low), b1=5_000, b2=5_000)
    found = cluster.seen()[AlarmKind.CERTIFICATE_HIGH]

    assert "may add up to 3,000/s of 3,000/s" in found.text
    assert AlarmKind.CERTIFICATE_HIGH not in started(Watched(), b1=5_000, b2=5_000).seen()


def test_a_certificate_of_a_group_that_is_gone_is_forgotten() -> None:
    """The next group of that name starts anew."""
    cluster = started(Watched(AlarmSettings(certificate_permille=500)), b1=5_000)
    assert AlarmKind.CERTIFICATE_HIGH in cluster.seen()
    row = cluster.board.sample(cluster.own, GROUP, cluster.now_ns)
    assert row is not None
    cluster.send("b1", GroupsChanged(()))

    for _ in range(CERTIFICATE_PASSES):
        kinds = {each.kind for each in cluster.conditions.of_group(cluster.own, row, 0)}
        assert AlarmKind.CERTIFICATE_HIGH not in kinds
        list(cluster.conditions.of_sidecar(cluster.own, 0))


def test_a_peer_that_vanishes_is_lost_until_it_is_back() -> None:
    """Membership dropped it, and it had not said that it leaves."""
    cluster = started(Watched(), b1=100, b2=100)
    cluster.kill("b2")
    cluster.end_session("b2")

    assert cluster.seen()[AlarmKind.PEER_LOST].subject == "b2"
    cluster.start("b2", 100)
    cluster.run(5)
    assert AlarmKind.PEER_LOST not in cluster.seen()


def test_a_peer_that_says_goodbye_is_not_lost() -> None:
    """A rolling restart raises no alarm."""
    cluster = started(Watched(), b1=100, b2=100)
    cluster.send("b2", DrainRequested())

    assert "b2" not in cluster.own.members
    assert AlarmKind.PEER_LOST not in cluster.seen()


def test_a_peer_that_never_comes_back_is_forgotten_after_a_day() -> None:
    """A machine that was taken away by force does not come back to say so."""
    cluster = started(Watched(), b1=100, b2=100)
    cluster.kill("b2")
    cluster.end_session("b2")
    cluster.now_ns += LOST_FOR_NS

    assert AlarmKind.PEER_LOST not in cluster.seen()


def test_lost_peers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was lost first is forgotten."""
    monkeypatch.setattr(alarm_conditions, "MAX_LOST", 2)
    cluster = started(Watched(), b1=100)
    own = cluster.own.members["b1"]
    crowd = tuple(Member(f"x{number}", 90 + number) for number in range(3))
    cluster.send("b1", MembersChanged((own, *crowd)))
    cluster.send("b1", MembersChanged((own,)))

    lost = [
        each.subject
        for each in cluster.conditions.of_sidecar(cluster.own, cluster.now_ns)
        if each.kind is AlarmKind.PEER_LOST
    ]
    assert lost == ["x1", "x2"]


def test_a_silent_bus_and_a_lost_store_are_the_sidecars_own_case() -> None:
    """Each sidecar tells of itself."""
    cluster = started(Watched(), b1=100, b2=100)
    cluster.deaf = {"b1", "b2"}
    cluster.run(15)
    cluster.send("b1", ConnectionChanged(ConnectionState.SUSPENDED))
    cluster.run(1)

    seen = cluster.seen()
    assert seen[AlarmKind.BUS_SILENT].subject == "b1"
    assert seen[AlarmKind.ZOOKEEPER_LOST].subject == "b1"


def test_views_that_disagree_name_both_and_what_they_differ_in() -> None:
    """After more rounds than a report may take."""
    cluster = started(Watched(), b1=100, b2=100)
    cluster.version = 7
    cluster.tell_group("b1")
    cluster.run(10)

    assert cluster.seen()[AlarmKind.VIEWS_DISAGREE].text == "b1 and b2 go by other definitions"


def test_a_sidecar_that_is_learning_says_nothing_of_groups() -> None:
    """It does not know the others yet."""
    cluster = started(Watched(), b1=5_000, b2=5_000)
    row = cluster.board.sample(cluster.own, GROUP, cluster.now_ns)
    assert row is not None
    fresh = CoordinatorState(replace(cluster.own.settings))

    assert list(cluster.conditions.of_group(fresh, row, cluster.now_ns)) == []
