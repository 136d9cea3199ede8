"""An account tells what escaped, and nothing else, whatever is in flight, lost or begun anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.reconciliation.engine.account import LEAST, SETTLING, WINDOW_NS, NamespaceAccount
from coordinator.reconciliation.engine.counting import NOTHING, PublishedCount

STEP_NS = 2 * NANOS_PER_SECOND
TOOK_NS = NANOS_PER_SECOND // 50
SIZE = 100


@dataclass
class Played:
    """An account, fed every two seconds with what a namespace's clients did."""

    account: NamespaceAccount = field(default_factory=lambda: NamespaceAccount(0))
    now_ns: int = 0
    #: Passed by the gate and not counted by the broker at the last reading.
    in_flight: int = 0

    def step(
        self,
        passed: int = 0,
        escaped: int = 0,
        *,
        in_flight: int = 0,
        lost: int = 0,
        known: bool = True,
        replicated_permille: int = 0,
    ) -> int:
        """Read once; return the messages that were told."""
        self.now_ns += STEP_NS
        counted = passed + self.in_flight - in_flight - lost + escaped
        self.in_flight = in_flight
        self.account.read(
            PublishedCount(counted, counted * SIZE) if known else None,
            PublishedCount(passed, passed * SIZE),
            elapsed_ns=STEP_NS,
            took_ns=TOOK_NS,
            now_ns=self.now_ns,
        )
        if not self.account.excess.messages:
            return 0
        return self.account.tell(replicated_permille, self.now_ns).messages

    def escapes(self) -> bool:
        """Return whether it says that traffic escapes now."""
        return self.account.escapes(STEP_NS, self.now_ns)


def test_nothing_is_told_while_all_traffic_passes_the_gate() -> None:
    """At any rate."""
    played = Played()
    assert [played.step(passed) for passed in (0, 10, 20_000, 3, 0)] == [0] * 5
    assert not played.escapes()


def test_escaped_traffic_is_told_whole() -> None:
    """200 a second beside as many through the gate, from the first full reading on."""
    played = Played()
    assert [played.step(400, 400) for _ in range(4)] == [400] * 4
    assert played.account.told == PublishedCount(1_600, 1_600 * SIZE)
    assert played.escapes()
    assert played.account.rate().messages == pytest.approx(200)
    assert played.account.rate().bytes == pytest.approx(200 * SIZE)


def test_the_rate_is_right_within_ten_seconds() -> None:
    """Even when it began between two readings."""
    played = Played()
    for _ in range(20):
        played.step(400)
    for escaped in (130, 400, 400, 400):
        played.step(400, escaped)
    assert played.account.rate().messages == pytest.approx(200, rel=0.1)


def test_it_is_over_soon_after_the_last_message() -> None:
    """Three readings without any."""
    played = Played()
    for _ in range(5):
        played.step(400, 400)
    for _ in range(2):
        played.step(400)
        assert played.escapes()
    played.step(400)
    assert not played.escapes()


def test_a_slow_leak_is_told_late_and_not_never() -> None:
    """One message a reading is within the uncertainty; it adds up."""
    played = Played()
    told = [played.step(0, 1) for _ in range(3 * (LEAST + 1))]
    assert sum(told) == 3 * (LEAST + 1)
    assert told.count(0) == len(told) - 3


def test_a_slow_leak_is_told_even_if_it_takes_longer_than_a_window() -> None:
    """The level stays where it is while the difference is above it."""
    played = Played()
    steps = 2 * WINDOW_NS // STEP_NS
    told = sum(played.step(0, step % 8 == 0) for step in range(steps))
    assert steps // 8 - LEAST <= told <= steps // 8 + 1


def test_messages_in_flight_are_no_escaped_traffic() -> None:
    """They lower the difference, and give back what they took."""
    played = Played()
    played.step(400)
    flights = (300, 0, 390, 120, 0, 400, 0)
    assert [played.step(400, in_flight=flight) for flight in flights] == [0] * len(flights)


