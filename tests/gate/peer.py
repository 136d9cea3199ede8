"""Frames as clients and brokers write them, field by field and independent of the code under test."""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache

Field = tuple[int, int | bytes | str]


def varint(value: int) -> bytes:
    """A protobuf varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def message(*fields: Field) -> bytes:
    """A protobuf message."""
    encoded = b""
    for number, value in fields:
        if isinstance(value, int):
            encoded += varint(number << 3) + varint(value)
        else:
            raw = value.encode() if isinstance(value, str) else value
            encoded += varint(number << 3 | 2) + varint(len(raw)) + raw
    return encoded


def frame(command: bytes, payload: bytes = b"") -> bytes:
    """A frame around a BaseCommand."""
    return struct.pack(">II", 4 + len(command) + len(payload), len(command)) + command + payload


def command(kind: int, *fields: Field) -> bytes:
    """A frame without a payload."""
    return frame(message((1, kind), (kind, message(*fields))))


def producer(
    topic: str, producer_id: int = 1, request_id: int = 1, name: str | None = None
) -> bytes:
    """PRODUCER."""
    named: tuple[Field, ...] = () if name is None else ((4, name),)
    return command(5, (1, topic), (2, producer_id), (3, request_id), *named)


PUBLISHED_MS = 1_790_000_000_000
"""When every message here was published."""


SMALLEST_MESSAGE = 6
"""Bytes of a message without content in a batch: a size, and metadata that say that there is none."""


def payload_of(
    content: bytes, messages: int = 1, *, checksum: bool = True, deliver_at_ms: int | None = None
) -> bytes:
    """Return metadata and content; the checksum has the right size and a meaningless value."""
    fields: list[Field] = [(1, "standalone-0-1"), (2, 17), (3, PUBLISHED_MS)]
    fields.append((4, message((1, "key"), (2, "value"))))
    if messages * SMALLEST_MESSAGE > len(
        content
    ):  # the content has room for them only if it is compressed
        fields += [(8, 3), (9, messages * SMALLEST_MESSAGE)]
    if messages != 1:
        fields.append((11, messages))
    if deliver_at_ms is not None:
        fields.append((19, deliver_at_ms % 2**64))
    metadata = message(*fields)
    body = struct.pack(">I", len(metadata)) + metadata + content
    return b"\x0e\x01" + struct.pack(">I", zlib.crc32(body)) + body if checksum else body


@lru_cache(maxsize=256)  # a client that publishes for a minute sends the same frame every time
def send(
    producer_id: int = 1,
    sequence_id: int = 0,
    messages: int = 1,
    content: bytes = b"x" * 100,
    *,
    checksum: bool = True,
    deliver_at_ms: int | None = None,
    highest: int = 0,
    is_chunk: bool = False,
) -> bytes:
    """SEND."""
    further: list[Field] = [] if messages == 1 else [(3, messages)]
    further += [(6, highest)] if highest else []
    further += [(7, 1)] if is_chunk else []
    head = message((1, 6), (6, message((1, producer_id), (2, sequence_id), *further)))
    payload = payload_of(content, messages, checksum=checksum, deliver_at_ms=deliver_at_ms)
    return frame(head, payload)


def size_of(frame_: bytes) -> int:
    """Return the bytes behind the command, which limits count."""
    return len(frame_) - 8 - int.from_bytes(frame_[4:8], "big")


def receipt(producer_id: int = 1, sequence_id: int = 0) -> bytes:
    """SEND_RECEIPT."""
    return command(7, (1, producer_id), (2, sequence_id), (3, message((1, 5), (2, sequence_id))))


def send_error(producer_id: int = 1, sequence_id: int = 0) -> bytes:
    """SEND_ERROR."""
    return command(8, (1, producer_id), (2, sequence_id), (3, 2), (4, "no"))


def close_producer(producer_id: int = 1, request_id: int = 2) -> bytes:
    """CLOSE_PRODUCER, from either side."""
    return command(15, (1, producer_id), (2, request_id))


def subscribe(
    topic: str,
    consumer_id: int = 1,
    request_id: int = 1,
    subscription: str = "s",
    kind: int = 0,
) -> bytes:
    """SUBSCRIBE."""
    return command(4, (1, topic), (2, subscription), (3, kind), (4, consumer_id), (5, request_id))


def close_consumer(consumer_id: int = 1, request_id: int = 2) -> bytes:
    """CLOSE_CONSUMER, from either side."""
    return command(16, (1, consumer_id), (2, request_id))


def unsubscribe(consumer_id: int = 1, request_id: int = 3) -> bytes:
    """UNSUBSCRIBE."""
    return command(12, (1, consumer_id), (2, request_id))


def delivery(
    consumer_id: int = 1,
    messages: int = 1,
    content: bytes = b"y" * 50,
    *,
    checksum: bool = True,
    broker_entry: bytes | None = None,
    redeliveries: int = 0,
) -> bytes:
    """MESSAGE."""
    again = ((3, redeliveries),) if redeliveries else ()
    head = message((1, 9), (9, message((1, consumer_id), (2, message((1, 5), (2, 6))), *again)))
    payload = payload_of(content, messages, checksum=checksum)
    if broker_entry is not None:
        payload = b"\x0e\x02" + struct.pack(">I", len(broker_entry)) + broker_entry + payload
    return frame(head, payload)


def success(request_id: int) -> bytes:
    """SUCCESS."""
    return command(13, (1, request_id))


def producer_success(request_id: int = 1, *, ready: bool = True) -> bytes:
    """PRODUCER_SUCCESS."""
    readiness: tuple[Field, ...] = () if ready else ((6, 0),)
    return command(17, (1, request_id), (2, "standalone-0-1"), *readiness)


def error(request_id: int) -> bytes:
    """ERROR."""
    return command(14, (1, request_id), (2, 6), (3, "not here"))


def connect(version: str = "test") -> bytes:
    """CONNECT."""
    return command(2, (1, version), (4, 19))


def connected(max_message_size: int = 5 * 1024 * 1024) -> bytes:
    """CONNECTED."""
    return command(3, (1, "broker"), (2, 19), (3, max_message_size))


def flow(consumer_id: int = 1, permits: int = 1000) -> bytes:
    """FLOW."""
    return command(11, (1, consumer_id), (2, permits))


PING = bytes.fromhex("00000009000000050812920100")
PONG = bytes.fromhex("000000090000000508139a0100")


def granted(request: bytes) -> bytes:
    """The answer by which a broker accepts a PRODUCER or SUBSCRIBE of this module."""
    field, answer = {5: (3, producer_success), 4: (5, success)}[kind_of(request)]
    pos = 12 if request[11] < 0x80 else 13
    while True:
        tag, pos = read_varint(request, pos)
        value, pos = read_varint(request, pos)
        if tag >> 3 == field:
            return answer(value)
        pos += value if tag & 7 == 2 else 0


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A varint, and where it ends."""
    value = shift = 0
    while data[pos] > 0x7F:
        value |= (data[pos] & 0x7F) << shift
        shift, pos = shift + 7, pos + 1
    return value | data[pos] << shift, pos + 1


def split(stream: bytes) -> list[bytes]:
    """The frames of a stream; what is left over must be nothing."""
    frames: list[bytes] = []
    while stream:
        size = 4 + int.from_bytes(stream[:4], "big")
        assert len(stream) >= size, "the stream ends inside a frame"
        frames.append(stream[:size])
        stream = stream[size:]
    return frames


def kind_of(frame_: bytes) -> int:
    """The type of a frame written by this module."""
    return frame_[9]
