"""Frames and fields, against frames written field by field and against random bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.gate.protocol import commands, frames, payload, schema
from coordinator.gate.protocol.frames import FrameFault, MalformedFrame
from coordinator.gate.protocol.refusals import RequestRefused
from tests.gate import peer

Reader = Callable[[bytes, int, int], object]

READERS: list[Reader] = [
    commands.read_connect,
    commands.read_producer,
    commands.read_subscribe,
    commands.read_send,
    commands.read_flow,
    commands.read_first_id,
    commands.read_delivery,
    commands.read_max_message_size,
    commands.read_producer_success,
    frames.read_fields,
    lambda data, start, end: frames.read_head(data + bytes(20), start, end),
    lambda data, start, end: frames.read_message(data, start, end, schema.ACK),
    lambda data, start, end: payload.read_published(data, start, end, len(data), 1),
    lambda data, start, end: payload.read_delivered(data, start, end, len(data)),
    payload.metadata_bounds,
]


def body(frame: bytes) -> tuple[int, int]:
    """Start and end of a frame's sub-message."""
    start, end = bounds(frame)
    return frames.read_head(frame, start, end)[1], end


def bounds(frame: bytes) -> tuple[int, int]:
    """Start and end of a frame's BaseCommand."""
    return 8, 8 + int.from_bytes(frame[4:8], "big")


def test_pong_is_the_golden_bytes() -> None:
    """The gate's own PONG equals that of Pulsar's client."""
    assert frames.PONG_FRAME.hex() == "000000090000000508139a0100"


@pytest.mark.parametrize("producer_id", [0, 1, 127, 128, 2**32, 2**64 - 1])
@pytest.mark.parametrize("messages", [1, 2, 127, 128, 1000, 2**31 - 1])
@pytest.mark.parametrize("sequence_id", [0, 128, 2**40])
def test_send_is_read(producer_id: int, messages: int, sequence_id: int) -> None:
    """Producer and number of messages are found whatever their lengths."""
    frame = peer.send(producer_id, sequence_id, messages)

    assert commands.read_send(frame, *body(frame)) == (producer_id, sequence_id, messages, False)


def test_a_send_without_messages_counts_as_one() -> None:
    """Otherwise a client could publish for free."""
    frame = peer.send(messages=0)

    assert commands.read_send(frame, *body(frame)) == (1, 0, 1, False)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("broker_entry", [None, b"", b"\x08\x01\x10\x02"])
@pytest.mark.parametrize("messages", [1, 5, 1000])
def test_the_messages_of_a_batch_are_read(
    checksum: bool, broker_entry: bytes | None, messages: int
) -> None:
    """Checksum and broker entry metadata may be there or not."""
    frame = peer.delivery(7, messages, checksum=checksum, broker_entry=broker_entry)
    start, end = body(frame)

    metadata = payload.metadata_bounds(frame, end, len(frame))

    assert commands.read_first_id(frame, start, end) == 7
    assert payload.read_delivered(frame, *metadata, len(frame)) == (messages, messages)


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_producer_without_a_required_field_is_malformed(missing: int) -> None:
    """topic, producer_id and request_id are what the gate cannot do without."""
    fields: list[peer.Field] = [(1, "t"), (2, 1), (3, 1)]
    frame = peer.command(5, *(field for field in fields if field[0] != missing))

    with pytest.raises(MalformedFrame) as raised:
        commands.read_producer(frame, *body(frame))

    assert raised.value.fault is FrameFault.MISSING_FIELD


@pytest.mark.slow
@given(data=st.binary(max_size=60), start=st.integers(0, 20), size=st.integers(0, 60))
@example(data=b"\x08\x06\x32\x02\x08\xff", start=0, size=6)
def test_random_bytes_raise_one_error_only(data: bytes, start: int, size: int) -> None:
    """For any bytes and bounds, a reader reads or raises MalformedFrame."""
    end = min(start + size, len(data))
    start = min(start, end)
    for reader in READERS:
        with suppress(MalformedFrame, RequestRefused):
            reader(data, start, end)


@given(
    frame=st.sampled_from(
        [peer.producer("persistent://a/b/c", 300, 7, "name"), peer.send(300, 7, 20),
         peer.close_producer(300, 7), peer.receipt(300, 7), peer.connected()]
    ),
    position=st.integers(8, 40),
    byte=st.integers(0, 255),
)  # fmt: skip
def test_a_flipped_byte_raises_one_error_only(frame: bytes, position: int, byte: int) -> None:
    """Nearly right frames are where a hand-written reader would go wrong."""
    start, end = bounds(frame)
    position = min(position, end - 1)
    damaged = frame[:position] + bytes([byte]) + frame[position + 1 :]
    for reader in READERS:
        with suppress(MalformedFrame, RequestRefused):
            reader(damaged, start, end)
