"""The metrics on series short enough to be worked out by hand."""

from __future__ import annotations

import pytest

from coordinator.simulation import metrics
from coordinator.simulation.metrics import GroupSeries


def series(limit: int, admitted: dict[str, list[int]], wanted: dict[str, list[int]]) -> GroupSeries:
    """A group with the same limit all the time."""
    length = len(next(iter(wanted.values())))
    return GroupSeries([limit] * length, admitted, wanted)


@pytest.mark.parametrize(
    ("wanted", "weights", "shares"),
    [
        # A demand below the level is met, the others are cut at one level, the idle get 0.
        ((10, 500, 500, 0), (1, 1, 1, 1), [10, 45, 45, 0]),
        # One against three: a quarter and three quarters; to want little is to be content with it.
        ((500, 500), (1, 3), [25, 75]),
        ((500, 60), (1, 3), [40, 60]),
        # A surplus belongs to no broker.
        ((10, 20), (1, 1), [10, 20]),
    ],
)
def test_fair_shares_fill_the_small_ones_first(
    wanted: tuple[int, ...], weights: tuple[int, ...], shares: list[int]
) -> None:
    """Of 100, by weight."""
    found = metrics.fair_shares(
        100, dict(zip("abcd", wanted, strict=False)), dict(zip("abcd", weights, strict=False))
    )

    assert found == dict(zip("abcd", shares, strict=False))


@pytest.mark.parametrize(
    ("admitted", "allowed", "begin", "overshoot"),
    [
        # Two steps of 8 and 7 where 5 a step are allowed are half too much.
        ([5, 8, 7, 0, 5], 5.0, 0, 0.5),
        # A group below its limit has none.
        ([1, 1, 1], 5.0, 0, 0.0),
        # Seconds before the beginning are in no window.
        ([50, 5, 5, 5], 5.0, 1, 0.0),
        # A limit of 0 has no relative excess; the volume and the sum of limits show it.
        ([5, 5], 0.0, 0, 0.0),
    ],
)
def test_peak_overshoot_is_of_the_worst_window(
    admitted: list[int], allowed: float, begin: int, overshoot: float
) -> None:
    """It is not negative."""
    found = metrics.peak_overshoot(admitted, [allowed] * len(admitted), window=2, begin=begin)

    assert found == overshoot


def test_volume_time_and_mean_over_the_limit() -> None:
    """12 and 15 of 10, then 10: 0.7 seconds of the limit too much, in two of three seconds."""
    over = series(10, {"a": [12, 15, 10]}, {"a": [99, 99, 99]})

    assert metrics.overshoot_volume(over, range(3)) == pytest.approx(0.7)
    assert metrics.time_over(over, range(3), 1.01) == pytest.approx(2 / 3)
    assert metrics.time_over(over, range(3), 1.3) == pytest.approx(1 / 3)
    assert metrics.mean_when_over(over, range(3)) == pytest.approx(1.35)


@pytest.mark.parametrize(
    ("admitted", "event", "round_seconds", "rounds"),
    [
        # Right in round 1, wrong in round 2, right from round 3 on.
        ([80, 50, 80, 51, 50, 49], 0, 1, 3),
        # It was never wrong.
        ([50, 50, 50], 1, 1, 0),
        # A last round that is wrong: not settled before the next event.
        ([50, 50, 80], 0, 1, None),
        # Six seconds are two rounds of five seconds, begun ones included.
        ([80] * 6 + [50] * 2, 0, 5, 2),
    ],
)
def test_settle_is_the_first_round_that_stays_right(
    admitted: list[int], event: int, round_seconds: int, rounds: int | None
) -> None:
    """Two saturated brokers pass 100 together; what the one admits is given."""
    length = len(admitted)
    wanted = {"a": [99] * length, "b": [99] * length}
    pair = series(100, {"a": admitted, "b": [100 - each for each in admitted]}, wanted)

    assert metrics.settle(pair, event, length, round_seconds=round_seconds) == rounds


def test_tolerance_is_a_part_of_an_equal_share() -> None:
    """5 % of C/N: 2.5 of 50 for two brokers that want something; the idle one does not count."""
    wanted = {"a": [99, 99], "b": [99, 99], "c": [0, 0]}
    admitted = {"a": [52, 53], "b": [48, 47], "c": [0, 0]}
    pair = series(100, admitted, wanted)

    assert metrics.is_settled(pair, 0)
    assert not metrics.is_settled(pair, 1)


def test_utilisation_counts_only_what_could_have_passed() -> None:
    """Second 0: 80 of 100 possible; second 1: 30 of 30 wanted. 110 of 130."""
    used = series(100, {"a": [80, 30]}, {"a": [500, 30]})

    assert metrics.utilisation(used, range(2)) == pytest.approx(110 / 130)


