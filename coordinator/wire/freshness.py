"""The age of a sender's reports by the time that it sent them, without a common clock.

A report tells the time of its sender's clock. The difference to the receiver's clock is the delay of the
report and the difference of both clocks, which stays the same from report to report. So the smallest
difference among a sender's last reports is taken for no delay at all, and a report is as old as its
difference exceeds that one.

A report can therefore be older than found here by the delay of the quickest one. The first report has
nothing to be compared with, and is new.
"""

from __future__ import annotations

from collections import deque
from typing import Final

REMEMBERED: Final = 16
"""Reports that a report is compared with."""


class Freshness:
    """Tells the age of one sender's reports."""

    __slots__ = ("_differences",)

    def __init__(self) -> None:
        self._differences: deque[int] = deque(maxlen=REMEMBERED)

    def age_ms(self, sent_ms: int, now_ms: int) -> int:
        """Return the age of a report that has just arrived; remember its difference of times."""
        self._differences.append(now_ms - sent_ms)
        return self._differences[-1] - min(self._differences)
