"""Frames that the gate writes itself, as Pulsar's own client and broker write them."""

from __future__ import annotations

import struct

from coordinator.gate.frames import CONNECT, ERROR, FLOW, SEND_ERROR, Fields

AUTHENTICATION_ERROR = 3
"""ServerError: a client that is not who it should be."""

SERVICE_NOT_READY = 6
"""ServerError: a client looks its topics up again and comes back."""

QUOTA_EXCEEDED = 8
"""ServerError ProducerBlockedQuotaExceededException. To a SEND, clients answer by connecting again, and
to the PRODUCER that follows by failing what they have not sent with just this exception."""

NOT_ALLOWED = 22
"""ServerError NotAllowedError: what a broker answers who subscribes too often."""

NO_REQUEST = (1 << 64) - 1
"""Pulsar's proxy answers a CONNECT, which has no request id, with -1."""

_sizes = struct.Struct(">II").pack


def flow_frame(consumer_id: int, permits: int) -> bytes:
    """FLOW: the broker may send a consumer so many more messages."""
    return _command(FLOW, _number(1, consumer_id) + _number(2, permits))


def error_frame(request_id: int, error: int, message: str) -> bytes:
    """ERROR: the answer to a request that the gate refuses."""
    fields = _number(1, request_id) + _number(2, error) + _text(3, message.encode())
    return _command(ERROR, fields)


def send_error_frame(producer_id: int, sequence_id: int, error: int, message: str) -> bytes:
    """SEND_ERROR: the answer to a publish that the gate refuses."""
    fields = _number(1, producer_id) + _number(2, sequence_id) + _number(3, error)
    return _command(SEND_ERROR, fields + _text(4, message.encode()))


def connect_frame(fields: Fields) -> bytes:
    """CONNECT with these fields, by number; none of Pulsar's is of a fixed size."""
    encoded = (
        _number(number, value) if isinstance(value, int) else _text(number, value)
        for number, value in sorted(fields.items())
    )
    return _command(CONNECT, b"".join(encoded))


def _command(kind: int, fields: bytes) -> bytes:
    command = _number(1, kind) + _text(kind, fields)
    return _sizes(4 + len(command), len(command)) + command


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
