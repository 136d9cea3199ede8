"""Frames of Pulsar's binary protocol, and the protobuf fields in their headers, read by hand.

A frame is ``totalSize(4) commandSize(4) BaseCommand payload``, big-endian; totalSize does not count
itself. Only SEND and MESSAGE have a payload: an optional broker entry, an optional checksum, the
message's metadata and its content. Pulsar calls everything after the BaseCommand the size of a message,
``totalSize - 4 - commandSize``, so the gate counts that size.

The gate has to read a handful of fields of a dozen commands, hundreds of thousands of times a second.
Building protobuf objects costs ten times as much as the decision, so this module reads varints in place.

Two decoders read each frame, the gate's and the broker's, and a limit holds only if both read the same.
They agree on frames in *canonical form*, and the gate accepts no other:

* A BaseCommand is its type and then the one sub-message of that type, up to its last byte.
* A varint has no more bytes than it needs, a tag at most 32 bits, a value the range of its field.
* A field comes once unless it is repeated, and has the wire type of its kind.
* A nested message ends where its fields end, at every level (schema.py says why that matters).
* A field that the schema requires is there.

Clients and brokers write no other form. The own broker is trusted: what it writes is read at its first
level only.

Nothing is copied except the values that are asked for. Every reader stays inside the bounds it was given
or raises ``MalformedFrame``, the one error here.

Sources: PulsarApi.proto (field numbers), Commands.java and LengthFieldBasedFrameDecoder (bounds).
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator
from enum import Enum
from typing import Final

from coordinator.gate.protocol.schema import Field, Message, Scalar

MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024
"""Pulsar's default ``maxMessageSize``, in bytes; CONNECTED may announce another one."""

FRAME_PADDING: Final = 10 * 1024
"""Commands.MESSAGE_SIZE_FRAME_PADDING: the most by which a frame may exceed the largest message."""

HEADER_MIN: Final = 12
"""Two sizes and the shortest BaseCommand (``08 type tag 00``): no frame is shorter, in bytes."""

COMMAND_HEAD_MAX: Final = 16
"""Type, tag and length in front of a sub-message: a byte and three varints of 32 bits, in bytes."""

PONG_FRAME: Final = bytes.fromhex("00000009 00000005 08139a0100")
"""A PONG as Pulsar's own client writes it."""

TYPE_TAG: Final = 0x08
"""The first byte of a BaseCommand: field 1 (type), varint."""

CONNECT: Final = 2
CONNECTED: Final = 3
SUBSCRIBE: Final = 4
PRODUCER: Final = 5
SEND: Final = 6
SEND_RECEIPT: Final = 7
SEND_ERROR: Final = 8
MESSAGE: Final = 9
ACK: Final = 10
FLOW: Final = 11
UNSUBSCRIBE: Final = 12
SUCCESS: Final = 13
ERROR: Final = 14
CLOSE_PRODUCER: Final = 15
CLOSE_CONSUMER: Final = 16
PRODUCER_SUCCESS: Final = 17
PING: Final = 18
PONG: Final = 19
REDELIVER: Final = 20
PARTITIONED_METADATA: Final = 21
LOOKUP: Final = 23
LOOKUP_RESPONSE: Final = 24
CONSUMER_STATS: Final = 25
REACHED_END_OF_TOPIC: Final = 27
SEEK: Final = 28
GET_LAST_MESSAGE_ID: Final = 29
ACTIVE_CONSUMER_CHANGE: Final = 31
GET_TOPICS_OF_NAMESPACE: Final = 32
GET_SCHEMA: Final = 34
AUTH_CHALLENGE: Final = 36
AUTH_RESPONSE: Final = 37
GET_OR_CREATE_SCHEMA: Final = 39
NEW_TXN: Final = 50
ADD_PARTITION_TO_TXN: Final = 52
ADD_SUBSCRIPTION_TO_TXN: Final = 54
END_TXN: Final = 56
END_TXN_ON_PARTITION: Final = 58
END_TXN_ON_SUBSCRIPTION: Final = 60
TC_CLIENT_CONNECT: Final = 62
WATCH_TOPIC_LIST: Final = 64
WATCH_TOPIC_LIST_CLOSE: Final = 67
TOPIC_MIGRATED: Final = 68
SCALABLE_TOPIC_LOOKUP: Final = 70
SCALABLE_TOPIC_UPDATE: Final = 71
SCALABLE_TOPIC_CLOSE: Final = 72
SCALABLE_TOPIC_SUBSCRIBE: Final = 73
WATCH_SCALABLE_TOPICS: Final = 76
WATCH_SCALABLE_TOPICS_CLOSE: Final = 78
WATCH_TC_ASSIGNMENTS: Final = 79
WATCH_TC_ASSIGNMENTS_UPDATE: Final = 80
WATCH_TC_ASSIGNMENTS_CLOSE: Final = 81

