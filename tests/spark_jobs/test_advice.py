"""The advised limit throttles what it may, names its bounds, and says why it may be wrong."""

from __future__ import annotations

import itertools
import math
import random
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.advice import RecordedDemand, advise, busiest_window

MONDAY = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp())
DAY_S = 86_400
ANYTHING = st.lists(
    st.tuples(st.floats(0, 1e9), st.floats(0, 10) | st.just(math.inf)), min_size=1, max_size=300
)


def demand_of(values: list[float], every_s: int = 1) -> RecordedDemand:
    """RecordedDemand that is known to the last message."""
    return RecordedDemand(
        [MONDAY + every_s * number for number in range(len(values))], values, values
    )


def weeks(number: int, of_day: list[float]) -> RecordedDemand:
    """RecordedDemand of whole days, a value a day with noise; every second second is known."""
    rng = random.Random(7)  # a replayable run, no secret
    values = [
        of_day[day % len(of_day)] * rng.uniform(0.5, 1.0)
        for day in range(7 * number)
        for _ in range(DAY_S // 2)
    ]
    return demand_of(values, every_s=2)


@given(rows=ANYTHING, share=st.floats(0.001, 0.1))
def test_the_limit_is_the_smallest_that_throttles_what_it_may(
    rows: list[tuple[float, float]], share: float
) -> None:
    """By the most that may have been wanted; one less would throttle more."""
    most = [least + more for least, more in rows]
    found = advise(
        RecordedDemand(range(MONDAY, MONDAY + len(rows)), [least for least, _ in rows], most), share
    )
    allowed = int(share * len(rows))

    assert found.allowed == allowed
    if found.limit is None:
        assert sum(math.isinf(value) for value in most) > allowed
        return
    assert sum(value > found.limit for value in most) == len(found.throttled) <= allowed
    assert found.limit == 1 or sum(value > found.limit - 1 for value in most) > allowed
    assert found.low <= found.limit
    assert found.high is None or found.high >= found.limit


@given(rows=ANYTHING, in_force=st.integers(0, 2_000))
def test_a_higher_limit_throttles_no_more(rows: list[tuple[float, float]], in_force: int) -> None:
    """Less demand does not, either; the limit in force is among those looked at, also one of 0."""
    least = [value for value, _ in rows]
    most = [value + more for value, more in rows]
    grid = advise(
        RecordedDemand(range(MONDAY, MONDAY + len(rows)), least, most), 0.1, in_force=in_force
    ).grid

    assert any(point.limit == in_force for point in grid)
    assert all(point.least <= point.most for point in grid)
    for lower, higher in itertools.pairwise(grid):
        assert lower.limit < higher.limit
        assert lower.most >= higher.most


def test_two_weeks_of_a_known_demand_get_the_right_limit_and_no_caution() -> None:
    """Half to all of 1,000 by chance: 0.1 % of it is above 999.5."""
    found = advise(weeks(2, [1_000.0]))

    assert found.limit == pytest.approx(999.5, rel=0.001)
    assert found.cautions == ()
    assert found.growth is None
    assert [day.seconds for day in found.days] == [DAY_S // 2] * 14


def test_fewer_seconds_than_chance_needs_are_said() -> None:
    """Nine throttled seconds may be allowed by accident, ten are counted."""
    assert "too little data" in advise(demand_of([1.0] * 9_999)).cautions[0]
    assert not any(
        "too little" in caution for caution in advise(demand_of([1.0] * 10_000)).cautions
    )


def test_demand_that_is_not_known_gets_a_step_and_no_limit() -> None:
    """Eleven seconds in which clients only waited, where ten may be throttled."""
    least, most = [900.0] * 10_000, [900.0] * 9_989 + [math.inf] * 11
    found = advise(RecordedDemand(range(10_000), least, most), in_force=1_000)

    assert (found.limit, found.low, found.high, found.step) == (None, 900, None, 1_500)
    assert "11 of 10,000 seconds clients waited nearly all of the time" in found.cautions[0]


def test_as_many_unknown_seconds_as_may_be_throttled_change_nothing() -> None:
    """They are among those that the limit throttles, however much was wanted in them."""
    least = [900.0] * 100_000
    found = advise(RecordedDemand(range(100_000), least, [900.0] * 99_900 + [math.inf] * 100))

    assert (found.limit, len(found.throttled)) == (900, 100)


def test_an_answer_that_is_not_known_to_five_percent_says_between_what() -> None:
    """Clients waited a tenth of the time in the seconds that count."""
    least, most = [800.0] * 20_000, [800.0] * 19_900 + [890.0] * 100
    found = advise(RecordedDemand(range(20_000), least, most))

    assert (found.low, found.limit, found.high) == (800, 890, 890)
    assert "anything from 800 to 890" in found.cautions[0]


def test_days_of_the_week_that_were_not_seen_are_named() -> None:
    """Five working days say nothing of the other two."""
    found = advise(demand_of([100.0] * (5 * DAY_S // 10), every_s=10))

    assert any("no whole week: no day" in caution for caution in found.cautions)
    working = advise(demand_of([100.0] * (5 * DAY_S // 2), every_s=2))
    assert working.cautions == (
        "no whole week: no Saturday, Sunday was recorded for half of it or more, and may want more",
    )


def test_a_group_that_works_a_part_of_each_day_has_its_whole_week() -> None:
    """Those days were recorded; it had no client for the rest of each."""
    seconds = [MONDAY + day * DAY_S + second for day in range(7) for second in range(8 * 3_600)]
    demand = RecordedDemand(seconds, [100.0] * len(seconds), [100.0] * len(seconds))
    week = {date(2026, 11, 2 + day) for day in range(7)}

    assert any("no whole week" in caution for caution in advise(demand).cautions)
    assert advise(demand, recorded=week).cautions == ()


def test_a_day_that_has_most_of_the_throttled_seconds_is_named_with_its_limit() -> None:
    """Of a week with one loud day the limit is that day's."""
    found = advise(weeks(1, [100.0, 100.0, 100.0, 100.0, 1000.0, 100.0, 100.0]))
    (caution,) = found.cautions

    assert found.limit is not None
    assert found.limit > 900
    assert len(found.throttled) > 250
    assert caution.endswith("throttled seconds are of 2026-11-06; that day alone would need 1,000")


def test_growth_is_a_line_through_whole_weeks() -> None:
    """Two percent a day are seen; what grows by accident is not."""
    growing = advise(weeks(2, [1_000.0 + 20 * day for day in range(14)]))

    assert growing.growth is not None
    assert growing.growth.per_day == pytest.approx(20, rel=0.01)
    assert growing.growth.ahead == pytest.approx(1_000 + 20 * (13 + 30), rel=0.01)
    assert advise(weeks(1, [1_000.0 + 20 * day for day in range(7)])).growth is None
    weekly = [1_000.0, 1_000.0, 1_000.0, 1_000.0, 1_000.0, 500.0, 500.0]
    assert advise(weeks(2, weekly)).growth is None


@pytest.mark.parametrize(
    ("in_force", "step"), [(None, 900), (0, 900), (1_000, 900), (3_000, 1_500), (500, 750)]
)
def test_a_limit_is_moved_by_a_step_at_a_time(in_force: int | None, step: int) -> None:
    """To half of it or half as much again."""
    found = advise(demand_of([900.0] * 20_000), in_force=in_force)

    assert (found.limit, found.step) == (900, step)


@given(
    seconds=st.lists(st.integers(0, 300), min_size=1, max_size=60, unique=True).map(sorted),
    length=st.integers(1, 100),
)
def test_no_window_is_busier_than_the_one_that_is_played(seconds: list[int], length: int) -> None:
    """Counted one by one."""

    def inside(since: int) -> int:
        return sum(since <= second < since + length for second in seconds)

    assert inside(busiest_window(seconds, length)) == max(map(inside, range(-100, 301)))
