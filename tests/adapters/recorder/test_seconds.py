"""Counts become whole seconds: nothing is lost, doubled or moved further than it must be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.adapters.recorder.seconds import SPREAD_MAX_NS, Second, Seconds
from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass
from coordinator.core.traffic import Traffic

KEY = ("orders", MonitoringClass.PUBLISH)
START_NS = 1_800_000_000 * NANOS_PER_SECOND


def traffic(messages: int, participants: int = 1) -> tuple[Traffic, ...]:
    """Return the gate's counts."""
    return (
        Traffic(
            "orders",
            MonitoringClass.PUBLISH,
            messages=messages,
            bytes=messages * 100,
            participants=participants,
            topics=2,
        ),
    )


def messages_of(seconds: list[Second]) -> list[int]:
    """The messages of each second."""
    return [second.counts[KEY].messages for second in seconds]


def test_a_count_across_the_end_of_a_second_is_split_in_proportion() -> None:
    """50 ms, of which 20 ms lie in the next second."""
    seconds = Seconds()
    milli_ns = NANOS_PER_SECOND // 1000
    end_ns = START_NS + NANOS_PER_SECOND + 20 * milli_ns
    rows = [*seconds.count(traffic(100), end_ns, 50 * milli_ns), *seconds.rest()]

    assert messages_of(rows) == [60, 40]
    assert [second.observed_ns for second in rows] == [30 * milli_ns, 20 * milli_ns]


def test_a_second_is_given_out_when_it_is_over() -> None:
    """Before its end the next count may still belong to it."""
    seconds = Seconds()
    half_ns = NANOS_PER_SECOND // 2

    assert not list(seconds.count(traffic(5), START_NS + half_ns, half_ns))
    over = list(seconds.count(traffic(7), START_NS + 3 * half_ns, 2 * half_ns))
    assert [(second.start_ns, second.observed_ns) for second in over] == [
        (START_NS, NANOS_PER_SECOND)
    ]
    assert messages_of(over) == [5 + 3]
    assert messages_of(list(seconds.rest())) == [4]


def test_a_participant_that_admits_nothing_is_listed_until_it_has_left() -> None:
    """Zero is a fact, a missing row is none; the second in which it leaves says 0 participants."""
    seconds = Seconds()
    rows = []
    for number, counted in enumerate([traffic(0), traffic(0), (), ()], start=1):
        end_ns = START_NS + number * NANOS_PER_SECOND
        rows += list(seconds.count(counted, end_ns, NANOS_PER_SECOND))

    assert [
        second.counts[KEY].participants if KEY in second.counts else None for second in rows
    ] == [1, 1, 0, None]


def test_a_suspended_machine_does_not_fill_the_time_it_missed() -> None:
    """An hour between two counts is spread over its last ten seconds, and nothing is lost."""
    seconds = Seconds()
    hour_ns = 3600 * NANOS_PER_SECOND
    rows = list(seconds.count(traffic(1000), START_NS + hour_ns, hour_ns))

    assert sum(messages_of(rows)) == 1000
    assert rows[0].start_ns == START_NS + hour_ns - SPREAD_MAX_NS


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3 * NANOS_PER_SECOND),
            st.integers(0, 10**9),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_the_seconds_add_up_to_what_was_counted(counts: list[tuple[int, int]]) -> None:
    """Messages, bytes and observed time: exactly, whatever the rhythm of the counts."""
    seconds = Seconds()
    now_ns = START_NS
    rows: list[Second] = []
    for elapsed_ns, messages in counts:
        now_ns += elapsed_ns
        rows += list(seconds.count(traffic(messages), now_ns, elapsed_ns))
    rows += list(seconds.rest())

    assert sum(messages_of(rows)) == sum(messages for _, messages in counts)
    assert sum(second.counts[KEY].bytes for second in rows) == 100 * sum(m for _, m in counts)
    assert sum(second.observed_ns for second in rows) == sum(elapsed for elapsed, _ in counts)
    starts = [second.start_ns for second in rows]
    assert starts == sorted(set(starts))
    assert all(0 < second.observed_ns <= NANOS_PER_SECOND for second in rows)
