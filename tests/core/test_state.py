"""The state machine: events in, the whole list of instructions out; then several cores together."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.events import (
    BrokerAvailabilityChanged,
    ConnectionChanged,
    ConnectionState,
    DrainCompleted,
    DrainRequested,
    Event,
    GroupsChanged,
    MembersChanged,
    MembershipJoined,
    ParticipantsChanged,
    TrafficCounted,
    UsageReportReceived,
)
from coordinator.core.instructions import (
    DrainGate,
    JoinMembership,
    LeaveMembership,
    PublishUsageReport,
    RemoveLocalLimits,
    SetLocalLimits,
)
from coordinator.core.lifecycle import IllegalTransition, Lifecycle, Trouble
from coordinator.core.model import (
    Dimension,
    Member,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Traffic,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.usage_map import Verdict
from tests.core.cluster import GROUP, SECOND_NS, Cluster

PUBLISH = MonitoringClass.PUBLISH
ORDERS = ResourceGroup(GROUP, Rates(publish_messages=3000))


@pytest.fixture
def state() -> Iterator[CoordinatorState]:
    """A core that has just started; its invariants are checked after the test."""
    state = CoordinatorState(CoreSettings(broker="b1"))
    yield state
    state.validate()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """An empty cluster with a limit of 3,000 messages per second; every core is checked afterwards."""
    cluster = Cluster(limit=3000)
    yield cluster
    for state in cluster.states.values():
        state.validate()


def stands(state: CoordinatorState) -> Lifecycle:
    """Where the core stands (a call, since every event may have moved it)."""
    return state.lifecycle


def activate(state: CoordinatorState) -> None:
    """Bring a lone sidecar to ACTIVE."""
    state.handle(ConnectionChanged(ConnectionState.CONNECTED), 0)
    state.handle(GroupsChanged((ORDERS,)), 0)
    state.handle(BrokerAvailabilityChanged(answering=True), 0)
    state.handle(MembershipJoined(7), 0)
    state.handle(MembersChanged((Member("b1", 7),)), 0)
    assert stands(state) is Lifecycle.ACTIVE


def test_it_joins_when_zookeeper_groups_and_broker_are_there(state: CoordinatorState) -> None:
    """STARTING waits for all three; the limits are set before anybody is told anything."""
    assert state.handle(ConnectionChanged(ConnectionState.CONNECTED), 0) == []
    assert state.handle(GroupsChanged((ORDERS,)), 0) == [
        SetLocalLimits(GROUP, Rates(publish_messages=15))
    ]
    assert state.handle(BrokerAvailabilityChanged(answering=True), 0) == [JoinMembership()]
    assert stands(state) is Lifecycle.STARTING


def test_a_new_incarnation_learns_and_says_so(state: CoordinatorState) -> None:
    """Its first report lists nothing, is complete, and asks the others for complete ones."""
    state.handle(ConnectionChanged(ConnectionState.CONNECTED), 0)
    state.handle(GroupsChanged((ORDERS,)), 0)
    state.handle(BrokerAvailabilityChanged(answering=True), 0)

    view = state.agreement.digest(usage=0)
    assert state.handle(MembershipJoined(7), 0) == [
        PublishUsageReport(
            UsageReport("b1", 7, 1, SECOND_NS, (), complete=True, learning=True, view=view),
        )
    ]
    assert stands(state) is Lifecycle.LEARNING


def test_alone_it_is_active_as_soon_as_it_sees_itself(state: CoordinatorState) -> None:
    """Without other members there is nobody to learn from."""
    activate(state)


def test_it_learns_until_every_member_has_reported_completely(state: CoordinatorState) -> None:
    """An incomplete report of another member is not enough."""
    state.handle(ConnectionChanged(ConnectionState.CONNECTED), 0)
    state.handle(GroupsChanged((ORDERS,)), 0)
    state.handle(BrokerAvailabilityChanged(answering=True), 0)
    state.handle(MembershipJoined(7), 0)
    state.handle(MembersChanged((Member("b1", 7), Member("b2", 3))), 0)
    state.handle(UsageReportReceived(UsageReport("b2", 3, 1, SECOND_NS, ())), 0)
    assert stands(state) is Lifecycle.LEARNING
    state.handle(UsageReportReceived(UsageReport("b2", 3, 2, SECOND_NS, (), complete=True)), 0)

    assert stands(state) is Lifecycle.ACTIVE


def test_a_group_that_is_gone_is_not_limited_any_more(state: CoordinatorState) -> None:
    """Deleting a group removes its limits at once."""
    activate(state)

    assert state.handle(GroupsChanged(()), 1) == [RemoveLocalLimits(GROUP)]


def test_the_own_reports_that_come_back_are_ignored(state: CoordinatorState) -> None:
    """The bus returns what was sent; nothing is counted as dropped."""
    activate(state)
    own = UsageReport("b1", 7, 1, SECOND_NS, (), complete=True)

    assert state.handle(UsageReportReceived(own), 1) == []
    assert state.reports_dropped == {}


def test_dropped_reports_are_counted_by_reason(state: CoordinatorState) -> None:
    """A late report changes nothing and is seen in the figures; the copies of other topics are not."""
    activate(state)
    state.handle(MembersChanged((Member("b1", 7), Member("b2", 3))), 1)
    for sequence in (2, 2, 1):
        report = UsageReport("b2", 3, sequence, SECOND_NS, (), complete=True)
        state.handle(UsageReportReceived(report), sequence)

    assert state.reports_dropped == {Verdict.LATE: 1}


def test_a_dead_broker_leaves_with_a_farewell_and_comes_back_as_a_new_one(
    state: CoordinatorState,
) -> None:
    """The share is free at once; the return is a new incarnation that learns."""
    activate(state)
    instructions = state.handle(BrokerAvailabilityChanged(answering=False), SECOND_NS // 2)

    assert isinstance(instructions[0], PublishUsageReport)
    assert instructions[0].report.leaving
    assert instructions[1] == LeaveMembership()
    assert stands(state) is Lifecycle.DEGRADED
    assert state.handle(BrokerAvailabilityChanged(answering=True), SECOND_NS) == [JoinMembership()]
    state.handle(MembershipJoined(9), SECOND_NS)
    assert stands(state) is Lifecycle.LEARNING


def test_a_drain_leaves_before_the_gate_is_closed(state: CoordinatorState) -> None:
    """Farewell, deregistration, then the gate; afterwards nothing is ever said again."""
    activate(state)
    instructions = state.handle(DrainRequested(), 1)

    assert [type(instruction) for instruction in instructions] == [
        PublishUsageReport,
        LeaveMembership,
        DrainGate,
    ]
    assert state.handle(DrainCompleted(), 2) == []
    assert stands(state) is Lifecycle.STOPPED
    assert state.handle(TrafficCounted(()), 10 * SECOND_NS) == []


def test_a_registration_that_comes_back_during_a_drain_is_taken_back(
    state: CoordinatorState,
) -> None:
    """A join that was under way when the drain began leaves no dead member behind."""
    state.handle(DrainRequested(), 0)

    assert state.handle(MembershipJoined(7), 1) == [LeaveMembership()]


def test_an_illegal_event_changes_nothing(state: CoordinatorState) -> None:
    """What the table does not know raises, and the state is as it was."""
    with pytest.raises(IllegalTransition):
        state.handle(DrainCompleted(), 0)

    assert stands(state) is Lifecycle.STARTING


def test_a_lost_session_is_noticed_by_the_own_timer(state: CoordinatorState) -> None:
    """Without a server kazoo stays SUSPENDED for ever; after the session timeout that counts as LOST."""
    activate(state)
    state.handle(ConnectionChanged(ConnectionState.SUSPENDED), SECOND_NS)
    assert state.troubles.all() == (Trouble.ZOOKEEPER_SUSPENDED,)
    state.handle(TrafficCounted(()), 5 * SECOND_NS)

    assert state.troubles.all() == (Trouble.ZOOKEEPER_LOST,)
    assert stands(state) is Lifecycle.DEGRADED
    state.handle(ConnectionChanged(ConnectionState.CONNECTED), 6 * SECOND_NS)
    assert stands(state) is Lifecycle.ACTIVE


def test_a_session_that_is_over_means_joining_again(state: CoordinatorState) -> None:
    """After LOST the old registration is worthless; CONNECTED asks for a new one."""
    activate(state)
    state.handle(ConnectionChanged(ConnectionState.LOST), SECOND_NS // 2)
    assert state.incarnation is None

    instructions = state.handle(ConnectionChanged(ConnectionState.CONNECTED), SECOND_NS)
    assert JoinMembership() in instructions


def test_a_registration_that_arrives_in_trouble_starts_from_the_reserve_all_the_same(
    state: CoordinatorState,
) -> None:
    """Nobody knows what the earlier incarnation held on to."""
    activate(state)
    state.handle(ParticipantsChanged(GROUP, PUBLISH, 1), SECOND_NS // 2)
    state.handle(TrafficCounted(()), SECOND_NS // 2)
    state.handle(ConnectionChanged(ConnectionState.LOST), SECOND_NS)
    state.handle(ConnectionChanged(ConnectionState.CONNECTED), 2 * SECOND_NS)
    state.handle(ConnectionChanged(ConnectionState.SUSPENDED), 2 * SECOND_NS)
    assert state.limits()[GROUP] == Rates(publish_messages=3000)

    state.handle(MembershipJoined(8), 2 * SECOND_NS)
    assert stands(state) is Lifecycle.DEGRADED
    assert state.limits()[GROUP] == Rates(publish_messages=15)


def test_a_new_incarnation_has_patience_with_a_bus_that_was_silent_for_long(
    cluster: Cluster,
) -> None:
    """Its equal part is free only when the others, to whom it is new, have waited as long."""
    cluster.start("b1", demand=5000)
    cluster.start("b2", demand=5000)
    cluster.run(5)
    cluster.deaf = {"b1"}
    cluster.send("b1", ConnectionChanged(ConnectionState.LOST))
    cluster.end_session("b1")
    cluster.run(80)
    cluster.send("b1", ConnectionChanged(ConnectionState.CONNECTED))
    assert cluster.limit_of("b1") <= 15
    cluster.run(30)
    assert cluster.limit_of("b1") <= 15
    cluster.run(60)

    assert (cluster.limit_of("b1"), cluster.limit_of("b2")) == (1500, 1500)


@pytest.mark.parametrize(("policy", "expected"), [("hold", 3000), ("safe", 1500), ("stop", 0)])
def test_the_partition_policy_decides_what_a_lost_sidecar_lets_through(
    policy: str, expected: int
) -> None:
    """With hold it keeps its limit, with safe at most C/N, with stop nothing passes."""
    cluster = Cluster(limit=3000, partition_policy=policy)
    cluster.start("b1", demand=5000)
    cluster.start("b2")
    cluster.run(2)
    cluster.send("b1", ConnectionChanged(ConnectionState.SUSPENDED))
    cluster.run(5)

    assert cluster.limit_of("b1") == min(expected, 2993)


def test_the_end_of_the_lease_stops_a_sidecar_at_once_and_not_at_the_end_of_the_round() -> None:
    """Others claim its share by the clock, so its own clock acts between two rounds as well."""
    cluster = Cluster(limit=3000, partition_policy="stop")
    cluster.start("b1", demand=5000)
    cluster.start("b2")
    cluster.run(2.3)
    cluster.send("b1", ConnectionChanged(ConnectionState.SUSPENDED))
    until_ns = cluster.states["b1"].lease.until_ns
    assert until_ns is not None
    cluster.run((until_ns - cluster.now_ns) / SECOND_NS - 0.05)
    assert cluster.limit_of("b1") > 0
    cluster.run(0.1)

    assert cluster.limit_of("b1") == 0


def test_a_saturated_skewed_start_settles_at_equal_shares(cluster: Cluster) -> None:
    """5,000 and 2,000 wanted of 3,000: both get half, within one second, never more than 3,000."""
    cluster.start("b1", demand=5000)
    cluster.start("b2", demand=2000)
    cluster.run(1)

    assert {cluster.limit_of("b1"), cluster.limit_of("b2")} == {1500}
    assert max(sum(step.values()) for step in cluster.admitted) <= 3000


def test_a_joiner_gets_its_fair_share_within_two_rounds(cluster: Cluster) -> None:
    """The third participant starts from the reserve and has its third long before the second round."""
    for broker, demand in (("b1", 5000), ("b2", 2000), ("b3", 0)):
        cluster.start(broker, demand)
    cluster.run(3)
    assert cluster.limit_of("b3") == 5
    cluster.want("b3", 5000)
    cluster.run(1)

    assert [cluster.limit_of(broker) for broker in ("b1", "b2", "b3")] == [1000, 1000, 1000]
    assert max(sum(step.values()) for step in cluster.admitted) <= 3000


def test_a_new_limit_is_in_force_within_a_round(cluster: Cluster) -> None:
    """Doubled and halved: lowered at once, raised into the new room."""
    for broker in ("b1", "b2", "b3"):
        cluster.start(broker, demand=9000)
    cluster.run(2)
    cluster.set_limit(6000)
    cluster.run(0.5)
    assert [cluster.limit_of(broker) for broker in ("b1", "b2", "b3")] == [2000, 2000, 2000]
    cluster.set_limit(3000)

    assert [cluster.limit_of(broker) for broker in ("b1", "b2", "b3")] == [1000, 1000, 1000]


def test_a_dead_brokers_share_stays_until_its_session_ends_and_then_returns(
    cluster: Cluster,
) -> None:
    """Silence is not idleness; membership's word is, and then one round is enough."""
    for broker in ("b1", "b2", "b3"):
        cluster.start(broker, demand=5000)
    cluster.run(2)
    cluster.kill("b2")
    cluster.run(4)
    assert [cluster.limit_of("b1"), cluster.limit_of("b3")] == [1000, 1000]
    cluster.end_session("b2")
    cluster.run(0.5)

    assert [cluster.limit_of("b1"), cluster.limit_of("b3")] == [1500, 1500]