_KIB: Final = 1024
_COMMAND_MAX: Final = {
    CONNECT: 128 * _KIB,
    AUTH_RESPONSE: 128 * _KIB,
    ACK: 256 * _KIB,
    REDELIVER: 256 * _KIB,
    PRODUCER: 1024 * _KIB,
    SUBSCRIBE: 1024 * _KIB,
    GET_OR_CREATE_SCHEMA: 1024 * _KIB,
}
_OTHERS_MAX: Final = 64 * _KIB

KNOWN_TYPES: Final = frozenset((*range(2, 41), *range(50, 69), *range(70, 82)))
"""The types of commands up to Pulsar 5.0.0-M1."""

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH_DELIMITED: Final = 2
_FIXED32: Final = 5

_TAG_MAX: Final = 0xFFFFFFFF
_INT32_MAX: Final = 0x7FFFFFFF
_NEGATIVE_INT32_MIN: Final = (1 << 64) - (1 << 31)
"""A negative int32 is written as the 64 bits of its two's complement."""

_DEPTH_MAX: Final = 4
"""The deepest nesting of messages; Pulsar's deepest is ACK, with the first chunk of a message id."""

FIELDS_MAX: Final = 4096
"""Fields of a command, or of a message's metadata, at all levels together: each costs about a
microsecond, and 1,300 properties are more than a client sends. Large ACKs are read otherwise
(rewriting.py)."""

UNKNOWN_MAX: Final = 64
"""Fields of later releases in one message."""

_LARGEST: Final = {Scalar.UINT32: _TAG_MAX, Scalar.INT32: _INT32_MAX, Scalar.BOOL: 1}
_SIGNED: Final = (Scalar.UINT32, Scalar.INT32)  # LightProto has no unsigned type
_BYTES: Final = (Scalar.TEXT, Scalar.BYTES)

Fields = dict[int, int | bytes]
"""Field number to value: an int for varint and fixed fields, bytes for the rest."""

read_sizes: Final = struct.Struct(">II").unpack_from
"""totalSize and commandSize of the frame at a position."""


class FrameFault(Enum):
    """Why a connection is closed: a frame that is malformed, or one that may not come now."""

    FRAME_SIZE = "frame size out of bounds"
    COMMAND_SIZE = "command size out of bounds"
    COMMAND_TOO_LARGE = "a command larger than its content can need"
    FIELDS = "more fields than a client needs"
    LAYOUT = "a command that is not its type and one sub-message"
    PAYLOAD = "a payload behind a command that has none"
    TRUNCATED_FIELD = "a field runs past the end of its message"
    OVERLONG = "a number of more bytes than it needs"
    WIRE_TYPE = "a field of the wrong wire type"
    UNKNOWN_FIELD = "a field of no known release"
    REPEATED_FIELD = "a field that may come once comes twice"
    NESTING = "messages nested too deep"
    MISSING_FIELD = "a required field is missing"
    OUT_OF_RANGE = "a field's value is out of range"
    TEXT = "a text that is not UTF-8"
    METADATA_SIZE = "metadata size out of bounds"
    BROKER_ENTRY = "a broker entry in front of a publish"
    WRONG_SIDE = "a command that only the other side sends"
    NOT_CONNECTED = "a command before the broker accepted the connection"
    CONNECTED_TWICE = "a second CONNECT"
    UNASKED_RESPONSE = "an authentication response without a challenge"
    REQUEST_IN_USE = "a request id that is in use"
    DOUBTFUL_ANSWER = "an answer that leaves open whether a producer or consumer exists"
    REQUESTS = "too many requests under way"
    UNKNOWN_PRODUCER = "a publish without a producer"
    FOREIGN_BROKER = "asks for a broker that is not ours"
    NOT_AUTHENTICATED = "has not shown who it is"


class MalformedFrame(Exception):
    """A peer sent a malformed frame, or one that may not come now: the connection must end.

    Args:
        fault: the kind of fault, for counting.
        detail: the bytes or values found, for the log.
    """

    def __init__(self, fault: FrameFault, detail: str) -> None:
        super().__init__(f"{fault.value}: {detail}")
        self.fault = fault


