"""Publishes above a limit that refuses: they wait for its patience, and fail then, in order."""

from __future__ import annotations

import random

import pytest

from coordinator.core.handling import Handling
from coordinator.core.model import NANOS_PER_MILLI, Rates
from coordinator.gate.protocol.final_errors import final_error_of
from coordinator.gate.protocol.refusals import RefusalReason
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client

JAVA, CPP = "Pulsar-Java-v4.2.4", "Pulsar-CPP-v3.7.1"
NOT_ALLOWED, CHECKSUM = 22, 9
TEXT = "resource group limited is over its limit: send less, or later"


def refusing(bench: Bench, limit: int, after_ms: int, version: str = JAVA) -> Client:
    """A client of a group that refuses after this time, and saves up 50 ms of its limit."""
    bench.limited(limit)
    bench.handle("limited", Handling(refuse_after_ns=after_ms * NANOS_PER_MILLI))
    return bench.producing(version=version)


def refusal(sequence_id: int, error: int = NOT_ALLOWED) -> bytes:
    """SEND_ERROR."""
    return peer.command(8, (1, 1), (2, sequence_id), (3, error), (4, TEXT))


@pytest.mark.parametrize(("version", "error"), [(JAVA, NOT_ALLOWED), (CPP, CHECKSUM)])
def test_a_publish_fails_after_the_patience_with_the_final_error_of_its_client(
    bench: Bench, version: str, error: int
) -> None:
    """It fails no earlier, the broker does not see it, and the next one may pass."""
    client = refusing(bench, 1, 200, version)
    assert client.sends(peer.send(1, 7)) == []
    bench.wait(195)
    assert client.client_got() == []
    bench.wait(10)
    assert client.client_got() == [refusal(7, error)]
    bench.wait(2_000)
    assert client.broker_got() == []
    assert client.sends(peer.send(1, 8)) == [peer.send(1, 8)]
    assert bench.counters.refusals == {RefusalReason.RATE_LIMIT: 1}


@pytest.mark.parametrize(
    "version", ["test", "2.11.4", "Pulsar Go 0.14.0", "pulsar-java-v4.2.4", ""]
)
def test_clients_without_a_final_error_are_held(bench: Bench, version: str) -> None:
    """They would connect again and send it again, or wait for ever."""
    client = refusing(bench, 1, 0, version)
    assert client.sends(peer.send(1, 7)) == []
    bench.wait(2_000)
    assert client.client_got() == []
    assert client.broker_got() == [peer.send(1, 7)]


def test_a_client_without_a_version_has_no_final_error() -> None:
    """The field is the client's to fill in."""
    assert final_error_of(None) is None
    assert final_error_of(b"\xff\xfe") is None
    assert final_error_of(b"Pulsar-CPP-v") == CHECKSUM


def test_a_refusal_waits_for_the_answers_to_all_earlier_sends(bench: Bench) -> None:
    """Clients take an answer to any but the first unanswered SEND for a fault."""
    client = refusing(bench, 100, 0)
    bench.wait(20)
    assert client.sends(*(peer.send(1, number) for number in range(4))) == [
        peer.send(1, 0),
        peer.send(1, 1),
    ]
    bench.wait(50)  # tokens for more, but the answers must come in order
    assert client.client_got() == []
    assert client.broker_got() == []
    assert client.is_sent(peer.receipt(1, 0)) == [peer.receipt(1, 0)]
    assert client.is_sent(peer.receipt(1, 1)) == [peer.receipt(1, 1), refusal(2), refusal(3)]
    assert client.sends(peer.send(1, 4)) == [peer.send(1, 4)]


def test_what_comes_behind_refused_publishes_waits_its_own_time(bench: Bench) -> None:
    """Each publish has the whole patience."""
    client = refusing(bench, 1, 200)
    client.sends(peer.send(1, 0))
    bench.wait(100)
    client.sends(peer.send(1, 1))
    bench.wait(110)
    assert client.client_got() == [refusal(0)]
    assert client.broker_got() == []
    bench.wait(100)
    assert client.client_got() == [refusal(1)]