def test_what_one_broker_does_not_use_the_others_get(cluster: Cluster) -> None:
    """A demand below the fair share keeps a little headroom; all the rest goes to the saturated ones."""
    for broker in ("b1", "b2", "b3"):
        cluster.start(broker, demand=5000)
    cluster.run(2)
    cluster.want("b2", 300)
    cluster.run(2)

    assert 300 <= cluster.limit_of("b2") <= 330
    assert sum(cluster.limit_of(broker) for broker in cluster.states) == 3000


def test_a_constant_demand_moves_no_limit(cluster: Cluster) -> None:
    """After settling, limits do not change for a minute (oscillation 0)."""
    for broker, demand in (("b1", 5000), ("b2", 700), ("b3", 0)):
        cluster.start(broker, demand)
    cluster.run(130)
    before = [cluster.limit_of(broker) for broker in cluster.states]
    cluster.run(60)

    assert [cluster.limit_of(broker) for broker in cluster.states] == before


def test_a_silent_bus_holds_the_limits_and_then_goes_to_equal_parts(cluster: Cluster) -> None:
    """Nothing is raised; after `hold` lower to C/N, after a second `hold` raise to C/N."""
    cluster.start("b1", demand=5000)
    cluster.start("b2", demand=300)
    cluster.run(130)
    high, low = cluster.limit_of("b1"), cluster.limit_of("b2")
    cluster.deaf = {"b1", "b2"}
    cluster.run(20)
    assert cluster.states["b1"].troubles.all() == (Trouble.BUS_SILENT,)
    assert (cluster.limit_of("b1"), cluster.limit_of("b2")) == (high, low)
    cluster.run(25)
    assert (cluster.limit_of("b1"), cluster.limit_of("b2")) == (1500, low)
    cluster.run(30)
    assert (cluster.limit_of("b1"), cluster.limit_of("b2")) == (1500, 1500)
    cluster.deaf = set()
    cluster.run(7)

    assert cluster.states["b1"].lifecycle is Lifecycle.ACTIVE
    assert cluster.limit_of("b1") > 2500


