"""Sidecars report what changed, and recover from reports that are lost."""

import pytest

from coordinator.core.events import GroupsChanged
from coordinator.core.instructions import PublishUsageReport
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import (
    NANOS_PER_SECOND,
    Dimension,
    MonitoringClass,
    Rates,
    ResourceGroup,
    UsageReport,
)
from coordinator.core.reports.reporting import MANY
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic
from tests.core.cluster import GROUP, Cluster, activate, count

PUBLISH = MonitoringClass.PUBLISH


@pytest.mark.shows("pip-82/little-traffic", "pip-82/change-threshold", "pip-82/every-n-rounds")
def test_with_nothing_new_reports_are_empty_but_for_a_few(cluster: Cluster) -> None:
    """Suppression of large reports: at constant demand only complete reports name a group."""
    cluster.small_report_entries = 0
    cluster.complete_report_rounds = 5
    cluster.settle(5000, 5000, seconds=8)
    before = len(cluster.reports)
    cluster.run(50)
    reports = cluster.reports[before:]

    assert len(reports) == 2 * 50
    assert [report for report in reports if report.groups and not report.complete] == []
    assert sum(report.complete for report in reports) == 2 * 50 / 5


def test_a_sidecar_that_missed_a_change_of_a_large_report_asks_for_it(cluster: Cluster) -> None:
    """This holds when every repeat was lost, and long before a complete report is due."""
    cluster.small_report_entries = 0
    cluster.settle(5000, 5000, seconds=5)
    cluster.want("b1", 300)
    cluster.deaf = {"b2"}
    cluster.run(5)
    assert cluster.limit_of("b2") == 1500
    cluster.deaf = set()
    cluster.run(4)

    assert cluster.limit_of("b2") > 2600
    assert cluster.states["b2"].usage.is_current("b1", cluster.now_ns)


def test_a_group_that_is_gone_is_not_remembered_by_others(cluster: Cluster) -> None:
    """After the deletion the broker sends a complete report without the group."""
    cluster.small_report_entries = 0
    cluster.settle(5000, 5000, seconds=5)
    before = len(cluster.reports)
    cluster.send("b1", GroupsChanged(()))
    cluster.run(1.1)

    assert any(report.complete for report in cluster.reports[before:] if report.broker == "b1")


def test_a_part_that_has_ended_is_told_of_in_three_rounds_and_then_no_more(
    cluster: Cluster,
) -> None:
    """Two of the reports may get lost; after them nothing is kept of it."""
    cluster.small_report_entries = 0
    cluster.settle(5000, 5000, seconds=5)
    cluster.want("b1", 0)
    told = []
    for _ in range(5):
        before = len(cluster.reports)
        cluster.run(1)
        own = [report for report in cluster.reports[before:] if report.broker == "b1"]
        told.append(any(entry.group == GROUP for report in own for entry in report.groups))
    assert told == [True, True, True, False, False]


def test_a_repeat_says_the_same_rate_whatever_time_its_report_covers() -> None:
    """The receiver needs only one of the reports."""
    state = CoordinatorState(CoreSettings(broker="b1", small_report_entries=0))
    activate(state)
    rates, now_ns = [], 0
    for elapsed_ms, messages in *[(1_000, 1_000)] * 9, (1_000, 1_100), (1_040, 1_100):
        now_ns += elapsed_ms * 1_000_000
        traffic = Traffic(GROUP, PUBLISH, messages=messages, participants=1)
        count(state, (traffic,), now_ns)
        row = state.usage.row("b1", GROUP, PUBLISH)
        assert row is not None
        rates.append(row.rate_of(Dimension.PUBLISH_MESSAGES))

    assert rates == [1_000] * 9 + [1_100] * 2


def test_a_small_report_is_always_complete(cluster: Cluster) -> None:
    """The next report that arrives repairs every loss."""
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


def test_one_lost_report_degrades_no_sidecar_and_is_healed(cluster: Cluster) -> None:
    """The next rounds repeat every change; no sidecar becomes DEGRADED."""
    cluster.settle(5000, 5000)
    cluster.deaf = {"b1"}
    cluster.want("b1", 300)
    cluster.run(1)
    cluster.deaf = set()
    cluster.run(2.2)

    assert cluster.limit_of("b2") > 2600
    assert cluster.states["b2"].lifecycle is Lifecycle.ACTIVE


@pytest.mark.parametrize(("moving", "is_complete"), [(MANY, False), (MANY + 1, True)])
def test_a_report_of_many_changes_is_complete_if_most_groups_changed(
    moving: int, is_complete: bool
) -> None:
    """The rows of any other report are taken one by one."""
    state = CoordinatorState(CoreSettings("b1"))
    activate(state)
    names = [f"group-{number}" for number in range(2 * MANY)]
    groups = tuple(
        ResourceGroup(name, Rates(publish_messages=10**9), configuration_version=at)
        for at, name in enumerate(names, 1)
    )
    state.handle(GroupsChanged(groups), 0)
    reports: list[UsageReport] = []
    for round_ in range(1, 12):
        counts = (1_000 if at >= moving or round_ < 11 else 2_000 for at in range(len(names)))
        traffic = tuple(
            Traffic(name, PUBLISH, count, count, participants=1)
            for name, count in zip(names, counts, strict=True)
        )
        told = count(state, traffic, round_ * NANOS_PER_SECOND)
        reports += [each.report for each in told if isinstance(each, PublishUsageReport)]

    assert not reports[-2].complete
    assert reports[-1].complete is is_complete
    assert len(reports[-1].groups) == (len(names) if is_complete else moving)