def test_utilisation_does_not_reward_overshoot() -> None:
    """More than the limit counts as the limit."""
    assert metrics.utilisation(series(100, {"a": [150]}, {"a": [500]}), range(1)) == 1.0


def test_aggregate_error_is_that_of_the_mean() -> None:
    """105 and 91 of 100, and 10 of 20: the sum is 14 short of 220 possible, of 300 allowed."""
    one = series(100, {"a": [105, 91, 10]}, {"a": [500, 500, 20]})

    assert metrics.aggregate_error(one, range(3)) == pytest.approx(14 / 300)


def test_shares_leave_out_who_has_none() -> None:
    """A got all of its 50, b half of it, c wanted nothing."""
    admitted = {"a": [50, 50], "b": [0, 50], "c": [0, 0]}
    wanted = {"a": [99, 99], "b": [99, 99], "c": [0, 0]}

    assert metrics.shares(series(100, admitted, wanted), range(2)) == {"a": 1.0, "b": 0.5}


def test_jain_of_equal_and_of_one_sided_shares() -> None:
    """1 for equals, 1/n when one has everything, 0.9 for nine equal and a starved one."""
    assert metrics.jain([0.7, 0.7, 0.7]) == pytest.approx(1.0)
    assert metrics.jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert metrics.jain([1.0] * 9 + [0.0]) == pytest.approx(0.9)


def test_regret_is_relative_to_the_ideal() -> None:
    """10 too much and 10 too little of 200 are a tenth."""
    assert metrics.regret([110, 90], [100, 100]) == pytest.approx(0.1)


def test_oscillation_is_the_widest_swing() -> None:
    """B swings by 30 of 100 within the seconds asked for."""
    in_force = {"a": [50, 50, 50, 0], "b": [50, 20, 50, 50]}

    assert metrics.oscillation(in_force, [100] * 4, range(3)) == pytest.approx(0.3)


def test_starvation_is_the_longest_run_below_half_of_the_floor() -> None:
    """B gets 24, 10, 10 of the 50 that an equal split owes it, then its due: three seconds."""
    admitted = {"a": [76, 90, 90, 50], "b": [24, 10, 10, 50]}
    wanted = {"a": [99] * 4, "b": [99] * 4}

    assert metrics.starvation(series(100, admitted, wanted), range(4)) == 3


def test_who_wants_little_is_not_starved_by_little() -> None:
    """The floor is never above the demand."""
    admitted = {"a": [95, 95], "b": [5, 5]}
    wanted = {"a": [99, 99], "b": [5, 5]}

    assert metrics.starvation(series(100, admitted, wanted), range(2)) == 0


def test_central_bucket_admits_the_limit_and_serves_what_waits() -> None:
    """10 a step pass of 20 a step; clients that want nothing any more leave nothing waiting."""
    central = metrics.central_bucket([20, 20, 20], [10.0] * 3, window=1, burst=1)
    assert (central.admitted, central.waiting) == ([10, 10, 10], [10, 20, 30])
    alone = metrics.central_bucket([20, 0, 0], [10.0] * 3, window=1, burst=1)
    assert (alone.admitted, alone.waiting) == ([10, 0, 0], [10, 0, 0])


def test_central_bucket_saves_no_more_than_its_burst() -> None:
    """After a long idle time one step's worth is saved, and one flows in."""
    central = metrics.central_bucket([0, 0, 0, 50], [10.0] * 4, window=1, burst=1)
    assert central.admitted == [0, 0, 0, 20]


def test_a_bucket_is_judged_with_those_that_stand_beside_it_not_with_windows_that_slide() -> None:
    """30 over two steps of 10 each: as two buckets each 5 over, as a window 10."""
    admitted, allowed = [10, 15, 15, 10], [10.0] * 4

    assert metrics.bucket_peak(admitted, allowed, 2) == pytest.approx(0.25)
    assert metrics.peak_overshoot(admitted, allowed, 2) == pytest.approx(0.5)
    assert metrics.bucket_peak(admitted, allowed, 2, begin=1) == pytest.approx(0.5)


def test_a_bucket_below_the_limit_is_negative_and_one_that_is_not_whole_is_none() -> None:
    """Four steps have one bucket of three; none of five."""
    assert metrics.bucket_peak([9, 9, 9, 99], [10.0] * 4, 3) == pytest.approx(-0.1)
    assert metrics.bucket_peak([9, 9, 9, 99], [10.0] * 4, 5) is None
    assert metrics.bucket_peak([9, 9], [0.0, 0.0], 1) is None


def test_a_mean_wait_is_what_waits_over_what_passes() -> None:
    """Twenty wait at the end of every step in which ten pass: each waits two steps."""
    assert metrics.mean_wait([20, 20], [10, 10]) == 2.0
    assert metrics.mean_wait([5, 5], [0, 0]) == 0.0
