"""The trim: a factor of a broker's entry, so that what the broker admits is its limit.

*Batches* make it admit more. The message that empties the bucket passes whole, and at each interval all
waiting producers are released at once: up to one batch of each more than the quota. Three producers with
batches of 50 on each of three brokers passed 7.8 % more than 3,000/s on 4.2.4, and 1.1 % with the trim.

*Waiting* makes it admit less. Producers that wait look for tokens every 15 ms or so, and what the bucket
holds as an interval ends is lost: three saturated brokers of 4.2.4 passed 99.2 % of 3,000/s.

Only the broker's counters show either. While a producer waits all the time a broker should admit its
limit, so what it admits over some intervals beyond what the limit asks for is taken out of its entry, and
what it admits less is added.

A broker admits a full bucket as an interval begins, which is a second of its quota, and its quota for
each second after. So in a time T the limit asks for ``quota * (beginnings + T)``, and a time of n and a
half intervals has n or n + 1 beginnings. A poll shows the beginnings in it by what it counted beyond the
quota of its time, in whole buckets. Where all polls of a measurement together show a possible number, a
few intervals are enough. Where producers offer little more than the limit buckets empty slowly, and polls
show none: then it takes many intervals, in which a beginning more or less makes little difference.

A measurement starts when the broker has had the limit for two intervals. For an excess the factor moves
by at most a fifth each time, which is more than three batches of 50 of a limit of 1,000, and never below
`LEAST_PERMILLE`; the trimmed part goes into the rest, so that no other broker gets it. The excess is a
number of batches in each interval, whatever the limit or the entry is: so it is subtracted, not divided
by, and when the limit moves, the factor moves so that as much as before is taken out.

A loss is a part of the limit, and one beginning taken for two looks like one of a twentieth. So what is
less than `_LOSS_MOST_PERMILLE` is a loss, if all beginnings are known and `_EXACT` messages were counted;
for it the factor moves by at most half a percent each time, and never above `MOST_PERMILLE`. Clients that
want a little less than their limit can have it moved there, too: a hundredth too much then passes once
they want more, until the next measurement.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND

LEAST_PERMILLE: Final = 700
WHOLE: Final = 1000
MOST_PERMILLE: Final = 1010
"""The bounds of the factor, and the factor of a broker that admits its limit."""

_LOSS_MOST_PERMILLE: Final = 20
_LOSS_STEP_PERMILLE: Final = 5
_EXACT: Final = 4_000
"""Messages, or bytes, of which a few that move into a measurement or out of it are a thousandth."""

_NOISE_PERMILLE: Final = 10
"""A batch more in a look, or less; what is too little is taken for true, so that trims end."""

_NOISE: Final = 2
"""Messages, or bytes, that turns (turns.py) move into a measurement or out of it. One goes on until they
are within the noise, so that small limits are not trimmed for them."""

_STEP_PERMILLE: Final = 200
_INTERVALS: Final = 4
"""Of a measurement in which each beginning of an interval was seen."""

_MANY_INTERVALS: Final = 10


class Trim:
    """The factor of one unit of one native group at this broker.

    Args:
        interval_s: of the topic.
    """

    __slots__ = (
        "_admitted", "_beginnings", "_elapsed_ns", "_interval_ns", "_limit", "_settling_ns",
        "permille",
    )  # fmt: skip

    def __init__(self, interval_s: int) -> None:
        self._interval_ns = interval_s * NANOS_PER_SECOND
        self._admitted = self._beginnings = self._elapsed_ns = self._limit = 0
        #: Time until the broker has the limit for sure.
        self._settling_ns = 0
        #: Of what the limit asks for, in thousandths.
        self.permille = WHOLE

    def count(self, admitted: int, limit: int | None, elapsed_ns: int, *, held: bool) -> None:
        """Take a poll: the amount in a time at this limit, and whether a producer waited all of it."""
        if limit is not None and _moved(self._limit, limit):
            self._follow(limit)
            self.unsettle()
            return
        if limit is None or not held:
            self.unsettle()
            return
        if self._settling_ns > 0:
            self._settling_ns -= elapsed_ns
            return
        self._admitted += admitted
        self._beginnings += self._seen(admitted, limit, elapsed_ns)
        self._elapsed_ns += elapsed_ns
        asked = self._asked(limit)
        if asked * _NOISE_PERMILLE < _NOISE * WHOLE:
            return
        over_permille = round(self._admitted * WHOLE / asked) - WHOLE
        is_little = -_LOSS_MOST_PERMILLE <= over_permille <= _NOISE_PERMILLE
        if self.permille < WHOLE or not is_little:
            self._take_out(over_permille)
        elif self._are_beginnings_known():
            if asked < _EXACT:
                return  # the measurement goes on
            self._make_up(over_permille)
        self.unsettle()

    def _take_out(self, over_permille: int) -> None:
        """Take an excess out, or put back what was taken out for one."""
        if over_permille < 0 or over_permille > _NOISE_PERMILLE:
            step = max(-_STEP_PERMILLE, min(_STEP_PERMILLE, over_permille))
            most = max(WHOLE, self.permille)
            self.permille = max(LEAST_PERMILLE, min(most, self.permille - step))

    def _make_up(self, over_permille: int) -> None:
        """Make up for what is lost, as far as it still is."""
        step = max(-_LOSS_STEP_PERMILLE, min(_LOSS_STEP_PERMILLE, over_permille))
        self.permille = max(WHOLE, min(MOST_PERMILLE, self.permille - step))

    def _seen(self, admitted: int, limit: int, elapsed_ns: int) -> int:
        """Return how many intervals began in the time of a poll: the full buckets that it counted."""
        quota = Fraction(self.permille, WHOLE) * self._quota(limit)
        if not quota:
            return 0
        buckets = admitted / quota - Fraction(elapsed_ns, NANOS_PER_SECOND)
        return max(0, min(round(buckets), elapsed_ns // self._interval_ns + 1))

    def _asked(self, limit: int) -> Fraction:
        """Return what the limit asked for so far; 0 if that is not known yet."""
        intervals = self._elapsed_ns // self._interval_ns
        elapsed_s = Fraction(self._elapsed_ns, NANOS_PER_SECOND)
        if self._are_beginnings_known():
            return self._quota(limit) * (self._beginnings + elapsed_s)
        return limit * elapsed_s if intervals >= _MANY_INTERVALS else Fraction()

    def _are_beginnings_known(self) -> bool:
        """Return whether all polls together show a possible number of them, in enough intervals."""
        intervals = self._elapsed_ns // self._interval_ns
        return intervals >= _INTERVALS and intervals <= self._beginnings <= intervals + 1

    def _quota(self, limit: int) -> Fraction:
        """Return the quota per second with which a broker admits a limit; of turns it is the mean."""
        return Fraction(limit * self._interval_ns, self._interval_ns + NANOS_PER_SECOND)

    def _follow(self, limit: int) -> None:
        """Take out of a new limit as much as of the old one."""
        if self.permille < WHOLE:
            taken_out = self._limit * (WHOLE - self.permille)
            self.permille = max(LEAST_PERMILLE, WHOLE - taken_out // max(1, limit))
        self._limit = limit

    def unsettle(self) -> None:
        """Begin a measurement, after the next two intervals."""
        self._admitted = self._beginnings = self._elapsed_ns = 0
        self._settling_ns = 2 * self._interval_ns


def _moved(before: int, after: int) -> bool:
    return abs(after - before) * 100 > before
