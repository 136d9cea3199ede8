"""The live certificate: what all local limits can add up to, as one sidecar knows it.

That it is never broken is for the simulator to show (tests/simulation/test_certificates.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest

from coordinator.core.certificate.certifier import MAX_DEPARTED
from coordinator.core.certificate.statement import Basis, Certificate
from coordinator.core.events import (
    ConnectionChanged,
    ConnectionState,
    DrainRequested,
    GroupsChanged,
    MembersChanged,
    UsageReportReceived,
)
from coordinator.core.model import GroupUsage, Member, MonitoringClass, Rate, Rates, Usage
from coordinator.core.usage.columns import entries_in_columns
from coordinator.insight.model import explain
from tests.core.cluster import GROUP, SECOND_NS, Cluster

LIMIT = 3_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three saturated sidecars at rest, their invariants checked at the end."""
    cluster = Cluster(limit=LIMIT)
    cluster.settle(LIMIT, LIMIT, LIMIT, seconds=5.0)
    yield cluster
    cluster.validate()


def certificate(cluster: Cluster, broker: str = "b1") -> Certificate:
    """Return the present certificate of a sidecar."""
    (found,) = explain.certificates(cluster.states[broker], GROUP, cluster.now_ns)
    return found


def basis_of(found: Certificate, broker: str) -> Basis:
    """Why a broker counts as it does."""
    return next(holder.basis for holder in found.holders if holder.broker == broker)


def test_at_rest_it_is_the_limit_exactly(cluster: Cluster) -> None:
    """Equal views: not one message more; what may come on top is said apart."""
    for broker in cluster.states:
        found = certificate(cluster, broker)
        assert (found.most, found.newcomer, found.burst) == (LIMIT, 15, 153)
    assert certificate(cluster).sentence() == "All together hold at most 3,000/s of 3,000/s now."


@pytest.mark.parametrize("limit", [29, 20, Fraction(25, 2), Fraction(61, 2)])
@pytest.mark.parametrize("policy", ["balanced", "strict"])
def test_fractions_of_small_limits_are_in_the_sum(limit: Rate, policy: str) -> None:
    """At rest all that passes is certified, and no more than the limit rounded up."""
    cluster = Cluster(limit=limit, policy=policy)
    cluster.settle(LIMIT, LIMIT, LIMIT, seconds=8.0)

    found = certificate(cluster)
    assert found.most == found.limit == ceil(limit)


def test_what_may_come_on_top_is_the_credit_of_the_group() -> None:
    """The same by word and by the books of a strict group."""
    for policy in ("balanced", "strict"):
        cluster = Cluster(limit=LIMIT, burst_seconds=5, policy=policy)
        cluster.settle(LIMIT, LIMIT, LIMIT, seconds=8.0)
        assert certificate(cluster).most == LIMIT
        assert certificate(cluster).burst == 5 * LIMIT + 3, policy


def test_a_raise_counts_before_it_is_in_force(cluster: Cluster) -> None:
    """The newcomer's ceiling is known before its limit, so the sum is never less than the truth."""
    cluster.start("b4", demand=LIMIT)
    announced_first = False
    for _ in range(40):
        cluster.run(0.05)
        found = certificate(cluster)
        assert found.most is not None
        assert sum(map(cluster.limit_of, cluster.states)) <= found.most
        b4 = next(holder for holder in found.holders if holder.broker == "b4")
        announced_first |= b4.most > cluster.limit_of("b4") > 0
    assert announced_first
    assert certificate(cluster).most == LIMIT


def test_who_is_not_heard_for_long_counts_with_all_of_it(cluster: Cluster) -> None:
    """A silent sidecar cannot raise itself without this one's answer, but after ``hold`` without one."""
    cluster.deaf.add("b3")
    cluster.run(10.0)
    assert certificate(cluster).most == LIMIT
    cluster.run(6.0)

    found = certificate(cluster)
    assert basis_of(found, "b3") is Basis.LATE
    assert found.most == 1_000 + 1_000 + LIMIT
    assert found.sentence().endswith(": b3 was not heard for long.")


def test_a_broker_that_misses_reports_may_move_to_its_equal_part() -> None:
    """It says so, long before; one that holds more than C/N counts with what it holds."""
    cluster = Cluster(limit=LIMIT)
    cluster.settle(LIMIT, 200, 200, seconds=5.0)
    assert certificate(cluster).most == LIMIT
    cluster.deaf.add("b3")
    cluster.run(10.0)

    found = certificate(cluster)
    assert basis_of(found, "b2") is Basis.BUS_SILENT
    assert next(holder.most for holder in found.holders if holder.broker == "b2") == 1_000


