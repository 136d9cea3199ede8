"""The totals count since the start."""

from __future__ import annotations

from coordinator.core.model import MonitoringClass
from coordinator.core.traffic import Traffic
from coordinator.insight.shell.totals import TrafficTotal, TrafficTotals

PUBLISH, DISPATCH = MonitoringClass


def test_differences_add_up_by_group_and_class() -> None:
    """A group without counts has zero."""
    totals = TrafficTotals()
    for _ in range(3):
        totals.add([Traffic("a", PUBLISH, 1, 20, 300, 4_000), Traffic("a", DISPATCH, messages=5)])

    assert totals.of("a", PUBLISH) == TrafficTotal(3, 60, 900, 12_000)
    assert totals.of("a", DISPATCH) == TrafficTotal(messages=15)
    assert totals.of("b", PUBLISH) == TrafficTotal()


def test_groups_that_are_gone_are_forgotten() -> None:
    """So there are never more totals than groups; a new one of the same name begins at zero."""
    totals = TrafficTotals()
    totals.add([Traffic("a", PUBLISH, 1), Traffic("b", PUBLISH, 1)])

    totals.keep({"b"})

    assert totals.of("a", PUBLISH) == TrafficTotal()
    assert totals.of("b", PUBLISH) == TrafficTotal(messages=1)
