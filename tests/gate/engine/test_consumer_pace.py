"""A consumer answers its messages as fast as it likes; a client that sends more of it is paced."""

from __future__ import annotations

import pytest

from coordinator.gate.engine.consumer import ALLOWED_AT_FIRST
from coordinator.gate.engine.consumer_pace import (
    ALLOWED_MAX,
    FURTHER_AT_ONCE,
    FURTHER_PER_SECOND,
    PER_MESSAGE,
)
from coordinator.gate.limits.throttle import ThrottleReason
from tests.gate import peer
from tests.gate.conftest import MILLISECOND_NS, TOPIC, Bench, Client
from tests.gate.peer import command, message

AT_ONCE = ALLOWED_AT_FIRST + FURTHER_AT_ONCE
"""Commands or ids of a connection with one new consumer."""

MESSAGE_ID = message((1, 300), (2, 70_000))


def ack(ids: int = 1) -> bytes:
    """An ACK of consumer 1."""
    return command(10, (1, 1), (2, 0), *[(3, MESSAGE_ID)] * ids)


def redeliver() -> bytes:
    """A REDELIVER of consumer 1."""
    return command(20, (1, 1), (2, MESSAGE_ID))


def consuming(bench: Bench, batches: int = 0, each: int = 1) -> Client:
    """A client with one consumer that got batches of messages."""
    client = bench.client()
    client.opens(peer.subscribe(TOPIC))
    client.sends(peer.flow(1, max(1, batches)))
    if batches:
        client.is_sent(*[peer.delivery(messages=each, content=b"y" * 6 * each)] * batches)
    return client


def advance(bench: Bench, client: Client, seconds: float) -> list[bytes]:
    """Time passes; returned is what then reaches the broker."""
    bench.now_ns += int(seconds * 1000) * MILLISECOND_NS
    client.session.advance(bench.now_ns)
    return client.broker_got()


def test_what_messages_call_for_passes(bench: Bench) -> None:
    """Each acknowledged, asked for again, and replaced by a permit: no allowance is touched."""
    count = 2 * FURTHER_AT_ONCE
    client = consuming(bench, count)
    answers = [frame for _ in range(count) for frame in (ack(), redeliver(), peer.flow(1, 1))]

    assert client.sends(*answers) == answers
    assert not client.session.paused
    assert client.sends(ack(FURTHER_AT_ONCE)) == [ack(FURTHER_AT_ONCE)]


@pytest.mark.parametrize(
    "frame", [ack(), redeliver(), peer.flow(1, 1)], ids=["ACK", "REDELIVER", "FLOW"]
)
def test_what_no_message_calls_for_passes_at_a_bounded_rate(bench: Bench, frame: bytes) -> None:
    """Beyond the allowance it waits; all of it arrives, and the client sees no error."""
    client = consuming(bench)
    sent = 3 * (FURTHER_AT_ONCE + FURTHER_PER_SECOND)
    passed = len(client.sends(*[frame] * sent))
    assert passed == AT_ONCE - 1  # the first permits were one
    assert client.session.throttle.counts[ThrottleReason.CONSUMER_COMMANDS] == 1

    seconds = -(-(sent - passed) // FURTHER_PER_SECOND)
    later = [len(advance(bench, client, 1.0)) for _ in range(seconds)]
    assert later[:-1] == [FURTHER_PER_SECOND] * (seconds - 1)
    assert passed + sum(later) == sent
    assert client.refusals == []


def test_ids_count_and_not_commands(bench: Bench) -> None:
    """A command passes as long as anything is left; the next one waits until all of it was earned."""
    client = consuming(bench)
    assert client.sends(ack(10_000), ack()) == [ack(10_000)]
    waits_s = (10_000 - AT_ONCE) // FURTHER_PER_SECOND
    assert advance(bench, client, waits_s - 1) == []
    assert advance(bench, client, 1.1) == [ack()]


def test_what_was_not_used_of_the_allowance_is_bounded(bench: Bench) -> None:
    """After an hour as after a few seconds; and of a consumer after any number of messages."""
    client = consuming(bench)
    client.sends(ack(1_000))
    bench.now_ns += 3_600_000 * MILLISECOND_NS
    assert len(client.sends(*[ack(1_000)] * 5)) <= AT_ONCE // 1_000
    assert client.session.paused

    other = consuming(bench, ALLOWED_MAX // PER_MESSAGE // 1_000 + 5, each=1_000)
    frames = [ack(10_000)] * (ALLOWED_MAX // 10_000 + 3)
    passed = len(other.sends(*frames))
    assert ALLOWED_MAX // 10_000 <= passed <= ALLOWED_MAX // 10_000 + 1


def test_a_new_consumer_brings_a_few_commands_of_its_own(bench: Bench) -> None:
    """Any number of consumers of one connection get their first permits at once."""
    client = bench.client()
    consumers = FURTHER_AT_ONCE + 500
    for number in range(1, consumers + 1):
        client.opens(peer.subscribe(TOPIC, consumer_id=number, request_id=number))
    permits = [peer.flow(number) for number in range(1, consumers + 1)]

    assert client.sends(*permits) == permits
    assert not client.session.paused


def test_the_commands_of_an_unknown_consumer_take_nothing_of_the_allowance(bench: Bench) -> None:
    """They are dropped, and the broker has no work with them."""
    client = consuming(bench)
    stray = command(10, (1, 9), (2, 0), (3, MESSAGE_ID))
    assert client.sends(*[stray] * 2 * FURTHER_AT_ONCE) == []
    assert client.sends(ack(FURTHER_AT_ONCE)) == [ack(FURTHER_AT_ONCE)]
