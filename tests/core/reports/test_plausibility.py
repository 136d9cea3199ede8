"""Reports of a member that cannot be true do bounded harm to the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from coordinator.core.events import MembersChanged, UsageReportReceived
from coordinator.core.model import Dimension, GroupUsage, Member, Parts, Usage, UsageReport
from coordinator.core.reports.plausibility import CAPPED_AT, Plausibility
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.map import Verdict
from coordinator.insight.model import explain
from tests.core.cluster import GROUP, SECOND_NS, STEP_NS, Cluster

LIMIT = 3_000
MESSAGES = Dimension.PUBLISH_MESSAGES

Distortion = Callable[[UsageReport], UsageReport]


def saying(change: Callable[[Usage], Usage]) -> Distortion:
    """Change every row of a core's reports."""

    def changed(entry: GroupUsage) -> GroupUsage:
        return replace(entry, usages={of: change(usage) for of, usage in entry.usages.items()})

    return lambda report: replace(report, groups=tuple(map(changed, report.groups)))


def ten_times(usage: Usage) -> Usage:
    """Usage and demand ten times the truth."""
    demand = usage.messages_demand
    return replace(usage, messages=10 * usage.messages, messages_demand=demand and 10 * demand)


def holding_all(usage: Usage) -> Usage:
    """All of the limit is in force here."""
    return replace(usage, messages_limit=LIMIT)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """b1 and b2 want everything, b3 a sixth of it; their invariants are checked at the end."""
    cluster = Cluster(limit=LIMIT)
    cluster.settle(LIMIT, LIMIT, LIMIT // 6, seconds=5.0)
    yield cluster
    cluster.validate()


def capped(cluster: Cluster, broker: str = "b1") -> set[str]:
    """Return the brokers whose announcements a sidecar has capped."""
    return set(explain.health(cluster.states[broker], cluster.now_ns).announcements_capped)


def test_who_tells_the_truth_is_not_capped(cluster: Cluster) -> None:
    """A throttled broker may want any rate."""
    cluster.run(2.0 * CAPPED_AT)

    assert not any(capped(cluster, broker) for broker in cluster.states)


@pytest.mark.parametrize("policy", ["balanced", "eager", "strict"])
def test_who_exaggerates_its_use_gets_no_more_than_its_part(policy: str) -> None:
    """Ten times its usage and demand: the others keep a third each."""
    cluster = Cluster(limit=LIMIT, policy=policy)
    for broker, demand in {"b1": LIMIT, "b2": LIMIT, "b3": LIMIT // 6}.items():
        cluster.start(broker, demand=demand)
    cluster.run(10.0)
    cluster.distort["b3"] = saying(ten_times)
    for _ in range(2 * CAPPED_AT):
        cluster.run(1.0)
        assert min(cluster.limit_of("b1"), cluster.limit_of("b2")) >= LIMIT // 3 - 1


@pytest.mark.parametrize("law", ["max-min", "static"])
def test_no_claim_gets_more_than_an_equal_part_of_what_others_want(law: str) -> None:
    """Even the largest number that a report can hold gets no more."""
    cluster = Cluster(limit=LIMIT, law=law)
    for broker in ("b1", "b2", "b3"):
        cluster.start(broker, demand=LIMIT)
    cluster.distort["b3"] = saying(
        lambda usage: replace(usage, messages=2**63, messages_demand=2**63)
    )
    cluster.run(5.0)

    assert min(cluster.limit_of("b1"), cluster.limit_of("b2")) >= LIMIT // 3


def test_who_announces_too_much_for_long_counts_with_an_equal_part(cluster: Cluster) -> None:
    """b2 lowers its demand and says that it holds everything; b1 takes the rest when b2 is capped."""
    cluster.distort["b2"] = saying(holding_all)
    cluster.want("b2", LIMIT // 6)
    cluster.run(CAPPED_AT - 5.0)
    assert cluster.limit_of("b1") < LIMIT // 2
    cluster.run(10.0)

    assert capped(cluster) == {"b2"}
    assert cluster.limit_of("b1") == pytest.approx(LIMIT - LIMIT // 3 - LIMIT // 6, rel=0.02)
    why = explain.explain(cluster.states["b1"], GROUP, MESSAGES, None, cluster.now_ns)
    assert why.sentence.endswith(
        "More than twice the target is announced by b2, and counts as an equal part."
    )
    (certificate,) = explain.certificates(cluster.states["b1"], GROUP, cluster.now_ns)
    assert certificate.most is not None
    assert certificate.most > LIMIT  # what it says may still be true


def test_who_comes_back_to_the_truth_is_waited_for_again(cluster: Cluster) -> None:
    """The first plausible look ends the cap; the count stays."""
    cluster.distort["b2"] = saying(holding_all)
    cluster.want("b2", LIMIT // 6)
    cluster.run(2.0 * CAPPED_AT)
    state = cluster.states["b1"]
    assert state.plausibility.capped == {(GROUP, MESSAGES): {"b2"}}
    del cluster.distort["b2"]
    cluster.run(3.0)

    assert state.plausibility.capped == {}
    assert capped(cluster) == {"b2"}


def test_a_broker_that_says_it_misses_reports_may_keep_its_limit(cluster: Cluster) -> None:
    """Such a broker does not know its target."""
    cluster.distort["b2"] = lambda report: replace(saying(holding_all)(report), bus_silent=True)
    cluster.want("b2", LIMIT // 6)
    cluster.run(2.0 * CAPPED_AT)

    assert not capped(cluster)


def test_who_sees_another_membership_may_hold_what_it_has(cluster: Cluster) -> None:
    """Such a broker computes another target."""

    def elsewhere(report: UsageReport) -> UsageReport:
        assert report.view is not None
        return replace(saying(holding_all)(report), view=replace(report.view, members=1))

    cluster.distort["b2"] = elsewhere
    cluster.want("b2", LIMIT // 6)
    cluster.run(2.0 * CAPPED_AT)

    assert not capped(cluster)


def test_now_and_then_an_implausible_round_is_no_lie(cluster: Cluster) -> None:
    """Every other round looks impossible: limits fall in the middle of a round."""
    cluster.distort["b3"] = lambda report: (
        saying(holding_all)(report) if cluster.now_ns // SECOND_NS % 2 else report
    )
    cluster.run(5.0 * CAPPED_AT)

    assert not capped(cluster)


def test_who_answers_without_having_heard_delays_a_raise_by_hold(cluster: Cluster) -> None:
    """It repeats the same old report; after 30 s no sidecar waits for it."""
    cluster.run(1.0)
    answers: dict[int, int] = {}

    def stale(report: UsageReport) -> UsageReport:
        return replace(
            report, answers={asker: answers.setdefault(asker, 1) for asker in report.answers}
        )

    cluster.distort["b3"] = stale
    cluster.want("b2", LIMIT // 6)
    cluster.run(20.0)
    assert cluster.limit_of("b1") < LIMIT // 2
    cluster.run(15.0)

    assert cluster.limit_of("b1") >= LIMIT // 2


def test_who_states_to_hold_more_than_there_is_keeps_no_parts_from_the_others() -> None:
    """Under strict b2 gives b1 what it does not want itself, whatever b3 says that it holds."""
    cluster = Cluster(limit=LIMIT, policy="strict")
    cluster.settle(LIMIT, LIMIT, LIMIT // 6, seconds=5.0)
    assert cluster.limit_of("b1") < LIMIT // 2
    huge: Parts = (2**62, 2**62, 2**62, 2**62)
    cluster.distort["b3"] = lambda report: replace(
        report, escrow=tuple(replace(each, holding=huge) for each in report.escrow)
    )
    cluster.run(2.0)
    cluster.want("b2", LIMIT // 6)
    cluster.run(20.0)

    assert cluster.limit_of("b1") > LIMIT // 2
    cluster.validate()


MEMBERS = {"b1": Member("b1", 1), "b2": Member("b2", 2)}


def report(sequence: int, *, incarnation: int = 2, leaving: bool = False) -> UsageReport:
    """An empty report of b2."""
    return UsageReport("b2", incarnation, sequence, SECOND_NS, (), leaving=leaving)


@pytest.fixture
def bounds() -> Plausibility:
    """Those of b1, with b2 as a member."""
    found = Plausibility(CoreSettings(broker="b1"))
    found.set_members(MEMBERS.keys())
    return found


def test_the_most_that_a_sidecar_sends_is_no_flood(bounds: Plausibility) -> None:
    """One report per urgent gap, on two bus topics each, for five minutes."""
    for sequence in range(1, 6_000):
        for _ in range(2):
            assert bounds.fault(report(sequence), sequence * STEP_NS) is None


def test_a_flood_is_cut_to_twice_what_a_sidecar_sends(bounds: Plausibility) -> None:
    """A thousand reports a second for a minute: 40 a second, and the 400 saved up before."""
    faults = [
        bounds.fault(report(sequence), sequence * SECOND_NS // 1_000)
        for sequence in range(1, 60_001)
    ]

    assert faults.count(None) == pytest.approx(400 + 60 * 40, abs=1)
    assert set(faults) == {None, Verdict.FLOOD}


def test_what_waited_during_a_pause_is_no_flood(bounds: Plausibility) -> None:
    """Eight seconds of urgent reports arrive at once."""
    assert {bounds.fault(report(sequence), 0) for sequence in range(1, 160)} == {None}


def test_after_the_farewell_nothing_counts(bounds: Plausibility) -> None:
    """Its incarnation is over: later reports are dropped. A new one counts."""
    assert bounds.fault(report(1), 0) is None
    assert bounds.fault(report(2, leaving=True), 0) is None
    assert bounds.fault(report(2, leaving=True), 0) is None  # by the other bus topic
    for _ in range(2):
        assert bounds.fault(report(3), 0) is Verdict.FAREWELL
    assert bounds.fault(report(1, incarnation=3), 0) is None


def test_a_copy_of_a_report_of_a_flood_is_one_more_of_it(bounds: Plausibility) -> None:
    """It comes by another bus topic, or was sent once more; an earlier one that came late is, too."""
    flood = [bounds.fault(report(sequence), 0) for sequence in range(1, 1_001)]

    assert flood[-1] is Verdict.FLOOD
    assert {bounds.fault(report(sequence), 0) for sequence in (1_000, 999)} == {Verdict.FLOOD}


def test_a_report_that_is_not_admitted_changes_nothing(cluster: Cluster) -> None:
    """A report after a farewell brings no row back."""
    state = cluster.states["b1"]
    last = next(told for told in reversed(cluster.reports) if told.broker == "b3")
    over = replace(last, sequence=last.sequence + 1, groups=(), leaving=True)
    state.handle(UsageReportReceived(over), cluster.now_ns)
    rows = state.usage.rows(GROUP, MESSAGES.monitoring_class)
    assert "b3" not in rows
    again = replace(last, sequence=last.sequence + 2)
    for _ in range(2):  # by two bus topics
        state.handle(UsageReportReceived(again), cluster.now_ns)

    assert state.usage.rows(GROUP, MESSAGES.monitoring_class) == rows
    assert state.reports_dropped == {Verdict.FAREWELL: 2}


def test_who_left_is_judged_no_longer(cluster: Cluster) -> None:
    """It begins anew when it is back."""
    cluster.distort["b3"] = saying(holding_all)
    cluster.run(1.5 * CAPPED_AT)
    state = cluster.states["b1"]
    assert state.plausibility.capped == {(GROUP, MESSAGES): {"b3"}}
    rest = tuple(member for broker, member in state.members.items() if broker != "b3")
    state.handle(MembersChanged(rest), cluster.now_ns)

    assert state.plausibility.capped == {}
    assert not capped(cluster)
