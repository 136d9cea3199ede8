"""The figures of a run, computed from its recording and from nothing else.

Words, for a limit C, N participants, what broker i admits u_i and its exact max-min share a*_i:

- *Window*: one second, sliding. Rates are linear between samples, so every extreme lies in a window that
  begins or ends at a sample; these are all the windows that are looked at.
- *Round*: a report interval, one second; rounds stand back to back.
- *Settled*: the first moment since the event was known from which on, until the next event happens, every
  round has every participant within 5 % of C/N of its share. None if there is none. Where messages come
  in batches that are more than that, longer rounds are looked at (`round_s`).
- *Steady*: the second half of an act in whole rounds, whether anything has settled or not. A limiter that
  lets a part pass as each of its seconds begins would be off by such a part in any other time, and is by
  a piece of one where a round begins just then. Of twenty moments within the second before, from which
  these rounds are counted, the median is taken.
- *Highest round*: the highest of the rounds that stand back to back since the event was known, over the
  limit, less one: what a counter that is read once a second shows. It depends on the moment of the first
  reading where a limiter lets a part pass as each of its own seconds begins: rounds that begin just then
  hold two such parts or none. Of twenty such moments within a second, the median is taken; the worst of
  them is near the peak. The second after the moment at which a limit was lowered is excepted. *Later
  round*: the same without the second in which the event became known.
- An act's windows end with the last samples that its participants have before the next event, since of
  a broker that is killed nothing is known after its own.
- *Error*: what all brokers together admit while steady, over the sum of the shares, less one.
- *Peak*: the highest window of all over the limit in force during that window, less one. Windows that
  overlap the second after the moment at which a limit was lowered are excepted, nothing else.
- *Jain* and *smallest share*: of x_i = u_i / a*_i, with u_i the mean while steady.
- *Reclaim*: from the kill to the start of the first window with 99 % of the limit, if the ten seconds
  from there on have no less. A burst alone is no reclaim, nor does the noise of one sample undo it.
- *Waited*: the most of a window in which a process that wanted its turn got none from this machine. It
  changes no other figure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf
from statistics import fmean

from coordinator.core.allocation.laws import Claim, max_min
from deploy.demo.curves import Curve, curves, rate_of, total
from deploy.demo.dispatch_figures import DispatchFigures, dispatch_figures
from deploy.demo.recording import Act, DemoRecording, LimitChange, Wait
from deploy.demo.shares import WINDOW_S, jain, median_from

#: Of C/N, how far a settled broker may be off its share; and the part of a window that is as much.
SETTLED_WITHIN = 0.05
_RECLAIMED_AT = 0.99
_KEPT_FOR_S = 10.0


@dataclass(frozen=True, slots=True)
class ActFigures:
    """One act in figures; times in seconds, the others are shares of 1."""

    event: str
    title: str
    limit: int
    settle_s: float | None
    peak: float
    highest_round: float
    later_round: float
    jain: float
    min_share: float
    error: float
    waited_s: float


@dataclass(frozen=True, slots=True)
class DemoFigures:
    """A run in figures: each act, the worst of them all, the reclaim time in seconds, and dispatch."""

    acts: tuple[ActFigures, ...]
    limit: int
    aggregate_mean: float
    aggregate_error: float
    peak: float
    jain: float
    min_share: float
    reclaim_s: float | None
    dispatch: DispatchFigures | None = None


def evaluate(recording: DemoRecording, round_s: float = WINDOW_S) -> DemoFigures:
    """Return the figures of a run of at least one act, settled by rounds of this many seconds.

    The mean and its error are of the acts under the first act's limit, so that they belong together;
    those of the other acts stand with the acts.
    """
    by_broker = curves(recording.samples, recording.misses)
    numbers = range(len(recording.acts))
    acts = tuple(_act_figures(by_broker, recording, number, round_s) for number in numbers)
    limit = acts[0].limit
    alike = [act for act in recording.acts if act.limit == limit]
    mean, error = _mean_and_error(by_broker, alike)
    return DemoFigures(
        acts=acts,
        limit=limit,
        aggregate_mean=mean,
        aggregate_error=error,
        peak=max(act.peak for act in acts),
        jain=min(act.jain for act in acts),
        min_share=min(act.min_share for act in acts),
        reclaim_s=reclaim(by_broker, recording),
        dispatch=None if recording.dispatch is None else dispatch_figures(recording.dispatch),
    )


def fair_shares(limit: int, demands: Mapping[str, int]) -> dict[str, int]:
    """Return the exact max-min share of each broker with a demand, in messages per second."""
    claims = {broker: Claim(wants) for broker, wants in demands.items() if wants > 0}
    targets = max_min(limit, claims).targets
    # The law shares out headroom as well, beyond the demands.
    return {broker: min(target, demands[broker]) for broker, target in targets.items()}


def settle(by_broker: Mapping[str, Curve], act: Act, round_s: float = WINDOW_S) -> float | None:
    """Return the seconds from the event's being known to the first of only settled rounds."""
    until_s = _measured_until(by_broker, act)
    distance = _distance(by_broker, act, round_s)

    def is_settled(start_s: float) -> bool:
        rounds = max(1, int((until_s - start_s) / round_s))
        return all(distance(start_s + n * round_s) <= SETTLED_WITHIN for n in range(rounds))

    starts = _window_starts(by_broker, act.known_s, until_s, length_s=round_s)
    return next((start_s - act.known_s for start_s in starts if is_settled(start_s)), None)


