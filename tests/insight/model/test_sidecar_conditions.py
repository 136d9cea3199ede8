"""The conditions of a sidecar, its groups and its peers follow from the knowledge of its core."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from coordinator.core.events import (
    ConnectionChanged,
    ConnectionState,
    DrainRequested,
    Event,
    GroupsChanged,
    MembersChanged,
)
from coordinator.core.model import Dimension, Member
from coordinator.core.settings import ConditionThresholds
from coordinator.core.state import CoordinatorState
from coordinator.insight.model import lost_peers
from coordinator.insight.model.board import Board
from coordinator.insight.model.conditions import Condition, ConditionKind
from coordinator.insight.model.group_conditions import CERTIFICATE_PASSES, GroupConditions
from coordinator.insight.model.lost_peers import LOST_FOR_NS, LostPeers
from coordinator.insight.model.sidecar_conditions import sidecar_conditions
from tests.core.cluster import GROUP, Cluster


class Watched(Cluster):
    """A cluster of which b1's sidecar watches what is the case."""

    def __init__(self, thresholds: ConditionThresholds | None = None) -> None:
        super().__init__(limit=3_000)
        self.board = Board()
        self.lost = LostPeers()
        self.groups = GroupConditions(thresholds or ConditionThresholds())

    def send(self, broker: str, event: Event) -> None:
        """Give b1's core an event, and note who is lost."""
        super().send(broker, event)
        if broker == "b1":
            self.lost.handled(event, self.own, self.now_ns)

    @property
    def own(self) -> CoordinatorState:
        """The watching core."""
        return self.states["b1"]

    def seen(self) -> dict[ConditionKind, Condition]:
        """Return the present conditions, after enough passes for every group's turn."""
        found: list[Condition] = []
        for _ in range(CERTIFICATE_PASSES):
            self.groups.begin({GROUP})
            row = self.board.sample(self.own, GROUP, self.now_ns)
            assert row is not None
            lost = self.lost.at(self.now_ns)
            found = [
                *self.groups.of_group(self.own, row, self.now_ns),
                *sidecar_conditions(self.own, lost, self.now_ns),
            ]
        return {each.kind: each for each in found}


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
    assert set(cluster.seen()) == {ConditionKind.GROUP_NEAR_LIMIT}
    assert cluster.seen()[ConditionKind.GROUP_NEAR_LIMIT].sentence.startswith("orders uses 8")

    later = started(Watched(ConditionThresholds(near_limit_permille=950)), b1=1_300, b2=1_300)
    assert later.seen() == {}


