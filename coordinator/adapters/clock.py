"""The monotonic clock of this host."""

from __future__ import annotations

import time


class MonotonicClock:
    """`coordinator.ports.Clock` on CLOCK_MONOTONIC, the clock that no operator and no NTP can set."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start; never goes back."""
        return time.monotonic_ns()
