"""The quality of a run, computed from its series and nothing else.

Words: ``C`` the group's limit, ``u`` a broker's admitted rate, ``d`` what it wants, ``A`` and ``D`` their
sums, ``a*`` the exact weighted max-min share of ``d`` under ``C``, all per second (or per round of one
second).

=================  ===============================================================================
peak overshoot     the largest ``A/C - 1`` over sliding windows of 1 s and 10 s, never below 0
buckets            the largest ``A/C - 1`` over buckets of 1, 5, 10 and 20 s, one after the other, as
                   WSO2 judges its gateways (wso2/api-platform#2187); negative when all are below C
latency regret     how much longer a message waits than at an ideal central bucket, on average: by
                   Little's law the mean number that waits over the rate that passes. Splitting a
                   bucket always adds some (arXiv 1909.08969), so it stands beside the overshoot.
volume             what was admitted above the limit, in seconds of the limit
time over          share of seconds with ``A`` above 1.01 C and 1.05 C
settle             rounds from an event until, for good, no broker is over 5 % of C/N from ``a*``;
                   None when that is not before the next event
aggregate error    how far the mean of A is from that of min(D, C), in parts of C
utilisation        ``Σ min(A, C) / Σ min(D, C)``
Jain, min share    of ``x = u/a*`` over brokers with ``a* > 0``: ``(Σx)²/(n·Σx²)``, and the smallest x.
                   Nine equal ones and a starved one still have a Jain index of 0.9 (the authors of DRL
                   say so), so it never stands alone.
regret             ``Σ|A - A_central| / Σ A_central`` against an ideal central bucket
oscillation        peak to peak of a broker's limit, in parts of C
starvation         the longest time in seconds that a broker got less than half of min(d, C/N), where
                   C/N is its part of C by weight
=================  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.core.allocation.laws import Claim, max_min

BUCKETS_S = (1, 5, 10, 20)
"""The lengths of WSO2's buckets, in seconds."""

_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class GroupSeries:
    """One group, second by second; all lists have the same length.

    Args:
        limits: the group's limit.
        admitted: per broker.
        wanted: per broker.
        weights: how many times each broker counts; once where nothing is said.
    """

    limits: Sequence[int]
    admitted: Mapping[str, Sequence[int]]
    wanted: Mapping[str, Sequence[int]]
    weights: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def total_admitted(self, second: int) -> int:
        """A, in one second."""
        return sum(series[second] for series in self.admitted.values())

    def total_wanted(self, second: int) -> int:
        """D, in one second."""
        return sum(series[second] for series in self.wanted.values())

    def wanted_at(self, second: int) -> dict[str, int]:
        """Return each broker's demand in one second."""
        return {broker: values[second] for broker, values in self.wanted.items()}

    def weights_at(self, second: int) -> dict[str, int]:
        """Return each broker's weight in one second."""
        counted = {broker: values[second] for broker, values in self.weights.items()}
        return {broker: counted.get(broker, 1) for broker in self.wanted}

    def fair_shares_at(self, second: int) -> dict[str, int]:
        """``a*`` in one second."""
        return fair_shares(self.limits[second], self.wanted_at(second), self.weights_at(second))


def fair_shares(
    limit: int, wanted: Mapping[str, int], weights: Mapping[str, int]
) -> dict[str, int]:
    """``a*``: the exact max-min share of each demand; a broker without demand gets nothing."""
    claims = {
        broker: Claim(demand, weights[broker]) for broker, demand in wanted.items() if demand > 0
    }
    targets = max_min(limit, claims).targets if claims else {}
    return {broker: min(targets.get(broker, 0), demand) for broker, demand in wanted.items()}


def peak_overshoot(
    admitted: Sequence[int], allowed: Sequence[float], window: int, begin: int = 0
) -> float:
    """The largest relative excess of a sliding window, 0 when there is none.

    Args:
        admitted: per step.
        allowed: what the limit allows per step; windows that allow nothing are left out.
        window: steps.
        begin: the first step that counts.
    """
    peak = 0.0
    passed = sum(admitted[begin : begin + window])
    room = float(sum(allowed[begin : begin + window]))
    for end in range(begin + window, len(admitted) + 1):
        if room > 0.5:
            peak = max(peak, passed / room - 1)
        if end < len(admitted):
            passed += admitted[end] - admitted[end - window]
            room += allowed[end] - allowed[end - window]
    return peak


def bucket_peak(
    admitted: Sequence[int], allowed: Sequence[float], bucket: int, begin: int = 0
) -> float | None:
    """The largest relative excess of buckets that stand one after the other; None when none is whole.

    Args:
        admitted: per step.
        allowed: what the limit allows per step; buckets that allow nothing are left out.
        bucket: steps.
        begin: the first step of the first bucket.
    """
    over = []
    for start in range(begin, len(admitted) - bucket + 1, bucket):
        room = sum(allowed[start : start + bucket])
        if room > 0.5:
            over.append(sum(admitted[start : start + bucket]) / room - 1)
    return max(over, default=None)


def mean_wait(waiting: Sequence[int], admitted: Sequence[int]) -> float:
    """Return the mean wait of a message in steps, by Little's law; 0 when nothing passed.

    Args:
        waiting: how many wait at the end of each step.
        admitted: how many pass in each.
    """
    passed = sum(admitted)
    return sum(waiting) / passed if passed else 0.0


def overshoot_volume(series: GroupSeries, seconds: range) -> float:
    """Return the traffic admitted above the limit, in seconds of the limit."""
    return sum(
        max(0, series.total_admitted(second) - series.limits[second]) / series.limits[second]
        for second in seconds
        if series.limits[second]
    )


