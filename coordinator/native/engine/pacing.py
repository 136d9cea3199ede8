"""From polls to the even counts that the core expects.

The core closes rounds, and takes the amount that a round admitted and the time for which producers waited
in it. A broker is polled a few times a second at most, and a saturated one admits in lumps: a full bucket
at the start of each interval, its rate for the rest. Whether a round holds one lump or two is chance, so
a poll's count is handed out bit by bit.

*Waiting*: clients with a demand below the limit never empty the bucket. So where publishing was throttled
and an interval of polls used the limit up, a producer waits all the time. Where less was used, a poll
that admitted at least the rate of the quota alone (``kappa`` of the limit) shows that the limit
held it, for 20 ms each time, or until the next message at less than 50 a second; if it admitted less,
some other limiter throttled.

*Presumed to wait* are clients of which no poll has shown more yet: for `_PRESUMED_INTERVALS` and a second
after the first producer connected, and after the last poll that showed waiting. A broker that holds the
reserve of a newcomer shows at most that, and its limit reaches it an interval after its demand is known;
one that stands still for half a second shows no demand at all. The core takes waiting without use for no
news of a known demand, and for an unbounded one of a newcomer. Without it, in the simulated story of the
demo, the second broker that starts has 81 of 1,500/s in its third second, and one broker that stands
still for half a second has all others' limits change twice: shares swing between 300 and 2,700 of 1,500.

*While a producer waits all the time* the traffic that passes is the limit, lump or not, so the limit is
handed out and the difference to the counts is made up for over a few intervals. No message is lost or
added in the end.

*Otherwise* a poll's count is handed out over the time to the next poll.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND

_PAUSE_NS: Final = 20_000_000
_QUOTA_PERMILLE: Final = 900
"""Fraction of the quota alone; a broker that admits less was throttled for another reason."""

_USED_UP_PERMILLE: Final = 750
"""Fraction of a limit over an interval of polls: a slightly longer window still holds one full bucket."""

_TAKEN_WITHIN_INTERVALS: Final = 3
"""A broker takes a limit at its next interval, and later where its own report came in between."""

_PRESUMED_INTERVALS: Final = 2
_PRESUMED_NS: Final = 1_000_000_000

_MADE_UP_INTERVALS: Final = 4
_POLLS_MAX: Final = 1_000
_LIMITS_MAX: Final = 256
_ALWAYS_PERMILLE: Final = 900


class Pacer:
    """One unit of one native group at this broker.

    Args:
        interval_s: of the topic.
    """

    __slots__ = (
        "_fraction", "_limit", "_limits", "_owed", "_polls", "_presumed_until_ns", "_rate",
        "_shown_permille", "_taken_ns", "held_permille", "interval_s",
    )  # fmt: skip

    def __init__(self, interval_s: int) -> None:
        self.interval_s = interval_s
        #: Counted and not handed out yet; a value below 0 was handed out in advance.
        self._owed = 0
        #: The rate handed out per second when no producer waits all the time.
        self._rate = 0
        self._fraction = 0
        #: The part of the last poll for which it shows that a producer waited for this limit.
        self._shown_permille = 0
        self._presumed_until_ns = 0
        #: The same or, while a producer is presumed to wait, all of it; in thousandths.
        self.held_permille = 0
        self._taken_ns: int | None = None
        #: Limits and when they were told: one reaches the broker's limiter within some intervals.
        self._limits: deque[tuple[int, int | None]] = deque(maxlen=_LIMITS_MAX)
        #: The rate handed out while a producer waits all the time.
        self._limit: int | None = None
        #: The counts of the latest polls and the time between them; an interval of polls.
        self._polls: deque[tuple[int, int]] = deque(maxlen=_POLLS_MAX)

    @property
    def is_held(self) -> bool:
        """Whether the last poll shows that a producer waits for the limit all the time."""
        return self._shown_permille >= _ALWAYS_PERMILLE

    @property
    def rate(self) -> int:
        """The rate that passes per second, by the last poll."""
        return self._rate

    def presume(self, now_ns: int) -> None:
        """Presume for a while that a producer waits for the limit."""
        presumed_ns = _PRESUMED_INTERVALS * self.interval_s * NANOS_PER_SECOND + _PRESUMED_NS
        self._presumed_until_ns = now_ns + presumed_ns
        self.held_permille = 1000

    def wait(self) -> None:
        """Take the news that a client waits for the limit, whatever the last poll showed."""
        self.held_permille = 1000

    def dismiss(self) -> None:
        """Presume nothing any more, as when no producer is connected."""
        self._presumed_until_ns = 0

    def set_limit(self, limit: int | None, now_ns: int, *, told: int | None = None) -> None:
        """Take the limit in force, per second, and the value told to the broker if that is less."""
        self._limit = limit
        least = limit if told is None else told
        if not self._limits or self._limits[-1][1] != least:
            self._limits.append((now_ns, least))

    def count(
        self, amount: int, throttles: int, elapsed_ns: int, now_ns: int, *, unsure: bool = False
    ) -> None:
        """Take the counts since the last poll.

        Args:
            amount: the amount that passed.
            throttles: how often it was throttled.
            elapsed_ns: since the last poll.
            now_ns: the time.
            unsure: there may have been more throttles; then producers that waited still do.
        """
        self._owed += amount
        shown = self._shown(amount, throttles, elapsed_ns, now_ns, unsure=unsure)
        self._shown_permille = self.held_permille = shown
        if self.is_held:
            self.presume(now_ns)
        elif now_ns < self._presumed_until_ns:
            self.held_permille = 1000
        limit = self._limit
        if limit is not None:
            # A limit change or a lump leaves little behind; more is a mistake of the polls.
            bound = 2 * limit * self.interval_s
            self._owed = max(-bound, self._owed)
        self._rate = max(0, self._owed) * NANOS_PER_SECOND // max(1, elapsed_ns)

    def take(self, now_ns: int) -> tuple[int, int]:
        """Return the amount and the waiting time to report since the last call."""
        elapsed_ns = 0 if self._taken_ns is None else now_ns - self._taken_ns
        self._taken_ns = now_ns
        limit = self._limit
        if self.is_held and limit is not None:
            rate = max(0, limit + self._owed // (_MADE_UP_INTERVALS * self.interval_s))
        elif self._owed > 0:
            rate = self._rate
        else:
            rate = 0
        nanos = rate * elapsed_ns + self._fraction
        amount, self._fraction = divmod(nanos, NANOS_PER_SECOND)
        if not self.is_held:
            amount = min(amount, max(0, self._owed))
        self._owed -= amount
        return amount, elapsed_ns * self.held_permille // 1000

    def _shown(
        self, amount: int, throttles: int, elapsed_ns: int, now_ns: int, *, unsure: bool
    ) -> int:
        limit = self._lowest_limit(now_ns - elapsed_ns)
        used, over_ns = self._look_back(amount, elapsed_ns)
        if not (throttles or unsure) or limit is None or elapsed_ns <= 0:
            return 0
        if used * NANOS_PER_SECOND * 1000 >= limit * over_ns * _USED_UP_PERMILLE:
            return 1000
        quota = limit * self.interval_s // (self.interval_s + 1)
        # One more, since of few a second a poll may see none.
        if (amount + 1) * NANOS_PER_SECOND * 1000 < quota * elapsed_ns * _QUOTA_PERMILLE:
            return 0
        pause_ns = max(_PAUSE_NS, NANOS_PER_SECOND // max(1, quota))
        held = min(1000, throttles * pause_ns * 1000 // elapsed_ns)
        return max(held, self._shown_permille) if unsure else held

    def _look_back(self, amount: int, elapsed_ns: int) -> tuple[int, int]:
        """Return the amount of the last interval, by whole polls, and its length."""
        self._polls.append((amount, elapsed_ns))
        used = over_ns = 0
        for number, (passed, took_ns) in enumerate(reversed(self._polls), 1):
            used += passed
            over_ns += took_ns
            if over_ns >= self.interval_s * NANOS_PER_SECOND:
                while len(self._polls) > number:
                    self._polls.popleft()
                break
        return used, over_ns

    def _lowest_limit(self, since_ns: int) -> int | None:
        """Return the lowest limit that the broker's limiter may have had since then."""
        since_ns -= _TAKEN_WITHIN_INTERVALS * self.interval_s * NANOS_PER_SECOND
        while len(self._limits) > 1 and self._limits[1][0] <= since_ns:
            self._limits.popleft()
        told = [limit for _, limit in self._limits if limit is not None]
        return min(told, default=None)