def test_who_takes_no_part_is_not_asked(cluster: Cluster) -> None:
    """A broker that takes no part certifies C for each other; participants certify less."""
    cluster.start("b4", demand=0)
    cluster.run(3.0)

    assert basis_of(certificate(cluster, "b4"), "b1") is Basis.UNTOLD
    found = certificate(cluster)
    assert basis_of(found, "b4") is Basis.RESERVE
    assert found.most == LIMIT


@pytest.mark.parametrize("keep", [tuple, entries_in_columns], ids=["rows", "columns"])
def test_who_ended_its_part_counts_with_what_it_held_until_its_next_word(
    cluster: Cluster, keep: Callable[[Sequence[GroupUsage]], Sequence[GroupUsage]]
) -> None:
    """It lowers itself right after it has said so, and not before."""
    last = next(report for report in reversed(cluster.reports) if report.broker == "b3")
    end = GroupUsage(GROUP, 0, {MonitoringClass.PUBLISH: Usage(messages_limit=1_000)})
    for said, most in ((end,), 1_000), ((), 5):
        last = replace(last, sequence=last.sequence + 1, groups=keep(said), complete=True)
        cluster.send("b1", UsageReportReceived(last))
        found = certificate(cluster)
        assert next(holder for holder in found.holders if holder.broker == "b3").most == most


def test_who_stood_still_says_nothing_for_a_round(cluster: Cluster) -> None:
    """Its session may be over, and others may have come."""
    cluster.now_ns += 2 * SECOND_NS
    assert "stood still" in certificate(cluster).sentence()
    cluster.run(0.5)
    assert "stood still" in certificate(cluster).sentence()
    cluster.run(1.0)
    assert certificate(cluster).most == LIMIT


def test_who_left_without_a_word_may_still_hold_what_it_had(cluster: Cluster) -> None:
    """Dead and cut off look alike; it counts until it is back, and by then it has started anew."""
    cluster.kill("b3")
    cluster.end_session("b3")
    cluster.run(5.0)

    found = certificate(cluster)
    assert basis_of(found, "b3") is Basis.DEPARTED
    assert found.most == LIMIT + 1_000
    cluster.start("b3", demand=LIMIT)
    cluster.run(5.0)
    assert certificate(cluster).most == LIMIT


def test_each_dimension_of_who_left_without_a_word_counts_by_itself() -> None:
    """With what it announced of bytes, and with all messages: it need not have asked about its few."""
    cluster = Cluster(limit=100_000, bytes_limit=3_000_000, sizes={"b1": 1_000_000})
    cluster.settle(2, 100_000, 100_000, seconds=8.0)
    announced = cluster.states["b3"].limits()[GROUP].publish_bytes
    cluster.kill("b3")
    cluster.end_session("b3")
    cluster.run(5.0)

    found = explain.certificates(cluster.states["b1"], GROUP, cluster.now_ns)
    most = [h.most for each in found for h in each.holders if h.broker == "b3"]
    assert most == [100_000, announced]


def test_who_said_farewell_holds_nothing(cluster: Cluster) -> None:
    """It only finishes what is under way."""
    cluster.send("b3", DrainRequested())
    del cluster.states["b3"]
    cluster.run(5.0)

    assert certificate(cluster).most == LIMIT


def test_the_farewell_of_one_registration_is_not_that_of_the_next(cluster: Cluster) -> None:
    """The next one took its place in one view of the membership, and left without a word."""
    last = next(report for report in reversed(cluster.reports) if report.broker == "b3")
    over = replace(last, sequence=last.sequence + 1, groups=(), leaving=True)
    others = [each for each in cluster.states["b1"].members.values() if each.broker != "b3"]
    cluster.send("b1", UsageReportReceived(over))
    cluster.send("b1", MembersChanged((*others, Member("b3", last.incarnation + 1))))
    cluster.send("b1", MembersChanged(tuple(others)))

    assert basis_of(certificate(cluster), "b3") is Basis.DEPARTED


def test_a_departed_broker_that_stops_when_cut_off_counts_for_its_session_only() -> None:
    """Under the partition policy ``stop`` it lets nothing through in the end."""
    cluster = Cluster(limit=LIMIT, partition_policy="stop")
    cluster.settle(LIMIT, LIMIT, seconds=5.0)
    cluster.kill("b2")
    cluster.end_session("b2")
    cluster.run(2.0)
    assert basis_of(certificate(cluster), "b2") is Basis.DEPARTED
    cluster.run(3.0)
    assert [holder.broker for holder in certificate(cluster).holders] == ["b1"]


