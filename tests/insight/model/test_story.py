"""The story of a core: which event arrived when, and what was decided of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from coordinator.core.events import (
    Event,
    GroupsChanged,
    MembersChanged,
    ParticipantsChanged,
)
from coordinator.core.model import Member, MonitoringClass, Rates, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model import story
from coordinator.insight.model.story import MAX_EVENTS, GroupStory, StimulusLog
from tests.core.cluster import GROUP, SECOND_NS, Cluster


@dataclass
class ToldCluster(Cluster):
    """Cores whose events are logged."""

    logs: dict[str, StimulusLog] = field(default_factory=dict)

    def handled(self, broker: str, event: Event) -> None:
        log = self.logs.setdefault(broker, StimulusLog())
        log.handled(event, self.states[broker], self.now_ns)

    def story(self, broker: str) -> GroupStory:
        """The story of the one group, as a broker's sidecar tells it."""
        return self.logs[broker].story(GROUP, self.states[broker].settings, self.now_ns)

    def lines(self, broker: str) -> list[str]:
        """Its sentences, oldest first."""
        return [
            sentence
            for event in self.story(broker).events
            for sentence in (event.event, *(each.sentence for each in event.decisions))
        ]


@pytest.fixture
def cluster() -> ToldCluster:
    """Two brokers that share 3,000 messages/s: the first wants all, the second little."""
    cluster = ToldCluster(limit=3_000)
    cluster.start("b1", 9_000)
    cluster.start("b2", 300)
    cluster.run(10)
    return cluster


def test_a_report_stands_beside_the_decision_that_it_caused(cluster: ToldCluster) -> None:
    """With the limit before and after, the demand that moved, and the reason in units."""
    before = cluster.limit_of("b1")
    began_ns = cluster.now_ns
    cluster.want("b2", 2_000)
    cluster.run(5)

    told = [event for event in cluster.story("b1").events if event.at_ns > began_ns]
    lowered = next(event for event in told if event.decisions)
    decision = lowered.decisions[0]
    assert lowered.event.startswith("b2 sent report ")
    assert decision.limit_before is not None
    assert decision.local_limit is not None
    assert decision.local_limit < decision.limit_before == before
    assert decision.sentence.startswith(
        f"b1 lowers publishRateInMsgs from {before:,} messages/s to "
        f"{decision.local_limit:,} messages/s. Since then b2 wants "
    )
    assert decision.sentence.endswith(f"{decision.local_limit:,}/s of the 3,000/s.")


def test_a_changed_definition_is_told_with_both_limits(cluster: ToldCluster) -> None:
    """The decision of the same moment follows."""
    cluster.version += 1
    cluster.set_limit(1_500)

    *_, event, decision = cluster.lines("b1")
    assert event == "The definition of orders changed: publishRateInMsgs 3,000 → 1,500."
    assert decision.startswith("b1 lowers publishRateInMsgs from ")


def test_the_membership_is_told_with_those_who_joined_and_left(cluster: ToldCluster) -> None:
    """The number of members is told, too."""
    cluster.kill("b2")
    cluster.end_session("b2")

    lines = cluster.lines("b1")
    assert "The membership changed: b2 joined; 2 brokers are members now." in lines
    assert "The membership changed: b2 left; 1 broker is a member now." in lines


def test_a_backlog_is_told_when_it_begins_and_when_it_ends(cluster: ToldCluster) -> None:
    """With the waiting of the round and the rates that passed."""
    cluster.want("b1", 1_000)
    cluster.run(5)

    lines = [line for line in cluster.lines("b1") if "backlog" in line]
    assert [line.partition(":")[0] for line in lines] == ["A backlog began", "The backlog ended"]
    assert "producers of orders wait for tokens, they waited for 100 % of the last" in lines[0]
    assert lines[1].endswith("1,000 messages/s and 1,000 bytes/s passed.")


