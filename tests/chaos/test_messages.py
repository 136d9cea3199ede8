"""What is found among messages: each rule with a history that breaks it, and with what excuses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from deploy.chaos.checker import messages
from deploy.chaos.checker.history import Mishap, Received, Topic
from tests.chaos.scenes import MESSAGES, UNTIL_S, history, mishap, sent, topic

ALL = list(range(MESSAGES))


def rules(found: Topic, mishaps: Sequence[Mishap] = ()) -> set[str]:
    """The rules that do not hold for one topic."""
    return {finding.rule for finding in messages.check(history(topics=[found], mishaps=mishaps))}


def test_nothing_is_found_when_all_is_stored_and_delivered_once_and_in_order() -> None:
    """The scene itself has no fault."""
    assert rules(topic()) == set()


def test_an_acknowledged_message_that_is_not_stored_is_lost() -> None:
    """A SEND that was dropped, its receipt notwithstanding."""
    (finding,) = messages.check(history(topics=[topic([n for n in ALL if n != 120])]))

    assert finding.rule == "lost"
    assert "120" in finding.text


def test_a_message_without_a_receipt_may_be_stored_or_not() -> None:
    """Nobody was promised anything."""
    open_ended = [replace(message, receipt_s=None) for message in sent()[-3:]]
    messages_sent = [*sent()[:-3], *open_ended]

    assert rules(topic(ALL[:-3], messages=messages_sent)) == set()
    assert rules(topic(ALL, messages=messages_sent)) == set()


def test_a_later_message_that_is_stored_first_is_reordered() -> None:
    """Two neighbours are enough, and a resend afterwards does not make it good."""
    swapped = [*ALL[:50], 51, 50, *ALL[52:]]
    resent = [*ALL[:50], 51, 50, 51, *ALL[52:]]

    assert "reordered" in rules(topic(swapped))
    assert "reordered" in rules(topic(resent), [mishap(0, 30, cuts=True)])


def test_a_dropped_message_that_the_client_repairs_is_seen_in_the_order() -> None:
    """The client sees a receipt out of order, connects again and sends both: 51, 50, 51."""
    repaired = [*ALL[:50], 51, 50, 51, *ALL[52:]]

    assert "reordered" in rules(topic(repaired), [mishap(0, 30, cuts=True)])


def test_a_message_that_is_stored_twice_is_doubled_unless_a_connection_broke() -> None:
    """Message 100 is sent at 10 s; a client sends again what has no receipt when it reconnects."""
    twice = [*ALL[:101], 99, 100, *ALL[101:]]

    assert rules(topic(twice)) == {"doubled"}
    assert rules(topic(twice), [mishap(9, 10.2, cuts=True)]) == set()
    assert rules(topic(twice), [mishap(9, 10.2)]) == {"doubled"}
    assert rules(topic(twice), [mishap(30, 31, cuts=True)]) == {"doubled"}


def test_something_that_nobody_sent_is_strange() -> None:
    """A garbled payload, or somebody else's."""
    assert rules(topic([*ALL, MESSAGES + 5])) == {"strange"}


def test_a_stored_message_that_is_not_delivered_is_found() -> None:
    """A MESSAGE frame that was dropped on its way to the consumer."""
    delivered = [got for got in topic().delivered if got.number != 7]

    assert rules(topic(delivered=delivered)) == {"undelivered"}


def test_a_second_delivery_needs_a_broken_connection_in_between() -> None:
    """The consumer had not acknowledged it when its connection broke."""
    delivered = list(topic().delivered)
    again = Received(199, delivered[-1].message_id, UNTIL_S - 10)

    assert rules(topic(delivered=[*delivered, again])) == {"redelivered"}
    assert rules(topic(delivered=[*delivered, again]), [mishap(30, 40, cuts=True)]) == set()


def test_deliveries_out_of_order_are_found() -> None:
    """The first delivery of each counts."""
    delivered = list(topic().delivered)
    delivered[20], delivered[21] = delivered[21], delivered[20]

    assert rules(topic(delivered=delivered)) == {"reordered"}


@pytest.mark.parametrize("count", [0, 3])
def test_a_run_in_which_nothing_was_acknowledged_shows_nothing(count: int) -> None:
    """An empty history is no good one."""
    unanswered = [replace(message, receipt_s=None) for message in sent(count)]

    assert rules(topic([], messages=unanswered)) == {"messages"}