def test_a_broker_that_stands_still_and_catches_up_raises_no_alarm() -> None:
    """As in a long pause of its garbage collection."""
    played = Played()
    for _ in range(10):
        played.step(2_000)
    waiting = 0
    for _ in range(15):
        waiting += 2_000
        assert not played.step(2_000, in_flight=waiting)
    assert not played.step(0)


def test_losses_hide_escaped_traffic_for_a_window_at_most() -> None:
    """Afterwards the level is that of the time since."""
    played = Played()
    played.step(400)
    played.step(400, lost=10_000)
    told = [played.step(400, 20) for _ in range(2 * WINDOW_NS // STEP_NS)]
    assert not any(told[: WINDOW_NS // STEP_NS - 2])
    assert sum(told[WINDOW_NS // STEP_NS :]) > 0


def test_an_unknown_increase_is_no_escaped_traffic() -> None:
    """The next known increase does not include it either."""
    played = Played()
    played.step(400)
    played.now_ns += STEP_NS
    times = {"elapsed_ns": STEP_NS, "took_ns": TOOK_NS, "now_ns": played.now_ns}
    played.account.read(None, PublishedCount(5_000, 5_000), **times)
    played.account.read(PublishedCount(5_000, 5_000), None, **times)
    assert played.account.excess == NOTHING
    assert played.step(400) == 0


def test_a_namespace_with_earlier_traffic_finds_its_level_first() -> None:
    """Messages in flight at the first reading are not told; those that escape later are."""
    played = Played(NamespaceAccount())
    played.in_flight = 500
    assert [played.step(400, in_flight=flight) for flight in (200, 0, 100)] == [0] * SETTLING
    assert [played.step(400) for _ in range(10)] == [0] * 10
    played.step(400, 300)
    assert played.step(400, 300) == 300


def test_replication_of_named_peers_is_no_escaped_traffic() -> None:
    """Its part is counted apart."""
    played = Played()
    assert played.step(0, 1_000, replicated_permille=1_000) == 0
    assert not played.escapes()
    assert played.step(0, 1_000, replicated_permille=250) == 750
    assert played.account.replicated == PublishedCount(1_250, 1_250 * SIZE)
    assert played.account.told == PublishedCount(750, 750 * SIZE)
    assert played.escapes()


def test_many_messages_at_the_gate_make_it_less_certain() -> None:
    """By a quarter of a second of them, and the time of the reading."""
    played = Played()
    played.step(20_000)
    assert played.account.uncertainty == LEAST + round(10_000 * 0.27)
    assert played.step(20_000, 2_000) == 0
    assert played.step(20_000, 2_000) == 4_000


def test_an_account_without_traffic_is_idle() -> None:
    """So it may make room for another one."""
    played = Played()
    assert played.account.is_idle()
    played.step(5)
    assert not played.account.is_idle()
    for _ in range(16):
        played.step()
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
def test_no_more_is_told_than_escaped(readings: list[tuple[int, int, int, int]]) -> None:
    """All errors are on one side, from an exact start, with any number in flight or lost."""
    played, escaped = Played(), 0
    for passed, round_it, flight, lost in readings:
        escaped += round_it
        played.step(
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
    """So nothing escapes unseen for long."""
    played, escaped, gone = Played(), 0, 0
    for passed, round_it, flight, lost in readings:
        escaped, gone = escaped + round_it, gone + min(lost, passed)
        in_flight = passed * flight // 1000
        played.step(passed, round_it, in_flight=in_flight, lost=min(lost, passed))
        missing = escaped - played.account.told.messages
        assert missing <= played.account.uncertainty + in_flight + gone


def test_noise_of_hours_is_never_told() -> None:
    """Bursts, flights and rare losses, without any escaped traffic."""
    random, played = Random(24), Played(NamespaceAccount())
    for _ in range(5_000):
        passed = random.choice((0, 10, 400, 20_000))
        flight = round(passed * random.random() * 0.12)
        lost = random.choice((0,) * 50 + (min(passed, 30),))
        assert played.step(passed, in_flight=flight, lost=lost) == 0
