"""Parts of commands that decoders may read differently: fields by number, also with a 33rd bit."""

from __future__ import annotations

from tests.gate import peer

BIT_32 = 1 << 32
BIT_64 = 1 << 64


def tag(number: int, *, high: bool = False) -> bytes:
    """The tag of a number's field, with a 33rd bit if wanted."""
    return peer.varint(number << 3 | (BIT_32 if high else 0))


def number(field: int, value: int, *, high: bool = False) -> bytes:
    """A field with a number."""
    return tag(field, high=high) + peer.varint(value)


def sub_message(kind: int, body: bytes) -> bytes:
    """A BaseCommand's sub-message."""
    return peer.message((kind, body))
