"""The usage map: which reports count, and when a row ends."""

from dataclasses import replace

import pytest

from coordinator.core.invariants import InvariantBroken
from coordinator.core.model import (
    Dimension,
    GroupUsage,
    Member,
    MonitoringClass,
    Usage,
    UsageReport,
)
from coordinator.core.usage.map import ROUND_MAX_NS, UsageMap, Verdict
from coordinator.core.usage.rows import UsageRow

SECOND = 1_000_000_000
OWN = "b0"
PUBLISH = MonitoringClass.PUBLISH


def report(
    broker: str = "b1",
    incarnation: int = 1,
    sequence: int = 1,
    groups: tuple[str, ...] = ("orders",),
    participants: int = 1,
    since: int = 0,
    complete: bool = False,
    leaving: bool = False,
) -> UsageReport:
    """A report in which every group has the same usage."""
    usage = Usage(messages=100, participants=participants)
    return UsageReport(
        broker,
        incarnation,
        sequence,
        SECOND,
        tuple(GroupUsage(name, 1, {PUBLISH: usage}) for name in groups),
        since=since,
        complete=complete,
        leaving=leaving,
    )


def usage_map(*brokers: str, incarnation: int = 1) -> UsageMap:
    """A map whose members are these brokers."""
    usage = UsageMap(OWN)
    usage.set_members({name: Member(name, incarnation) for name in brokers})
    return usage


@pytest.mark.shows("pip-82/usage-map")
def test_a_row_holds_until_the_broker_says_otherwise() -> None:
    """Silence is not idleness: nothing but news ends a row."""
    usage = usage_map("b1")
    usage.take(report(), now_ns=0)

    assert usage.row("b1", "orders", PUBLISH) is not None
    assert usage.heard_ns("b1") == 0


def test_duplicates_and_late_reports_are_dropped() -> None:
    """A sequence number that is not new changes nothing."""
    usage = usage_map("b1")

    assert usage.take(report(sequence=5), 0).verdict is Verdict.TAKEN
    assert usage.take(report(sequence=5), 1).verdict is Verdict.COPY
    assert usage.take(report(sequence=4, participants=0), 2).verdict is Verdict.LATE
    assert usage.row("b1", "orders", PUBLISH) is not None


def test_only_the_incarnation_that_membership_shows_counts() -> None:
    """However large or small the other one is; and a new one begins with nothing."""
    usage = usage_map("b1", incarnation=3)

    assert usage.take(report(incarnation=2), 0).verdict is Verdict.OLD_INCARNATION
    assert usage.take(report(incarnation=3, sequence=9), 0).verdict is Verdict.TAKEN
    for ahead in (4, 2**62):
        assert usage.take(report(incarnation=ahead), 0).verdict is Verdict.UNCONFIRMED
    assert usage.take(report(incarnation=3, sequence=10), 0).verdict is Verdict.TAKEN
    usage.set_members({"b1": Member("b1", 4)})
    assert usage.take(report(incarnation=3, sequence=11), 0).verdict is Verdict.OLD_INCARNATION
    assert usage.row("b1", "orders", PUBLISH) is None
    assert usage.take(report(incarnation=4, groups=("other",)), 0).verdict is Verdict.TAKEN


def test_a_membership_that_shows_an_older_registration_leaves_no_rows_of_a_newer_one() -> None:
    """A new session may first read from a ZooKeeper that lags; what it shows is what counts."""
    usage = usage_map("b1", incarnation=2)
    usage.take(report(incarnation=2), 0)
    usage.set_members({"b1": Member("b1", 1)})

    usage.validate()
    assert usage.row("b1", "orders", PUBLISH) is None
    usage.set_members({"b1": Member("b1", 2)})
    assert usage.take(report(incarnation=2, sequence=1), 0).verdict is Verdict.TAKEN


def test_who_is_no_member_leaves_nothing_behind() -> None:
    """The map keeps neither its rows nor its name, not even once it is a member."""
    usage = usage_map("b1")
    assert usage.take(report("stranger"), 0).verdict is Verdict.STRANGER
    usage.set_members({"stranger": Member("stranger", 1)})

    assert usage.senders() == []
    assert usage.row("stranger", "orders", PUBLISH) is None


