"""The trend of a backlog: its growth, and the time at which it reaches its quota at that growth.

A line is fitted to the last checks by least squares. Its slope is the growth; the standard error of the
slope gives a band of two standard errors to both sides, about 95 %. If the band includes slopes that
never reach the limit, there is no latest time. Fewer than `SAMPLES_MIN` checks, or checks at one moment,
give no trend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from coordinator.core.answer import answer

SAMPLES_MIN: Final = 3
"""A line through two points fits them exactly, so its error is unknown."""

_BAND: Final = 2.0


@dataclass(frozen=True, slots=True)
class Trend:
    """A line through the last checks.

    Args:
        per_s: growth per second.
        error_per_s: standard error of that.
        level: the value of the line at the last check.
    """

    per_s: float
    error_per_s: float
    level: float


@answer
class TimeUntil:
    """The time until a quota is reached, in seconds from now; null is never."""

    expected_s: float | None
    """if it goes on as in the last checks"""
    earliest_s: float | None
    """at the upper end of the band (95 %)"""
    latest_s: float | None
    """at its lower end"""


def fit(samples: Sequence[tuple[float, float]]) -> Trend | None:
    """Fit a trend to samples of (seconds, value); return None when they are too few."""
    count = len(samples)
    if count < SAMPLES_MIN:
        return None
    last_s = samples[-1][0]
    times = [time_s - last_s for time_s, _ in samples]
    mean_s = sum(times) / count
    mean = sum(value for _, value in samples) / count
    spread = sum((time_s - mean_s) ** 2 for time_s in times)
    if spread <= 0:
        return None
    slope = (
        sum((t - mean_s) * (value - mean) for t, (_, value) in zip(times, samples, strict=True))
        / spread
    )
    level = mean - slope * mean_s
    residual = sum(
        (value - level - slope * t) ** 2 for t, (_, value) in zip(times, samples, strict=True)
    )
    return Trend(slope, sqrt(residual / (count - 2) / spread), level)


def time_until(limit: float, value: float, trend: Trend) -> TimeUntil:
    """Return the time until a value that follows a trend reaches a limit."""
    missing = limit - value
    band = _BAND * trend.error_per_s
    return TimeUntil(
        _seconds(missing, trend.per_s),
        _seconds(missing, trend.per_s + band),
        _seconds(missing, trend.per_s - band),
    )


def _seconds(missing: float, per_s: float) -> float | None:
    if missing <= 0:
        return 0.0
    return missing / per_s if per_s > 0 else None
