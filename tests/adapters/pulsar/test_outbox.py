"""Of the messages that wait for the coordinator the newest stay, in order, and the others are counted."""

from __future__ import annotations

from coordinator.adapters.pulsar.client.frames import (
    HEAD_BYTES_MAX,
    LENGTHS_BYTES,
    Frame,
    Overflowed,
    Received,
    SendOutcome,
    decode,
    sizes,
)
from coordinator.adapters.pulsar.client.outbox import WAITING_BYTES_MAX, WAITING_MAX, Outbox


def message(payload: bytes, key: str = "key") -> Received:
    """A message with this content."""
    return Received("p", 0, {key: ""}, payload)


def frames_of(taken: bytes) -> list[Frame]:
    """The frames in these bytes."""
    found = list[Frame]()
    while taken:
        head, payload = sizes(taken[:LENGTHS_BYTES])
        ends = LENGTHS_BYTES + head
        found.append(decode(taken[LENGTHS_BYTES:ends], taken[ends : ends + payload]))
        taken = taken[ends + payload :]
    return found


def test_the_newest_of_too_many_messages_stay() -> None:
    """Their number is bounded."""
    outbox = Outbox()
    messages = [message(b"%d" % number) for number in range(WAITING_MAX + 10)]
    for each in messages:
        outbox.put(each)
    assert frames_of(outbox.take()) == [*messages[10:], Overflowed(10)]


def test_the_newest_of_too_large_messages_stay() -> None:
    """Their bytes are bounded."""
    outbox, quarter = Outbox(), message(bytes(WAITING_BYTES_MAX // 4))
    for _ in range(5):
        outbox.put(quarter)
    assert frames_of(outbox.take()) == [quarter] * 3 + [Overflowed(2)]


def test_a_message_whose_properties_no_head_holds_costs_no_other() -> None:
    """Any producer can send them, by the megabyte."""
    outbox = Outbox()
    outbox.put(message(b"1", "k" * HEAD_BYTES_MAX))
    outbox.put(message(b"2"))
    assert frames_of(outbox.take()) == [message(b"2"), Overflowed(1)]


def test_answers_go_before_messages_and_none_is_dropped() -> None:
    """The library bounds their number."""
    outbox = Outbox()
    answers = [SendOutcome(number, is_taken=True) for number in range(WAITING_MAX + 1)]
    outbox.put(message(b"report"))
    for each in answers:
        outbox.answer(each)
    assert frames_of(outbox.take()) == [*answers, message(b"report")]
    assert not outbox.take()


def test_the_last_wait_says_that_it_is_the_last() -> None:
    """The rest is taken after it."""
    outbox = Outbox()
    outbox.put(message(b"1"))
    assert not outbox.wait(60)
    outbox.finish()
    assert outbox.wait(60)
    assert frames_of(outbox.take()) == [message(b"1")]
