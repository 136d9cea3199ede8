"""The wall clock at moments of the monotonic clock.

A count ends when the sidecar takes its event, by the monotonic clock; the wall clock is read after the
core has handled it. On a busy machine the process may wait for a processor in between, for tens of
milliseconds: that much traffic would go to the next second, which would hold more than a second's, as if
the limit had been exceeded.

A wait only adds to the difference of the two clocks, so the least one is the truest. The difference may
grow by ``DRIFT_PPM`` of the time that passes, as fast as a clock is slewed; what grows faster is a wait.
A clock that is set back is followed at once, and so is one that is set forward by ``SET_NS`` or more, as
after a suspension.
"""

from __future__ import annotations

from coordinator.core.model import NANOS_PER_SECOND

DRIFT_PPM = 500
"""The most by which NTP slews a clock, in parts of a million."""
SET_NS = NANOS_PER_SECOND // 2
"""A difference that grows by more than this at once is no wait, but a clock that was set."""

_MILLION = 1_000_000


class SteadyClock:
    """Tells the wall clock's time of counts."""

    __slots__ = ("_difference_ns", "_told_ns")

    def __init__(self) -> None:
        self._difference_ns: int | None = None
        self._told_ns = 0

    def at(self, now_ns: int, wall_ns: int) -> int:
        """Return the wall clock's time at a moment of the monotonic clock.

        Args:
            now_ns: the moment; never before that of the call before.
            wall_ns: the wall clock, read at that moment or a little later.
        """
        found_ns = wall_ns - now_ns
        known_ns = found_ns if self._difference_ns is None else self._difference_ns
        drift_ns = (now_ns - self._told_ns) * DRIFT_PPM // _MILLION
        self._told_ns = now_ns
        waited = known_ns + drift_ns < found_ns < known_ns + SET_NS
        self._difference_ns = known_ns + drift_ns if waited else found_ns
        return now_ns + self._difference_ns
