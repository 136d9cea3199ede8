"""Frames of Pulsar's binary protocol, and the protobuf fields in their headers, read by hand.

A frame is ``totalSize(4) commandSize(4) BaseCommand payload``, big-endian; totalSize does not count
itself. Only SEND and MESSAGE have a payload: an optional broker entry, an optional checksum, the
message's metadata and its content. What Pulsar calls the size of a message is everything after the
BaseCommand, ``totalSize - 4 - commandSize``, so that is what the gate counts.

The gate has to know a handful of fields of a dozen commands, hundreds of thousands of times a second.
Building protobuf objects costs ten times what the decision costs, so this module reads varints where
they lie. Three rules keep that honest:

* The ``type`` field decides, the sub-message is looked up by the same number (PulsarApi.proto gives
  both the same number); unknown fields are skipped, the last one of several wins, as protobuf has it.
* Every reader stays inside the bounds it was given or raises ``MalformedFrame``, the one error here.
  A position past the end is noticed when the loop ends; an index past the buffer is the same fault.
* Nothing is copied except the strings that are asked for.

Sources: PulsarApi.proto (field numbers), Commands.java and LengthFieldBasedFrameDecoder (bounds).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum
from typing import Final

MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024
"""Pulsar's default ``maxMessageSize``, in bytes; CONNECTED may announce another one."""

FRAME_PADDING: Final = 10 * 1024
"""Commands.MESSAGE_SIZE_FRAME_PADDING: what a frame may be larger than the largest message."""

HEADER_MIN: Final = 10
"""Two sizes and the shortest BaseCommand (``08 type``): no frame is shorter, in bytes."""

PONG_FRAME: Final = bytes.fromhex("00000009 00000005 08139a0100")
"""A PONG as Pulsar's own client writes it."""

TYPE_TAG: Final = 0x08
"""The first byte of a BaseCommand as every client writes it: field 1 (type), varint."""

CONNECT: Final = 2
CONNECTED: Final = 3
SUBSCRIBE: Final = 4
PRODUCER: Final = 5
SEND: Final = 6
SEND_RECEIPT: Final = 7
SEND_ERROR: Final = 8
MESSAGE: Final = 9
FLOW: Final = 11
UNSUBSCRIBE: Final = 12
SUCCESS: Final = 13
ERROR: Final = 14
CLOSE_PRODUCER: Final = 15
CLOSE_CONSUMER: Final = 16
PRODUCER_SUCCESS: Final = 17
PING: Final = 18

AUTH_CHALLENGE: Final = 36
AUTH_RESPONSE: Final = 37

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH_DELIMITED: Final = 2
_FIXED32: Final = 5

Fields = dict[int, int | bytes]
"""Field number to value: an int for varint and fixed fields, bytes for the rest."""

read_sizes: Final = struct.Struct(">II").unpack_from
"""totalSize and commandSize of the frame at a position."""


class FrameFault(Enum):
    """Why a frame is malformed."""

    FRAME_SIZE = "frame size out of bounds"
    COMMAND_SIZE = "command size out of bounds"
    TRUNCATED_FIELD = "a field runs past the end of its message"
    WIRE_TYPE = "a field of no known wire type"
    MISSING_FIELD = "a required field is missing"
    OUT_OF_RANGE = "a field's value is out of range"
    METADATA_SIZE = "metadata size out of bounds"
    FOREIGN_BROKER = "asks for a broker that is not ours"
    NOT_AUTHENTICATED = "has not shown who it is"


class MalformedFrame(Exception):
    """A peer sent bytes that are no Pulsar frame: the connection cannot be understood any further.

    Args:
        fault: the kind of fault, for counting.
        detail: what was found, for the log.
    """

    def __init__(self, fault: FrameFault, detail: str) -> None:
        super().__init__(f"{fault.value}: {detail}")
        self.fault = fault


def sizes_fault(total: int, command: int, frame_max: int) -> MalformedFrame:
    """What is wrong with the two sizes of a frame, whose bounds are those of ``FrameStream``."""
    if not HEADER_MIN <= total + 4 <= frame_max:
        return MalformedFrame(FrameFault.FRAME_SIZE, f"totalSize {total}, at most {frame_max - 4}")
    return MalformedFrame(FrameFault.COMMAND_SIZE, f"commandSize {command} of totalSize {total}")


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A varint and the position after it.

    Raises:
        MalformedFrame: it is longer than ten bytes or the buffer ends inside.
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
    return value | byte << shift, pos + 1


def read_fields(data: bytes, pos: int, end: int) -> Fields:
    """All fields of the message that lies between two positions.

    Raises:
        MalformedFrame: a field is of no known wire type or runs past the end.
    """
    return dict(each_field(data, pos, end))


def each_field(data: bytes, pos: int, end: int) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of every field, in order, for those that may come more than once.

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
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
            value, pos = int.from_bytes(data[pos : pos + size], "little"), pos + size
        else:
            raise MalformedFrame(FrameFault.WIRE_TYPE, f"wire type {wire_type}")
        yield tag >> 3, value
    if pos != end:
        raise MalformedFrame(FrameFault.TRUNCATED_FIELD, f"{pos - end} bytes past the end")


def read_type(data: bytes, start: int, end: int) -> int:
    """The type of the BaseCommand between two positions, wherever its field stands.

    Raises:
        MalformedFrame: there is none.
    """
    kind = read_fields(data, start, end).get(1)
    if not isinstance(kind, int):
        raise MalformedFrame(FrameFault.MISSING_FIELD, "BaseCommand.type")
    return kind


def submessage(data: bytes, start: int, end: int, number: int) -> tuple[int, int]:
    """Where the sub-message of a command lies inside its BaseCommand.

    The usual layout, ``08 type tag length``, is recognised at a glance; any other is walked through.

    Raises:
        MalformedFrame: there is no such sub-message.
    """
    if (
        start + 4 <= end
        and data[start] == TYPE_TAG
        and data[start + 2] == number << 3 | _LENGTH_DELIMITED
        and data[start + 3] == end - start - 4 <= 0x7F
    ):
        return start + 4, end
    return _find_submessage(data, start, end, number)


def _find_submessage(data: bytes, pos: int, end: int, number: int) -> tuple[int, int]:
    found: tuple[int, int] | None = None
    while pos < end:
        tag, pos = read_varint(data, pos)
        if tag == number << 3 | _LENGTH_DELIMITED:
            size, pos = read_varint(data, pos)
            found = (pos, pos + size)
            pos += size
        else:
            pos = skip_value(data, pos, tag)
    if pos != end:
        raise MalformedFrame(FrameFault.TRUNCATED_FIELD, f"{pos - end} bytes past the end")
    if found is None:
        raise MalformedFrame(FrameFault.MISSING_FIELD, f"BaseCommand field {number}")
    return found


def skip_value(data: bytes, pos: int, tag: int) -> int:
    """The position after the value of a field whose tag was just read.

    The caller checks the position against its end.

    Raises:
        MalformedFrame: the field is of no known wire type or the buffer ends inside.
    """
    match tag & 7:
        case 0:
            return read_varint(data, pos)[1]
        case 1:
            return pos + 8
        case 2:
            size, pos = read_varint(data, pos)
            return pos + size
        case 5:
            return pos + 4
        case unknown:
            raise MalformedFrame(FrameFault.WIRE_TYPE, f"wire type {unknown}")
