"""The wall clock of counts: waits between two readings are no time of the traffic."""

from __future__ import annotations

from coordinator.adapters.recorder.steady_clock import SET_NS, SteadyClock
from coordinator.core.model import NANOS_PER_SECOND

START_NS = 1_800_000_000 * NANOS_PER_SECOND
MS = 1_000_000


def test_a_wait_before_the_wall_clock_is_read_moves_no_count() -> None:
    """After 68 ms of waiting the count ends where it ended, and so does the next."""
    clock = SteadyClock()

    assert clock.at(0, START_NS) == START_NS
    waited = clock.at(1_000 * MS, START_NS + 1_068 * MS)
    assert 0 <= waited - (START_NS + 1_000 * MS) <= 1 * MS
    after = clock.at(1_050 * MS, START_NS + 1_050 * MS)
    assert after == START_NS + 1_050 * MS


def test_a_first_reading_that_was_late_is_mended_by_the_next() -> None:
    """The least difference is the truest."""
    clock = SteadyClock()

    assert clock.at(0, START_NS + 40 * MS) == START_NS + 40 * MS
    assert clock.at(50 * MS, START_NS + 50 * MS) == START_NS + 50 * MS


def test_a_clock_that_is_slewed_is_followed() -> None:
    """By 400 millionths, for an hour of seconds."""
    clock = SteadyClock()
    clock.at(0, START_NS)
    for second in range(1, 3_600):
        now_ns = second * NANOS_PER_SECOND
        wall_ns = START_NS + now_ns + now_ns * 400 // 1_000_000
        assert clock.at(now_ns, wall_ns) == wall_ns


def test_a_clock_that_is_set_is_followed_at_once() -> None:
    """Forward, as after a suspension, and back."""
    clock = SteadyClock()
    clock.at(0, START_NS)

    assert clock.at(1 * MS, START_NS + 1 * MS + SET_NS) == START_NS + 1 * MS + SET_NS
    assert clock.at(2 * MS, START_NS - 10 * NANOS_PER_SECOND) == START_NS - 10 * NANOS_PER_SECOND
