"""A raise waits until the others know of it, repeats itself, and stops waiting for suspects."""

from __future__ import annotations

import pytest

from coordinator.core.model import Dimension, Member, MonitoringClass, UsageReport
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.raise_protocol import MAX_STEPS, Raises
from tests.core.cluster import GROUP, SECOND_NS

DIMENSION = Dimension.PUBLISH_MESSAGES
KEY = (GROUP, MonitoringClass.PUBLISH)
MEMBERS = {"b1": Member("b1", 1), "b2": Member("b2", 2), "b3": Member("b3", 3)}
GAP_NS = CoreSettings("b1").urgent_gap_ns


@pytest.fixture
def raises() -> Raises:
    """Those of b1, incarnation 1."""
    return Raises(CoreSettings("b1"))


def answer(
    raises: Raises, broker: str, sequence: int, *, now_ns: int = 0, life: int = 0
) -> set[str]:
    """A peer says which report of b1 it took last; the groups for which that is news."""
    report = UsageReport(
        broker, life or MEMBERS[broker].incarnation, 1, SECOND_NS, (), answers={1: sequence}
    )
    return raises.take(report, 1, now_ns)


def known(raises: Raises, *peers: str, now_ns: int = 0) -> int:
    """Return how far all of these know that b1 may raise itself."""
    return raises.known_to(GROUP, DIMENSION, peers or ("b2", "b3"), MEMBERS, now_ns)


def want(raises: Raises, ceiling: int, *, held: int = 100, now_ns: int = 0) -> None:
    """b1 wants to go up to here."""
    raises.want(GROUP, DIMENSION, held, ceiling, now_ns)


def test_a_raise_is_known_when_everybody_has_answered_a_report_with_it(raises: Raises) -> None:
    """A lone broker needs no answer; of two peers both must answer, and not an earlier report."""
    want(raises, 300)
    assert raises.known_to(GROUP, DIMENSION, (), MEMBERS, 0) == 300
    raises.announced(7, 0)
    answer(raises, "b2", 7)
    answer(raises, "b3", 6)
    assert known(raises) == 0

    assert answer(raises, "b3", 8)

    assert known(raises) == 300


def test_only_the_answer_of_who_knows_least_is_news(raises: Raises) -> None:
    """While b2 knows of nothing, b3's answer changes nothing; nor does one that was heard before."""
    want(raises, 300)
    raises.announced(7, 0)
    answer(raises, "b3", 7)
    assert known(raises) == 0

    assert not answer(raises, "b3", 8)
    assert answer(raises, "b2", 7) == {GROUP}
    assert not answer(raises, "b2", 7)
    assert known(raises) == 300


def test_who_was_not_heard_lately_is_waited_for(raises: Raises) -> None:
    """The other peers' answers do not replace its own."""
    want(raises, 300)
    raises.announced(7, 0)
    raises.wait_for(GROUP, DIMENSION, "b3")

    assert not answer(raises, "b2", 7)
    assert answer(raises, "b3", 7) == {GROUP}


def test_who_knows_of_an_earlier_lower_ceiling_allows_that_much(raises: Raises) -> None:
    """A target that keeps growing does not push back what is known already."""
    for sequence, ceiling in ((1, 200), (2, 250), (3, 300)):
        want(raises, ceiling)
        raises.announced(sequence, 0)
    answer(raises, "b2", 3)
    answer(raises, "b3", 2)

    assert known(raises) == 250


def test_a_ceiling_that_was_lowered_in_between_counts_from_its_next_rise(raises: Raises) -> None:
    """A peer that heard of 300, then of 200, expects 200 until it hears of 300 again."""
    for sequence, ceiling in ((1, 300), (2, 200), (3, 300)):
        want(raises, ceiling)
        raises.announced(sequence, 0)
    answer(raises, "b2", 2)

    assert known(raises, "b2") == 200
    answer(raises, "b2", 3)
    assert known(raises, "b2") == 300


def test_a_bounded_number_of_steps_is_told_apart(raises: Raises) -> None:
    """Beyond the bound the newest ceiling replaces the one before: known later, never too early."""
    for sequence in range(1, 3 * MAX_STEPS):
        want(raises, 100 + sequence)
        raises.announced(sequence, 0)

    for sequence in range(1, 3 * MAX_STEPS):
        answer(raises, "b2", sequence)
        assert known(raises, "b2") <= 100 + sequence
    assert known(raises, "b2") == 100 + 3 * MAX_STEPS - 1


def test_a_restarted_peer_has_answered_nothing(raises: Raises) -> None:
    """The answers of its former incarnation do not count, nor do answers to our own former one."""
    want(raises, 300)
    raises.announced(1, 0)
    answer(raises, "b2", 1, life=1)
    assert known(raises, "b2") == 0
    answer(raises, "b2", 1)
    assert known(raises, "b2") == 300

    raises.restart()

    assert known(raises, "b2") == 0


def test_a_peer_that_left_has_answered_nothing_when_it_is_back(raises: Raises) -> None:
    """Its answers are forgotten with it: brokers that come and go leave nothing behind."""
    want(raises, 300)
    raises.announced(1, 0)
    answer(raises, "b2", 1)
    assert known(raises, "b2") == 300

    raises.set_members(MEMBERS.keys() - {"b2"})

    assert known(raises, "b2") == 0
    assert answer(raises, "b2", 1)


def test_a_raise_is_said_again_ever_more_seldom_until_it_is_dropped(raises: Raises) -> None:
    """After 100, 150, 200 ms and so on, at last once a round; then once more, that it is over."""
    want(raises, 300)
    now_ns, pauses = 0, []
    for sequence in range(1, 30):
        assert raises.waits(now_ns)
        raises.announced(sequence, now_ns)
        began_ns = now_ns
        while not raises.waits(now_ns):
            now_ns += GAP_NS
        pauses.append(now_ns - began_ns)

    assert pauses[:3] == [2 * GAP_NS, 3 * GAP_NS, 4 * GAP_NS]
    assert pauses[-1] == SECOND_NS
    raises.announced(30, now_ns)
    raises.drop(GROUP, DIMENSION)
    assert raises.due(now_ns)
    assert raises.keys() == {KEY}
    raises.announced(31, now_ns)
    assert not raises.due(now_ns + SECOND_NS)


def test_a_small_raise_goes_with_the_reports_of_the_rounds(raises: Raises) -> None:
    """Up to 5 % is not worth a report of its own, neither for the asker nor for those who answer."""
    want(raises, 105)

    assert not raises.due(SECOND_NS)
    assert raises.keys() == {KEY}
    want(raises, 120)
    assert raises.due(SECOND_NS)


def test_small_pieces_of_room_add_up_to_a_raise_worth_hurrying_for(raises: Raises) -> None:
    """Many brokers lower themselves a little each; against what was held the sum is what counts."""
    for ceiling in (102, 104, 105):
        want(raises, ceiling)
        assert not raises.due(SECOND_NS)
    want(raises, 106)
    assert raises.waits(0)
    raises.announced(1, 0)

    want(raises, 107)
    assert not raises.waits(0)


def test_who_is_heard_but_never_answers_is_not_waited_for_for_ever(raises: Raises) -> None:
    """After 30 s of asking; it has stopped raising long before. Who answers at times is waited for."""
    hold_ns = CoreSettings("b1").hold_ns
    want(raises, 300)
    raises.announced(1, 0)
    answer(raises, "b2", 0, now_ns=SECOND_NS)
    answer(raises, "b3", 1)

    assert known(raises, now_ns=hold_ns) == 0
    assert known(raises, now_ns=hold_ns + SECOND_NS) == 300
