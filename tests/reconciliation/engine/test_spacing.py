"""Readings take a part of the time, and leave a broker alone that fails of them."""

from __future__ import annotations

import pytest

from coordinator.reconciliation.engine.spacing import AFTER_FAILURES_MAX_S, INTERVAL_MAX_S, Spacing


@pytest.mark.parametrize(
    ("took_s", "every_s"), [(0.01, 2.0), (0.2, 2.0), (0.5, 5.0), (9.0, INTERVAL_MAX_S)]
)
def test_readings_take_at_most_their_part_of_the_time(took_s: float, every_s: float) -> None:
    """Between the shortest interval and the longest."""
    spacing = Spacing(2.0, part=0.1)
    spacing.succeeded(took_s)
    assert spacing.every_s == every_s


def test_one_slow_reading_among_quick_ones_changes_nothing() -> None:
    """A busy machine makes a reading long, but not expensive."""
    spacing = Spacing(2.0, part=0.1)
    for took_s in (0.5, 3.0, 0.5):
        spacing.succeeded(took_s)
    assert spacing.every_s == 5.0


def test_each_failure_doubles_the_time_to_the_next_reading() -> None:
    """Up to a minute; the first success ends that."""
    spacing = Spacing(2.0, part=0.1)
    waits = []
    for _ in range(7):
        spacing.failed()
        waits.append(spacing.every_s)
    assert waits == [4.0, 8.0, 16.0, 32.0, *[AFTER_FAILURES_MAX_S] * 3]
    spacing.succeeded(0.1)
    assert spacing.every_s == 2.0
