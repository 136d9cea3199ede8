"""The time between polls of the broker's counters: longer where they cost more and show less."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.counting import NamespaceCount
from coordinator.native.engine.poll_pace import PollPace

LEAST_S = 0.5
OF_MANY_TOPICS_S = 0.6


def paced(took_s: float = OF_MANY_TOPICS_S) -> PollPace:
    """The pace after a first poll that took this time and found nothing."""
    pace = PollPace(LEAST_S)
    pace.took(took_s)
    polled(pace)
    return pace


def polled(
    pace: PollPace,
    messages: int = 0,
    participants: Mapping[str, tuple[int, int]] | None = None,
    *,
    is_reported: bool = True,
) -> bool:
    """A poll that found this number of messages in a second; return whether that is news."""
    counts = {"t/n": NamespaceCount(messages=messages)}
    return pace.polled(counts, participants or {}, NANOS_PER_SECOND, is_reported=is_reported)


@pytest.mark.parametrize(
    ("took_s", "messages", "soonest_s", "latest_s"),
    [
        (0.0, 100, 0.5, 0.5),
        (0.01, 100, 0.5, 0.5),
        (0.05, 100, 1.0, 1.0),
        (0.1, 100, 2.0, 5.0),
        (0.6, 100, 5.0, 15.0),
        (0.1, 0, 2.0, 20.0),
        (0.6, 0, 5.0, 120.0),
        (9.0, 0, 5.0, 120.0),
    ],
)
def test_polls_take_a_part_of_the_time_and_are_never_further_apart_than_two_minutes(
    took_s: float, messages: int, soonest_s: float, latest_s: float
) -> None:
    """The more they take, and the less there is to see, the further."""
    pace = paced(took_s)
    polled(pace, messages)
    assert (pace.soonest_s, pace.latest_s) == pytest.approx((soonest_s, latest_s))


def test_the_shortest_of_the_last_eight_polls_counts() -> None:
    """A machine that is busy for a moment makes a poll long; more topics make all of them long."""
    pace = paced(0.1)
    for _ in range(7):
        pace.took(2.0)
    assert pace.soonest_s == pytest.approx(2.0)
    pace.took(2.0)
    assert pace.soonest_s == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("before", "now", "has_news"),
    [
        (0, 10, False),
        (0, 11, True),
        (1_000, 1_250, False),
        (1_000, 1_400, True),
        (1_400, 1_000, True),
    ],
)
def test_it_is_news_that_what_passes_has_moved_by_a_quarter(
    before: int, now: int, *, has_news: bool
) -> None:
    """Up, down, or to nothing; ten messages a second more or less are none."""
    pace = paced()
    polled(pace, before)
    assert polled(pace, now) is has_news


def test_it_is_news_that_a_home_is_published_to_no_more() -> None:
    """A broker names no topic that it does not serve any more."""
    pace = paced()
    polled(pace, 1_000)
    assert pace.polled({}, {}, NANOS_PER_SECOND, is_reported=True)


def test_it_is_news_that_clients_come_or_go() -> None:
    """Idle ones count, too."""
    pace = paced()
    for participants, has_news in (({"g": (1, 0)}, True), ({"g": (1, 0)}, False), ({}, True)):
        assert polled(pace, participants=participants) is has_news


def test_a_report_is_news_by_use_that_is_new_and_by_another_process() -> None:
    """All other reports of the same process are not."""
    pace = paced()
    reports = (("a", False), ("a", False), ("a", True), ("b", False), ("b", False))
    found = [pace.heard(reporter, is_new_use=is_new_use) for reporter, is_new_use in reports]
    assert found == [True, False, True, True, False]


def test_polls_are_not_rare_where_no_report_tells_of_what_is_limited() -> None:
    """Dispatch is in no report of a broker."""
    pace = paced()
    polled(pace, is_reported=False)
    assert pace.latest_s == pytest.approx(15.0)
