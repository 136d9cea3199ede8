"""Frames as clients and brokers write them, as far as the benchmarks of the gate need them.

What a client sends is fit for a real broker, which looks at checksums.
"""

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


def crc32c(data: bytes) -> int:
    """Pulsar's checksum (RFC 3720, appendix B.4), slowly: a load is made of one frame, many times."""
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum ^= byte
        for _ in range(8):
            checksum = checksum >> 1 ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum ^ 0xFFFFFFFF


def payload(content_bytes: int, messages: int) -> bytes:
    """Checksum, metadata and content."""
    batch: tuple[Field, ...] = ((11, messages),) if messages > 1 else ()
    fields: tuple[Field, ...] = ((1, b"producer-0"), (2, 300), (3, 1_790_000_000_000), *batch)
    metadata = message(*fields)
    body = struct.pack(">I", len(metadata)) + metadata + bytes(content_bytes)
    return b"\x0e\x01" + struct.pack(">I", crc32c(body)) + body


def connect() -> bytes:
    """CONNECT."""
    return command(2, (1, b"bench"), (4, 19))


def connected() -> bytes:
    """CONNECTED."""
    return command(3, (1, b"broker"), (2, 19))


def producer(topic: str, number: int = 1) -> bytes:
    """PRODUCER, its request of the same number."""
    return command(5, (1, topic.encode()), (2, number), (3, number))


def producer_success(request_id: int = 1) -> bytes:
    """PRODUCER_SUCCESS."""
    return command(17, (1, request_id), (2, b"producer-0"))


def send(content_bytes: int, messages: int = 1, number: int = 1) -> bytes:
    """SEND of the producer of this number."""
    batch: tuple[Field, ...] = ((3, messages),) if messages > 1 else ()
    return command(6, (1, number), (2, 300), *batch, payload=payload(content_bytes, messages))


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