def test_the_first_producer_is_told(cluster: ToldCluster) -> None:
    """The last one is, too: participants are why a broker takes part."""
    cluster.want("b2", 0)

    lines = cluster.lines("b2")
    assert "The first producer of orders connected at b2." in lines
    assert lines[-1] == "The last producer of orders left b2."


def test_a_cluster_at_rest_adds_nothing_to_the_story(cluster: ToldCluster) -> None:
    """Neither counts nor reports that change no decision are kept."""
    cluster.run(20)
    kept = len(cluster.logs["b1"])
    cluster.run(20)

    assert len(cluster.logs["b1"]) == kept


def test_a_story_of_the_past_ends_at_that_time(cluster: ToldCluster) -> None:
    """Later events are left out."""
    then_ns = cluster.now_ns
    cluster.want("b2", 0)

    log, settings = cluster.logs["b2"], cluster.states["b2"].settings
    then, now = (log.story(GROUP, settings, ns) for ns in (then_ns - 1, then_ns))
    assert len(then.events) < len(now.events)


@pytest.fixture
def state() -> CoordinatorState:
    """A core that knows two groups."""
    state = CoordinatorState(CoreSettings("b1"))
    groups = (
        ResourceGroup(GROUP, Rates(publish_messages=3_000)),
        ResourceGroup("other", Rates(publish_messages=10)),
    )
    state.handle(GroupsChanged(groups), 0)
    return state


def test_a_group_has_its_own_events_and_those_of_all(state: CoordinatorState) -> None:
    """It has no participants of another group."""
    log = StimulusLog()
    for event in (
        ParticipantsChanged(GROUP, MonitoringClass.PUBLISH, 1),
        ParticipantsChanged("other", MonitoringClass.PUBLISH, 1),
        MembersChanged((Member("b1", 1),)),
    ):
        state.handle(event, 1)
        log.handled(event, state, 1)

    told = [each.event for each in log.story(GROUP, state.settings, 1).events]
    assert told == [
        "The first producer of orders connected at b1.",
        (
            "b1 is STARTING: the ZooKeeper session may be over, and the others have this broker's share; "
            "the own broker does not answer."
        ),
        "The membership changed: b1 joined; 1 broker is a member now.",
    ]


def test_at_its_bound_the_log_forgets_the_oldest_events_and_says_so(
    state: CoordinatorState,
) -> None:
    """The answer names the age since which nothing is missing."""
    log = StimulusLog()
    for number in range(MAX_EVENTS + 10):
        log.handled(
            ParticipantsChanged("other", MonitoringClass.PUBLISH, 1), state, number * SECOND_NS
        )

    told = log.story(GROUP, state.settings, 10**15)
    assert len(log) == MAX_EVENTS
    assert told.beginning((MAX_EVENTS + 9) * SECOND_NS).startswith(
        "Events of more than 2,000.0 s ago are forgotten: the log holds 2,000 events and 20,000 "
    )


def test_decisions_with_many_participants_take_the_room_of_more_events(
    cluster: ToldCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of brokers are bounded, too; the newest event always stays."""
    monkeypatch.setattr(story, "MAX_CELLS", 10)
    for demand in (300, 2_000) * 10:
        cluster.want("b2", demand)
        cluster.run(8)

    kept = cluster.logs["b1"]._kept
    assert kept
    assert sum(each.cells for each in kept) <= 10


def test_a_story_leaves_out_the_earlier_events_and_counts_them(cluster: ToldCluster) -> None:
    """The demands that moved are told even if the decision before is left out."""
    whole = cluster.story("b1")
    log, settings = cluster.logs["b1"], cluster.states["b1"].settings

    told = log.story(GROUP, settings, cluster.now_ns, most=2)
    assert told.events == whole.events[-2:]
    assert told.beginning(cluster.now_ns) == f"{len(whole.events) - 2} earlier events are left out."
    assert whole.beginning(cluster.now_ns) == "The story is whole since this sidecar started."
