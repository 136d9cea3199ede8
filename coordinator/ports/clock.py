"""The clock."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Monotonic time."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start; never goes back."""