def _distance(
    by_broker: Mapping[str, Curve], act: Act, length_s: float
) -> Callable[[float], float]:
    """Return the largest distance of a broker from its share, of C/N, in the time that starts here."""
    shares = fair_shares(act.limit, act.demands)

    def distance(start_s: float) -> float:
        off = (
            abs(rate_of(by_broker, name, start_s, length_s) - share)
            for name, share in shares.items()
        )
        return max(off) * len(shares) / act.limit

    return distance


def peak(
    by_broker: Mapping[str, Curve], limits: Sequence[LimitChange], from_s: float, until_s: float
) -> float:
    """Return by how much the highest window within this time exceeds its limit, as a share of it.

    Negative when every window is below its limit.
    """
    lowered = [after.at_s for before, after in pairwise(limits) if after.limit < before.limit]

    def excepted(start_s: float) -> bool:
        return any(start_s < at_s + WINDOW_S and start_s + WINDOW_S > at_s for at_s in lowered)

    # A window that the exception just leaves may be the highest.
    borders = [change.at_s + WINDOW_S for change in limits]
    starts = _window_starts(by_broker, from_s, until_s, borders)
    return max(
        (
            total(by_broker, start_s) / _mean_limit(limits, start_s) - 1
            for start_s in starts
            if not excepted(start_s)
        ),
        default=-1.0,
    )


def highest_round(by_broker: Mapping[str, Curve], act: Act, after_s: float = 0.0) -> float:
    """Return by how much the highest round of an act exceeds its limit, as a share of it.

    The median over the moments at which the first round may begin.

    Args:
        by_broker: what each broker admitted.
        act: the act.
        after_s: rounds that begin earlier after its event was known are left out.
    """
    until_s = _measured_until(by_broker, act)

    def highest_from(first_s: float) -> float:
        rounds = int((until_s - first_s) / WINDOW_S)
        return max((total(by_broker, first_s + n * WINDOW_S) for n in range(rounds)), default=0.0)

    return median_from(act.known_s + after_s, highest_from) / act.limit - 1


def reclaim(by_broker: Mapping[str, Curve], recording: DemoRecording) -> float | None:
    """Return the seconds from the kill to the first window that is back at the limit."""
    killed_s = recording.killed_s
    if killed_s is None:
        return None
    act = next(act for act in recording.acts if act.happened_s <= killed_s < act.ended_s)
    enough = _RECLAIMED_AT * act.limit

    def back(start_s: float) -> bool:
        lengths_s = (WINDOW_S, _KEPT_FOR_S)
        return all(total(by_broker, start_s, length_s) >= enough for length_s in lengths_s)

    starts = _window_starts(by_broker, killed_s, act.ended_s + WINDOW_S - _KEPT_FOR_S)
    return next((start_s - killed_s for start_s in starts if back(start_s)), None)


