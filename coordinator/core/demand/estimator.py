"""Estimate the demand of a broker, the rate that it would admit without its limit, as a band.

Backpressure hides demand: a client whose messages are held stops sending, so the admitted rate of a
throttled broker is only the *low* end of its demand. The queue at the gate does not show the rest either:
a client sends no more than its window and then waits, so the queue stops growing when demand is highest.
Time shows it. While no message is held, clients send as they like. In a round that was throttled for the
part h they therefore sent at least (1 - h) of their demand::

    admitted  <=  demand  <=  admitted / (1 - h)

That is the *high* end, ``demand`` in a report; the low end is the report's count and costs no extra byte.
Near h = 1 the high end has no bound, and a second of waiting proves little: a broker with four messages
per second and room for five waits for most of that second now and then. If it counted as unbounded, it
would get half of the cluster's limit without need. Where the demand was known, the high end is therefore
a *bounded probe*: at most twice the admitted rate, or, if throttled all the time, PROBE times the limit
in force, until STRONG messages have passed under throttling. After a probe that was enough, the demand
returns to its former value, or to the admitted rate if that is higher. The demand of a newcomer is
unknown: it is unbounded at once, and the newcomer has its fair share within a round. It remains a
newcomer until a whole round has shown its demand; the round in which it began does not, if it began to
wait just before its end. A broker without demand for a while is a newcomer again.

=====================================  ============================================================
limit used up, always throttled        unbounded, if STRONG messages passed or the demand is unknown;
                                       else PROBE times the limit
limit used up, throttled at times      at most twice the admitted rate, by the time throttled
limit not used up, always throttled    the former demand: see below
limit not used up, rate rose           the admitted rate and headroom: up at once
limit not used up, rate collapsed      the same: down at once, so that others get the free rate
limit not used up, rate fell less      noise: see below
=====================================  ============================================================

*The law takes the high end.* Only a broker that gets its highest possible demand can show its true one:
if its demand is lower, it leaves room unused and the next round knows the demand exactly; if it is
higher, it uses the room up and is probed again. The low end would keep a broker at its limit for ever,
since the limit determines it. The others lose no more than the probe, for one round.

*Throttled all the time with the limit not used up* says nothing about demand. While messages wait, tokens
pass at the limit, unless the gate stands still for longer than its bucket saves up. Reading this as less
demand would lower the limit; of the lower limit the same gate passes the same part, and producers that
wait all the time would end up with nothing. Where the demand was known, three such rounds start a probe:
a gate that always loses some tokens never uses its limit up and would otherwise stay at its old demand.

*Messages and bytes split together* (allocation/laws/joint.py): a producer that waits for bytes sends no
messages either, so during that wait the rate of the other unit is no demand. The estimate of such a unit
uses the waiting for both. Only its own waiting starts a probe, so a plentiful unit is not probed. A probe
of one unit is one of the other: from the two the law reads the proportion in which a broker uses both
limits, and two multiples of limits, one of which has room to spare, state another one. A broker that
passes too few messages to end the probe would keep it (meters.py: the mean message size decides).

*Hysteresis.* Each move of one estimate moves the limits of all others, so it must not follow noise. It
goes up at once. It goes down only at the end of a window of rounds, to the highest of them, and only if
that is lower by a margin. At constant demand it stands still, even if messages come at random: of
independent messages, n in a round on average, a round has n and a few times sqrt(n). A fall of a *little*
demand is therefore no collapse while four times that explains it, and a window lasts until some tens of
messages have come, at most half a minute of rounds. Otherwise a broker with one message a second would be
idle in every third round and a newcomer afterwards, and nine such brokers would hold half of a limit of
1,000. A demand of more than a little of the group's limit is free for others at once after a collapse,
however few messages it is.

*Headroom* learns how bursty the traffic is within a round. It doubles when a known demand turns out to be
throttled, and is halved when the estimate has held for a minute of rounds, or for twice as long after
every such mistake.

*Tried*: a margin for chance, twice sqrt(n) messages above the admitted rate, in place of headroom that is
learned. Unused margins of small demands add up: S2 never settles and uses 95.6 % of the limit, not 99.1.

The estimate is made where the traffic is and sent in the report, so that all brokers use the same one.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.settings import CoreSettings

PROBE: Final = 8
"""A known demand that turns out to be throttled is first taken as PROBE times the limit, then as
unbounded."""

STRONG: Final = 100
"""Messages that prove demand by passing under throttling; by chance, one message in ten waits that long
at its own rate."""

_STALLED_ROUNDS = 3
_USED_UP_PERMILLE = 950
_COLLAPSE_PERMILLE = 750
_NOISE_PERMILLE = 980
_WINDOW_ROUNDS = 5
_MOST_WINDOW_ROUNDS = 30
_WINDOW_MESSAGES = 64
"""Messages in a window; its number of rounds has a lower and an upper bound."""

_CHANCE = 4
"""Standard deviations of a Poisson count that are taken for chance."""

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
        #: Whether no whole round has shown its demand yet.
        self.is_new = True
        #: Rounds in a row throttled all the time with the limit not used up.
        self._stalled_rounds = 0
        #: The highest estimate of the present window and its messages, and how many rounds it has.
        self._peak = (0, 0)
        self._window_rounds = 0
        #: The messages of a round at this demand.
        self._basis = 0
        #: The demand up to which a fall may be delayed while messages are few.
        self._little = 0
        #: The known demand before the present probe; None if there is no probe.
        self._probed: tuple[int, int] | None = None
        #: The high end, per second; None is unbounded.
        self.demand: int | None = 0

    @property
    def is_probe(self) -> bool:
        """Return whether the demand is a multiple of the limit, and no estimate of traffic."""
        return self._probed is not None

    def observe(
        self,
        rate: int,
        held_permille: int,
        waited_permille: int,
        limit: int | None,
        messages: int,
        little: int,
        *,
        began: bool = False,
    ) -> None:
        """Learn from a round.

        Args:
            rate: the admitted rate, per second.
            held_permille: the part of the round throttled by this unit, in thousandths.
            waited_permille: the part of the round throttled by either unit, of two that are split
                together; otherwise the same.
            limit: the local limit in force, per second; None is unlimited.
            messages: the number of messages admitted.
            little: the demand, per second, that is small enough beside the group's limit to be kept
                for a while without loss to the others.
            began: whether the first participant appeared in this round, and began to wait just before
                its end.
        """
        self._little = little
        used_up = limit is not None and _used_up(rate, limit)
        with_headroom = _up(rate, 1000 + self._headroom_permille)
        if limit is not None and waited_permille >= self._settings.saturated_permille:
            self._stalled_rounds += held_permille >= self._settings.saturated_permille
            # One waiting message may be all that is missing of a small limit.
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
            self.is_new = self.demand == 0 or began

    def believes(self, messages: int) -> bool:
        """Return whether a few throttled counts with this number of messages are believed.

        A few messages do not overturn a demand that is known from whole rounds.
        """
        return self.is_new or not (self._known and self.demand) or messages >= STRONG

    def saturate(self, limit: int, messages: int) -> bool:
        """Note throttling without a break; return whether that changes the estimate.

        Args:
            limit: the local limit in force, per second; it was used up.
            messages: the number of messages that passed meanwhile.
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
        """Move up at once, after a collapse down at once, and otherwise down once a window."""
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
        """Return whether the fall exceeds the chance of messages that come at random."""
        assert self.demand is not None
        if estimate * 1000 >= self.demand * _COLLAPSE_PERMILLE:
            return False
        missing = max(0, self._basis - messages)
        return self.demand > self._little or missing**2 > _CHANCE**2 * self._basis

    def _rounds_needed(self) -> int:
        """Return the length of a window in rounds: the fewer messages, the longer."""
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
        """Widen the headroom if a known demand was throttled."""
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