def test_the_own_reports_count_before_membership_shows_them() -> None:
    """They count however late ZooKeeper's watch is."""
    usage = usage_map()
    assert usage.take(report(OWN, incarnation=7), 0).verdict is Verdict.TAKEN
    usage.set_members({"b1": Member("b1", 1)})
    usage.set_members({OWN: Member(OWN, 7)})

    assert usage.row(OWN, "orders", PUBLISH) is not None


def test_a_round_that_no_sidecar_can_have_is_not_believed() -> None:
    """A sender that claims an age-long round would stay current for as long."""
    usage = usage_map("b1")
    usage.take(replace(report(complete=True), elapsed_ns=2**62), 0)

    assert usage.round_ns("b1") == ROUND_MAX_NS
    assert not usage.is_current("b1", now_ns=4 * ROUND_MAX_NS)


def test_a_member_that_was_not_heard_has_told_no_length_of_its_rounds() -> None:
    """A reader takes that of its own rounds instead."""
    assert usage_map("b1").round_ns("b1") == 0


@pytest.mark.shows("pip-82/zero-usage")
def test_no_participants_end_a_row() -> None:
    """PIP-82: a usage of 0 removes the broker from the map."""
    usage = usage_map("b1")
    usage.take(report(), 0)
    usage.take(report(sequence=2, participants=0), 1)

    assert usage.row("b1", "orders", PUBLISH) is None


def test_a_complete_report_ends_what_it_does_not_list() -> None:
    """A lost report of zero is healed by the next complete one."""
    usage = usage_map("b1")
    usage.take(report(groups=("orders", "audit")), 0)
    assert not usage.is_complete("b1")
    usage.take(report(sequence=2, groups=("orders",), complete=True), 1)

    assert usage.is_complete("b1")
    assert usage.row("b1", "audit", PUBLISH) is None
    assert usage.row("b1", "orders", PUBLISH) is not None


def test_a_leaving_broker_has_nothing_any_more() -> None:
    """Its last report frees everything at once, before membership says that it is gone."""
    usage = usage_map("b1")
    usage.take(report(), 0)
    usage.take(report(sequence=2, groups=(), leaving=True), 1)

    assert usage.rows("orders", PUBLISH) == {}


@pytest.mark.shows("pip-82/broker-down")
def test_losing_membership_removes_the_broker() -> None:
    """PIP-82: the map forgets a broker that is not registered any more."""
    usage = usage_map("b1", "b2")
    usage.take(report("b1"), 0)
    usage.take(report("b2"), 0)
    usage.set_members({"b2": Member("b2", 1)})

    assert usage.row("b1", "orders", PUBLISH) is None
    assert usage.heard_ns("b1") is None
    assert usage.row("b2", "orders", PUBLISH) is not None


def test_a_report_tells_which_groups_are_to_be_decided_anew() -> None:
    """New, ended and changed rows count; one that says the same again, or counts more, does not."""
    usage = usage_map("b1")
    usage.follow(["orders", "audit"])
    first = usage.take(report(groups=("orders", "audit"), complete=True), 0)
    same = usage.take(report(sequence=2, groups=("orders",)), 1)
    ended = usage.take(report(sequence=3, groups=("orders",), complete=True), 2)
    usage.set_members({"b1": Member("b1", 2)})
    reborn = usage.take(report(incarnation=2, groups=("audit",)), 3)

    assert first.groups == {"orders", "audit"}
    assert same.groups == set()
    assert ended.groups == {"audit"}
    assert reborn.groups == {"audit"}


