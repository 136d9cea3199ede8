"""Counts become whole minutes that add up, with the seconds in which clients waited."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.adapters.recorder.minutes import Minute, Minutes
from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass
from coordinator.core.traffic import NamespaceKey, NamespaceTraffic

KEY = NamespaceKey("shop", "orders", ("orders",), MonitoringClass.PUBLISH)
START_NS = 1_800_000_000 * NANOS_PER_SECOND
MILLI_NS = NANOS_PER_SECOND // 1000


def traffic(messages: int, held_ns: int = 0) -> list[NamespaceTraffic]:
    """Return the gate's counts of one namespace."""
    return [NamespaceTraffic(KEY, messages, messages * 100, held_ns)]


def messages_of(minutes: list[Minute]) -> list[int]:
    """The messages of each minute."""
    return [minute.counts[KEY].messages for minute in minutes]


def test_a_minute_is_given_out_when_it_is_over() -> None:
    """A count across its end is split in proportion."""
    minutes = Minutes()
    assert minutes.count(traffic(50), START_NS + NANOS_PER_SECOND, NANOS_PER_SECOND) == []
    over = minutes.count(
        traffic(100), START_NS + 60 * NANOS_PER_SECOND + 300 * MILLI_NS, NANOS_PER_SECOND
    )

    assert messages_of(over) == [50 + 70]
    assert [(each.start_ns, each.observed_ns) for each in over] == [(START_NS, 1700 * MILLI_NS)]
    assert messages_of(minutes.rest()) == [30]
    assert minutes.rest() == []


def test_a_second_is_throttled_when_clients_waited_more_than_a_tenth_of_it() -> None:
    """However many counts it was told in."""
    minutes = Minutes()
    held_milli = {3: (60, 50), 4: (60, 30), 59: (500, 500)}
    for second in range(60):
        for half, held in enumerate(held_milli.get(second, (0, 0)), start=1):
            end_ns = START_NS + second * NANOS_PER_SECOND + half * 500 * MILLI_NS
            minutes.count(traffic(1, held * MILLI_NS), end_ns, 500 * MILLI_NS)
    (minute,) = minutes.rest()

    assert minute.counts[KEY].throttled == 1 << 3 | 1 << 59
    assert minute.counts[KEY].held_ns == 1200 * MILLI_NS


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**6),
            st.integers(0, 3 * NANOS_PER_SECOND),
            st.integers(-(10**11), 10**11),
        ),
        max_size=30,
    )
)
def test_nothing_is_lost_or_doubled(counts: list[tuple[int, int, int]]) -> None:
    """The wall clock may be set forward, set back, or stand still."""
    minutes, given_out, wall_ns = Minutes(), list[Minute](), START_NS
    for messages, elapsed_ns, jump_ns in counts:
        wall_ns += elapsed_ns + jump_ns
        given_out += minutes.count(traffic(messages), wall_ns, elapsed_ns)
    given_out += minutes.rest()

    found = sum(minute.counts[KEY].messages for minute in given_out if KEY in minute.counts)
    assert found == sum(messages for messages, elapsed_ns, _ in counts if elapsed_ns)
    observed_ns = sum(minute.observed_ns for minute in given_out)
    assert observed_ns == sum(elapsed_ns for _, elapsed_ns, _ in counts)
