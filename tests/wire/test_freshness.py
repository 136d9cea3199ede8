"""Old reports are told by the time that they were sent, whatever the difference of two clocks."""

from __future__ import annotations

import pytest

from coordinator.wire.freshness import REMEMBERED, Freshness

NOW_MS = 1_800_000_000_000


@pytest.mark.shows("pip-82/stale")
@pytest.mark.parametrize("clock_ms", [0, -3_600_000, 3_600_000])
def test_a_report_is_as_old_as_it_took_longer_than_the_quickest(clock_ms: int) -> None:
    """The difference of the clocks plays no part."""
    fresh = Freshness()
    delays = [30, 10, 2_000, 2_011, 9_000, 12]
    ages = [
        fresh.age_ms(NOW_MS + at * 1_000 + clock_ms, NOW_MS + at * 1_000 + delay)
        for at, delay in enumerate(delays)
    ]
    assert ages == [0, 0, 1_990, 2_001, 8_990, 2]


def test_a_clock_that_is_set_costs_a_few_reports_at_most() -> None:
    """Set back, its reports seem old until they are all that is remembered; set forward, none does."""
    fresh = Freshness()
    fresh.age_ms(NOW_MS, NOW_MS)
    ages = [fresh.age_ms(NOW_MS + at - 60_000, NOW_MS + at) for at in range(40)]
    assert ages == [60_000] * (REMEMBERED - 1) + [0] * (41 - REMEMBERED)
    assert fresh.age_ms(NOW_MS + 60_000, NOW_MS) == 0
