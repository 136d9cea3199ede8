"""The time from one reading of a broker's counters to the next.

A reading takes the broker some milliseconds of processor, more with more topics. So readings are so far
apart that they take at most a part of the time, between the shortest interval and `INTERVAL_MAX_S`, with
which the window of an account (account.py) still has four readings.

A reading that fails may be what the broker fails of: its answer with 10,000 topics is 45 MB, for which a
broker of little memory has no room. So each failure doubles the time to the next reading, up to
`AFTER_FAILURES_MAX_S`; the first that succeeds ends that.
"""

from __future__ import annotations

from collections import deque
from typing import Final

INTERVAL_MAX_S: Final = 30.0
AFTER_FAILURES_MAX_S: Final = 60.0
_READINGS_JUDGED: Final = 8


class Spacing:
    """The distance of one broker's readings in time.

    Args:
        interval_s: the shortest time from one reading to the next.
        part: the part of the time that readings may take.
    """

    def __init__(self, interval_s: float, part: float) -> None:
        self._interval_s = interval_s
        self._part = part
        self._took_s: deque[float] = deque(maxlen=_READINGS_JUDGED)
        #: Seconds from the beginning of the last reading to that of the next.
        self.every_s = interval_s

    def succeeded(self, took_s: float) -> None:
        """Take into account how many seconds a reading took."""
        self._took_s.append(took_s)
        # The shortest of several: a busy machine makes a reading long, but not expensive.
        due_s = min(self._took_s) / self._part
        self.every_s = max(self._interval_s, min(INTERVAL_MAX_S, due_s))

    def failed(self) -> None:
        """Take into account that a reading failed."""
        self.every_s = min(AFTER_FAILURES_MAX_S, 2 * self.every_s)
