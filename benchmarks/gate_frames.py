"""Frames as clients and brokers write them, as far as the benchmarks of the gate need them."""

from __future__ import annotations

import struct

Field = tuple[int, int | bytes]


def _varint(value: int) -> bytes:
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
            encoded += _varint(number << 3) + _varint(value)
        else:
            encoded += _varint(number << 3 | 2) + _varint(len(value)) + value
    return encoded


def command(kind: int, *fields: Field, payload: bytes = b"") -> bytes:
    """A frame."""
    head = message((1, kind), (kind, message(*fields)))
    return struct.pack(">II", 4 + len(head) + len(payload), len(head)) + head + payload


def payload(content_bytes: int, messages: int) -> bytes:
    """Metadata, with a checksum that nobody looks at, and content."""
    batch: tuple[Field, ...] = ((11, messages),) if messages > 1 else ()
    fields: tuple[Field, ...] = ((1, b"producer-0"), (2, 300), (3, 1_790_000_000_000), *batch)
    metadata = message(*fields)
    head = b"\x0e\x01\0\0\0\0" + struct.pack(">I", len(metadata)) + metadata
    return head + bytes(content_bytes)


def producer(topic: str) -> bytes:
    """PRODUCER."""
    return command(5, (1, topic.encode()), (2, 1), (3, 1))


def producer_success() -> bytes:
    """PRODUCER_SUCCESS."""
    return command(17, (1, 1), (2, b"producer-0"))


def send(content_bytes: int, messages: int = 1) -> bytes:
    """SEND."""
    batch: tuple[Field, ...] = ((3, messages),) if messages > 1 else ()
    return command(6, (1, 1), (2, 300), *batch, payload=payload(content_bytes, messages))


def receipt() -> bytes:
    """SEND_RECEIPT."""
    return command(7, (1, 1), (2, 300), (3, message((1, 500), (2, 300))))


def subscribe(topic: str) -> bytes:
    """SUBSCRIBE, Exclusive."""
    return command(4, (1, topic.encode()), (2, b"s"), (3, 0), (4, 1), (5, 2))


def success() -> bytes:
    """SUCCESS of the SUBSCRIBE."""
    return command(13, (1, 2))


def flow(permits: int) -> bytes:
    """FLOW."""
    return command(11, (1, 1), (2, permits))


def delivery(content_bytes: int, messages: int = 1) -> bytes:
    """MESSAGE."""
    ids = ((1, 1), (2, message((1, 500), (2, 300))))
    return command(9, *ids, payload=payload(content_bytes, messages))
