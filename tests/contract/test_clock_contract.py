"""Clock: what every clock promises."""

from __future__ import annotations

import pytest

from coordinator.adapters.clock import MonotonicClock
from coordinator.ports import Clock
from tests.memory.surroundings import ManualClock


@pytest.mark.parametrize("clock", [MonotonicClock(), ManualClock()], ids=["monotonic", "manual"])
def test_time_never_goes_back(clock: Clock) -> None:
    """The one promise of a monotonic clock."""
    readings = [clock.now_ns() for _ in range(1000)]
    assert readings == sorted(readings)


def test_a_manual_clock_moves_when_told_and_only_forward() -> None:
    """Negative durations are a mistake of the test."""
    clock = ManualClock(5)
    clock.advance(10)
    assert clock.now_ns() == 15
    with pytest.raises(ValueError, match=">= 0"):
        clock.advance(-1)
    assert clock.now_ns() == 15
