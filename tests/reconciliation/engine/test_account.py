"""An account tells what escaped, and nothing else, whatever is in flight, lost or begun anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.reconciliation.engine.account import (
    GAP_MAX_NS,
    LEAST,
    SETTLING,
    WINDOW_NS,
    NamespaceAccount,
)
from coordinator.reconciliation.engine.counting import NOTHING, Volume

STEP_NS = 2 * NANOS_PER_SECOND
TOOK_NS = NANOS_PER_SECOND // 50
SIZE = 100
LEAST_MESSAGES = LEAST // SIZE


@dataclass
class Played:
    """An account, fed every two seconds with what a namespace's clients did."""

    account: NamespaceAccount = field(default_factory=lambda: NamespaceAccount(0))
    now_ns: int = 0
    #: Counted by one end and not by the other at the last reading.
    in_flight: int = 0

    def publish(
        self, passed: int = 0, escaped: int = 0, *, in_flight: int = 0, lost: int = 0
    ) -> int:
        """Read once; the gate counts first. Return the messages that were told."""
        counted = passed + self.in_flight - in_flight - lost + escaped
        self.in_flight = in_flight
        return self.read(counted, passed)

    def dispatch(self, sent: int = 0, escaped: int = 0, *, in_flight: int = 0) -> int:
        """Read once; the broker counts first. Return the messages that were told."""
        passed = sent + self.in_flight - in_flight
        self.in_flight = in_flight
        return self.read(sent + escaped, passed)

    def read(self, counted: int, passed: int) -> int:
        """Read once; return the messages that were told."""
        self.now_ns += STEP_NS
        told = self.account.read(
            Volume(counted, counted * SIZE),
            Volume(passed, passed * SIZE),
            elapsed_ns=STEP_NS,
            took_ns=TOOK_NS,
            now_ns=self.now_ns,
        )
        assert told.bytes == told.messages * SIZE
        return told.messages

    def goes_on(self) -> bool:
        """Return whether it says that traffic escapes now."""
        return self.account.goes_on(STEP_NS, self.now_ns)


def test_nothing_is_told_while_all_traffic_passes_the_gate() -> None:
    """At any rate."""
    played = Played()
    assert [played.publish(passed) for passed in (0, 10, 20_000, 3, 0)] == [0] * 5
    assert not played.goes_on()


def test_escaped_traffic_is_told_whole_by_the_second_reading_that_sees_it() -> None:
    """200 a second beside as many through the gate."""
    played = Played()
    assert [played.publish(400, 400) for _ in range(4)] == [0, 400, 400, 400]
    assert played.goes_on()
    assert played.account.rate().messages == pytest.approx(200)
    assert played.account.rate().bytes == pytest.approx(200 * SIZE)
    assert played.publish(400) == 400
    assert played.account.told == Volume(1_600, 1_600 * SIZE)


def test_the_rate_is_right_within_ten_seconds() -> None:
    """Even when it began between two readings."""
    played = Played()
    for _ in range(20):
        played.publish(400)
    for escaped in (130, 400, 400, 400):
        played.publish(400, escaped)
    assert played.account.rate().messages == pytest.approx(200, rel=0.1)


def test_it_is_over_soon_after_the_last_message() -> None:
    """Three readings without any, after the one that tells the last of it."""
    played = Played()
    for _ in range(5):
        played.publish(400, 400)
    for _ in range(3):
        played.publish(400)
        assert played.goes_on()
    played.publish(400)
    assert not played.goes_on()


