"""The state machine: events in, the whole list of instructions out."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

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
    Tick,
    TrafficCounted,
    UsageReportReceived,
)
from coordinator.core.instructions import (
    DrainGate,
    Instruction,
    JoinMembership,
    LeaveMembership,
    PublishUsageReport,
    RemoveLocalLimits,
    SetLocalLimits,
)
from coordinator.core.lifecycle import Degradation, IllegalTransition, Lifecycle
from coordinator.core.model import Dimension, Member, MonitoringClass, Rates, UsageReport
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic
from coordinator.core.usage.map import Verdict
from tests.core.cluster import GROUP, ORDERS, SECOND_NS, STEP_NS, activate, count

PUBLISH = MonitoringClass.PUBLISH


@pytest.fixture
def state() -> Iterator[CoordinatorState]:
    """A core that has just started; its invariants are checked after the test."""
    state = CoordinatorState(CoreSettings(broker="b1"))
    yield state
    state.validate()


def stands(state: CoordinatorState) -> Lifecycle:
    """Where the core stands (a call, since every event may have moved it)."""
    return state.lifecycle


def test_it_joins_when_zookeeper_groups_and_broker_are_there(state: CoordinatorState) -> None:
    """STARTING waits for all three; the limits are set before the first message to others."""
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
    assert state.handle(Tick(), 10 * SECOND_NS) == []


def test_a_registration_that_comes_back_during_a_drain_is_taken_back(
    state: CoordinatorState,
) -> None:
    """A join that was under way when the drain began leaves no dead member behind."""
    state.handle(DrainRequested(), 0)

    assert state.handle(MembershipJoined(7), 1) == [LeaveMembership()]


def test_a_registration_that_comes_when_the_own_broker_is_down_is_taken_back(
    state: CoordinatorState,
) -> None:
    """It may have been made without an answer; with its broker the core asks for another one."""
    state.handle(ConnectionChanged(ConnectionState.CONNECTED), 0)
    state.handle(GroupsChanged((ORDERS,)), 0)
    assert state.handle(BrokerAvailabilityChanged(answering=True), 0) == [JoinMembership()]
    assert state.handle(BrokerAvailabilityChanged(answering=False), 1) == [LeaveMembership()]

    assert state.handle(MembershipJoined(7), 2) == [LeaveMembership()]

    assert state.incarnation is None
    state.handle(BrokerAvailabilityChanged(answering=True), 3)
    assert JoinMembership() in count(state, (), SECOND_NS)


def test_a_lost_session_is_noticed_by_the_own_timer(state: CoordinatorState) -> None:
    """Without a server kazoo stays SUSPENDED for ever; after the session timeout that counts as LOST."""
    activate(state)
    state.handle(ConnectionChanged(ConnectionState.SUSPENDED), SECOND_NS)
    assert state.degradations.all() == (Degradation.ZOOKEEPER_SUSPENDED,)
    state.handle(Tick(), 5 * SECOND_NS)

    assert state.degradations.all() == (Degradation.ZOOKEEPER_LOST,)
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


def test_a_registration_that_arrives_while_degraded_starts_from_the_reserve_all_the_same(
    state: CoordinatorState,
) -> None:
    """The earlier incarnation may still hold an unknown share."""
    activate(state)
    state.handle(ParticipantsChanged(GROUP, PUBLISH, 1), SECOND_NS // 2)
    count(state, (), SECOND_NS // 2)
    state.handle(ConnectionChanged(ConnectionState.LOST), SECOND_NS)
    state.handle(ConnectionChanged(ConnectionState.CONNECTED), 2 * SECOND_NS)
    state.handle(ConnectionChanged(ConnectionState.SUSPENDED), 2 * SECOND_NS)
    assert state.limits()[GROUP] == Rates(publish_messages=3000)

    state.handle(MembershipJoined(8), 2 * SECOND_NS)
    assert stands(state) is Lifecycle.DEGRADED
    assert state.limits()[GROUP] == Rates(publish_messages=15)


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
        bytes=st.integers(0, 100_000),
        messages_held_ns=st.integers(0, SECOND_NS),
        bytes_held_ns=st.integers(0, SECOND_NS),
        participants=st.integers(0, 2),
        topics=st.integers(0, 2),
        messages_owed=st.integers(0, 3000),
        bytes_owed=st.integers(0, 300_000),
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
    st.sampled_from([DrainRequested(), DrainCompleted(), Tick()]),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(events, st.integers(0, 3 * SECOND_NS)), max_size=40))
def test_every_state_survives_every_event(story: list[tuple[Event, int]]) -> None:
    """Any order of events ends in a valid state or an illegal transition."""
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


pauses = st.sampled_from([SECOND_NS // 100, STEP_NS, SECOND_NS // 3, SECOND_NS, 3 * SECOND_NS])
counts = st.just(TrafficCounted(()))


@settings(max_examples=300)
@given(st.lists(st.tuples(counts | counts | events, pauses), max_size=40), st.booleans())
def test_a_tick_that_is_not_due_changes_nothing(
    story: list[tuple[Event, int]],
    strict: bool,
) -> None:
    """A core that gets a Tick with all counts gives the instructions of one that gets those due."""
    group = replace(ORDERS, overshoot_policy="strict") if strict else ORDERS
    by_need, always = (CoordinatorState(CoreSettings(broker="b1")) for _ in range(2))
    for state in (by_need, always):
        activate(state)
        state.handle(GroupsChanged((group,)), 0)
    now = 0
    for event, pause_ns in story:
        now += pause_ns
        assert outcome(by_need, event, now) == outcome(always, event, now, always=True)
        assert by_need.lifecycle is always.lifecycle
        assert by_need.limits() == always.limits()


def outcome(
    state: CoordinatorState, event: Event, now_ns: int, *, always: bool = False
) -> list[Instruction] | None:
    """Return the instructions of an event and, after counts, of a Tick; None if it is illegal."""
    try:
        instructions = state.handle(event, now_ns)
    except IllegalTransition:
        return None
    if isinstance(event, TrafficCounted) and (always or state.tick_due_ns <= now_ns):
        instructions += state.handle(Tick(), now_ns)
    return instructions


@settings(max_examples=100)
@given(st.lists(st.tuples(counts | events, pauses), max_size=20))
def test_counts_are_facts_alone(story: list[tuple[Event, int]]) -> None:
    """They change neither limits nor lifecycle and give no instruction; the Tick after them does."""
    state = CoordinatorState(CoreSettings(broker="b1"))
    activate(state)
    now = 0
    for event, pause_ns in story:
        now += pause_ns
        limits, lifecycle, round_ = dict(state.limits()), state.lifecycle, state.round
        instructions = outcome_of_one(state, event, now)
        if isinstance(event, TrafficCounted):
            assert not instructions
            assert (state.limits(), state.lifecycle, state.round) == (limits, lifecycle, round_)


def outcome_of_one(state: CoordinatorState, event: Event, now_ns: int) -> list[Instruction]:
    """Return the instructions of an event; none if it is illegal."""
    try:
        return state.handle(event, now_ns)
    except IllegalTransition:
        return []


def test_a_round_covers_what_was_counted_and_ends_with_a_tick(state: CoordinatorState) -> None:
    """A Tick later than the last count adds no time to the sample, and one without counts ends none."""
    activate(state)
    state.handle(Tick(), 2 * SECOND_NS)
    assert state.round == 0
    passed = Traffic(GROUP, PUBLISH, messages=500, participants=1)
    state.handle(TrafficCounted((passed,)), 2 * SECOND_NS)
    assert state.tick_due_ns <= 2 * SECOND_NS
    (report,) = (
        told.report
        for told in state.handle(Tick(), 3 * SECOND_NS)
        if isinstance(told, PublishUsageReport)
    )

    assert (state.round, report.elapsed_ns) == (1, 2 * SECOND_NS)
    row = state.usage.row("b1", GROUP, PUBLISH)
    assert row is not None
    assert row.rate_of(Dimension.PUBLISH_MESSAGES) == 250


@settings(max_examples=300)
@given(
    st.lists(st.tuples(counts | counts | events, pauses), max_size=40),
    st.booleans(),
    st.integers(0, 999),
)
def test_while_nothing_happens_a_core_has_nothing_to_do_before_its_tick_is_due(
    story: list[tuple[Event, int]],
    strict: bool,
    permille: int,
) -> None:
    """The shell need not send Ticks before, which saves most of the work of an idle sidecar."""
    group = replace(ORDERS, overshoot_policy="strict") if strict else ORDERS
    state = CoordinatorState(CoreSettings(broker="b1"))
    activate(state)
    state.handle(GroupsChanged((group,)), 0)
    now = 0
    for event, pause_ns in [*story, (TrafficCounted(()), STEP_NS)]:
        now += pause_ns
        outcome(state, event, now, always=True)
    rests_ns = state.tick_due_ns - now
    if state.lifecycle is Lifecycle.ACTIVE and rests_ns > 0:
        then = now + rests_ns * permille // 1000
        assert outcome(state, TrafficCounted(()), then, always=True) == []


def test_between_rounds_a_core_without_news_does_not_even_look_for_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told twenty times a second that nothing passed, which costs no decision."""
    state = CoordinatorState(CoreSettings(broker="b1"))
    activate(state)
    state.handle(ParticipantsChanged(GROUP, PUBLISH, 1), 0)
    decided_ns: list[int] = []
    decide = state.decider.decide

    def noting(*facts: Any) -> Any:
        decided_ns.append(now)
        return decide(*facts)

    monkeypatch.setattr(state.decider, "decide", noting)
    silence = (Traffic(GROUP, PUBLISH, participants=1, topics=1),)
    for now in range(STEP_NS, 10 * SECOND_NS + 1, STEP_NS):
        count(state, silence, now)
    # At the end of each of the ten rounds; and once more, when it has taken in its own report.
    assert 10 <= len(decided_ns) <= 20
