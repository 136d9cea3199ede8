"""More than the broker's limiter would let pass is seen; what it does let pass is not."""

from __future__ import annotations

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.overflow import Overflow

S = NANOS_PER_SECOND


def after(overflow: Overflow, seconds: int, admitted: float, limit: int | None) -> bool:
    """Return whether it is over after this time, with this many messages and this limit per second."""
    for _ in range(2 * seconds):
        overflow.count(round(admitted / 2), limit, S // 2)
    return overflow.is_over


def test_a_broker_without_a_limiter_is_seen_after_two_windows() -> None:
    """The first one may be of the time before the broker has the limit."""
    overflow = Overflow(1)
    assert not after(overflow, 5, 2_000, 1_000)
    assert after(overflow, 1, 2_000, 1_000)
    assert not after(overflow, 3, 1_000, 1_000)


@pytest.mark.parametrize("interval_s", [1, 5, 10])
def test_the_most_that_a_limiter_lets_pass_is_not_over(interval_s: int) -> None:
    """Four full buckets of the quota within a window, and the quota itself."""
    overflow = Overflow(interval_s)
    quota = 1_000 * interval_s // (interval_s + 1)
    most = (4 * quota + 3 * interval_s * quota) / (3 * interval_s)
    assert not after(overflow, 12 * interval_s, most, 1_000)


def test_pulsars_least_quota_is_not_over() -> None:
    """Of a limit of 1 a second, 2 pass at an interval of 1 s."""
    assert not after(Overflow(1), 12, 2, 1)


def test_a_limit_that_is_lowered_is_given_three_intervals() -> None:
    """One that falls bit by bit does not put the next look off."""
    overflow = Overflow(1)
    assert not after(overflow, 9, 2_000, 2_000)
    assert not after(overflow, 3, 2_000, 1_000)
    assert not after(overflow, 2, 2_000, 1_000)
    assert after(overflow, 1, 2_000, 1_000)
    for limit in range(1_000, 900, -5):
        overflow.count(1_000, limit, S // 2)
    assert overflow.is_over


def test_after_a_new_record_three_intervals_are_left_out() -> None:
    """A broker lets the whole record pass until its next interval."""
    overflow = Overflow(1)
    after(overflow, 6, 1_000, 1_000)
    overflow.unsettle()
    assert not after(overflow, 3, 9_000, 1_000)
    assert not after(overflow, 3, 1_000, 1_000)


def test_without_a_limit_nothing_is_over() -> None:
    """This holds at the first poll after the limit was taken away."""
    overflow = Overflow(1)
    assert after(overflow, 6, 2_000, 1_000)
    assert not after(overflow, 1, 2_000, None)
