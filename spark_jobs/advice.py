"""Which limit would have throttled for at most a given part of the time? The arithmetic, without Spark.

Of a group and dimension there is one row for every second in which it had clients and all of its brokers
were recorded: what clients wanted, all brokers together. It is known within bounds:

* ``least`` is what was admitted;
* ``most`` is that, divided by the part of the second in which clients did not wait: clients that send
  evenly and wait for a part w of the time were let through for 1 - w of it. Where they waited nearly all
  of the time there is no telling what they wanted; ``most`` is infinite.

A limit *throttles* a second in which more is wanted than the limit. The advised limit is the smallest
that throttles no more than the allowed part of the known seconds, by ``most``: with k seconds allowed
that is the (k + 1)-th largest value. The same of ``least`` is the lower end of what it might be. Both
ends are moved apart by what chance does to such a rank (k +- 1.96 sqrt k, as if seconds were independent
of each other, which they seldom are: the guards on days are there for the rest).

A second is the shortest time that is looked at. Clients that send all of a second's messages in a tenth
of it wait at the advised limit, and a bucket's savings let a little more through than is said here.

``cautions`` say why an advice may be wrong by more than ``WITHIN``:

* too little data: fewer than ``ENOUGH`` throttled seconds are allowed in all, so that chance decides;
* demand of clients that waited is not known in more seconds than are allowed to be throttled: then there
  is no advice but a step up, after which it is asked again;
* no whole week: the days of the week that were not seen may want more;
* a single day has most of the throttled seconds: the others say little of it.

Growth is a straight line through the limits that each day alone would have got, of whole weeks only,
since a week that is cut off tilts the line.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

SHARE = 0.001
"""The part of the time that may be throttled, unless told otherwise."""
WITHIN = 0.05
"""An advice is good when both ends of what it might be are this near."""
ENOUGH = 10
"""Throttled seconds that must be allowed for a rank to be more than chance."""
STEP_UP, STEP_DOWN = 1.5, 0.5
"""The furthest that a limit is moved at a time."""
GRID = (0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5)
"""Limits that the evidence is given for, as parts of the advised one."""
EXPLAINED = 0.5
"""The part of the variance that growth must explain (R squared)."""
AHEAD_DAYS = 30
"""Growth is told as the limit in this many days."""

_DAY_S = 86_400
WHOLE_S = _DAY_S // 2
"""A day is whole of which this much is known."""
_WEEK = 7
_NORMAL = 1.96
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class RecordedDemand:
    """The wanted traffic, second by second.

    Args:
        seconds: since the epoch, ascending.
        least: per second.
        most: per second; infinite where it is not known.
    """

    seconds: Sequence[int]
    least: Sequence[float]
    most: Sequence[float]


@dataclass(frozen=True, slots=True)
class GridPoint:
    """The effect of a limit: throttled seconds by the least and by the most that was wanted."""

    limit: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class DayDemand:
    """A day of what was recorded.

    Args:
        day: by UTC.
        seconds: of it that are known.
        limit: that it alone would have got; None where demand is not known.
        throttled: its seconds that the advised limit throttles.
    """

    day: date
    seconds: int
    limit: int | None
    throttled: int


@dataclass(frozen=True, slots=True)
class DemandGrowth:
    """Where the days' limits go: per day, and the limit in ``AHEAD_DAYS``."""

    per_day: float
    ahead: int


@dataclass(frozen=True, slots=True)
class LimitAdvice:
    """A limit and why.

    Args:
        limit: the advised one; None where demand is not known.
        low: it may be as low as that.
        high: it may be as high as that; None where that is not known.
        step: the limit to try next: the advised one, or the nearest to it that is no further from the
            one in force than a step.
        seconds: that are known.
        allowed: of them, to be throttled.
        throttled: seconds that the advised limit throttles.
        grid: evidence.
        days: in order.
        growth: None where it is not known, or there is none.
        cautions: why the advice may be wrong.
    """

    limit: int | None
    low: int
    high: int | None
    step: int | None
    seconds: int
    allowed: int
    throttled: tuple[int, ...]
    grid: tuple[GridPoint, ...]
    days: tuple[DayDemand, ...]
    growth: DemandGrowth | None
    cautions: tuple[str, ...]


def advise(
    demand: RecordedDemand,
    share: float = SHARE,
    in_force: int | None = None,
    recorded: Collection[date] | None = None,
) -> LimitAdvice:
    """Advise a limit.

    Args:
        demand: of known seconds, at least one.
        share: the part of them that may be throttled.
        in_force: the limit that was in force in the end; None is not limited.
        recorded: the whole days of the recording, in which the group may have had no client; None are
            those of the demand.
    """
    number = len(demand.seconds)
    allowed = int(share * number)
    least, most = sorted(demand.least), sorted(demand.most)
    limit = _limit(most, allowed)
    spread = math.ceil(_NORMAL * math.sqrt(allowed))
    low = _limit(least, allowed + spread)
    high = _limit(most, max(0, allowed - spread))
    assert low is not None
    throttled: tuple[int, ...] = ()
    if limit is not None:
        throttled = tuple(
            second
            for second, wanted in zip(demand.seconds, demand.most, strict=True)
            if wanted > limit
        )
    days = _days(demand, share, throttled)
    whole = {day.day for day in days if _whole(day)} if recorded is None else recorded
    return LimitAdvice(
        limit=limit,
        low=low,
        high=high,
        step=_step(limit, in_force),
        seconds=number,
        allowed=allowed,
        throttled=throttled,
        grid=_grid(limit or in_force or low, in_force, least, most),
        days=days,
        growth=_growth(days),
        cautions=tuple(_cautions(limit, low, high, allowed, most, days, whole)),
    )


