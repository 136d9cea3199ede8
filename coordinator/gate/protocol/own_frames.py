"""Frames that the gate writes itself, as Pulsar's own client and broker write them."""

from __future__ import annotations

import struct

from coordinator.gate.protocol.frames import (
    CLOSE_CONSUMER,
    CONNECT,
    ERROR,
    FLOW,
    LOOKUP_RESPONSE,
    SEND_ERROR,
    Fields,
)

AUTHENTICATION_ERROR = 3
"""ServerError: a client that is not who it claims to be."""

SERVICE_NOT_READY = 6
"""ServerError: a client looks its topics up again and comes back."""

QUOTA_EXCEEDED = 8
"""ServerError ProducerBlockedQuotaExceededException. To a SEND, clients answer by connecting again, and
to the PRODUCER that follows by failing what they have not sent with just this exception."""

CHECKSUM = 9
"""ServerError ChecksumError: to a SEND, the C++ clients' only final one (final_errors.py)."""

TOO_MANY_REQUESTS = 14
"""ServerError: a client may try again later."""

INVALID_TOPIC_NAME = 17
"""ServerError: a topic cannot have this name."""

NOT_ALLOWED = 22
"""ServerError NotAllowedError: the broker's answer to a consumer that subscribes too often; to a SEND,
Java clients' final one (final_errors.py)."""

_LOOKUP_FAILED = 2

NO_REQUEST = (1 << 64) - 1
"""The id -1 of what answers no request: of a broker that closes a consumer by itself, and of Pulsar's
proxy that answers a CONNECT, which has no id."""

_sizes = struct.Struct(">II").pack


def flow_frame(consumer_id: int, permits: int) -> bytes:
    """Return a FLOW: the broker may send a consumer this many more messages."""
    return command_frame(FLOW, _number(1, consumer_id) + _number(2, permits))


def close_consumer_frame(consumer_id: int, request_id: int) -> bytes:
    """Return a CLOSE_CONSUMER: a request to a broker, or with `NO_REQUEST` its news to a client."""
    return command_frame(CLOSE_CONSUMER, _number(1, consumer_id) + _number(2, request_id))


def error_frame(request_id: int, error: int, message: str) -> bytes:
    """Return an ERROR: the answer to a request that the gate refuses."""
    fields = _number(1, request_id) + _number(2, error) + bytes_field(3, message.encode())
    return command_frame(ERROR, fields)


def send_error_frame(producer_id: int, sequence_id: int, error: int, message: str) -> bytes:
    """Return a SEND_ERROR: the answer to a publish that the gate refuses."""
    fields = _number(1, producer_id) + _number(2, sequence_id) + _number(3, error)
    return command_frame(SEND_ERROR, fields + bytes_field(4, message.encode()))


def lookup_failed_frame(request_id: int, error: int, message: str) -> bytes:
    """Return a LOOKUP_RESPONSE: the answer to a LOOKUP that fails."""
    fields = _number(3, _LOOKUP_FAILED) + _number(4, request_id) + _number(6, error)
    return command_frame(LOOKUP_RESPONSE, fields + bytes_field(7, message.encode()))


def connect_frame(fields: Fields) -> bytes:
    """Return a CONNECT with these fields, by number; none of Pulsar's is of a fixed size."""
    encoded = (
        _number(number, value) if isinstance(value, int) else bytes_field(number, value)
        for number, value in sorted(fields.items())
    )
    return command_frame(CONNECT, b"".join(encoded))


def command_frame(kind: int, fields: bytes) -> bytes:
    """Return a command with these fields, which are encoded already."""
    command = _number(1, kind) + bytes_field(kind, fields)
    return _sizes(4 + len(command), len(command)) + command


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def bytes_field(field: int, value: bytes) -> bytes:
    """Return a field of text, of bytes, or of a message that is encoded already."""
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