def test_a_batch_is_refused_by_its_highest_sequence_id(bench: Bench) -> None:
    """By which Java recognizes the answer; the refused messages are counted, not the frames."""
    client = refusing(bench, 1, 0)
    client.sends(peer.send(1, 10, 5, b"x" * 100, highest=14))
    bench.wait(5)
    assert client.client_got() == [refusal(14)]
    (traffic,) = bench.groups.collect(bench.now_ns)
    assert traffic.messages == traffic.bytes == 0
    assert traffic.messages_refused == 5
    assert traffic.bytes_refused > 100


def test_chunks_are_held(bench: Bench) -> None:
    """A message without one of its chunks is of no use, and keeps memory at its consumers."""
    client = refusing(bench, 2, 0)
    chunk = peer.send(1, 1, is_chunk=True)
    assert client.sends(chunk, peer.send(1, 2)) == []
    bench.wait(400)
    assert client.client_got() == []
    bench.wait(105)
    assert client.broker_got() == [chunk]
    bench.wait(105)
    assert client.is_sent(peer.receipt(1, 1)) == [peer.receipt(1, 1), refusal(2)]


@pytest.mark.parametrize(("version", "is_refused"), [(JAVA, True), (CPP, False)])
def test_a_cpp_client_is_refused_nothing_that_may_have_timed_out(
    bench: Bench, version: str, is_refused: bool
) -> None:
    """It would crash; at a broker that has not answered for long its publishes are held instead."""
    client = refusing(bench, 100, 0, version)
    bench.wait(10)
    client.sends(peer.send(1, 0), peer.send(1, 1))
    bench.wait(15_005)
    client.broker_got()
    answers = client.is_sent(peer.receipt(1, 0))
    assert answers == [peer.receipt(1, 0), *([refusal(1)] if is_refused else [])]
    assert client.broker_got() == ([] if is_refused else [peer.send(1, 1)])


def test_other_limits_hold_as_before(bench: Bench) -> None:
    """A publish that waits for a topic's limit does not fail for its group's."""
    client = refusing(bench, 1_000_000, 0)
    bench.limit_topic(TOPIC, Rates(publish_messages=1))
    bench.wait(10)
    assert client.sends(peer.send(1, 0)) == []
    bench.wait(900)
    assert client.client_got() == client.broker_got() == []
    bench.wait(200)
    assert client.broker_got() == [peer.send(1, 0)]


def test_a_group_that_begins_to_refuse_refuses_what_waits_already(bench: Bench) -> None:
    """A group that ceases to refuse holds its publishes again."""
    bench.limited(1)
    client = bench.producing(version=JAVA)
    client.sends(peer.send(1, 0))
    bench.wait(100)
    bench.handle("limited", Handling(refuse_after_ns=50 * NANOS_PER_MILLI))
    bench.wait(5)
    assert client.client_got() == [refusal(0)]
    client.sends(peer.send(1, 1))
    bench.handle("limited", Handling())
    bench.wait(2_000)
    assert client.client_got() == []
    assert client.broker_got() == [peer.send(1, 1)]


def test_a_producer_that_moves_to_another_group_waits_for_that_one(bench: Bench) -> None:
    """This is so while it waits for the answers to its earlier publishes, too."""
    client = refusing(bench, 100, 0)
    bench.wait(10)
    assert client.sends(peer.send(1, 0), peer.send(1, 1)) == [peer.send(1, 0)]
    bench.wait(5)
    bench.attach(ns="roomy")
    assert client.broker_got() == [peer.send(1, 1)]
    receipts = [peer.receipt(1, 0), peer.receipt(1, 1)]
    assert client.is_sent(*receipts) == receipts


