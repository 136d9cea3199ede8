"""A client gives the gate a bounded amount of work in one go, in units that follow its cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.gate.protocol import rewriting, schema
from coordinator.gate.protocol.frames import (
    ACK,
    FIELDS_MAX,
    REDELIVER,
    UNKNOWN_MAX,
    FrameFault,
    MalformedFrame,
    command_max,
    read_message,
)
from coordinator.gate.protocol.refusals import RefusalReason
from coordinator.gate.protocol.stream import WORK_BYTES, WORK_FIELDS
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client
from tests.gate.peer import command, message, varint

MESSAGE_ID = message((1, 300), (2, 70_000))


def ack(count: int) -> bytes:
    """An ACK of this many messages."""
    return command(10, (1, 1), (2, 0), *[(3, MESSAGE_ID)] * count)


def publish(properties: int, *more: peer.Field, key: str = "k", value: str = "v") -> bytes:
    """A SEND whose metadata have this many properties, and more."""
    pair = message((1, key), (2, value))
    metadata = message((1, "p"), (2, 1), (3, 1), *[(4, pair)] * properties, *more)
    head = message((1, 6), (6, message((1, 1), (2, 1))))
    return peer.frame(head, len(metadata).to_bytes(4, "big") + metadata)


def consuming(bench: Bench) -> Client:
    """A client with one consumer."""
    client = bench.client()
    client.opens(peer.subscribe(TOPIC))
    return client


@pytest.mark.parametrize("kind", [2, 4, 5, 10, 20, 23, 34, 37, 39, 52])
def test_a_command_that_is_larger_than_its_content_can_need_is_refused_by_its_head(
    bench: Bench, kind: int
) -> None:
    """Before the rest of it has arrived, and whatever the size of a message may be."""
    client = bench.client()
    size = command_max(kind) + 1
    body = varint(kind << 3 | 2) + varint(size)
    head = size.to_bytes(4, "big")
    frame = (size + 4).to_bytes(4, "big") + head + b"\x08" + varint(kind) + body + b"\0" * 60

    assert client.ends(frame) in (FrameFault.COMMAND_TOO_LARGE, FrameFault.LAYOUT)


def test_the_refusal_names_the_type_the_size_and_the_bound(bench: Bench) -> None:
    """It stands in the log, once for the connection that it ends."""
    client = bench.client()
    with pytest.raises(MalformedFrame, match=r"type 23, 7\d{4} bytes, at most 65536"):
        client.sends(command(23, (1, "x" * 70_000), (2, 1)))


def test_a_client_can_acknowledge_a_thousand_batches_in_part(bench: Bench) -> None:
    """As stock clients do, with 16 numbers for each; the broker gets it as it was."""
    client = consuming(bench)
    in_part = message((1, 300), (2, 70_000), *[(5, 2**64 - 1)] * 16)
    frame = command(10, (1, 1), (2, 0), *[(3, in_part)] * 1_000)

    assert client.sends(frame) == [frame]


@pytest.mark.parametrize("count", [1, 20, 1_000])
@pytest.mark.parametrize("redeliver", [False, True])
def test_ids_of_any_number_reach_the_broker_as_they_were(
    bench: Bench, count: int, redeliver: bool
) -> None:
    """However they are read."""
    client = consuming(bench)
    ids = [(2, MESSAGE_ID)] * count
    frame = command(20, (1, 1), *ids) if redeliver else ack(count)

    assert client.sends(frame) == [frame]


def test_fields_that_the_helper_reads_count_as_well(bench: Bench) -> None:
    """Of SENDs that pass as a run, and of those that do not."""
    large, fields = publish(1_300, key="", value=""), 3 * 1_300
    client = bench.producing()
    assert decided(client, *[large] * 10) >= 10 * fields // WORK_FIELDS

    bench.limited(0)
    assert decided(client, *[large] * 10) >= 10 * fields // WORK_FIELDS


def test_a_turn_that_is_shorter_than_a_run_decides_a_frame(bench: Bench) -> None:
    """A run that does not pass is looked for again; each turn gets on, however much it counts as."""
    bench.limited(0)
    bench.turn = 3
    client = bench.producing()
    large = publish(1_300, key="", value="")
    assert client.sends(*[large] * 10) == []
    for _ in range(10):
        client.session.serve_client(bench.now_ns)
    assert (client.session.held_frames, client.session.client_waits) == (10, False)


BOUNDED: dict[str, tuple[Callable[[int], bytes], int, int, str]] = {
    # Ten times as many as clients send at once: the broker has work with each, however short it is.
    "ids": (ack, 10_000, 10_001, "more than 10000 message ids"),
    # At all levels together; a client that sets more properties is told by its connection's end.
    "fields": (
        lambda n: command(5, (1, TOPIC), (2, 2), (3, 7), *[(6, message((1, "k"), (2, "v")))] * n),
        1_300,
        1_500,
        f"more fields than a client needs: more than {FIELDS_MAX}",
    ),
    # Whether runs are found or not.
    "fields of metadata": (publish, 1_300, 1_500, "more fields than a client needs"),
}
"""The frame of a number of them, the most that pass, a number that does not, and what is said then."""


@pytest.mark.parametrize("name", BOUNDED)
def test_what_a_command_holds_is_bounded(bench: Bench, name: str) -> None:
    """One with more ends the connection."""
    written, most, more, said = BOUNDED[name]
    client = consuming(bench)
    client.opens(peer.producer(TOPIC, 1, 3))

    assert client.sends(written(most)) == [written(most)]
    with pytest.raises(MalformedFrame, match=said):
        client.sends(written(more))


def test_the_fields_of_later_releases_are_bounded(bench: Bench) -> None:
    """Already those of a CONNECT, which comes before the broker has accepted the client."""
    most, more = (
        command(2, (1, "test"), *[(900, 1)] * count) for count in (UNKNOWN_MAX, UNKNOWN_MAX + 1)
    )

    assert len(bench.client(connected=False).sends(most)) == 1
    with pytest.raises(MalformedFrame, match="a field of no known release"):
        bench.client(connected=False).sends(more)


@pytest.mark.parametrize("count", [1, 1_000])
@pytest.mark.parametrize("missing", [b"", message((1, 300)), message((2, 70_000))])
def test_a_message_id_names_its_ledger_and_its_entry(
    bench: Bench, count: int, missing: bytes
) -> None:
    """The broker would read all ids before it ends the connection."""
    client = consuming(bench)
    frame = command(10, (1, 1), (2, 0), *[(3, MESSAGE_ID)] * count, (3, missing))

    assert client.ends(frame) is FrameFault.MISSING_FIELD


def test_a_large_command_goes_on_as_it_was_read(bench: Bench) -> None:
    """The gate drops fields that no release knows, and writes a number of too many bytes anew."""
    client = consuming(bench)
    odd = b"\x08\x01" + b"\x10\x80\x00" + b"\xa0\x06\x05" + varint(26) + varint(len(MESSAGE_ID))
    body = odd + MESSAGE_ID + (varint(26) + varint(len(MESSAGE_ID)) + MESSAGE_ID) * 999
    frame = peer.frame(b"\x08\x0a" + varint(10 << 3 | 2) + varint(len(body)) + body)

    assert client.sends(frame) == [ack(1_000)]


@pytest.mark.parametrize("kind", [ACK, REDELIVER])
def test_what_was_rewritten_is_in_canonical_form(kind: int) -> None:
    """The reader that refuses every other form accepts it, whatever was sent in which order."""
    known = {ACK: schema.ACK, REDELIVER: schema.REDELIVER}[kind]
    number = {ACK: 3, REDELIVER: 2}[kind]
    fields: list[peer.Field] = [
        (number, MESSAGE_ID),
        (1, 7),
        (900, 5),
        (number, MESSAGE_ID),
        (1, 1),
        (901, "later"),
    ]
    if kind == ACK:
        fields += [(2, 0), (2, 1)]
    data = message(*fields)

    consumer_id, _, frame = rewriting.rewrite(kind, data, 0, len(data))

    (sent,) = peer.split(frame)
    body = sent[sent.index(varint(kind << 3 | 2)) + len(varint(kind << 3 | 2)) + 1 :]
    assert read_message(body, 0, len(body), known)[1] == consumer_id == 1


@pytest.mark.parametrize("damage", [b"\x1a\xff\x7f", b"\x1b", b"\x00", b"\x08"])
def test_a_large_command_that_cannot_be_read_ends_the_connection(
    bench: Bench, damage: bytes
) -> None:
    """A length past the end, a group without an end, a field that has no number, one without a value."""
    client = consuming(bench)
    body = message((1, 1), (2, 0), *[(3, MESSAGE_ID)] * 500) + damage
    frame = peer.frame(b"\x08\x0a" + varint(10 << 3 | 2) + varint(len(body)) + body)

    with pytest.raises(MalformedFrame):
        client.sends(frame)


def test_an_ack_of_an_unknown_consumer_is_dropped_before_its_ids_are_read(bench: Bench) -> None:
    """A hundred thousand of them, which cannot be read at all."""
    client = bench.client()
    body = message((1, 9), (2, 0)) + b"\x1a\xff" * 50_000
    frame = peer.frame(b"\x08\x0a" + varint(10 << 3 | 2) + varint(len(body)) + body)

    assert client.sends(frame, peer.PING) == [peer.PING]
    assert client.refusals == [(RefusalReason.UNKNOWN_CONSUMER, "consumer 9")]


def decided(client: Client, *frames: bytes) -> int:
    """Return the decisions that these frames of the client count as."""
    client.session.take_decided()
    client.sends(*frames)
    return client.session.take_decided()


def test_a_command_counts_as_the_decisions_that_it_takes_the_time_of(bench: Bench) -> None:
    """A short one is one; of a long one every few bytes count."""
    client = consuming(bench)

    assert decided(client, peer.flow(1, 1)) == 1
    assert decided(client, ack(500)) >= len(ack(500)) // WORK_BYTES
    assert decided(client, command(23, (1, "x" * 1_000), (2, 70))) >= 1_000 // WORK_BYTES


def test_metadata_count_as_well(bench: Bench) -> None:
    """Of a SEND with a field of a later release, which no helper reads; content counts nothing."""
    bench.limited(0)
    client = bench.producing()
    small = decided(client, peer.send(1, 0, content=b"x" * 4_000))
    frame = publish(100, (900, 1))

    assert small <= 10
    assert decided(client, frame) >= (peer.size_of(frame) - 4) // WORK_BYTES
