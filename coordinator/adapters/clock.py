"""The clocks of this host."""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Return milliseconds of the epoch, by the clock that operators and NTP set."""
    return time.time_ns() // 1_000_000


class MonotonicClock:
    """`coordinator.ports.Clock` on CLOCK_MONOTONIC, the clock that no operator and no NTP can set."""

    def now_ns(self) -> int:
        """Return nanoseconds since an arbitrary start; never goes back."""
        return time.monotonic_ns()