def test_eager_settles_too(cluster: Cluster) -> None:
    """The eager policy arrives at the same shares."""
    cluster.policy = "eager"
    cluster.start("b1", demand=5000)
    cluster.start("b2", demand=2000)
    cluster.run(2)

    assert [cluster.limit_of("b1"), cluster.limit_of("b2")] == [1500, 1500]


def test_with_nothing_new_reports_are_empty_but_for_a_few(cluster: Cluster) -> None:
    """Suppression of large reports: at constant demand a group is reported once in so many rounds."""
    cluster.small_report_entries = 0
    cluster.complete_report_rounds = 5
    cluster.start("b1", demand=5000)
    cluster.start("b2", demand=5000)
    cluster.run(8)
    before = len(cluster.reports)
    cluster.run(50)
    reports = cluster.reports[before:]

    assert len(reports) == 2 * 50
    assert [report for report in reports if report.groups and not report.complete] == []
    assert sum(report.complete for report in reports) == 2 * 50 / 5


def test_whoever_missed_a_change_of_a_large_report_asks_and_is_told(cluster: Cluster) -> None:
    """Also when every repeat was lost, and long before a complete report is due."""
    cluster.small_report_entries = 0
    cluster.start("b1", demand=5000)
    cluster.start("b2", demand=5000)
    cluster.run(5)
    cluster.want("b1", 300)
    cluster.deaf = {"b2"}
    cluster.run(5)
    assert cluster.limit_of("b2") == 1500
    cluster.deaf = set()
    cluster.run(4)

    assert cluster.limit_of("b2") > 2600
    assert cluster.states["b2"].usage.is_current("b1", cluster.now_ns)


