"""No report counts without ZooKeeper's word, and no number in it breaks the core.

The reports are made by hand, pass the real encoding and decoding, and reach real cores (cluster.py).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.core.events import UsageReportReceived as Received
from coordinator.core.model import (
    MAX_COUNT,
    Account,
    Closure,
    Dimension,
    EscrowStatement,
    GroupUsage,
    MonitoringClass,
    Parts,
    Usage,
    UsageReport,
    ViewDigest,
)
from coordinator.insight.model import explain
from coordinator.wire.fields import BadReport
from coordinator.wire.reports import decode, encode
from tests.core.cluster import GROUP, SECOND_NS, Cluster

LIMIT = 3000
VERSION = 7
NAMES = {VERSION: GROUP, 8: "unknown here"}


def cluster_of(*brokers: str, policy: str = "balanced", demand: int = LIMIT) -> Cluster:
    """Sidecars that share the limit."""
    cluster = Cluster(limit=LIMIT, policy=policy, version=VERSION)
    for broker in brokers:
        cluster.start(broker, demand=demand)
    cluster.run(3.0)
    return cluster


def farewell(broker: str, incarnation: int, sequence: int = 1) -> UsageReport:
    """Return a report that takes no part any more."""
    return UsageReport(broker, incarnation, sequence, SECOND_NS, (), complete=True, leaving=True)


FORGED = {
    "a later registration": farewell("b2", 2**62),
    "the next registration": farewell("b2", 99),
    "an earlier registration": farewell("b2", 1),
    "a stranger": farewell("b9", 2**62),
    "a stranger that wants everything": UsageReport(
        "b9", 5, 1, SECOND_NS,
        (GroupUsage(GROUP, VERSION, {MonitoringClass.PUBLISH: Usage(
            messages=10**6, messages_demand=None, messages_limit=10**6, messages_ceiling=10**6,
            participants=9, topics=9,
        )}),),
        complete=True, learning=True, asks=("b1", "b2"), waiting=True, answers={1: 2**62, 2: 2**62},
    ),
}  # fmt: skip


@pytest.mark.parametrize("policy", ["balanced", "eager", "strict"])
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_report_that_zookeeper_does_not_vouch_for_changes_nothing(
    forged: UsageReport, policy: str
) -> None:
    """Two clusters go the same way, step by step, one of which is flooded with forged reports."""
    left_alone = cluster_of("b1", "b2", "b3", policy=policy)
    flooded = cluster_of("b1", "b2", "b3", policy=policy)
    for step in range(100):
        for broker in flooded.states:
            report = replace(forged, sequence=forged.sequence + step)
            flooded.send(broker, Received(report))
        left_alone.run(0.05)
        flooded.run(0.05)
        for broker in flooded.states:
            assert flooded.limit_of(broker) == left_alone.limit_of(broker)

    assert flooded.reports == left_alone.reports
    for broker, state in flooded.states.items():
        # What bears the own name is dropped before it is looked at.
        assert sum(state.reports_dropped.values()) == (0 if broker == forged.broker else 100)
        assert not state.degradations
        assert not state.plausibility.times_capped
    flooded.validate()


@pytest.mark.parametrize(
    "lie",
    [
        lambda report: replace(report, leaving=True, groups=()),
        lambda report: replace(report, groups=(), complete=True),
        lambda report: replace(report, elapsed_ns=1),
        lambda report: replace(report, elapsed_ns=2**62),
        lambda report: replace(report, elapsed_ns=0),
        lambda report: replace(report, answers=dict.fromkeys(report.answers, 2**62)),
        lambda report: replace(report, learning=True, asks=("b1", "b2", "b3")),
    ],
)
def test_who_lies_with_its_own_key_takes_nothing_from_the_others(lie: object) -> None:
    """Each of the others keeps an equal part, and together they keep to the limit."""
    cluster = cluster_of("b1", "b2", "b3")
    cluster.distort["b3"] = lie  # type: ignore[assignment]
    for _ in range(60):
        cluster.run(1.0)
        honest = [cluster.limit_of("b1"), cluster.limit_of("b2")]
        assert min(honest) >= LIMIT // 3 - 1
        assert sum(honest) <= LIMIT
    cluster.validate()


EXTREMES = st.sampled_from([0, 1, 2, 999, 2**31, 2**32, 2**53, 2**62, MAX_COUNT])
COUNTS = EXTREMES | st.integers(0, MAX_COUNT)
SMALL = st.sampled_from([0, 1, 2**31, 2**32 - 1])
PERMILLES = st.integers(0, 1000)
BROKERS = st.sampled_from(["b1", "b2", "b3", "b9", "x" * 255])
PARTS = st.tuples(COUNTS, COUNTS, COUNTS, COUNTS)
ACCOUNTS = st.builds(Account, BROKERS, st.integers(0, 4) | COUNTS)
USAGES = st.builds(
    Usage,
    messages=COUNTS,
    bytes=COUNTS,
    messages_throttled_permille=PERMILLES,
    bytes_throttled_permille=PERMILLES,
    messages_demand=st.none() | COUNTS,
    bytes_demand=st.none() | COUNTS,
    messages_limit=st.none() | COUNTS,
    bytes_limit=st.none() | COUNTS,
    messages_ceiling=st.none() | COUNTS,
    bytes_ceiling=st.none() | COUNTS,
    participants=SMALL,
    topics=SMALL,
    message_size=COUNTS,
)


def statement(group: str, generation: int, version: int, holding: Parts) -> EscrowStatement:
    """Return a claim about the books, with a grant and a closure for every account."""
    accounts = [Account(f"b{number}", number) for number in range(1, 4)]
    return EscrowStatement(
        group,
        generation,
        version,
        holding,
        dict.fromkeys(accounts, holding),
        {Account("b3", 2**62): Closure(holding, holding)},
    )


REPORTS = st.builds(
    UsageReport,
    broker=st.sampled_from(["b2", "b3"]),
    incarnation=st.integers(1, 4) | COUNTS,
    sequence=COUNTS,
    elapsed_ns=COUNTS,
    groups=st.tuples(
        st.builds(
            GroupUsage,
            st.just(GROUP),
            st.just(VERSION),
            st.dictionaries(st.sampled_from(MonitoringClass), USAGES, min_size=1),
        )
    )
    | st.just(()),
    since=COUNTS,
    named=st.booleans(),
    complete=st.booleans(),
    learning=st.booleans(),
    leaving=st.booleans(),
    asks=st.lists(BROKERS, max_size=3).map(tuple),
    escrow=st.lists(
        st.builds(statement, st.just(GROUP), st.integers(0, 2), st.integers(0, 2), PARTS),
        max_size=2,
    ).map(tuple),
    view=st.none() | st.builds(ViewDigest, SMALL, SMALL, SMALL),
    bus_silent=st.booleans(),
    waiting=st.booleans(),
    answers=st.dictionaries(COUNTS, COUNTS, max_size=3),
)


@pytest.mark.parametrize("policy", ["balanced", "eager", "strict"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(said=st.lists(st.tuples(REPORTS, st.booleans()), min_size=1, max_size=12))
def test_no_report_breaks_a_core(policy: str, said: list[tuple[UsageReport, bool]]) -> None:
    """It goes on, its limits stay within the group's, and each request gets an answer."""
    cluster = cluster_of("b1", "b2", "b3", policy=policy, demand=LIMIT // 2)
    for report, as_member in said:
        if as_member:
            member = cluster.states["b1"].members[report.broker]
            _, newest = cluster.states["b1"].usage.newest(report.broker)
            newer = min(newest + 1 + report.sequence, MAX_COUNT)
            report = replace(report, incarnation=member.incarnation, sequence=newer)  # noqa: PLW2901
        try:
            arrived = decode(encode(report), NAMES)
        except BadReport:
            continue
        cluster.send("b1", Received(arrived))
        cluster.run(0.05)
    cluster.run(1.0)

    cluster.validate()
    assert 0 <= cluster.limit_of("b1") <= LIMIT
    state = cluster.states["b1"]
    explain.health(state, cluster.now_ns)
    explain.group_view(state, GROUP, cluster.now_ns)
    explain.certificates(state, GROUP, cluster.now_ns)
    for dimension in Dimension:
        for broker in state.members:
            explain.explain(state, GROUP, dimension, broker, cluster.now_ns)
