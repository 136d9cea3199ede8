"""Sees that more passes at a broker than its limiter would let: the limiter is not there.

A topic of Pulsar asks for its group's limiter when it is loaded, and when its namespace's policies
change. One that is loaded before its broker knows the group, as in the first seconds after the broker's
start, has none until the next change. The broker does not tell that; only its counters do.

The most that a limiter lets pass in a window of three intervals is a full bucket at each of up to four
recalculations, and its rate: less than `_MOST_PERMILLE` of the limit. Small limits are taken for `_LEAST`
a second, since Pulsar's least quota is 1. A lower limit, and a new record, take effect within
`_TAKEN_WITHIN_INTERVALS`, which are left out.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.model import NANOS_PER_SECOND

_MOST_PERMILLE: Final = 1_500
_LEAST: Final = 3
_LOWERED_PERMILLE: Final = 900
"""A limit that falls by less than this makes no difference to the bound."""

_WINDOW_INTERVALS: Final = 3
_TAKEN_WITHIN_INTERVALS: Final = 3


class Overflow:
    """One unit of one native group at this broker.

    Args:
        interval_s: of the topic.
    """

    __slots__ = (
        "_admitted",
        "_due",
        "_elapsed_ns",
        "_interval_ns",
        "_limit",
        "_settling_ns",
        "is_over",
    )

    def __init__(self, interval_s: int) -> None:
        self._interval_ns = interval_s * NANOS_PER_SECOND
        self._limit = 0
        self._admitted = self._due = self._elapsed_ns = 0
        #: Time until the broker has the limit for sure.
        self._settling_ns = 0
        #: Whether more passed in the last whole window than the limiter would let.
        self.is_over = False

    def count(self, admitted: int, limit: int | None, elapsed_ns: int) -> None:
        """Take a poll: the amount in a time at this limit; None is unlimited."""
        if limit is None:
            self._limit, self.is_over = 0, False
            return
        was, self._limit = self._limit, limit
        if not was or limit * 1000 < was * _LOWERED_PERMILLE:
            self.unsettle()
        if self._settling_ns > 0:
            self._settling_ns -= elapsed_ns
            return
        self._admitted += admitted
        self._due += max(limit, _LEAST) * elapsed_ns
        self._elapsed_ns += elapsed_ns
        if self._elapsed_ns < _WINDOW_INTERVALS * self._interval_ns:
            return
        self.is_over = self._admitted * NANOS_PER_SECOND * 1000 > self._due * _MOST_PERMILLE
        self._admitted = self._due = self._elapsed_ns = 0

    def unsettle(self) -> None:
        """Ignore the traffic of the next intervals, in which the broker may not have the limit yet."""
        self._admitted = self._due = self._elapsed_ns = 0
        self._settling_ns = _TAKEN_WITHIN_INTERVALS * self._interval_ns
