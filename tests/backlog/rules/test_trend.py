"""The trend predicts how a backlog grows."""

from __future__ import annotations

import random

import pytest

from coordinator.backlog.rules.trend import SAMPLES_MIN, Trend, fit, time_until


def test_a_straight_line_is_found_without_error() -> None:
    """Where it stands is where it stands at the last sample."""
    trend = fit([(at, 5.0 * at + 3) for at in (0.0, 10.0, 20.0, 30.0)])
    assert trend is not None
    assert (trend.per_s, trend.level) == pytest.approx((5.0, 153.0))
    assert trend.error_per_s == pytest.approx(0.0, abs=1e-9)


def test_too_few_samples_or_samples_of_one_moment_say_nothing() -> None:
    """No trend is better than a wrong one."""
    assert fit([(float(at), 1.0) for at in range(SAMPLES_MIN - 1)]) is None
    assert fit([(1.0, float(value)) for value in range(5)]) is None


def test_the_band_holds_the_true_slope_nearly_always() -> None:
    """Of 400 noisy lines, about 95 % have their slope within two standard errors."""
    within = 0
    for seed in range(400):
        dice = random.Random(seed)
        trend = fit([(at * 10.0, at * 30.0 + dice.gauss(0, 40)) for at in range(20)])
        assert trend is not None
        within += abs(trend.per_s - 3.0) <= 2 * trend.error_per_s
    assert 0.90 <= within / 400 <= 0.99, f"of seeds 0 to 399: {within}"


def test_a_limit_is_reached_earlier_or_later_by_the_band() -> None:
    """10 a second, give or take 2, and 100 to go."""
    until = time_until(200, 100, Trend(10.0, 1.0, 100.0))
    assert until.expected_s == 10.0
    assert until.earliest_s == pytest.approx(100 / 12)
    assert until.latest_s == pytest.approx(100 / 8)


def test_what_may_shrink_may_never_reach_its_limit() -> None:
    """None is never; who is over the limit already is there now."""
    assert time_until(200, 100, Trend(1.0, 1.0, 100.0)).latest_s is None
    assert time_until(200, 100, Trend(-1.0, 0.1, 100.0)).expected_s is None
    assert time_until(50, 100, Trend(-1.0, 0.1, 100.0)).expected_s == 0.0