def sizes_fault(total: int, command: int, frame_max: int) -> MalformedFrame:
    """Return the fault in the two sizes of a frame, whose bounds are those of ``FrameStream``."""
    if not HEADER_MIN <= total + 4 <= frame_max:
        return MalformedFrame(FrameFault.FRAME_SIZE, f"totalSize {total}, at most {frame_max - 4}")
    return MalformedFrame(FrameFault.COMMAND_SIZE, f"commandSize {command} of totalSize {total}")


def command_max(kind: int) -> int:
    """Return the size of the largest command of this type that a client can need, in bytes.

    Clients acknowledge a thousand messages at once (``maxAcknowledgmentGroupSize``), each with some 20
    bytes, and with up to 170 where it is a part of a batch. A schema may describe many types. Tokens and
    tickets take some KiB. All other commands hold names and ids.
    """
    return _COMMAND_MAX.get(kind, _OTHERS_MAX)


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """Read a varint of at most 64 bits; return it with the position after it.

    Raises:
        MalformedFrame: it has more bytes than it needs, or more bits, or the buffer ends inside.
    """
    value = shift = 0
    try:
        while (byte := data[pos]) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
            pos += 1
            if shift > 63:
                raise MalformedFrame(FrameFault.OUT_OF_RANGE, "a varint of more than ten bytes")
    except IndexError:
        raise MalformedFrame(FrameFault.TRUNCATED_FIELD, f"varint at {pos}") from None
    if shift and not byte:
        raise MalformedFrame(FrameFault.OVERLONG, f"a varint of {shift // 7 + 1} bytes")
    if shift == 63 and byte > 1:
        raise MalformedFrame(FrameFault.OUT_OF_RANGE, "a varint of more than 64 bits")
    return value | byte << shift, pos + 1


