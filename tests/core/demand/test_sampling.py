"""Counts show saturation before a round is over."""

from __future__ import annotations

import pytest

from coordinator.core.demand.sampling import Count, SaturationDetector
from coordinator.core.model import NANOS_PER_SECOND

COUNTS = 20
COUNT_NS = NANOS_PER_SECOND // COUNTS
LIMIT = 10_000


@pytest.fixture
def alarm() -> SaturationDetector:
    """One that goes by two counts."""
    return SaturationDetector(saturated_permille=900)


def counted(rate: int, *, waited: bool = False) -> Count:
    """A count of 50 ms: the rate per second, and whether a client waited all the time."""
    held_ns = COUNT_NS if waited else 0
    return Count(rate // COUNTS, held_ns, held_ns, COUNT_NS, rate // COUNTS, owed=0)


def counts_needed(alarm: SaturationDetector) -> int:
    """After how many counts of saturation it shows."""
    for _ in range(100):
        alarm.add(counted(0))
    for number in range(1, 100):
        alarm.add(counted(LIMIT, waited=True))
        if alarm.shows(LIMIT):
            return number
    return 100


def false_alarm(alarm: SaturationDetector) -> None:
    """The next whole round shows that the old limit would have done."""
    alarm.ring(LIMIT)
    assert alarm.close_round(LIMIT, 1_000)
    assert not alarm.close_round(LIMIT // 5, 200)


def test_two_counts_of_waiting_for_a_limit_that_is_used_up_show_saturation(
    alarm: SaturationDetector,
) -> None:
    """One may be chance; and waiting alone, or a used-up limit alone, is none."""
    assert counts_needed(alarm) == 2
    for _ in range(3):
        alarm.add(counted(LIMIT))
    assert not alarm.shows(LIMIT)
    for _ in range(3):
        alarm.add(counted(LIMIT // 2, waited=True))
    assert not alarm.shows(LIMIT)


@pytest.mark.parametrize(("count_ms", "needed"), [(1, 75), (10, 8), (50, 2), (74, 2), (75, 1)])
def test_time_shows_saturation_and_not_the_number_of_counts(count_ms: int, needed: int) -> None:
    """Of a tenth of a second, a quarter may be missing: counts do not come to the millisecond."""
    alarm = SaturationDetector(saturated_permille=900)
    count_ns = count_ms * 1_000_000
    amount = LIMIT * count_ms // 1_000

    for _ in range(needed - 1):
        alarm.add(Count(amount, count_ns, count_ns, count_ns, amount, owed=0))
        assert not alarm.shows(LIMIT)
    alarm.add(Count(amount, count_ns, count_ns, count_ns, amount, owed=0))
    assert alarm.shows(LIMIT)


def test_a_short_count_between_two_others_takes_nothing_from_them(
    alarm: SaturationDetector,
) -> None:
    """A gate that is asked once more, at the moment at which clients begin to wait, shows no less."""
    alarm.add(counted(LIMIT, waited=True))
    alarm.add(Count(10, 1_000_000, 1_000_000, 1_000_000, 10, owed=0))
    alarm.add(counted(LIMIT, waited=True))

    assert alarm.shows(LIMIT)
    assert alarm.messages == LIMIT // COUNTS * 2 + 10


def test_after_a_false_alarm_twice_as_many_counts_are_needed(alarm: SaturationDetector) -> None:
    """The number may exceed a round's counts: whole rounds judge a client that flushes once a second."""
    needed = [counts_needed(alarm)]
    for _ in range(6):
        false_alarm(alarm)
        needed.append(counts_needed(alarm))

    # Of the last 16 and 32, nine tenths.
    assert needed == [2, 4, 8, 15, 29, 29, 29]
    assert needed[-1] > COUNTS


def test_an_alarm_is_right_if_more_passed_or_a_client_still_waited(
    alarm: SaturationDetector,
) -> None:
    """The limit that it was about would not have done."""
    for rate, waited_permille in ((LIMIT + 1, 0), (LIMIT, 900)):
        alarm.ring(LIMIT)
        alarm.close_round(LIMIT, 1_000)
        alarm.close_round(rate, waited_permille)

    assert counts_needed(alarm) == 2


def test_a_minute_without_false_alarms_makes_it_bolder_again(alarm: SaturationDetector) -> None:
    """Half as many counts after every 60 rounds, and never fewer than two."""
    false_alarm(alarm)
    false_alarm(alarm)
    needed = []
    for _ in range(3):
        for _ in range(60):
            alarm.close_round(LIMIT, 0)
        needed.append(counts_needed(alarm))

    assert needed == [4, 2, 2]