def test_a_group_that_is_gone_is_not_remembered_by_others(cluster: Cluster) -> None:
    """What a broker told of a group is taken back when the group is deleted: it reports completely."""
    cluster.small_report_entries = 0
    cluster.start("b1", demand=5000)
    cluster.start("b2", demand=5000)
    cluster.run(5)
    before = len(cluster.reports)
    cluster.send("b1", GroupsChanged(()))
    cluster.run(1.1)

    assert any(report.complete for report in cluster.reports[before:] if report.broker == "b1")


def test_a_repeat_says_the_same_rate_whatever_time_its_report_covers() -> None:
    """So it does not matter which of them arrives."""
    state = CoordinatorState(CoreSettings(broker="b1", small_report_entries=0))
    activate(state)
    rates, now_ns = [], 0
    for elapsed_ms, messages in *[(1_000, 1_000)] * 9, (1_000, 1_100), (1_040, 1_100):
        now_ns += elapsed_ms * 1_000_000
        traffic = Traffic(GROUP, PUBLISH, messages=messages, participants=1)
        state.handle(TrafficCounted((traffic,)), now_ns)
        row = state.usage.row("b1", GROUP, PUBLISH)
        assert row is not None
        rates.append(row.rate_of(Dimension.PUBLISH_MESSAGES))

    assert rates == [1_000] * 9 + [1_100] * 2


