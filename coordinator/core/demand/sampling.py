"""Signs of demand in the single counts of a round: saturation, and the rate after waiting.

**Saturation shows before the round ends.** A broker that was throttled, with its limit used up, for all
of the latest time is believed at once. It may have been a burst: a client that flushes once a second uses
the limit up for a while in every round. The next whole round shows which it was. After each such *false
alarm* twice the time is needed, up to more than a round; after a minute of rounds without a false alarm,
half the time. Time is what counts, and not the number of counts, so that counts that come late, or more
often, prove neither more nor less.

**A backlog that has waited is not demand.** If clients spent a round working off messages that had waited
since before, the rate after that shows their demand, provided that it covers at least half of the round:
the rate of the whole round would be too high by the backlog.

*Tried*: the arrivals of the whole round, which are what passed less what had waited when it began. S2
settles in one round and not two (balanced), but a demand that falls within a round counts with what came
before the fall: S10 settles at worst in four rounds (balanced) and three (strict), and not in two.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.traffic import Traffic

_LEAST_NS: Final = 100_000_000
"""Two of the gate's usual counts: one alone may be chance."""

_MOST_NS: Final = 16 * _LEAST_NS

_JITTER_NS: Final = 25_000_000
"""Half a usual count, by which the latest counts may be shorter all together."""

_CALM_ROUNDS: Final = 60

_USED_UP_PERMILLE: Final = 800
"""The part of a limit that counts as used up, over a few counts: less exact than over a round, since
wakes fall between counts."""


class Count(NamedTuple):
    """The gate's count of one unit.

    Args:
        admitted: the amount that passed.
        held_ns: the time throttled by this unit.
        waited_ns: the time throttled by this one or the other, where they are split together.
        elapsed_ns: since the last count.
        messages: that passed, whatever the unit.
        owed: the tokens used in advance and not paid for yet.
    """

    admitted: int
    held_ns: int
    waited_ns: int
    elapsed_ns: int
    messages: int
    owed: int


class SaturationDetector:
    """Saturation as the latest counts show it.

    Args:
        saturated_permille: the throttled part of the time that counts as saturated, in thousandths.
    """

    __slots__ = (
        "_before", "_calm_rounds", "_covered_ns", "_limit", "_needed_ns", "_rang", "_recent",
        "_saturated_permille",
    )  # fmt: skip

    def __init__(self, saturated_permille: int) -> None:
        self._saturated_permille = saturated_permille
        self._needed_ns = _LEAST_NS
        #: The fewest latest counts that cover the time needed, and the time that they cover.
        self._recent: deque[Count] = deque()
        self._covered_ns = 0
        #: Whether this round's counts were believed.
        self._rang = False
        #: The limit that they, and those of the round before, showed to be too low.
        self._limit: int | None = None
        self._before: int | None = None
        self._calm_rounds = 0

    @property
    def messages(self) -> int:
        """Return the number of messages in the latest counts."""
        return sum(count.messages for count in self._recent)

    @property
    def waits(self) -> bool:
        """Return whether all of the latest count's time was throttled, by whatever limit.

        A limit that was raised for a newcomer may be in force later than it is told, as at a broker
        without a gate.
        """
        last = self._recent[-1]
        return last.waited_ns * 1000 >= last.elapsed_ns * self._saturated_permille

    def add(self, count: Count) -> None:
        """Add the latest count."""
        self._recent.append(count)
        self._covered_ns += count.elapsed_ns
        while self._is_covered(self._covered_ns - self._recent[0].elapsed_ns):
            self._covered_ns -= self._recent.popleft().elapsed_ns

    def shows(self, limit: int) -> bool:
        """Return whether all of the latest time was throttled, with the limit used up."""
        if not self._is_covered(self._covered_ns):
            return False
        admitted, _, waited_ns, elapsed_ns, *_ = map(sum, zip(*self._recent, strict=True))
        if waited_ns * 1000 < elapsed_ns * self._saturated_permille:
            return False
        # One more, since a limit of a few per second admits nothing in most counts.
        return (admitted + 1) * NANOS_PER_SECOND * 1000 >= limit * elapsed_ns * _USED_UP_PERMILLE

    def is_too_short(self, waited_ns: int) -> bool:
        """Return whether waiting for this time, if any, is less than what shows saturation."""
        return waited_ns > 0 and not self._is_covered(waited_ns)

    def ring(self, limit: int | None) -> None:
        """Believe this round's counts: the limit is too low; None means that it cannot be judged."""
        self._rang = True
        self._limit = limit

    def close_round(self, rate: int, waited_permille: int) -> bool:
        """Check the previous alarm against a whole round; return whether this round had an alarm."""
        limit, self._before, self._limit = self._before, self._limit, None
        rang, self._rang = self._rang, False
        self._calm_rounds += 1
        if limit is not None and rate <= limit and waited_permille < self._saturated_permille:
            self._need(min(_MOST_NS, 2 * self._needed_ns))
        elif self._calm_rounds >= _CALM_ROUNDS:
            self._need(max(_LEAST_NS, self._needed_ns // 2))
        return rang

    def _need(self, time_ns: int) -> None:
        self._calm_rounds = 0
        self._needed_ns = time_ns

    def _is_covered(self, time_ns: int) -> bool:
        return time_ns >= self._needed_ns - _JITTER_NS


class PostBacklogRate:
    """The rate after the waiting that a round began with, if there was no further waiting.

    It covers both units together: a producer that waits for tokens of one sends nothing of the
    other either.
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
            self._began_waiting = False  # the present wait did not begin before the round

    def close_round(self, round_ns: int) -> tuple[int | None, int | None]:
        """Return messages and bytes per second, None if they say less than the whole round; restart."""
        rates: tuple[int | None, int | None] = None, None
        if self._began_waiting and 2 * self._elapsed_ns >= round_ns:
            rates = (
                self._messages * NANOS_PER_SECOND // self._elapsed_ns,
                self._bytes * NANOS_PER_SECOND // self._elapsed_ns,
            )
        self._began_waiting = self._waited_last
        self._messages = self._bytes = self._elapsed_ns = 0
        return rates