def _act_figures(
    by_broker: Mapping[str, Curve], recording: DemoRecording, number: int, round_s: float
) -> ActFigures:
    act = recording.acts[number]
    later = recording.acts[number + 1 :]
    next_s = later[0].happened_s if later else act.ended_s
    # Every window of the run belongs to the act in which it begins; what begins before the next event
    # and ends after it is looked at here, too.
    last_s = min(next_s + WINDOW_S, recording.acts[-1].ended_s)
    _, error = _mean_and_error(by_broker, [act])
    shares = [
        _steady(by_broker, act, partial(rate_of, by_broker, broker)) / share
        for broker, share in fair_shares(act.limit, act.demands).items()
    ]
    lowered = number > 0 and recording.acts[number - 1].limit > act.limit
    return ActFigures(
        event=act.event,
        title=act.title,
        limit=act.limit,
        settle_s=settle(by_broker, act, round_s),
        peak=peak(by_broker, recording.limits, act.happened_s, last_s),
        highest_round=highest_round(by_broker, act, WINDOW_S if lowered else 0.0),
        later_round=highest_round(by_broker, act, WINDOW_S),
        jain=jain(shares),
        min_share=min(shares),
        error=error,
        waited_s=_waited(recording.waits, act.happened_s, last_s),
    )


def _waited(waits: Sequence[Wait], from_s: float, until_s: float) -> float:
    """Return how much of the worst window within this time a process waited for a processor."""

    def within(start_s: float) -> float:
        end_s = start_s + WINDOW_S
        return sum(max(0.0, min(end_s, wait.until_s) - max(start_s, wait.from_s)) for wait in waits)

    edges = {from_s} | {edge for wait in waits for edge in (wait.from_s, wait.until_s - WINDOW_S)}
    return max(within(edge) for edge in edges if from_s <= edge <= max(from_s, until_s - WINDOW_S))


def _measured_until(by_broker: Mapping[str, Curve], act: Act) -> float:
    """Return the last moment of the act up to which every participant was sampled."""
    lasts = []
    for broker in act.demands:
        times = by_broker[broker].times if broker in by_broker else ()
        lasts += [times[bisect_right(times, act.ended_s) - 1]] if times else []
    return min(lasts, default=act.ended_s)


def _steady(
    by_broker: Mapping[str, Curve], act: Act, rate: Callable[[float, float], float]
) -> float:
    """Return a rate while steady, of which start and length of the time are asked for."""
    until_s = _measured_until(by_broker, act)
    half_s = (until_s - act.known_s) / 2
    length_s = half_s // WINDOW_S * WINDOW_S
    if not length_s:
        return rate(until_s - half_s, half_s)
    return median_from(until_s - length_s - WINDOW_S, lambda start_s: rate(start_s, length_s))


def _mean_and_error(by_broker: Mapping[str, Curve], acts: Sequence[Act]) -> tuple[float, float]:
    rates = [_steady(by_broker, act, partial(total, by_broker)) for act in acts]
    wanted = [sum(fair_shares(act.limit, act.demands).values()) for act in acts]
    return fmean(rates), sum(rates) / sum(wanted) - 1


def _window_starts(
    by_broker: Mapping[str, Curve],
    from_s: float,
    until_s: float,
    more_s: Iterable[float] = (),
    length_s: float = WINDOW_S,
) -> list[float]:
    """Return the starts of all windows within this time whose rate may be an extreme, in order.

    `more_s` are further moments at which something may change.
    """
    bends = {time for curve in by_broker.values() for time in curve.times} | set(more_s)
    edges = {from_s, until_s - length_s} | bends | {bend - length_s for bend in bends}
    return sorted(edge for edge in edges if from_s <= edge <= until_s - length_s)


def _mean_limit(limits: Sequence[LimitChange], start_s: float) -> float:
    """Return the limit in force, averaged over the window that starts here."""
    end_s = start_s + WINDOW_S
    # The first limit holds from the beginning of time, each of them up to the next.
    begins = [-inf, *(change.at_s for change in limits[1:])]
    ends = [*begins[1:], inf]
    area = sum(
        change.limit * max(0.0, min(end_s, end) - max(start_s, begin))
        for change, begin, end in zip(limits, begins, ends, strict=True)
    )
    return area / WINDOW_S
