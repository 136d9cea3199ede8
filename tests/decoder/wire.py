"""Frames taken apart so that they can be put together wrongly.

A protobuf message is a list of fields in the order in which they are written. Each may carry bytes of its
own for its tag and its value, which then stand in the place of what is right.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tests.gate.peer import read_varint

VARINT, FIXED64, TEXT, START_GROUP, END_GROUP, FIXED32 = range(6)

CONNECT: Final = 2
LOOKUP: Final = 23
SEND: Final = 6
MESSAGE: Final = 9
CHECKSUM: Final = b"\x0e\x01"
BROKER_ENTRY: Final = b"\x0e\x02"

_IDS, _PAIR, _SCHEMA, _LEAF = "ids", "pair", "schema", "leaf"

#: The fields of a message that are messages themselves. A command is called by its number.
_MESSAGES: Final[Mapping[str, Mapping[int, str]]] = {
    "2": {10: _LEAF},
    "3": {4: _LEAF},
    "4": {9: _IDS, 10: _PAIR, 12: _SCHEMA, 17: "ranges", 18: _PAIR},
    "5": {6: _PAIR, 7: _SCHEMA},
    "6": {9: _IDS},
    "7": {3: _IDS},
    "9": {2: _IDS},
    "10": {3: _IDS, 5: _PAIR},
    "13": {2: _SCHEMA},
    "20": {2: _IDS},
    "23": {8: _PAIR},
    "28": {3: _IDS},
    "30": {1: _IDS, 3: _IDS},
    "32": {6: _PAIR},
    "35": {4: _SCHEMA},
    "36": {2: _LEAF},
    "37": {2: _LEAF},
    "39": {3: _SCHEMA},
    "54": {4: _PAIR},
    "metadata": {4: _PAIR, 13: "keys"},
    "keys": {3: _PAIR},
    _IDS: {7: _IDS},
    _SCHEMA: {5: _PAIR},
    "ranges": {3: _LEAF},
}


@dataclass(slots=True)
class Field:
    """A field as it stands in a message.

    Args:
        number: of the field.
        kind: the wire type.
        value: a number, a text, or the fields of a message.
        tag: what is written in place of number and wire type.
        body: what is written in place of the value, its length included.
    """

    number: int
    kind: int
    value: int | bytes | Fields
    tag: bytes | None = None
    body: bytes | None = None

    def copy(self) -> Field:
        """The same once more, to be changed alone."""
        value = [each.copy() for each in self.value] if isinstance(self.value, list) else self.value
        return replace(self, value=value)

    def encode(self) -> bytes:
        """The bytes of the field."""
        tag = varint(self.number << 3 | self.kind) if self.tag is None else self.tag
        return tag + (self.encode_value() if self.body is None else self.body)

    def encode_value(self) -> bytes:
        """The bytes behind the tag, as they should be."""
        value = self.value
        match self.kind:
            case 0:
                return varint(value) if isinstance(value, int) else b"\0"
            case 1 | 5:
                size = 8 if self.kind == FIXED64 else 4
                number = value if isinstance(value, int) else 0
                return (number & (1 << 8 * size) - 1).to_bytes(size, "little")
            case 2:
                text = self.text()
                return varint(len(text)) + text
        return b""

    def text(self) -> bytes:
        """The value as bytes."""
        match self.value:
            case list():
                return encode(self.value)
            case bytes():
                return self.value
        return varint(self.value)


Fields = list[Field]


@dataclass(slots=True)
class Draft:
    """A frame to be.

    Args:
        command: the fields of the BaseCommand.
        head: what stands in front of the metadata's size: a broker entry, a magic number and a checksum.
        metadata: the fields of the MessageMetadata; None for a frame without a payload.
        content: the rest of the payload.
        sizes: what is added to totalSize, commandSize and the metadata's size.
    """

    command: Fields
    head: bytes = b""
    metadata: Fields | None = None
    content: bytes = b""
    sizes: list[int] = field(default_factory=lambda: [0, 0, 0])

    @property
    def kind(self) -> int:
        """The type that the command says first."""
        first = self.command[0].value if self.command else 0
        return first if isinstance(first, int) else 0

    def copy(self) -> Draft:
        """The same once more."""
        metadata = None if self.metadata is None else [each.copy() for each in self.metadata]
        command = [each.copy() for each in self.command]
        return replace(self, command=command, metadata=metadata, sizes=list(self.sizes))

    def encode(self) -> bytes:
        """The bytes of the frame."""
        command, payload = encode(self.command), b""
        if self.metadata is not None:
            metadata = encode(self.metadata)
            size = (len(metadata) + self.sizes[2]) % 2**32
            payload = self.head + struct.pack(">I", size) + metadata + self.content
        total = (4 + len(command) + len(payload) + self.sizes[0]) % 2**32
        head = struct.pack(">II", total, (len(command) + self.sizes[1]) % 2**32)
        return head + command + payload

    def messages(self) -> Iterator[Fields]:
        """Every message in it, the command first."""
        pending = [self.command, *([] if self.metadata is None else [self.metadata])]
        while pending:
            message = pending.pop(0)
            yield message
            pending += [each.value for each in message if isinstance(each.value, list)]


def varint(value: int, length: int = 0) -> bytes:
    """A varint, of a length that is longer than it needs if that is given."""
    encoded = bytearray()
    while value > 0x7F or len(encoded) + 1 < length:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode(message: Fields) -> bytes:
    """The bytes of a message."""
    return b"".join(each.encode() for each in message)


def decode(data: bytes, name: str = "") -> Fields:
    """The fields of a well-formed message."""
    found: Fields = []
    pos = 0
    while pos < len(data):
        tag, pos = read_varint(data, pos)
        number, kind = tag >> 3, tag & 7
        value: int | bytes | Fields
        if kind == VARINT:
            value, pos = read_varint(data, pos)
        elif kind == TEXT:
            size, pos = read_varint(data, pos)
            value, pos = data[pos : pos + size], pos + size
            inner = str(number) if not name else _MESSAGES.get(name, {}).get(number)
            if inner:
                value = decode(value, inner)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            value, pos = int.from_bytes(data[pos : pos + size], "little"), pos + size
        else:
            raise ValueError(f"wire type {kind} at {pos} of {data.hex()}")
        found.append(Field(number, kind, value))
    return found


def take_apart(frame: bytes) -> Draft:
    """A well-formed frame."""
    size = int.from_bytes(frame[4:8], "big")
    draft = Draft(decode(frame[8 : 8 + size]))
    payload = frame[8 + size :]
    if payload:
        at = 0
        if payload[:2] == BROKER_ENTRY:
            at = 6 + int.from_bytes(payload[2:6], "big")
        if payload[at : at + 2] == CHECKSUM:
            at += 6
        end = at + 4 + int.from_bytes(payload[at : at + 4], "big")
        draft.head = payload[:at]
        draft.metadata = decode(payload[at + 4 : end], "metadata")
        draft.content = payload[end:]
    return draft


def split(stream: bytes) -> list[bytes]:
    """The frames of a stream; what is left of one is a frame, too."""
    frames = []
    while stream:
        size = 4 + int.from_bytes(stream[:4], "big")
        frames.append(stream[:size])
        stream = stream[size:]
    return frames