def read_head(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read the type of the BaseCommand between two positions, and where its sub-message begins.

    The sub-message, whose field has the number of the type, is all of the rest.

    Raises:
        MalformedFrame: it is anything but a type and one sub-message.
    """
    if data[pos] != TYPE_TAG:
        raise MalformedFrame(FrameFault.LAYOUT, f"begins with {data[pos]:#04x}")
    kind, pos = read_varint(data, pos + 1)
    tag, pos = read_varint(data, pos)
    size, pos = read_varint(data, pos)
    if tag != kind << 3 | _LENGTH_DELIMITED or tag > _TAG_MAX:
        raise MalformedFrame(FrameFault.LAYOUT, f"type {kind}, then tag {tag}")
    if pos + size != end:
        raise MalformedFrame(FrameFault.LAYOUT, f"type {kind}: {size} bytes of {end - pos}")
    return kind, pos


def read_message(data: bytes, pos: int, end: int, message: Message) -> Fields:
    """Read the known fields of a client's message between two positions.

    If a field may repeat and does, its last value is returned.

    Raises:
        MalformedFrame: the message, or one nested in it, is not in canonical form, or there are more than
            `FIELDS_MAX` fields, or more than `UNKNOWN_MAX` that are not known.
    """
    budget = FieldBudget() if end - pos > FIELDS_MAX else None  # a field has a byte at least
    return _read_level(data, pos, end, message, 0, budget)


class FieldBudget:
    """The fields that a message may still have."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = FIELDS_MAX

    def spend(self) -> None:
        """Count a field.

        Raises:
            MalformedFrame: it is one too many.
        """
        if not self.left:
            raise MalformedFrame(FrameFault.FIELDS, f"more than {FIELDS_MAX}")
        self.left -= 1


def _read_level(
    data: bytes, pos: int, end: int, message: Message, depth: int, budget: FieldBudget | None
) -> Fields:
    if depth > _DEPTH_MAX:
        raise MalformedFrame(FrameFault.NESTING, f"more than {_DEPTH_MAX} levels")
    found: Fields = {}
    unknown = 0
    while pos < end:
        if budget is not None:
            budget.spend()
        tag, pos = read_varint(data, pos)
        number, wire_type = tag >> 3, tag & 7
        if not number or tag > _TAG_MAX:
            raise MalformedFrame(FrameFault.OUT_OF_RANGE, f"tag {tag}")
        value, start, pos = _read_value(data, pos, wire_type)
        if pos > end:
            raise MalformedFrame(FrameFault.TRUNCATED_FIELD, f"field {number}")
        field = message.get(number)
        if field is None:
            unknown += 1
            _check_unknown(number, wire_type, unknown)
            continue
        if number in found and not field.repeated:
            raise MalformedFrame(FrameFault.REPEATED_FIELD, f"field {number}")
        if wire_type == _VARINT:
            _check_number(number, value, field)
            found[number] = value
        else:
            _check_bytes(data, start, pos, (number, wire_type), field, depth, budget)
            found[number] = data[start:pos]
    if not message.required <= found.keys():
        missing = min(message.required - found.keys())
        raise MalformedFrame(FrameFault.MISSING_FIELD, f"field {missing}")
    return found


def _check_unknown(number: int, wire_type: int, count: int) -> None:
    if wire_type == _LENGTH_DELIMITED or count > UNKNOWN_MAX:
        raise MalformedFrame(FrameFault.UNKNOWN_FIELD, f"field {number}")


def _read_value(data: bytes, pos: int, wire_type: int) -> tuple[int, int, int]:
    """Return a value as a number (0 if it is bytes), and the positions of its start and end."""
    if wire_type == _VARINT:
        value, end = read_varint(data, pos)
        return value, pos, end
    if wire_type == _LENGTH_DELIMITED:
        size, start = read_varint(data, pos)
        return 0, start, start + size
    return 0, pos, _skip_fixed(pos, wire_type)


def _skip_fixed(pos: int, wire_type: int) -> int:
    if wire_type == _FIXED64:
        return pos + 8
    if wire_type == _FIXED32:
        return pos + 4
    raise MalformedFrame(FrameFault.WIRE_TYPE, f"wire type {wire_type}")


def _check_number(number: int, value: int, field: Field) -> None:
    kind = field.kind
    if isinstance(kind, Message) or kind in _BYTES:
        raise MalformedFrame(FrameFault.WIRE_TYPE, f"a number in field {number}")
    if value > _LARGEST.get(kind, value) and not (kind in _SIGNED and value >= _NEGATIVE_INT32_MIN):
        raise MalformedFrame(FrameFault.OUT_OF_RANGE, f"{value} in field {number}")


def _check_bytes(
    data: bytes,
    start: int,
    end: int,
    key: tuple[int, int],
    field: Field,
    depth: int,
    budget: FieldBudget | None,
) -> None:
    number, wire_type = key
    if wire_type == _LENGTH_DELIMITED:
        if isinstance(field.kind, Message):
            _read_level(data, start, end, field.kind, depth + 1, budget)
            return
        if field.packed:
            _check_packed(data, start, end, number, field, budget)
            return
        if field.kind in _BYTES or field.kind is Scalar.ANY:
            return
    raise MalformedFrame(FrameFault.WIRE_TYPE, f"wire type {wire_type} in field {number}")


def _check_packed(
    data: bytes, pos: int, end: int, number: int, field: Field, budget: FieldBudget | None
) -> None:
    while pos < end:
        if budget is not None:
            budget.spend()
        value, pos = read_varint(data, pos)
        _check_number(number, value, field)
    if pos != end:
        raise MalformedFrame(FrameFault.TRUNCATED_FIELD, f"field {number}")


def read_fields(data: bytes, pos: int, end: int) -> Fields:
    """Read all fields of a broker's message between two positions, nested ones as bytes.

    Raises:
        MalformedFrame: a field is of no known wire type or runs past the end.
    """
    return dict(each_field(data, pos, end))


def each_field(data: bytes, pos: int, end: int) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of every field, in order, for fields that may repeat.

    Raises:
        MalformedFrame: as ``read_fields``.
    """
    while pos < end:
        tag, pos = read_varint(data, pos)
        wire_type = tag & 7
        value: int | bytes
        if wire_type == _VARINT:
            value, pos = read_varint(data, pos)
        elif wire_type == _LENGTH_DELIMITED:
            size, pos = read_varint(data, pos)
            value, pos = data[pos : pos + size], pos + size
        else:
            size = _skip_fixed(0, wire_type)
            value, pos = int.from_bytes(data[pos : pos + size], "little"), pos + size
        yield tag >> 3, value
    if pos != end:
        raise MalformedFrame(FrameFault.TRUNCATED_FIELD, f"{pos - end} bytes past the end")


def each_span(data: bytes, pos: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the tag of every field, and where the field, its value and the next field begin.

    Raises:
        MalformedFrame: as ``read_fields``.
    """
    while pos < end:
        start = pos
        tag, pos = read_varint(data, pos)
        _, value, pos = _read_value(data, pos, tag & 7)
        yield tag, start, value, pos
    if pos != end:
        raise MalformedFrame(FrameFault.TRUNCATED_FIELD, f"{pos - end} bytes past the end")


def select_fields(data: bytes, pos: int, end: int, numbers: Container[int]) -> bytes:
    """Return the fields of these numbers as they are encoded, of a message that was read before."""
    spans = each_span(data, pos, end)
    return b"".join(data[start:after] for tag, start, _, after in spans if tag >> 3 in numbers)
