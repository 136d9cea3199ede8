"""The event log of a core: which event arrived when, what was decided of it, and what was in force."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from coordinator.core.events import (
    Event,
    GroupsChanged,
    MembersChanged,
    ParticipantsChanged,
)
from coordinator.core.model import Dimension, Member, MonitoringClass, Rates, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model import bounded_events
from coordinator.insight.model.board import Board
from coordinator.insight.model.bounded_events import EventKind
from coordinator.insight.model.event_log import EventLog
from coordinator.insight.model.past_decision import PastDecision
from coordinator.insight.model.story import story
from coordinator.insight.model.views import StoryView
from tests.core.cluster import GROUP, SECOND_NS, Cluster

MESSAGES = Dimension.PUBLISH_MESSAGES


@dataclass
class ToldCluster(Cluster):
    """Cores whose events are logged."""

    logs: dict[str, EventLog] = field(default_factory=dict)

    def handled(self, broker: str, event: Event) -> None:
        log = self.logs.setdefault(broker, EventLog())
        log.handled(event, self.states[broker], self.now_ns)

    def story(self, broker: str) -> StoryView:
        """The story of the one group, as a broker's sidecar tells it."""
        return story(self.logs[broker].kept, GROUP, self.now_ns, self.now_ns)

    def lines(self, broker: str) -> list[str]:
        """Its sentences, oldest first."""
        return [
            sentence
            for event in self.story(broker).events
            for sentence in (event.event, *(each.sentence for each in event.decisions))
        ]

    def decisions(self) -> list[PastDecision]:
        """b1's decisions on messages, newest first."""
        return [past for *_, past in self.logs["b1"].decisions(GROUP, MESSAGES)]


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

    since_ns = cluster.now_ns - began_ns
    told = [event for event in cluster.story("b1").events if event.age_ns < since_ns]
    lowered = next(event for event in told if event.decisions)
    decision = lowered.decisions[0]
    assert lowered.event.startswith("b2 sent report ")
    assert decision.limit_before is not None
    assert decision.local_limit is not None
    assert decision.local_limit < decision.limit_before == before
    assert decision.sentence.startswith(
        f"b1 lowers publishRateInMsgs from {before:,} messages/s to "
        f"{int(decision.local_limit):,} messages/s. Since then b2 wants "
    )
    assert decision.sentence.endswith(f"{int(decision.local_limit):,}/s of the 3,000/s.")


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
    assert "b2 joined: 2 brokers are members now." in lines
    assert "b2 left: 1 broker is a member now." in lines


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


def test_a_cluster_at_rest_adds_nothing(cluster: ToldCluster) -> None:
    """Neither counts nor reports that change no decision are kept."""
    cluster.run(20)
    before = [event.number for event in cluster.story("b1").events]
    cluster.run(60)

    assert [event.number for event in cluster.story("b1").events] == before


def test_a_story_of_the_past_ends_at_that_time(cluster: ToldCluster) -> None:
    """Later events are left out."""
    then_ns = cluster.now_ns
    cluster.want("b2", 0)

    kept = cluster.logs["b2"].kept
    then, now = (story(kept, GROUP, ns, cluster.now_ns) for ns in (then_ns - 1, then_ns))
    assert len(then.events) < len(now.events)


def test_a_story_leaves_out_the_earlier_events_and_counts_them(cluster: ToldCluster) -> None:
    """The demands that moved are told even if the decision before is left out."""
    whole = cluster.story("b1")
    told = story(cluster.logs["b1"].kept, GROUP, cluster.now_ns, cluster.now_ns, most=2)

    assert told.events == whole.events[-2:]
    assert told.beginning == f"{len(whole.events) - 2} earlier events are left out."
    assert whole.beginning == "The story is whole since this sidecar started."


def test_what_was_in_force_at_a_time_is_explained_as_it_was_then(cluster: ToldCluster) -> None:
    """With the sentence and all demands of that moment, and its age as of now."""
    cluster.want("b2", 5_000)
    cluster.run(20)
    before_ns = cluster.now_ns
    cluster.run(1)
    cluster.version += 1
    cluster.set_limit(900)
    cluster.run(30)

    past = cluster.logs["b1"].decision_at(GROUP, MESSAGES, before_ns)
    assert past is not None
    then = past.explanation(cluster.now_ns)
    assert (then.cluster_limit, then.local_limit, then.binding) == (3_000, 1_500, "level")
    assert then.sentence.endswith("b1 gets 1,500/s of the 3,000/s.")
    assert [(want.broker, want.wants, want.report_age_ns) for want in then.wants] == [
        ("b1", None, None),
        ("b2", None, None),
    ]
    assert then.decided_age_ns > 30 * SECOND_NS
    newest = cluster.decisions()[0].listed(7, 5)
    assert (newest.number, newest.age_ns, newest.cluster_limit) == (7, 5, 900)
    assert (newest.local_limit, newest.target, newest.participants) == (450, 450, 2)


def test_before_the_log_begins_nothing_is_known(cluster: ToldCluster) -> None:
    """Rather than the oldest decision, which was not in force yet."""
    log = cluster.logs["b1"]

    assert log.decision_at(GROUP, MESSAGES, -1) is None
    assert log.decision_at("none", MESSAGES, cluster.now_ns) is None


