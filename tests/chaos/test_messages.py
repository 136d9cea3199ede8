"""The checker finds each broken rule among messages, and excuses what a mishap explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from deploy.chaos.checker import messages
from deploy.chaos.checker.counted import Counted
from deploy.chaos.checker.history import Breach, Delivery, Mishap, TopicMessages
from deploy.chaos.checker.recovery_window import recovery_windows
from tests.chaos.scenes import BROKERS, MESSAGES, UNTIL_S, history, mishap, sent, topic

ALL = list(range(MESSAGES))


def findings(found: TopicMessages, mishaps: Sequence[Mishap] = ()) -> list[Breach]:
    """Return the findings in one topic."""
    run = history(topics=[found], mishaps=mishaps)
    return list(messages.check(run, recovery_windows(run, Counted(run))))


def rules(found: TopicMessages, mishaps: Sequence[Mishap] = ()) -> set[str]:
    """The rules that do not hold for one topic."""
    return {finding.rule for finding in findings(found, mishaps)}


def test_nothing_is_found_when_all_is_stored_and_delivered_once_and_in_order() -> None:
    """The scene itself has no fault."""
    assert rules(topic()) == set()


def test_an_acknowledged_message_that_is_not_stored_is_lost() -> None:
    """A SEND that was dropped, its receipt notwithstanding."""
    found = findings(topic([n for n in ALL if n != 120]))

    assert [finding.rule for finding in found] == ["lost", "late"]
    assert "120" in found[0].text


def test_a_message_without_a_receipt_may_be_stored_or_not() -> None:
    """The broker promised an answer and nothing else."""
    open_ended = [replace(message, receipt_s=None) for message in sent()[-3:]]
    messages_sent = [*sent()[:-3], *open_ended]

    assert rules(topic(ALL[:-3], messages=messages_sent)) == {"unanswered"}
    assert rules(topic(ALL, messages=messages_sent)) == {"unanswered"}


def test_a_message_that_was_refused_is_found_with_the_reason() -> None:
    """No side gives up: the client waits for ever, and the gate holds."""
    refused = [replace(sent()[-1], receipt_s=None, refusal="ChecksumError")]
    (finding,) = findings(topic(ALL[:-1], messages=[*sent()[:-1], *refused]))

    assert finding.rule == "refused"
    assert "ChecksumError: 199" in finding.text


def test_a_later_message_that_is_stored_first_is_reordered() -> None:
    """Two neighbours are enough, and a resend afterwards does not make it good."""
    swapped = [*ALL[:50], 51, 50, *ALL[52:]]
    resent = [*ALL[:50], 51, 50, 51, *ALL[52:]]

    assert "reordered" in rules(topic(swapped))
    assert "reordered" in rules(topic(resent), [mishap(0, 30, cuts=BROKERS)])


def test_a_dropped_message_that_the_client_repairs_is_seen_in_the_order() -> None:
    """The client sees a receipt out of order, connects again and sends both: 51, 50, 51."""
    repaired = [*ALL[:50], 51, 50, 51, *ALL[52:]]

    assert "reordered" in rules(topic(repaired), [mishap(0, 30, cuts=BROKERS)])


def test_a_message_that_is_stored_twice_is_doubled_unless_a_connection_broke() -> None:
    """Message 100 is sent at 10 s; a client sends again what has no receipt when it reconnects."""
    twice = [*ALL[:101], 99, 100, *ALL[101:]]

    assert rules(topic(twice)) == {"doubled"}
    assert rules(topic(twice), [mishap(9, 10.2, cuts=BROKERS)]) == set()
    assert rules(topic(twice), [mishap(9, 10.2)]) == {"doubled"}
    assert rules(topic(twice), [mishap(30, 31, cuts=BROKERS)]) == {"doubled"}
    assert rules(topic(twice), [mishap(9, 10.2, cuts=BROKERS[1:])]) == {"doubled"}


def test_a_connection_breaks_no_longer_than_until_seconds_after_the_recovery() -> None:
    """All was as before at 6 s; 19 s were allowed."""
    twice = [*ALL[:151], 150, *ALL[151:]]

    assert rules(topic(twice), [mishap(3, 4, 19.0, cuts=BROKERS)]) == {"doubled"}


def test_a_message_that_was_never_sent_is_strange() -> None:
    """The payload is garbled, or another publisher's."""
    assert rules(topic([*ALL, MESSAGES + 5])) == {"strange"}


def test_a_stored_message_that_is_not_delivered_is_found() -> None:
    """A MESSAGE frame that was dropped on its way to the consumer."""
    delivered = [got for got in topic().delivered if got.number != 7]

    assert rules(topic(delivered=delivered)) == {"undelivered", "late"}


def test_a_message_that_is_delivered_with_what_is_in_another_one_is_found() -> None:
    """Message 7 comes with the content of 6."""
    delivered = list(topic().delivered)
    delivered[7] = replace(delivered[7], number=6)

    assert "undelivered" in rules(topic(delivered=delivered))


def test_what_comes_seconds_late_in_calm_is_found() -> None:
    """The consumer's permits are lost, and come back when the connection is closed at last."""
    late = [replace(got, at_s=max(got.at_s, 15.0)) for got in topic().delivered]

    assert rules(topic(delivered=late)) == {"late"}
    assert rules(topic(delivered=late), [mishap(0.1, 13.0)]) == set()


def test_a_second_delivery_needs_a_broken_connection_in_between() -> None:
    """The consumer had not acknowledged it when its connection broke."""
    delivered = list(topic().delivered)
    again = Delivery(199, delivered[-1].message_id, UNTIL_S - 10)

    assert rules(topic(delivered=[*delivered, again])) == {"redelivered"}
    assert rules(topic(delivered=[*delivered, again]), [mishap(30, 40, cuts=BROKERS)]) == set()


def test_deliveries_out_of_order_are_found() -> None:
    """The first delivery of each counts."""
    delivered = list(topic().delivered)
    delivered[20], delivered[21] = delivered[21], delivered[20]

    assert rules(topic(delivered=delivered)) == {"reordered"}


@pytest.mark.parametrize("count", [0, 3])
def test_a_run_in_which_nothing_was_acknowledged_shows_nothing(count: int) -> None:
    """An empty history is no good one."""
    unanswered = [replace(message, receipt_s=None) for message in sent(count)]

    assert "messages" in rules(topic([], messages=unanswered))