def test_a_small_report_is_always_complete(cluster: Cluster) -> None:
    """Whatever was lost before is healed by the next report that arrives."""
    cluster.start("b1", demand=5000)
    cluster.run(8)

    assert all(report.complete for report in cluster.reports)


def test_a_sidecar_that_misses_a_complete_report_asks_for_it(cluster: Cluster) -> None:
    """A starting sidecar whose bus connects late learns within a round of its connection."""
    cluster.start("b1", demand=5000)
    cluster.run(2)
    cluster.deaf = {"b2"}
    cluster.start("b2", demand=5000)
    cluster.run(0.5)
    assert cluster.states["b2"].lifecycle is Lifecycle.LEARNING
    cluster.deaf = set()
    cluster.run(1.2)

    assert cluster.limit_of("b2") == 1500


def test_one_lost_report_is_no_alarm_and_is_healed(cluster: Cluster) -> None:
    """What changed is said again in the next rounds; nobody is degraded for it."""
    cluster.start("b1", demand=5000)
    cluster.start("b2", demand=5000)
    cluster.run(3)
    cluster.deaf = {"b1"}
    cluster.want("b1", 300)
    cluster.run(1)
    cluster.deaf = set()
    cluster.run(2.2)

    assert cluster.limit_of("b2") > 2600
    assert stands(cluster.states["b2"]) is Lifecycle.ACTIVE


events: st.SearchStrategy[Event] = st.one_of(
    st.sampled_from(ConnectionState).map(ConnectionChanged),
    st.integers(1, 5).map(MembershipJoined),
    st.lists(
        st.builds(Member, st.sampled_from(["b1", "b2", "b3"]), st.integers(1, 5)),
        unique_by=lambda member: member.broker,
        max_size=3,
    ).map(lambda members: MembersChanged(tuple(members))),
    st.sampled_from([(), (ORDERS,)]).map(GroupsChanged),
    st.booleans().map(BrokerAvailabilityChanged),
    st.integers(0, 3).map(lambda count: ParticipantsChanged(GROUP, PUBLISH, count)),
    st.builds(
        Traffic,
        st.just(GROUP),
        st.just(PUBLISH),
        messages=st.integers(0, 1000),
        messages_held_ns=st.integers(0, SECOND_NS),
        participants=st.integers(0, 2),
    ).map(lambda traffic: TrafficCounted((traffic,))),
    st.builds(
        UsageReport,
        st.sampled_from(["b1", "b2", "b3", "b4"]),
        st.integers(1, 5),
        st.integers(1, 9),
        st.just(SECOND_NS),
        st.just(()),
        complete=st.booleans(),
        learning=st.booleans(),
        leaving=st.booleans(),
    ).map(UsageReportReceived),
    st.sampled_from([DrainRequested(), DrainCompleted()]),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(events, st.integers(0, 3 * SECOND_NS)), max_size=40))
def test_every_state_survives_every_event(story: list[tuple[Event, int]]) -> None:
    """Whatever happens in whatever order: an illegal transition or a valid state, nothing else."""
    state = CoordinatorState(CoreSettings(broker="b1"))
    now = 0
    for event, pause_ns in story:
        now += pause_ns
        before = state.lifecycle
        try:
            state.handle(event, now)
        except IllegalTransition:
            assert state.lifecycle is before
        state.validate()