def test_a_limit_that_is_lifted_is_kept_and_one_that_never_was_is_not(cluster: ToldCluster) -> None:
    """Bytes were never limited, so nothing is told of them."""
    group = ResourceGroup(GROUP, Rates(), configuration_version=2)
    cluster.send("b1", GroupsChanged((group,)))
    cluster.run(1)

    newest = cluster.decisions()[0].explanation(cluster.now_ns)
    assert (newest.binding, newest.cluster_limit, newest.local_limit) == ("unlimited", None, None)
    assert newest.sentence == "orders does not limit publishRateInMsgs."
    assert cluster.logs["b1"].decisions(GROUP, Dimension.PUBLISH_BYTES) == []


def test_a_group_that_is_gone_is_forgotten(cluster: ToldCluster) -> None:
    """Its name may come to mean something else; its end stays a note."""
    log = cluster.logs["b1"]
    cluster.send("b1", GroupsChanged(()))
    log.begin(set())

    assert cluster.decisions() == []
    assert log.kept.notes()[-1].text == "The group orders was deleted."


def test_a_busy_group_pushes_out_its_own_past_alone(
    cluster: ToldCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole stays within its bound, and the story says since when nothing is missing."""
    monkeypatch.setattr(bounded_events, "MAX_CELLS", 20)
    kept = cluster.logs["b1"].kept
    kept.keep(cluster.now_ns, "The group quiet was created.", ("quiet",), {})
    for demand in (300, 2_000) * 10:
        cluster.want("b2", demand)
        cluster.run(8)
    kept.begin({GROUP, "quiet"})

    assert [event.text for event in kept.of_group("quiet")][-1] == "The group quiet was created."
    assert 0 < kept.cells <= 20
    assert cluster.decisions()
    assert cluster.story("b1").beginning.startswith("Events of more than 1")


def test_the_events_of_a_group_and_those_of_all_have_a_bound_in_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest go first; the newest event of a group stays whatever room there is."""
    monkeypatch.setattr(bounded_events, "MAX_EVENTS", 3)
    monkeypatch.setattr(bounded_events, "MAX_COMMON", 2)
    kept = bounded_events.BoundedEvents()
    for number in range(5):
        kept.keep(number, f"of orders {number}", (GROUP,), {})
        kept.keep(number, f"of all {number}", None, {})

    told = [event.text for event in kept.of_group(GROUP)]
    assert told == ["of orders 2", "of orders 3", "of all 3", "of orders 4", "of all 4"]
    assert (kept.forgotten_ns(GROUP), kept.forgotten_ns("other")) == (2, 2)
    monkeypatch.setattr(bounded_events, "MAX_CELLS", 0)
    kept.begin({GROUP})
    assert [event.text for event in kept.of_group(GROUP)][-2:] == ["of orders 4", "of all 4"]


def test_a_group_has_its_own_events_and_those_of_all() -> None:
    """It has no participants of another group."""
    state, log = CoordinatorState(CoreSettings("b1")), EventLog()
    groups = tuple(ResourceGroup(name, Rates(publish_messages=10)) for name in (GROUP, "other"))
    for event in (
        GroupsChanged(()),
        MembersChanged(()),
        GroupsChanged(groups),
        ParticipantsChanged(GROUP, MonitoringClass.PUBLISH, 1),
        ParticipantsChanged("other", MonitoringClass.PUBLISH, 1),
        MembersChanged((Member("b1", 1),)),
    ):
        state.handle(event, 1)
        log.handled(event, state, 1)

    told = [event.text for event in log.kept.of_group(GROUP)]
    assert told == [
        (
            "b1 is STARTING: the ZooKeeper session may be over, and the others have this broker's share; "
            "the own broker does not answer."
        ),
        "The membership was read: 0 brokers are members now.",
        "The group orders was created: publishRateInMsgs 10.",
        "The first producer of orders connected at b1.",
        "b1 joined: 1 broker is a member now.",
    ]
    assert [note.kind for note in log.kept.notes()] == [
        EventKind.DEGRADATION,
        EventKind.CREATED,
        EventKind.CREATED,
        EventKind.JOINED,
    ]


def test_throttling_and_settling_are_noted_once(cluster: ToldCluster) -> None:
    """A state that lasts is not noted again; the own broker's is an event of its own."""
    shown, log = Board(), cluster.logs["b1"]

    def look() -> None:
        before = shown.rows.get(GROUP)
        row = shown.sample(cluster.states["b1"], GROUP, cluster.now_ns)
        assert row is not None
        log.sampled(before, row, "b1", cluster.now_ns)

    look()
    newest = log.kept.notes()[-1].number
    for demand in (5_000, 0):
        cluster.want("b2", demand)
        for _ in range(10):
            cluster.run(1)
            look()

    notes = [(note.kind, note.text) for note in log.kept.notes(after=newest)]
    told = [text for kind, text in notes if kind in (EventKind.THROTTLED, EventKind.RELEASED)]
    assert told == ["Clients of orders wait at b2.", "Clients of orders wait no more at b2."]
    settled = [text for kind, text in notes if kind is EventKind.SETTLED]
    assert settled == ["orders settled after 1.0 s."]
    assert log.kept.notes(after=10**9) == log.kept.notes()
