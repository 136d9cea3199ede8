"""A sidecar tells which members are silent, by the length of their rounds."""

from __future__ import annotations

import pytest

from coordinator.core.events import MembersChanged, UsageReportReceived
from coordinator.core.model import NANOS_PER_SECOND, Member, UsageReport
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model import explain
from tests.core.cluster import GROUP, activate


@pytest.mark.parametrize(
    ("own_s", "its_s", "silent_after_s"), [(1, 1, 15), (1, 60, 180), (60, 1, 180), (5, 6, 18)]
)
def test_a_member_is_silent_after_three_rounds_and_15_s(
    own_s: int, its_s: int, silent_after_s: int
) -> None:
    """The longer rounds count where two sidecars have different ones."""
    state = CoordinatorState(CoreSettings(broker="b1", round_ns=own_s * NANOS_PER_SECOND))
    activate(state)
    state.handle(MembersChanged((Member("b1", 7), Member("b2", 8))), 0)

    def told(now_ns: int) -> tuple[int | None, bool]:
        _, other = explain.health(state, now_ns).members
        return other.report_age_ns, other.silent

    assert told(10**12) == (None, False)
    report = UsageReport(
        "b2", 8, sequence=1, elapsed_ns=its_s * NANOS_PER_SECOND, groups=(), complete=True
    )
    state.handle(UsageReportReceived(report), 0)

    assert told(limit_ns := silent_after_s * NANOS_PER_SECOND) == (limit_ns, False)
    assert told(limit_ns + 1) == (limit_ns + 1, True)


def test_a_member_that_was_not_heard_has_no_age_in_the_usage() -> None:
    """An age of 0 would say that its figures are of now."""
    state = CoordinatorState(CoreSettings(broker="b1"))
    activate(state)
    state.handle(MembersChanged((Member("b1", 7), Member("b2", 8))), 0)

    own, other = explain.group_view(state, GROUP, 10**12).brokers

    assert (own.report_age_ns, other.report_age_ns) == (0, None)