def test_where_the_use_is_split_a_new_count_changes_a_group() -> None:
    """Of two groups with the same news, the one that is split by use is decided anew."""
    usage = usage_map("b1")
    usage.follow(["orders", "audit"])
    usage.split_by_use(["audit"])
    first = report(groups=("orders", "audit"), complete=True)
    usage.take(first, 0)
    same = usage.take(replace(first, sequence=2), 1)
    rates_doubled = usage.take(replace(first, sequence=3, elapsed_ns=SECOND // 2), 2)

    assert same.groups == set()
    assert rates_doubled.groups == {"audit"}


def test_who_has_missed_nothing_new_goes_on_relying_on_a_broker() -> None:
    """Lost reports do not matter when what they said is said again, or was nothing."""
    usage = usage_map("b1")
    usage.take(report(complete=True), 0)
    usage.take(report(sequence=9, since=1), 1)

    assert usage.is_current("b1", now_ns=1)
    assert not usage.has_gap("b1", now_ns=2 * SECOND)


def test_who_has_missed_something_new_does_not_rely_on_a_broker_until_it_is_said_again() -> None:
    """It stops raising at once; a round later it asks for a complete report, which repairs the loss."""
    usage = usage_map("b1")
    usage.take(report(complete=True), 0)
    usage.take(report(sequence=3, since=2), 1)
    usage.take(report(sequence=4, since=2), SECOND)

    assert not usage.is_current("b1", now_ns=SECOND)
    assert not usage.has_gap("b1", now_ns=SECOND)
    assert usage.has_gap("b1", now_ns=SECOND + 1)

    usage.take(report(sequence=5, complete=True), SECOND + 2)
    assert usage.is_current("b1", now_ns=SECOND + 2)
    assert not usage.has_gap("b1", now_ns=3 * SECOND)


def test_a_repeat_makes_up_for_what_was_missed() -> None:
    """A report that lists all that is new since the last whole one leaves nothing to ask for."""
    usage = usage_map("b1")
    usage.take(report(complete=True), 0)
    usage.take(report(sequence=3, since=2), 1)
    usage.take(report(sequence=4, since=1), 2)

    assert usage.is_current("b1", now_ns=2)
    assert not usage.has_gap("b1", now_ns=2 * SECOND)


def test_groups_are_followed_while_this_broker_takes_part() -> None:
    """Others' reports of a group count from when this broker takes part until it leaves."""
    usage = usage_map(OWN, "b1")
    usage.take(report(complete=True), 0)
    assert usage.take(report(sequence=2, groups=(), complete=True), 1).groups == set()
    usage.take(report(sequence=3, complete=True), 2)

    assert usage.take(report(OWN, complete=True), 3).groups == {"orders"}
    assert usage.takes_part("orders", PUBLISH)
    assert set(usage.rows("orders", PUBLISH)) == {OWN, "b1"}
    assert usage.take(report(sequence=4, groups=(), complete=True), 4).groups == {"orders"}

    assert usage.take(report(OWN, sequence=2, groups=(), complete=True), 5).groups == {"orders"}
    assert not usage.takes_part("orders", PUBLISH)
    assert usage.take(report(sequence=5, complete=True), 6).groups == set()
    assert set(usage.rows("orders", PUBLISH)) == {"b1"}


def test_a_sidecar_that_begins_again_decides_the_groups_anew_in_which_it_took_part() -> None:
    """Its rows of before are gone; of other groups nothing changes."""
    usage = usage_map(OWN, "b1")
    usage.follow(["orders", "audit"])
    usage.take(report(groups=("orders", "audit"), complete=True), 0)
    usage.take(report(OWN, complete=True), 1)

    begun_again = usage.take(report(OWN, incarnation=2, groups=(), complete=True), 2)

    assert begun_again.groups == {"orders"}


def test_the_groups_that_a_broker_has_reported_on_are_known_by_broker() -> None:
    """One that was not heard has reported on none."""
    usage = usage_map("b1", "b2")
    usage.take(report(groups=("orders", "audit"), complete=True), 0)

    assert usage.mentioned("b1") == {"orders", "audit"}
    assert usage.mentioned("b2") == set()


def test_a_sender_whose_news_are_not_all_known_is_no_broken_invariant() -> None:
    """Its first report listed only some; one that is whole beyond its newest report is broken."""
    usage = usage_map("b1")
    usage.take(report(since=3, sequence=4), 0)
    usage.validate()

    usage._senders["b1"].whole = 5
    with pytest.raises(
        InvariantBroken, match=r"whole beyond the newest report \(broker b1, whole 5, newest 4\)"
    ):
        usage.validate()


def test_a_broker_that_was_not_heard_for_three_of_its_rounds_is_not_current() -> None:
    """No sidecar raises on old reports."""
    usage = usage_map("b1")
    usage.take(report(complete=True), 0)

    assert usage.is_current("b1", now_ns=3 * SECOND)
    assert not usage.is_current("b1", now_ns=3 * SECOND + 1)


def test_rates_are_counts_over_the_time_they_cover() -> None:
    """Reports of different intervals are comparable, since each carries its elapsed time."""
    row = UsageRow(Usage(messages=300, bytes=1_000), elapsed_ns=2 * SECOND)

    assert row.rate_of(Dimension.PUBLISH_MESSAGES) == 150
    assert row.rate_of(Dimension.PUBLISH_BYTES) == 500
    assert UsageRow(Usage(messages=1), elapsed_ns=0).rate_of(Dimension.PUBLISH_MESSAGES) == 0