@pytest.mark.parametrize("end", ["close", "broker", "drain"])
def test_a_producer_that_ends_while_it_waits_to_refuse_is_forgotten(bench: Bench, end: str) -> None:
    """Its publishes get no answer, as without refusals."""
    client = refusing(bench, 100, 0)
    bench.wait(10)
    client.sends(peer.send(1, 0), peer.send(1, 1))
    bench.wait(5)
    if end == "broker":
        client.is_sent(peer.close_producer(1, 2**64 - 1))
    elif end == "drain":
        client.session.drain(bench.now_ns)
    else:
        client.session.close(bench.now_ns)
    client.client_got()
    client.is_sent(peer.receipt(1, 0))
    assert client.client_got() in ([], [peer.receipt(1, 0)])


def test_refused_publishes_count_as_waiting_for_as_long_as_they_would_take(bench: Bench) -> None:
    """At three times the limit the group counts as throttled for all of the time."""
    client = refusing(bench, 1000, 0)
    held_ns = messages = refused = sequence_id = 0
    for _ in range(200):
        sends = [peer.send(1, sequence_id + number) for number in range(15)]
        sequence_id += len(sends)
        passed = client.sends(*sends)
        bench.wait(4)
        passed += client.broker_got()
        client.is_sent(*(peer.receipt(1, number) for number, _ in enumerate(passed)))
        bench.wait(1)
        for traffic in bench.groups.collect(bench.now_ns):
            held_ns += traffic.messages_held_ns
            messages += traffic.messages
            refused += traffic.messages_refused
    assert 950 <= messages <= 1050  # within a second
    assert refused >= 1800
    assert held_ns >= 1_000_000_000


@pytest.mark.parametrize("seed", range(40))
def test_every_send_is_answered_once_and_in_order(bench: Bench, seed: int) -> None:
    """Random publishes, answers, limits and handlings: what is refused never reaches the broker."""
    dice = random.Random(seed)
    client = refusing(bench, dice.choice((1, 30, 300)), dice.choice((0, 20, 500)))
    sent, at_broker, answered, to_answer = list[bytes](), list[bytes](), list[int](), list[int]()
    by_frame = dict[bytes, int]()
    for _ in range(300):
        bench.wait(dice.choice((0, 1, 5, 40)))
        if dice.random() < 0.6:
            frames = []
            for _ in range(dice.randrange(4)):
                frame = peer.send(1, len(sent), content=b"x" * dice.choice((10, 500)))
                by_frame[frame] = len(sent)
                sent.append(frame)
                frames.append(frame)
            client.sends_on(*frames)
        if dice.random() < 0.05:
            bench.limit("limited", dice.choice((0, 1, 30, 300)))
        if dice.random() < 0.05:
            patience = dice.choice((None, 0, 20, 500))
            ns = None if patience is None else patience * NANOS_PER_MILLI
            bench.handle("limited", Handling(refuse_after_ns=ns))
        passed = client.broker_got()
        at_broker += passed
        to_answer += [by_frame[frame] for frame in passed]
        for _ in range(dice.randrange(4)):
            if to_answer:
                client.session.receive_from_broker(peer.receipt(1, to_answer.pop(0)), bench.now_ns)
        answered += numbers(client.client_got())
    bench.limit("limited", 1_000_000)
    for _ in range(5):
        bench.wait(1_000)
        passed = client.broker_got()
        at_broker += passed
        to_answer += [by_frame[frame] for frame in passed]
        while to_answer:
            client.session.receive_from_broker(peer.receipt(1, to_answer.pop(0)), bench.now_ns)
        answered += numbers(client.client_got())
    assert answered == list(range(len(sent)))
    stored = [by_frame[frame] for frame in at_broker]
    assert stored == sorted(set(stored))
    assert len(stored) + bench.counters.refusals[RefusalReason.RATE_LIMIT] == len(sent)


def numbers(frames: list[bytes]) -> list[int]:
    """The sequence ids of receipts and refusals."""
    found = []
    for frame in frames:
        assert peer.kind_of(frame) in (7, 8)
        at = frame.index(b"\x08\x01\x10", 11) + 3
        found.append(peer.read_varint(frame, at)[0])
    return found
