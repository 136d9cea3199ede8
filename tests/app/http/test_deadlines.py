"""Callers have deadlines, by a clock that the test holds."""

from __future__ import annotations

import pytest

from coordinator.app.http.deadlines import (
    ANSWER_BYTES,
    LINGER_S,
    CallerDeadlines,
    Overdue,
)

REQUEST_S = 10.0


@pytest.fixture
def deadlines() -> CallerDeadlines:
    """Those of a connection that is made at 100 s."""
    return CallerDeadlines(REQUEST_S, 100.0)


def overdue(
    deadlines: CallerDeadlines,
    now_s: float,
    *,
    answers: bool = False,
    unsent: int = 0,
    acknowledged: int = 0,
) -> Overdue | None:
    """Return the deadline that is missed, for a connection that is only read by default."""
    return deadlines.overdue(now_s, answers=answers, unsent=unsent, acknowledged=acknowledged)


def test_a_silent_connection_ends(deadlines: CallerDeadlines) -> None:
    """Counted from the connection, whatever arrives of a head meanwhile."""
    for now_s in range(101, 110):
        deadlines.received(now_s)
        assert overdue(deadlines, now_s) is None
    assert overdue(deadlines, 110.0) is None
    assert overdue(deadlines, 110.1) is Overdue.HEAD


def test_between_requests_a_head_counts_from_its_first_byte(deadlines: CallerDeadlines) -> None:
    """The silence between requests has another bound."""
    deadlines.head_taken(101.0)
    deadlines.body_ended()
    deadlines.answered(102.0)
    assert overdue(deadlines, 1000.0) is None
    deadlines.received(1000.0)
    deadlines.received(1009.0)
    assert overdue(deadlines, 1010.1) is Overdue.HEAD


def test_what_was_sent_ahead_waits_for_the_answer_before_it(deadlines: CallerDeadlines) -> None:
    """Its own time begins with that answer."""
    deadlines.head_taken(101.0)
    deadlines.body_ended()
    deadlines.received(102.0)
    assert overdue(deadlines, 200.0, answers=True) is None
    deadlines.answered(200.0)
    assert overdue(deadlines, 210.0) is None
    assert overdue(deadlines, 210.1) is Overdue.HEAD


def test_a_body_has_its_time(deadlines: CallerDeadlines) -> None:
    """From its head on, however it comes."""
    deadlines.head_taken(101.0)
    assert overdue(deadlines, 111.0, answers=True) is None
    assert overdue(deadlines, 111.1, answers=True) is Overdue.BODY
    deadlines.body_ended()
    assert overdue(deadlines, 1000.0, answers=True) is None


def test_what_is_sent_of_a_body_after_its_answer_is_read_for_a_moment(
    deadlines: CallerDeadlines,
) -> None:
    """However fast it comes."""
    deadlines.head_taken(101.0)
    deadlines.answered(102.0)
    assert overdue(deadlines, 102.0 + LINGER_S) is None
    assert overdue(deadlines, 102.1 + LINGER_S) is Overdue.LINGER


def test_an_answer_must_be_taken(deadlines: CallerDeadlines) -> None:
    """At least `ANSWER_BYTES` of it within each deadline, or the rest."""
    deadlines.head_taken(101.0)
    deadlines.body_ended()
    size = 10 * ANSWER_BYTES
    assert overdue(deadlines, 102.0, answers=True, unsent=size) is None
    assert overdue(deadlines, 112.0, answers=True, unsent=size - ANSWER_BYTES) is None
    assert overdue(deadlines, 122.0, answers=True, unsent=size - ANSWER_BYTES - 1) is None
    late = size - 2 * ANSWER_BYTES + 1
    assert overdue(deadlines, 122.1, answers=True, unsent=late) is Overdue.ANSWER
    assert overdue(deadlines, 123.0, answers=True, unsent=0) is None
    assert overdue(deadlines, 300.0, answers=True, unsent=1) is None
    assert overdue(deadlines, 310.1, answers=True, unsent=1) is Overdue.ANSWER


def test_a_buffer_that_stays_full_is_no_answer_that_is_not_taken(
    deadlines: CallerDeadlines,
) -> None:
    """The server writes on as fast as the caller takes; then the caller's machine acknowledges bytes."""
    deadlines.head_taken(101.0)
    deadlines.body_ended()
    for turn in range(100):
        now_s, has = 102.0 + 9 * turn, ANSWER_BYTES * turn
        assert overdue(deadlines, now_s, answers=True, unsent=70_000, acknowledged=has) is None
    has = 100 * ANSWER_BYTES - 1
    found = overdue(deadlines, 1_003.1, answers=True, unsent=70_000, acknowledged=has)
    assert found is Overdue.ANSWER
