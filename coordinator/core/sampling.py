"""What the counts of a round tell of demand besides their sum: three views of one unit, and of both.

**Saturation shows before the round ends.** A broker whose producers waited, and whose limit was used up,
for all of the latest counts is believed at once. It may have been a burst: whoever sends all that it has
once a second uses its limit up for a while in every round. Whether it was shows in the next whole round,
and after each such *false alarm* twice as many counts are needed, up to more than a round has; after a
minute of rounds without one, half as many.

**Debt is use.** The gate lets a batch pass that is larger than its bucket, and the bucket owes it.
Nobody waits meanwhile and nothing passes, so that looks like no demand at all: the limit would go to
others, what is owed would be paid off at the rate of the reserve, and the next batch would wait for
seconds. What is paid in a round was used of its limit. So the bucket is mirrored here.

**What had waited is not demand.** Of a round in which clients only worked off what had waited since
before, what passed afterwards is what they want, if that was at least half of it: the whole of it would
be too high by what had waited.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from coordinator.core.model import NANOS_PER_SECOND, Traffic

_FEWEST_COUNTS: Final = 2
_MOST_COUNTS: Final = 32
_CALM_ROUNDS: Final = 60

_USED_UP_PERMILLE: Final = 800
"""Of a limit, over a few counts: less exact than over a round, since wakes fall between counts."""


class Count(NamedTuple):
    """What the gate counted of one unit.

    Args:
        admitted: how much passed.
        held_ns: for how long somebody waited for this unit.
        waited_ns: for how long for this one or the other, where they are split in one.
        elapsed_ns: since the last count.
        messages: that passed, whatever the unit.
    """

    admitted: int
    held_ns: int
    waited_ns: int
    elapsed_ns: int
    messages: int


class Alarm:
    """Saturation as the latest counts show it.

    Args:
        saturated_permille: of the time somebody has to wait, in thousandths.
    """

    __slots__ = ("_before", "_calm_rounds", "_limit", "_rang", "_recent", "_saturated_permille")

    def __init__(self, saturated_permille: int) -> None:
        self._saturated_permille = saturated_permille
        self._recent: deque[Count] = deque(maxlen=_FEWEST_COUNTS)
        #: Whether this round's counts were believed.
        self._rang = False
        #: The limit of which they said, and those of the round before, that it does not do.
        self._limit: int | None = None
        self._before: int | None = None
        self._calm_rounds = 0

    @property
    def messages(self) -> int:
        """How many passed in the counts that it goes by."""
        return sum(count.messages for count in self._recent)

    def add(self, count: Count) -> None:
        """The latest count."""
        self._recent.append(count)

    def shows(self, limit: int) -> bool:
        """Whether somebody waited, and the limit was used up, for all of the latest counts."""
        if len(self._recent) < (self._recent.maxlen or 0):
            return False
        admitted, _, waited_ns, elapsed_ns, _ = map(sum, zip(*self._recent, strict=True))
        if waited_ns * 1000 < elapsed_ns * self._saturated_permille:
            return False
        # One more, since a limit of a few per second admits nothing in most counts.
        return (admitted + 1) * NANOS_PER_SECOND * 1000 >= limit * elapsed_ns * _USED_UP_PERMILLE

    def ring(self, limit: int | None) -> None:
        """This round's counts are believed: the limit does not do; None is that it cannot be judged."""
        self._rang = True
        self._limit = limit

    def close_round(self, rate: int, waited_permille: int) -> bool:
        """Learn from a whole round whether the alarm before it was false; tell whether this had one."""
        limit, self._before, self._limit = self._before, self._limit, None
        rang, self._rang = self._rang, False
        needed = self._recent.maxlen or _FEWEST_COUNTS
        self._calm_rounds += 1
        if limit is not None and rate <= limit and waited_permille < self._saturated_permille:
            self._need(min(_MOST_COUNTS, 2 * needed))
        elif self._calm_rounds >= _CALM_ROUNDS:
            self._need(max(_FEWEST_COUNTS, needed // 2))
        return rang

    def _need(self, counts: int) -> None:
        self._calm_rounds = 0
        self._recent = deque(self._recent, maxlen=counts)


class Debt:
    """What passed at once and is not paid for yet, as the gate's bucket has it.

    Args:
        burst_ns: what a bucket saves up, as time at its rate.
    """

    __slots__ = ("_burst_ns", "_owed", "_payable", "_tokens")

    def __init__(self, burst_ns: int) -> None:
        self._burst_ns = burst_ns
        # All in billionths of a token: in the bucket, what could be paid in this round, and what was
        # owed when it began.
        self._tokens = self._payable = self._owed = 0

    def count(self, admitted: int, elapsed_ns: int, limit: int) -> None:
        """So much passed of a limit per second, in so long."""
        fresh = limit * elapsed_ns
        self._payable += fresh
        burst = max(NANOS_PER_SECOND, limit * self._burst_ns)  # as at the gate, at least one token
        self._tokens = min(self._tokens, burst) + fresh - admitted * NANOS_PER_SECOND

    def forgive(self) -> None:
        """Nothing is held back any more."""
        self._tokens = self._payable = self._owed = 0

    def close_round(self, passed: int) -> int:
        """How much of the limit was used in the round in which so much passed."""
        paid = min(self._payable, self._owed + passed * NANOS_PER_SECOND) // NANOS_PER_SECOND
        self._owed = max(0, -self._tokens)
        self._payable = 0
        return max(passed, paid)


class Afterwards:
    """What passed after the waiting that a round began with, if there was none again.

    Of both units together: who waits for tokens of the one sends nothing of the other either.
    """

    __slots__ = ("_began_waiting", "_bytes", "_elapsed_ns", "_messages", "_waited_last")

    def __init__(self) -> None:
        self._waited_last = self._began_waiting = False
        self._messages = self._bytes = self._elapsed_ns = 0

    def count(self, traffic: Traffic, elapsed_ns: int) -> None:
        """Add one count."""
        self._waited_last = bool(traffic.messages_held_ns or traffic.bytes_held_ns)
        if not self._waited_last:
            self._messages += traffic.messages
            self._bytes += traffic.bytes
            self._elapsed_ns += elapsed_ns
        elif self._elapsed_ns:
            self._began_waiting = False  # what waits now did not wait since before the round

    def close_round(self, round_ns: int) -> tuple[int | None, int | None]:
        """Messages and bytes per second, None when they say less than the whole round; then a new one."""
        rates: tuple[int | None, int | None] = None, None
        if self._began_waiting and 2 * self._elapsed_ns >= round_ns:
            rates = (
                self._messages * NANOS_PER_SECOND // self._elapsed_ns,
                self._bytes * NANOS_PER_SECOND // self._elapsed_ns,
            )
        self._began_waiting = self._waited_last
        self._messages = self._bytes = self._elapsed_ns = 0
        return rates
