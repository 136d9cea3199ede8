"""The trim takes out the messages that batches add, and adds those that are lost as intervals end."""

from __future__ import annotations

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.trim import LEAST_PERMILLE, MOST_PERMILLE, WHOLE, Trim

S = NANOS_PER_SECOND


def run(trim: Trim, over: float, seconds: int, limit: int = 1_000) -> None:
    """Run a broker that admits this much more than its limit, for this long."""
    for _ in range(2 * seconds):
        trim.count(int(limit * trim.permille / WHOLE * over / 2), limit, S // 2, held=True)


def run_with_buckets(
    trim: Trim,
    excess: int,
    seconds: int,
    poll_ms: int,
    limit: int = 1_000,
    *,
    lost_permille: int = 0,
) -> None:
    """Run a broker as it is: half of the limit and the excess as a second begins, the rest evenly.

    Something of the limit is lost as each second ends.
    """
    at_ms = 0
    for end_ms in range(poll_ms, seconds * 1_000 + 1, poll_ms):
        counted = 0
        for ms in range(at_ms, end_ms):
            if ms % 1_000 == 0:
                counted += (
                    limit * trim.permille // (2 * WHOLE) + excess - limit * lost_permille // WHOLE
                )
            if ms % 20 == 0:
                counted += limit * trim.permille // (100 * WHOLE)
        trim.count(counted, limit, (end_ms - at_ms) * S // 1_000, held=True)
        at_ms = end_ms


@pytest.mark.parametrize("poll_ms", [310, 500, 530, 790])
@pytest.mark.parametrize("limit", [100, 1_000, 3_000])
@pytest.mark.parametrize("excess_percent", [6, 15])
def test_batches_are_taken_out_within_eight_seconds(
    poll_ms: int, limit: int, excess_percent: int
) -> None:
    """Whether the measured time has one beginning of an interval more or less makes no difference."""
    trim = Trim(1)
    excess = limit * excess_percent // 100
    run_with_buckets(trim, excess, 8, poll_ms, limit)
    assert abs(limit * trim.permille // WHOLE + excess - limit) <= limit // 50


@pytest.mark.parametrize("poll_ms", [310, 500, 530, 790])
@pytest.mark.parametrize("limit", [15, 16, 25, 50, 333])
def test_the_turns_of_a_small_limit_are_not_taken_for_batches(poll_ms: int, limit: int) -> None:
    """A broker has one of two whole numbers for its quota, and loses the last messages of an interval."""
    trim = Trim(1)
    at_ms = 0
    bucket, due, quota = 0.0, 0.0, 0
    for end_ms in range(poll_ms, 120_001, poll_ms):
        counted = 0
        for ms in range(at_ms, end_ms):
            if ms % 1_000 == 0:
                turn = ms // 1_000
                quota = (turn + 1) * (limit + 1) // 2 - turn * (limit + 1) // 2
                bucket, due = float(quota), 0.0
            due += quota / 1_000
            if ms % 20 == 0:
                bucket, due = bucket + due, 0.0
                counted += int(bucket)
                bucket -= int(bucket)
        trim.count(counted, limit, (end_ms - at_ms) * S // 1_000, held=True)
        at_ms = end_ms
        assert limit <= (limit * trim.permille + WHOLE // 2) // WHOLE <= limit * 1.01 + 0.5


def test_a_broker_that_admits_more_comes_to_its_limit_though_its_buckets_do_not_show() -> None:
    """Within a look or two, of ten intervals each."""
    trim = Trim(1)
    run(trim, 1.08, 60)
    assert abs(trim.permille * 1.08 - WHOLE) <= 12


def test_of_a_limit_that_moves_as_many_messages_are_taken_out() -> None:
    """A tick lets one batch too many pass, of 1,500 messages as of 1,000."""
    trim = Trim(1)
    run(trim, 1.05, 60, limit=1_500)
    taken_out = 1_500 * (WHOLE - trim.permille)
    assert taken_out > 1_500 * 30
    run(trim, 1.0, 1, limit=1_000)
    assert abs(1_000 * (WHOLE - trim.permille) - taken_out) <= 1_000
    run(trim, 1.0, 1, limit=10)
    assert trim.permille == LEAST_PERMILLE
    run(trim, 50.0, 60)
    assert trim.permille == LEAST_PERMILLE


@pytest.mark.parametrize("poll_ms", [310, 500, 530, 790])
@pytest.mark.parametrize("limit", [1_000, 3_000, 100_000])
def test_what_is_lost_as_intervals_end_is_made_up_for(poll_ms: int, limit: int) -> None:
    """Within two measurements; nothing is added where nothing is lost, and no more than a hundredth."""
    trim = Trim(1)
    run_with_buckets(trim, 0, 30, poll_ms, limit)
    assert WHOLE <= trim.permille <= WHOLE + 4
    run_with_buckets(trim, 0, 20, poll_ms, limit, lost_permille=8)
    assert WHOLE + 6 <= trim.permille <= WHOLE + 10
    run_with_buckets(trim, 0, 60, poll_ms, limit, lost_permille=18)
    assert trim.permille == MOST_PERMILLE
    run_with_buckets(trim, 0, 40, poll_ms, limit)
    assert WHOLE <= trim.permille <= WHOLE + 4


def test_what_is_made_up_for_is_a_part_of_any_limit() -> None:
    """Unlike the excess of batches, it moves with the limit."""
    trim = Trim(1)
    run_with_buckets(trim, 0, 20, 500, lost_permille=8)
    factor = trim.permille
    assert factor > WHOLE
    run_with_buckets(trim, 0, 1, 500, 3_000)
    assert trim.permille == factor


def test_what_is_no_longer_needed_ends() -> None:
    """It does not go above what the limit asks for while the beginnings of intervals are not known."""
    trim = Trim(1)
    run(trim, 1.08, 60)
    run(trim, 1.0, 120)
    assert trim.permille >= 988
    run(trim, 0.9, 120)
    assert trim.permille == WHOLE


def test_a_limit_that_moves_and_who_does_not_wait_teach_nothing() -> None:
    """Admitted messages say nothing of a limit that moved or does not bind."""
    trim = Trim(1)
    for number in range(200):
        trim.count(2_000, 1_000 + 50 * (number % 2), S // 2, held=True)
        trim.count(2_000, 1_000, S // 2, held=False)
    assert trim.permille == WHOLE
