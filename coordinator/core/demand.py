"""What a broker would admit without its limit, as a band: at the least, and at the most.

Backpressure hides demand: a client whose messages are held stops sending, so a throttled broker's
admitted rate is the *low* end of what it wants, and nobody sees the rest. Nor does the queue at the gate
show it: a client sends no more than its window ahead and then waits, so the queue stops growing when
demand is highest. What shows is time. While nobody is held, clients send as they like, so in a round of
which the part h was held they sent at least (1 - h) of what they want::

    admitted  <=  demand  <=  admitted / (1 - h)

That is the *high* end, ``demand`` in a report; the low end is the report's count, and costs no byte. Near
h = 1 it has no end, and a second of waiting proves little: a broker with four messages per second and
room for five waits for most of it now and then. Taken for unbounded it would get half of the cluster's
limit for nothing. So where the demand was known, the high end is a *bounded probe*: at most twice what
was admitted, or, held all the time, PROBE times the limit in force, until STRONG messages have passed
while somebody waited. After a probe that was enough the demand is what it was before, or what passed if
that is more. Of a newcomer nothing is known: it is unbounded at once, and has its fair share within a
round. It is one until a whole round has shown what it wants; the one in which it began does not. Who has
wanted nothing for a while is a newcomer again.

=====================================  ============================================================
limit used up, held all the time       unbounded, if STRONG messages passed or nothing is known of it;
                                       else PROBE times the limit
limit used up, held now and then       at the most twice what it admitted, by the time it was held
limit not used up, held all the time   what it was: see below
limit not used up, rate rose           what it admitted and headroom: up at once
limit not used up, rate collapsed      the same: down at once, so that others get what is free
limit not used up, rate fell less      that is noise: see below
=====================================  ============================================================

*The law takes the high end.* To be given the most that one may want is the only way to find out: who
wanted less leaves room unused, and the next round knows its demand exactly; who wanted more uses it up,
and is probed on. The low end would keep a broker where it is for ever, since that is what its limit
makes it. Others lose no more by it than the probe, for a round.

*Held all the time, and yet the limit not used up* says nothing of demand. While somebody waits, tokens
pass at the limit, unless the gate stands still for longer than its bucket saves up. Whoever took that for
less demand would lower the limit, of a lower limit the same gate passes the same part, and producers who
wait all the time would end up with nothing. Where the demand was known, three such rounds are a probe: a
gate that always loses some of its tokens never uses its limit up, and would keep the little that it once
wanted.

*Messages and bytes split in one* (laws/joint.py): who waits for bytes sends no messages either, so while
somebody waits for the one, what passes of the other is no demand. Such a unit learns from the waiting for
both. Only its own waiting makes a probe: what is plentiful is not asked for.

*Hysteresis.* Each move of one estimate moves the limits of all others, so it must not follow noise. It
goes up at once; it goes down only at the end of a window of rounds, to the highest of them, and only if
that is lower by more than a little. At constant demand it does not move, also if messages come at random:
of messages that come independently of each other, n in a round on the average, a round has n and a few
times sqrt(n). So of a *little* demand it is no collapse while four times that would explain what is
missing, and a window is as long as it takes for some tens of messages to come, at most half a minute of
rounds. Otherwise who sends one message a second would be idle in every third round and a newcomer
afterwards, and nine such brokers would hold half of a limit of 1,000. What is more than a little of the
group's limit is free for others at once, however few messages it is.
*Headroom* learns how bursty the traffic is within a round: it doubles when a demand that was thought to
be known turns out to be throttled, and is halved when the estimate has held for a minute of rounds, or
for twice as long after every such mistake.

The estimate is made where the traffic is and sent in the report, so that all brokers use the same.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.settings import CoreSettings

PROBE: Final = 8
"""A known demand that turns out to be throttled is taken as so many times the limit, then unbounded."""

STRONG: Final = 100
"""Messages that passed while somebody waited; by chance one in ten waits that long at its own rate."""

_STALLED_ROUNDS = 3
_USED_UP_PERMILLE = 950
_COLLAPSE_PERMILLE = 750
_NOISE_PERMILLE = 980
_WINDOW_ROUNDS = 5
_MOST_WINDOW_ROUNDS = 30
_WINDOW_MESSAGES = 64
"""A window is as long as so many messages take, but never shorter or longer than that."""

_CHANCE = 4
"""So many standard deviations of a Poisson count are chance."""

_MOST_HEADROOM_PERMILLE = 250
_CALM_ROUNDS = 60
_MOST_CALM_ROUNDS = 960


class DemandEstimate:
    """The demand for one unit of one group and class at this broker."""

    __slots__ = (
        "_basis", "_calm_needed", "_calm_rounds", "_headroom_permille", "_known", "_little",
        "_peak", "_probed", "_settings", "_stalled_rounds", "_window_rounds", "demand", "is_new",
    )  # fmt: skip

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        self._headroom_permille = settings.headroom_permille
        #: Rounds since the last mistake, or since the headroom was halved; and how many halve it.
        self._calm_rounds = 0
        self._calm_needed = _CALM_ROUNDS
        #: Whether the latest estimate was of traffic that was not throttled.
        self._known = False
        #: Whether no whole round has shown yet what it wants.
        self.is_new = True
        #: Rounds in a row in which somebody waited all the time and the limit was not used up.
        self._stalled_rounds = 0
        #: The highest estimate of the present window and its messages, and how many rounds it has.
        self._peak = (0, 0)
        self._window_rounds = 0
        #: How many messages a round has at this demand.
        self._basis = 0
        #: Up to which demand few messages may be kept for a while.
        self._little = 0
        #: What was known before a probe, if it is one.
        self._probed: tuple[int, int] | None = None
        #: The high end, per second; None is unbounded.
        self.demand: int | None = 0

    def observe(
        self,
        rate: int,
        held_permille: int,
        waited_permille: int,
        limit: int | None,
        messages: int,
        little: int,
    ) -> None:
        """Learn from a round.

        Args:
            rate: what was admitted, per second.
            held_permille: for how much of the round somebody waited for this unit, in thousandths.
            waited_permille: for how much somebody waited for either unit, of two that are split in one;
                otherwise the same.
            limit: the local limit in force, per second; None is unlimited.
            messages: how many messages were admitted.
            little: a demand up to this, per second, is so small a part of the group's limit that nobody
                misses it if it is kept for a while.
        """
        self._little = little
        used_up = limit is not None and _used_up(rate, limit)
        with_headroom = _up(rate, 1000 + self._headroom_permille)
        if limit is not None and waited_permille >= self._settings.saturated_permille:
            self._stalled_rounds += held_permille >= self._settings.saturated_permille
            # Whoever waits for its next message may be all that is missing of a small limit.
            one = rate // max(1, messages)
            stalled = self._stalled_rounds >= _STALLED_ROUNDS
            if _used_up(rate + one, limit) or self.is_new or stalled:
                self.saturate(limit, messages)
            elif self.demand is not None:
                self._start_window(max(self.demand, with_headroom), max(self._basis, messages))
            return
        self._stalled_rounds = 0
        if used_up and waited_permille >= self._settings.throttled_permille:
            self._mistaken()
            sent_permille = max(500, 1000 - waited_permille)
            most = -(-with_headroom * 1000 // sent_permille)
            self._follow(most, messages * 1000 // sent_permille)
            return
        self._known = True
        self._calm_down()
        self._follow(with_headroom, messages)
        if not used_up or not waited_permille:
            self.is_new = self.demand == 0

    def believes(self, messages: int) -> bool:
        """Whether a few counts of waiting, in which so many messages passed, are to be believed.

        What is known from whole rounds is not overturned by a few messages.
        """
        return self.is_new or not (self._known and self.demand) or messages >= STRONG

    def saturate(self, limit: int, messages: int) -> bool:
        """Somebody waited all the time; tell whether that is news.

        Args:
            limit: the local limit in force, per second; it was used up.
            messages: how many messages passed meanwhile.
        """
        before = self.demand
        if before is None:
            return False
        known = before > 0 and not self.is_new
        if known:
            self._mistaken()
        probe = PROBE * max(1, limit) if known and messages < STRONG else None
        if probe is not None and probe <= before:
            return False
        probed = self._probed or (before, self._basis)
        self._start_window(probe, self._basis)
        self._probed = None if probe is None else probed
        return True

    def _follow(self, estimate: int, messages: int) -> None:
        """Up at once, a collapse at once, and otherwise down once a window."""
        if self._probed is not None:
            self._start_window(*max(self._probed, (estimate, messages)))
            return
        before = self.demand
        if before is None or estimate > before or self._collapses(estimate, messages):
            self._start_window(estimate, messages)
            return
        self._peak = max(self._peak, (estimate, messages))
        self._window_rounds += 1
        if self._window_rounds < self._rounds_needed():
            return
        lower = self._peak[0] * 1000 < before * _NOISE_PERMILLE
        self._start_window(*(self._peak if lower else (before, self._basis)))

    def _collapses(self, estimate: int, messages: int) -> bool:
        """Whether it fell by more than messages that come at random do now and then."""
        assert self.demand is not None
        if estimate * 1000 >= self.demand * _COLLAPSE_PERMILLE:
            return False
        missing = max(0, self._basis - messages)
        return self.demand > self._little or missing**2 > _CHANCE**2 * self._basis

    def _rounds_needed(self) -> int:
        """How many rounds a window has: the fewer messages, the longer."""
        assert self.demand is not None
        if self.demand > self._little:
            return _WINDOW_ROUNDS
        rounds = _WINDOW_MESSAGES // max(1, self._basis)
        return min(_MOST_WINDOW_ROUNDS, max(_WINDOW_ROUNDS, rounds))

    def _start_window(self, demand: int | None, basis: int) -> None:
        self.demand = demand
        self._basis = basis
        self._probed = None
        self._peak = (0, 0)
        self._window_rounds = 0

    def _mistaken(self) -> None:
        """It is throttled; if its demand was thought to be known, it needs more headroom."""
        if self._known:
            self._headroom_permille = min(_MOST_HEADROOM_PERMILLE, 2 * self._headroom_permille)
            self._calm_needed = min(_MOST_CALM_ROUNDS, 2 * self._calm_needed)
        self._known = False
        self._calm_rounds = 0

    def _calm_down(self) -> None:
        self._calm_rounds += 1
        if self._calm_rounds < self._calm_needed:
            return
        self._calm_rounds = 0
        least = self._settings.headroom_permille
        self._headroom_permille = max(least, self._headroom_permille // 2)
        if self._headroom_permille == least:
            self._calm_needed = _CALM_ROUNDS


def _used_up(rate: int, limit: int) -> bool:
    return rate * 1000 >= limit * _USED_UP_PERMILLE


def _up(value: int, permille: int) -> int:
    return -(-value * permille // 1000)
