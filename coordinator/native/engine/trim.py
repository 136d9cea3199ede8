"""The trim: removes the excess of batches and many producers from a broker's entry.

The message that empties the bucket passes whole, and at each interval all waiting producers are released
at
once: up to one batch of each more than the quota. Only the broker's counters show the size of this
excess. While a producer waits all the time a broker should admit its limit, so the amount that it admits
over many intervals, divided by the limit, is the factor by which its entry is too high.

A measurement lasts until one lump more or less makes little difference, and starts when the broker has
had the limit for two intervals. The factor moves by at most a tenth each time, never above 1 and never
below `LEAST_PERMILLE`; the trimmed part goes into the rest, so that no other broker gets it.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.model import NANOS_PER_SECOND

LEAST_PERMILLE: Final = 700
WHOLE: Final = 1000

_NOISE_PERMILLE: Final = 10
"""A lump more in a look, or less; what is too little is taken for true, so that trims end."""

_STEP_PERMILLE: Final = 100
_INTERVALS: Final = 10
_LEAST_S: Final = 10


class Trim:
    """The factor of one unit of one native group at this broker.

    Args:
        interval_s: of the topic.
    """

    __slots__ = (
        "_admitted", "_due", "_elapsed_ns", "_interval_ns", "_limit", "_needed_ns", "_settling_ns",
        "permille",
    )  # fmt: skip

    def __init__(self, interval_s: int) -> None:
        self._interval_ns = interval_s * NANOS_PER_SECOND
        self._needed_ns = max(_LEAST_S, _INTERVALS * interval_s) * NANOS_PER_SECOND
        self._admitted = self._due = self._elapsed_ns = self._limit = 0
        #: Time until the broker has the limit for sure.
        self._settling_ns = 0
        #: Of what the limit asks for, in thousandths.
        self.permille = WHOLE

    def count(self, admitted: int, limit: int | None, elapsed_ns: int, *, held: bool) -> None:
        """Take a poll: the amount in a time at this limit, and whether a producer waited all of it."""
        if limit is None or _moved(self._limit, limit) or not held:
            self._limit = limit or 0
            self._start(settling_ns=2 * self._interval_ns)
            return
        if self._settling_ns > 0:
            self._settling_ns -= elapsed_ns
            return
        self._admitted += admitted
        self._due += limit * elapsed_ns
        self._elapsed_ns += elapsed_ns
        if self._elapsed_ns < self._needed_ns or not self._due:
            return
        over_permille = self._admitted * NANOS_PER_SECOND * WHOLE // self._due - WHOLE
        if over_permille < 0 or over_permille > _NOISE_PERMILLE:
            step = max(-_STEP_PERMILLE, min(_STEP_PERMILLE, over_permille))
            moved = self.permille * WHOLE // (WHOLE + step)
            self.permille = max(LEAST_PERMILLE, min(WHOLE, moved))
        self._start(settling_ns=2 * self._interval_ns)

    def unsettle(self) -> None:
        """Ignore the traffic of the next two intervals."""
        self._start(settling_ns=2 * self._interval_ns)

    def _start(self, settling_ns: int) -> None:
        self._admitted = self._due = self._elapsed_ns = 0
        self._settling_ns = settling_ns


def _moved(before: int, after: int) -> bool:
    return abs(after - before) * 100 > before