def time_over(series: GroupSeries, seconds: range, factor: float) -> float:
    """The share of seconds in which more than ``factor`` times the limit was admitted."""
    over = sum(series.total_admitted(second) > factor * series.limits[second] for second in seconds)
    return over / len(seconds) if seconds else 0.0


def mean_when_over(series: GroupSeries, seconds: range) -> float:
    """The mean of A/C over the seconds above the limit; 1 when there is none."""
    ratios = [
        series.total_admitted(second) / series.limits[second]
        for second in seconds
        if 0 < series.limits[second] < series.total_admitted(second)
    ]
    return sum(ratios) / len(ratios) if ratios else 1.0


def settle(series: GroupSeries, event: int, end: int, *, round_seconds: int = 1) -> int | None:
    """Rounds from an event to the first from which on each broker has its share; None when never.

    Args:
        series: of the group.
        event: the second in which it happened.
        end: the second of the next event, or the end.
        round_seconds: the report interval.
    """
    settled_from = end
    for second in range(end - 1, event - 1, -1):
        if not is_settled(series, second):
            break
        settled_from = second
    if settled_from == end:
        return None
    return -(-(settled_from - event) // round_seconds)


def is_settled(series: GroupSeries, second: int) -> bool:
    """Whether no broker is further than 5 % of C/N from its share; N are the brokers with demand."""
    takers = sum(demand > 0 for demand in series.wanted_at(second).values())
    if not takers:
        return True
    tolerance = _TOLERANCE * series.limits[second] / takers
    return all(
        abs(series.admitted[broker][second] - share) <= tolerance
        for broker, share in series.fair_shares_at(second).items()
    )


def utilisation(series: GroupSeries, seconds: Sequence[int]) -> float:
    """Return the admitted part of the traffic that could have passed; 1 when none could."""
    used = possible = 0
    for second in seconds:
        limit = series.limits[second]
        used += min(series.total_admitted(second), limit)
        possible += min(series.total_wanted(second), limit)
    return used / possible if possible else 1.0


def aggregate_error(series: GroupSeries, seconds: range) -> float:
    """Return the mean distance of the aggregate from the traffic that could have passed."""
    limits = sum(series.limits[second] for second in seconds)
    possible = sum(min(series.total_wanted(second), series.limits[second]) for second in seconds)
    passed = sum(series.total_admitted(second) for second in seconds)
    return abs(passed - possible) / limits if limits else 0.0


def shares(series: GroupSeries, seconds: Sequence[int]) -> dict[str, float]:
    """``x = u/a*`` of every broker with a share, over all these seconds together."""
    got = dict.fromkeys(series.wanted, 0)
    due = dict.fromkeys(series.wanted, 0)
    for second in seconds:
        for broker, share in series.fair_shares_at(second).items():
            got[broker] += series.admitted[broker][second]
            due[broker] += share
    return {broker: got[broker] / due[broker] for broker in due if due[broker]}


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 when all are equal, 1/n when one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def regret(admitted: Sequence[int], central: Sequence[int]) -> float:
    """Return the distance of the aggregate from an ideal central bucket's, per step or second."""
    whole = sum(central)
    apart = sum(abs(own - ideal) for own, ideal in zip(admitted, central, strict=True))
    return apart / whole if whole else 0.0


def oscillation(
    in_force: Mapping[str, Sequence[int]], limits: Sequence[int], seconds: range
) -> float:
    """The largest peak-to-peak of any broker's limit, in parts of the group's."""
    if not seconds:
        return 0.0
    largest = 0.0
    for values in in_force.values():
        parts = [values[second] / limits[second] for second in seconds if limits[second]]
        if parts:
            largest = max(largest, max(parts) - min(parts))
    return largest


def starvation(series: GroupSeries, seconds: range) -> int:
    """The longest time that any broker got less than half of what an equal split owes it, in seconds."""
    longest = 0
    running = dict.fromkeys(series.wanted, 0)
    for second in seconds:
        wanted, weights = series.wanted_at(second), series.weights_at(second)
        whole = sum(weights[broker] for broker, demand in wanted.items() if demand > 0)
        for broker, demand in wanted.items():
            equal = series.limits[second] * weights[broker] // whole if whole else 0
            floor = min(demand, equal)
            starved = series.admitted[broker][second] * 2 < floor
            running[broker] = running[broker] + 1 if starved else 0
            longest = max(longest, running[broker])
    return longest


@dataclass(frozen=True, slots=True)
class CentralBucket:
    """One ideal bucket for the whole cluster, per step: what it admits, and what waits at the end."""

    admitted: Sequence[int]
    waiting: Sequence[int]


def central_bucket(
    wanted: Sequence[int], allowed: Sequence[float], window: int, burst: int
) -> CentralBucket:
    """Return the same arrivals as one ideal bucket for the whole cluster admits them.

    Args:
        wanted: arrivals per step.
        allowed: what the limit allows per step.
        window: how many steps of arrivals clients let wait before they stop sending.
        burst: how many steps of tokens an idle bucket saves.
    """
    admitted: list[int] = []
    left: list[int] = []
    tokens = 0.0
    waiting = 0
    for offered, room in zip(wanted, allowed, strict=True):
        waiting = min(waiting, window * offered) + offered
        tokens += room
        passed = min(waiting, int(tokens))
        waiting -= passed
        tokens = min(tokens - passed, burst * room)
        admitted.append(passed)
        left.append(waiting)
    return CentralBucket(admitted, left)