def busiest_window(seconds: Sequence[int], length: int) -> int:
    """Return the first second of a window of that length that has most of these seconds, ascending."""
    best, most, first = seconds[0] - length + 1, 0, 0
    for last, second in enumerate(seconds):
        while seconds[first] <= second - length:
            first += 1
        if last - first + 1 > most:
            best, most = second - length + 1, last - first + 1
    return best


def _limit(ascending: Sequence[float], allowed: int) -> int | None:
    """The smallest whole limit that at most `allowed` values exceed; None when that is infinite."""
    value = ascending[max(0, len(ascending) - 1 - allowed)]
    return None if math.isinf(value) else max(1, math.ceil(value))


def _above(ascending: Sequence[float], limit: float) -> int:
    return len(ascending) - bisect_right(ascending, limit)


def _step(limit: int | None, in_force: int | None) -> int | None:
    if in_force is None or in_force < 1:
        return limit
    highest = math.ceil(in_force * STEP_UP)
    if limit is None:
        return highest
    return min(max(limit, math.ceil(in_force * STEP_DOWN)), highest)


def _grid(
    around: int, in_force: int | None, least: Sequence[float], most: Sequence[float]
) -> tuple[GridPoint, ...]:
    limits = {max(1, round(part * around)) for part in GRID}
    if in_force is not None:
        limits.add(in_force)
    return tuple(
        GridPoint(limit, _above(least, limit), _above(most, limit)) for limit in sorted(limits)
    )


def _day(second: int) -> date:
    return datetime.fromtimestamp(second, UTC).date()


def _days(demand: RecordedDemand, share: float, throttled: Iterable[int]) -> tuple[DayDemand, ...]:
    values: dict[int, list[float]] = {}
    for second, wanted in zip(demand.seconds, demand.most, strict=True):
        values.setdefault(second // _DAY_S, []).append(wanted)
    spent = dict.fromkeys(values, 0)
    for second in throttled:
        spent[second // _DAY_S] += 1
    return tuple(
        DayDemand(
            day=_day(number * _DAY_S),
            seconds=len(of_day),
            limit=_limit(sorted(of_day), int(share * len(of_day))),
            throttled=spent[number],
        )
        for number, of_day in sorted(values.items())
    )


def _whole(day: DayDemand) -> bool:
    return day.seconds >= WHOLE_S


def _growth(days: Sequence[DayDemand]) -> DemandGrowth | None:
    points = [
        (day.day.toordinal(), day.limit) for day in days if _whole(day) and day.limit is not None
    ]
    points = points[len(points) % _WEEK :]
    if len(points) < 2 * _WEEK:
        return None  # of one week the weekdays and the growth cannot be told apart
    count = len(points)
    middle, mean = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    across = sum((x - middle) ** 2 for x, _ in points)
    along = sum((y - mean) ** 2 for _, y in points)
    both = sum((x - middle) * (y - mean) for x, y in points)
    if not along or both**2 / (across * along) < EXPLAINED:
        return None
    slope = both / across
    last = points[-1][0] + AHEAD_DAYS
    return DemandGrowth(slope, max(1, math.ceil(mean + slope * (last - middle))))


def _cautions(
    limit: int | None,
    low: int,
    high: int | None,
    allowed: int,
    most: Sequence[float],
    days: Sequence[DayDemand],
    whole: Collection[date],
) -> Iterable[str]:
    number = len(most)
    if allowed < ENOUGH:
        yield (
            f"too little data: of {number:,} known seconds {allowed:,} may be throttled, and fewer"
            f" than {ENOUGH} are chance; record longer, or allow more with --throttled"
        )
    unknown = number - bisect_right(most, math.nextafter(math.inf, 0))
    if limit is None:
        yield (
            f"in {unknown:,} of {number:,} seconds clients waited nearly all of the time, and what"
            f" they wanted is not known; the limit is at least {low:,}: raise it by a step, record"
            " again, and ask again"
        )
    elif high is None or high > limit * (1 + WITHIN) or low < limit * (1 - WITHIN):
        end = "more than can be told" if high is None else f"{high:,}"
        yield f"not known to {WITHIN:.0%}: the limit may be anything from {low:,} to {end}"
    seen = {day.weekday() for day in whole}
    if len(seen) < _WEEK:
        lacking = [name for number, name in enumerate(_WEEKDAYS) if number not in seen]
        names = "no day" if len(lacking) == _WEEK else f"no {', '.join(lacking)}"
        yield f"no whole week: {names} was recorded for half of it or more, and may want more"
    spent = sum(day.throttled for day in days)
    worst = max(days, key=lambda day: day.throttled)
    if len(days) > 1 and spent >= ENOUGH and worst.throttled > spent / 2:
        alone = "" if worst.limit is None else f"; that day alone would need {worst.limit:,}"
        yield f"{worst.throttled:,} of {spent:,} throttled seconds are of {worst.day}{alone}"