def test_a_lower_limit_counts_when_all_have_shown_that_they_know_it(cluster: Cluster) -> None:
    """Until all know it, one of them may still use the old limit."""
    cluster.version += 1
    cluster.limit = 1_500
    cluster.tell_group("b1")
    found = certificate(cluster)
    assert (found.limit, found.most) == (1_500, cluster.limit_of("b1") + 2_000)

    cluster.tell_group("b2")
    cluster.tell_group("b3")
    cluster.run(3.0)
    found = certificate(cluster)
    assert (found.limit, found.most) == (1_500, 1_500)


def test_a_group_that_was_deleted_and_made_anew_counts_as_a_changed_one(cluster: Cluster) -> None:
    """Until all know the new one, one of them may still use the old limit."""
    cluster.send("b1", GroupsChanged(()))
    cluster.version += 1
    cluster.limit = 1_500
    cluster.tell_group("b1")

    found = certificate(cluster)
    assert [holder.most for holder in found.holders if holder.broker != "b1"] == [LIMIT, LIMIT]


def test_of_many_changes_that_a_broker_has_not_shown_to_know_the_most_counts(
    cluster: Cluster,
) -> None:
    """It may go by any of them; what is remembered of them does not grow with their number."""
    for limit in (2_400, 2_000, 1_500):
        cluster.version += 1
        cluster.limit = limit
        cluster.tell_group("b1")

    found = certificate(cluster)
    assert (found.limit, found.most) == (1_500, cluster.limit_of("b1") + 2_000)
    (remembered,) = cluster.states["b1"].certifier._superseded[GROUP]
    assert remembered.limits == Rates(publish_messages=LIMIT)


def test_a_group_that_was_observed_is_certified_when_all_have_shown_that_they_enforce_it(
    cluster: Cluster,
) -> None:
    """Until then a broker may hold nothing back."""
    for enforcement, brokers in (("observe", ("b1", "b2", "b3")), ("enforce", ("b1",))):
        cluster.run(3.0)
        cluster.version += 1
        cluster.enforcement = enforcement
        for broker in brokers:
            cluster.tell_group(broker)
    found = certificate(cluster)
    assert found.most is None
    assert "may still only observe it" in found.sentence()

    cluster.tell_group("b2")
    cluster.tell_group("b3")
    cluster.run(8.0)
    assert certificate(cluster).most == LIMIT


def test_who_is_cut_off_from_zookeeper_certifies_nothing(cluster: Cluster) -> None:
    """Others may have come, and the limit may have been changed."""
    cluster.send("b1", ConnectionChanged(ConnectionState.SUSPENDED))

    found = certificate(cluster)
    assert found.most is None
    assert "cut off from ZooKeeper" in found.sentence()


def test_too_many_that_left_without_a_word_certify_nothing(cluster: Cluster) -> None:
    """Their memory is bounded, and what is forgotten cannot be added."""
    for number in range(MAX_DEPARTED + 1):
        cluster.start(f"x{number}", demand=0)
        cluster.kill(f"x{number}")
        cluster.end_session(f"x{number}")

    assert "too many brokers left" in certificate(cluster).sentence()


def test_eager_has_no_promise(cluster: Cluster) -> None:
    """Under eager no broker waits, so the certificate assumes C for every other broker."""
    cluster.version += 1
    cluster.policy = "eager"
    for broker in cluster.states:
        cluster.tell_group(broker)
    cluster.run(3.0)

    found = certificate(cluster)
    assert found.most == cluster.limit_of("b1") + 2 * LIMIT
    assert found.newcomer == LIMIT
    assert basis_of(found, "b2") is Basis.UNBOUND


def test_strict_is_the_limit_whatever_is_lost() -> None:
    """The books prove it, for silent brokers and for those that left."""
    cluster = Cluster(limit=LIMIT, policy="strict")
    cluster.settle(LIMIT, LIMIT, LIMIT, seconds=5.0)
    assert certificate(cluster).most == LIMIT

    cluster.deaf |= {"b1", "b2", "b3"}
    cluster.run(5.0)
    cluster.kill("b3")
    cluster.end_session("b3")
    assert certificate(cluster).most == LIMIT


def test_a_group_that_becomes_strict_is_certified_when_all_follow_the_books(
    cluster: Cluster,
) -> None:
    """Before that it is the sum of all announced limits, or more."""
    cluster.version += 1
    cluster.policy = "strict"
    cluster.tell_group("b1")
    assert certificate(cluster).most == cluster.limit_of("b1") + 2 * LIMIT
    cluster.tell_group("b2")
    cluster.tell_group("b3")
    cluster.run(5.0)

    assert certificate(cluster).most == LIMIT