def test_what_escapes_once_is_told_and_does_not_go_on() -> None:
    """As what is lost with the connection of a consumer; nor does it if it comes again much later."""
    played = Played()
    for _ in range(3):
        assert played.publish(0, 5_000) == 0
        assert played.publish() == 5_000
        assert not played.goes_on()
        for _ in range(GAP_MAX_NS // STEP_NS):
            played.publish()


def test_claims_neither_hide_bytes_nor_make_any() -> None:
    """The gate counts 40,000 messages a SEND that the broker counts as one, or the other way round."""
    for counted, passed in ((1, 40_000), (1_000_000, 16)):
        account = NamespaceAccount(0)
        for reading in range(1, 4):
            account.read(
                Volume(counted, 150),
                Volume(passed, 150),
                elapsed_ns=STEP_NS,
                took_ns=TOOK_NS,
                now_ns=reading * STEP_NS,
            )
        assert account.told == NOTHING
        for reading in range(4, 6):
            account.read(
                Volume(counted + 50, 150 + 6_550),
                Volume(passed, 150),
                elapsed_ns=STEP_NS,
                took_ns=TOOK_NS,
                now_ns=reading * STEP_NS,
            )
        assert account.told.bytes == 6_550


def test_a_slow_leak_is_told_late_and_not_never() -> None:
    """One message a reading is within the uncertainty; it adds up."""
    played = Played()
    told = [played.publish(0, 1) for _ in range(3 * (LEAST_MESSAGES + 1) + 1)]
    assert sum(told) == 3 * (LEAST_MESSAGES + 1)
    assert told.count(0) == len(told) - 3


def test_a_slow_leak_is_told_even_if_it_takes_longer_than_a_window() -> None:
    """The level stays where it is while the difference is above it."""
    played = Played()
    steps = 2 * WINDOW_NS // STEP_NS
    told = sum(played.publish(0, step % 8 == 0) for step in range(steps))
    assert steps // 8 - LEAST_MESSAGES - 1 <= told <= steps // 8


def test_messages_in_flight_to_the_broker_are_no_escaped_traffic() -> None:
    """They lower the difference, and give back what they took."""
    played = Played()
    played.publish(400)
    flights = (300, 0, 390, 120, 0, 400, 0)
    assert [played.publish(400, in_flight=flight) for flight in flights] == [0] * len(flights)


def test_messages_in_flight_to_consumers_are_no_escaped_traffic() -> None:
    """They raise the difference, and are gone at the next reading, however many they were."""
    played = Played()
    played.dispatch(400)
    flights = (300, 0, 40_000, 0, 100, 0, 400, 0)
    sent = (400, 400, 40_000, 0, 400, 400, 400, 0)
    told = [
        played.dispatch(*each[:1], in_flight=each[1]) for each in zip(sent, flights, strict=True)
    ]
    assert told == [0] * len(flights)


def test_what_waits_for_a_consumer_that_does_not_read_is_told_once() -> None:
    """It cannot be told from what another one gets; it is bounded, and it does not go on."""
    played = Played()
    told = [played.dispatch(sent, in_flight=1_000) for sent in (1_000, 0, 0, 0, 0)]
    assert told == [0, 1_000, 0, 0, 0]
    assert not played.goes_on()


def test_a_broker_that_stands_still_and_catches_up_lets_nothing_escape() -> None:
    """As in a long pause of its garbage collection."""
    played = Played()
    for _ in range(10):
        played.publish(2_000)
    waiting = 0
    for _ in range(15):
        waiting += 2_000
        assert not played.publish(2_000, in_flight=waiting)
    assert not played.publish(0)


def test_losses_hide_escaped_traffic_for_a_window_at_most() -> None:
    """Afterwards the level is that of the time since."""
    played = Played()
    played.publish(400)
    played.publish(400, lost=10_000)
    told = [played.publish(400, 20) for _ in range(2 * WINDOW_NS // STEP_NS)]
    assert not any(told[: WINDOW_NS // STEP_NS - 2])
    assert sum(told[WINDOW_NS // STEP_NS :]) > 0


def test_an_unknown_increase_is_no_escaped_traffic() -> None:
    """The next known increase does not include it either."""
    played = Played()
    played.publish(400)
    played.now_ns += STEP_NS
    times = {"elapsed_ns": STEP_NS, "took_ns": TOOK_NS, "now_ns": played.now_ns}
    unknown = Volume(5_000, 500_000)
    assert played.account.read(None, unknown, **times) == NOTHING
    assert played.account.read(unknown, None, **times) == NOTHING
    assert [played.publish(400) for _ in range(3)] == [0] * 3


def test_a_namespace_with_earlier_traffic_finds_its_level_first() -> None:
    """Messages in flight at the first reading are not told; those that escape later are."""
    played = Played(NamespaceAccount())
    played.in_flight = 500
    assert [played.publish(400, in_flight=flight) for flight in (200, 0, 100)] == [0] * SETTLING
    assert [played.publish(400) for _ in range(10)] == [0] * 10
    for _ in range(3):
        played.publish(400, 300)
    assert played.publish(400, 300) == 300


def test_many_messages_at_the_gate_make_it_less_certain() -> None:
    """By a quarter of a second of them, and the time of the reading."""
    played = Played()
    played.publish(20_000)
    assert played.account.uncertainty == LEAST + round(10_000 * SIZE * 0.27)
    assert [played.publish(20_000, 2_000) for _ in range(3)] == [0, 0, 4_000]


def test_an_account_without_traffic_is_idle() -> None:
    """So it may make room for another one."""
    played = Played()
    assert played.account.is_idle()
    played.publish(5)
    assert not played.account.is_idle()
    for _ in range(16):
        played.publish()
    assert played.account.is_idle()


READINGS = st.lists(
    st.tuples(
        st.integers(0, 5_000),  # passed
        st.integers(0, 3_000),  # escaped
        st.integers(0, 200),  # in flight, per mille of what passed
        st.integers(0, 50),  # lost
    ),
    min_size=1,
    max_size=60,
)


@given(READINGS)
def test_no_more_of_publishing_is_told_than_escaped(
    readings: list[tuple[int, int, int, int]],
) -> None:
    """All errors are on one side, from an exact start, with any number in flight or lost."""
    played, escaped = Played(), 0
    for passed, round_it, flight, lost in readings:
        escaped += round_it
        played.publish(
            passed,
            round_it,
            in_flight=passed * flight // 1000,
            lost=min(lost, passed),
        )
        assert played.account.told.messages <= escaped


@given(READINGS)
def test_what_is_not_told_is_less_than_uncertainty_flight_and_losses(
    readings: list[tuple[int, int, int, int]],
) -> None:
    """So nothing escapes unseen for long: it is told by the second reading that sees it."""
    played, before, gone = Played(), 0, 0
    for passed, round_it, flight, lost in readings:
        gone += min(lost, passed)
        in_flight = passed * flight // 1000
        most = max(in_flight, played.in_flight)
        played.publish(passed, round_it, in_flight=in_flight, lost=min(lost, passed))
        missing = before - played.account.told.messages
        assert missing <= played.account.uncertainty / SIZE + most + gone
        before += round_it


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 3_000)), max_size=60))
def test_no_more_of_dispatch_is_told_than_escaped_if_all_arrives_by_the_next_reading(
    readings: list[tuple[int, int]],
) -> None:
    """Every other reading finds nothing in flight."""
    played, escaped = Played(), 0
    for number, (sent, round_it) in enumerate(readings):
        escaped += round_it
        played.dispatch(sent, round_it, in_flight=sent if number % 2 else 0)
        assert played.account.told.messages <= escaped


def test_noise_of_hours_is_never_told() -> None:
    """Bursts, flights and rare losses, without any escaped traffic."""
    random, played = Random(24), Played(NamespaceAccount())
    for _ in range(1_500):
        passed = random.choice((0, 10, 400, 20_000))
        flight = round(passed * random.random() * 0.12)
        lost = random.choice((0,) * 50 + (min(passed, 30),))
        assert played.publish(passed, in_flight=flight, lost=lost) == 0
