"""Frames of Pulsar's protocol as field numbers and values, written for reading what clients sent.

Independent of the code under test. A command is read without a schema: a field is its number, its
wire type and its value; what is not canonical protobuf is said in `oddities`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

NAMES = {
    2: "CONNECT", 3: "CONNECTED", 4: "SUBSCRIBE", 5: "PRODUCER", 6: "SEND", 7: "SEND_RECEIPT",
    8: "SEND_ERROR", 9: "MESSAGE", 10: "ACK", 11: "FLOW", 12: "UNSUBSCRIBE", 13: "SUCCESS",
    14: "ERROR", 15: "CLOSE_PRODUCER", 16: "CLOSE_CONSUMER", 17: "PRODUCER_SUCCESS", 18: "PING",
    19: "PONG", 20: "REDELIVER_UNACKNOWLEDGED_MESSAGES", 21: "PARTITIONED_METADATA",
    22: "PARTITIONED_METADATA_RESPONSE", 23: "LOOKUP", 24: "LOOKUP_RESPONSE",
    25: "CONSUMER_STATS", 26: "CONSUMER_STATS_RESPONSE", 27: "REACHED_END_OF_TOPIC", 28: "SEEK",
    29: "GET_LAST_MESSAGE_ID", 30: "GET_LAST_MESSAGE_ID_RESPONSE", 31: "ACTIVE_CONSUMER_CHANGE",
    32: "GET_TOPICS_OF_NAMESPACE", 33: "GET_TOPICS_OF_NAMESPACE_RESPONSE", 34: "GET_SCHEMA",
    35: "GET_SCHEMA_RESPONSE", 36: "AUTH_CHALLENGE", 37: "AUTH_RESPONSE", 38: "ACK_RESPONSE",
    39: "GET_OR_CREATE_SCHEMA", 40: "GET_OR_CREATE_SCHEMA_RESPONSE", 50: "NEW_TXN",
    51: "NEW_TXN_RESPONSE", 52: "ADD_PARTITION_TO_TXN", 53: "ADD_PARTITION_TO_TXN_RESPONSE",
    54: "ADD_SUBSCRIPTION_TO_TXN", 55: "ADD_SUBSCRIPTION_TO_TXN_RESPONSE", 56: "END_TXN",
    57: "END_TXN_RESPONSE", 58: "END_TXN_ON_PARTITION", 59: "END_TXN_ON_PARTITION_RESPONSE",
    60: "END_TXN_ON_SUBSCRIPTION", 61: "END_TXN_ON_SUBSCRIPTION_RESPONSE",
    62: "TC_CLIENT_CONNECT", 63: "TC_CLIENT_CONNECT_RESPONSE", 64: "WATCH_TOPIC_LIST",
    65: "WATCH_TOPIC_LIST_SUCCESS", 66: "WATCH_TOPIC_UPDATE", 67: "WATCH_TOPIC_LIST_CLOSE",
    68: "TOPIC_MIGRATED",
}  # fmt: skip

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


class Unreadable(ValueError):
    """These bytes are no protobuf message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: a varint's or fixed number's value, or the bytes of what has a length."""

    number: int
    wire: int
    value: int | bytes
    minimal: bool

    @property
    def text(self) -> str:
        """The value as a person reads it."""
        if isinstance(self.value, int):
            return str(self.value)
        shown = self.value.decode("latin-1")
        return repr(shown) if shown.isprintable() else self.value.hex()


def fields_of(message: bytes) -> Iterator[Field]:
    """The fields of a message in the order they were written.

    Raises:
        Unreadable: they are not protobuf.
    """
    at = 0
    while at < len(message):
        tag, after, minimal = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value: int | bytes
            value, at, fits = _varint(message, after)
            minimal = minimal and fits
        elif wire in (FIXED64, FIXED32):
            at = after + (8 if wire == FIXED64 else 4)
            value = int.from_bytes(message[after:at], "little")
        elif wire == LENGTH:
            size, after, fits = _varint(message, after)
            minimal = minimal and fits
            at = after + size
            value = message[after:at]
        else:
            raise Unreadable(f"wire type {wire} at {at} of {message.hex()}")
        if at > len(message):
            raise Unreadable(f"field {number} goes past the end of {message.hex()}")
        yield Field(number, wire, value, minimal)


@dataclass(frozen=True, slots=True)
class Command:
    """The contents of one frame: its type, the fields of its sub-message, and the bytes after it."""

    kind: int
    fields: tuple[Field, ...]
    payload: bytes
    raw: bytes
    oddities: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """The type's name."""
        return NAMES.get(self.kind, f"TYPE_{self.kind}")

    def number(self, field_number: int, default: int | None = None) -> int | None:
        """A number of the sub-message; the last one, as protobuf takes it."""
        found = default
        for each in self.fields:
            if each.number == field_number and isinstance(each.value, int):
                found = each.value
        return found

    def text(self, field_number: int) -> str | None:
        """A text of the sub-message."""
        found = None
        for each in self.fields:
            if each.number == field_number and isinstance(each.value, bytes):
                found = each.value.decode()
        return found

    def __str__(self) -> str:
        body = " ".join(f"{each.number}={each.text[:120]}" for each in self.fields)
        rest = f" +{len(self.payload)}B" if self.payload else ""
        odd = f" ODD {self.oddities}" if self.oddities else ""
        return f"{self.name}({body}){rest}{odd}"


def command_of(frame: bytes) -> Command:
    """Read a whole frame, sizes included."""
    size = int.from_bytes(frame[4:8], "big")
    base, payload = frame[8 : 8 + size], frame[8 + size :]
    tops = list(fields_of(base))
    oddities = []
    if not all(each.minimal for each in tops):
        oddities.append("a varint of BaseCommand is longer than it need be")
    kinds = [each.value for each in tops if each.number == 1 and isinstance(each.value, int)]
    kind = kinds[-1] if kinds else -1
    if [each.number for each in tops] != [1, kind]:
        oddities.append(f"BaseCommand has the fields {[each.number for each in tops]}")
    fields: tuple[Field, ...] = ()
    for each in tops:
        if each.number == kind and isinstance(each.value, bytes):
            fields = tuple(fields_of(each.value))
    if not all(each.minimal for each in fields):
        oddities.append("a varint of the command is longer than it need be")
    numbers = [each.number for each in fields]
    if numbers != sorted(numbers):
        oddities.append(f"fields out of order: {numbers}")
    return Command(kind, fields, payload, frame, tuple(oddities))


def split(stream: bytearray) -> list[bytes]:
    """Take whole frames off the front of a stream."""
    frames = []
    while len(stream) >= 4 and len(stream) >= (size := 4 + int.from_bytes(stream[:4], "big")):
        frames.append(bytes(stream[:size]))
        del stream[:size]
    return frames


def _varint(message: bytes, at: int) -> tuple[int, int, bool]:
    value = shift = 0
    start = at
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at, at == start + 1 or byte != 0
        if shift > 70:
            break
    raise Unreadable(f"a varint at {start} of {message.hex()} has no end")