def test_throttling_names_the_brokers() -> None:
    """Where clients wait."""
    cluster = started(Watched(), b1=5_000, b2=5_000)

    assert cluster.seen()[ConditionKind.THROTTLED] == Condition(
        ConditionKind.THROTTLED, GROUP, "clients of orders wait at b1, b2"
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
    low = ConditionThresholds(certificate_permille=500)
    cluster = started(Watched(low), b1=5_000, b2=5_000)
    found = cluster.seen()[ConditionKind.CERTIFICATE_HIGH]

    assert "may add up to 3,000/s of 3,000/s" in found.sentence
    assert ConditionKind.CERTIFICATE_HIGH not in started(Watched(), b1=5_000, b2=5_000).seen()


def test_a_limit_with_a_fraction_is_told_as_it_is() -> None:
    """As any other: near it, and where local limits may add up to more."""
    cluster = Watched(ConditionThresholds(certificate_permille=500))
    cluster.limit = Fraction(5_999, 2)
    seen = started(cluster, b1=5_000, b2=5_000).seen()

    assert " of its 2,999.5/s (" in seen[ConditionKind.GROUP_NEAR_LIMIT].sentence
    assert "/s of 2,999.5/s (" in seen[ConditionKind.CERTIFICATE_HIGH].sentence


def test_a_certificate_that_rounds_a_small_limit_up_is_not_high() -> None:
    """At rest the local limits of 3.5/s add up to 3.5/s, of which the certificate makes 4/s."""
    cluster = Watched()
    cluster.limit = Fraction(7, 2)

    seen = started(cluster, b1=5_000, b2=5_000).seen()

    assert ConditionKind.CERTIFICATE_HIGH not in seen
    assert ConditionKind.THROTTLED in seen


def test_a_certificate_of_a_broker_that_holds_a_fraction_alone_is_not_high() -> None:
    """Of 2/s each of three busy brokers has two thirds, and need not be asked by the others."""
    cluster = Watched()
    cluster.limit = Fraction(2)

    seen = started(cluster, b1=5_000, b2=5_000, b3=5_000).seen()

    assert cluster.own.limits()[GROUP].of(Dimension.PUBLISH_MESSAGES) == 0
    assert ConditionKind.CERTIFICATE_HIGH not in seen
    assert ConditionKind.THROTTLED in seen


def test_a_certificate_of_a_group_that_is_gone_is_forgotten() -> None:
    """The next group of that name starts anew."""
    cluster = started(Watched(ConditionThresholds(certificate_permille=500)), b1=5_000)
    assert ConditionKind.CERTIFICATE_HIGH in cluster.seen()
    row = cluster.board.sample(cluster.own, GROUP, cluster.now_ns)
    assert row is not None
    cluster.send("b1", GroupsChanged(()))

    cluster.groups.begin(())
    for _ in range(CERTIFICATE_PASSES):
        kinds = {each.kind for each in cluster.groups.of_group(cluster.own, row, 0)}
        assert ConditionKind.CERTIFICATE_HIGH not in kinds
        cluster.groups.begin({GROUP})


def test_a_peer_that_vanishes_is_lost_until_it_is_back() -> None:
    """Membership dropped it, and it had not said that it leaves."""
    cluster = started(Watched(), b1=100, b2=100)
    cluster.kill("b2")
    cluster.end_session("b2")

    assert cluster.seen()[ConditionKind.PEER_LOST].subject == "b2"
    cluster.start("b2", 100)
    cluster.run(5)
    assert ConditionKind.PEER_LOST not in cluster.seen()


def test_a_peer_that_says_goodbye_is_not_lost() -> None:
    """A rolling restart is no condition."""
    cluster = started(Watched(), b1=100, b2=100)
    cluster.send("b2", DrainRequested())

    assert "b2" not in cluster.own.members
    assert ConditionKind.PEER_LOST not in cluster.seen()


def test_a_peer_that_never_comes_back_is_forgotten_after_a_day() -> None:
    """A machine that was taken away by force does not come back to say so."""
    cluster = started(Watched(), b1=100, b2=100)
    cluster.kill("b2")
    cluster.end_session("b2")
    cluster.now_ns += LOST_FOR_NS

    assert ConditionKind.PEER_LOST not in cluster.seen()


def test_lost_peers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was lost first is forgotten."""
    monkeypatch.setattr(lost_peers, "MAX_LOST", 2)
    cluster = started(Watched(), b1=100)
    own = cluster.own.members["b1"]
    crowd = tuple(Member(f"x{number}", 90 + number) for number in range(3))
    cluster.send("b1", MembersChanged((own, *crowd)))
    cluster.send("b1", MembersChanged((own,)))

    assert cluster.lost.at(cluster.now_ns) == ("x1", "x2")


def test_a_silent_bus_and_a_lost_store_are_the_sidecars_own_case() -> None:
    """Each sidecar tells of itself."""
    cluster = started(Watched(), b1=100, b2=100)
    cluster.deaf = {"b1", "b2"}
    cluster.run(15)
    cluster.send("b1", ConnectionChanged(ConnectionState.SUSPENDED))
    cluster.run(1)

    seen = cluster.seen()
    assert seen[ConditionKind.BUS_SILENT].subject == "b1"
    assert seen[ConditionKind.ZOOKEEPER_LOST].subject == "b1"


def test_views_that_disagree_name_both_and_what_they_differ_in() -> None:
    """After more rounds than a report may take."""
    cluster = started(Watched(), b1=100, b2=100)
    cluster.version = 7
    cluster.tell_group("b1")
    cluster.run(10)

    assert (
        cluster.seen()[ConditionKind.VIEWS_DISAGREE].sentence == "b1 and b2 go by other definitions"
    )


def test_a_sidecar_that_is_learning_says_nothing_of_groups() -> None:
    """It does not know the others yet."""
    cluster = started(Watched(), b1=5_000, b2=5_000)
    row = cluster.board.sample(cluster.own, GROUP, cluster.now_ns)
    assert row is not None
    fresh = CoordinatorState(replace(cluster.own.settings))

    assert list(cluster.groups.of_group(fresh, row, cluster.now_ns)) == []
