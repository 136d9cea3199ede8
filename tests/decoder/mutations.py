"""Change well-formed frames so that two decoders may read them differently.

Each mutation changes a draft in place, as the dice say. Most know what a frame is made of, some know
bytes only. None of them knows what the gate does.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Final

from tests.decoder.wire import (
    BROKER_ENTRY,
    CHECKSUM,
    END_GROUP,
    FIXED32,
    FIXED64,
    SEND,
    START_GROUP,
    TEXT,
    VARINT,
    Draft,
    Field,
    Fields,
    varint,
)

NUMBERS: Final = (
    0, 1, 2, 3, 5, 6, 127, 128, 255, 256, 1000, 2**14, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1,
    2**33 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1,
)  # fmt: skip
"""Where types end, and what stands for something."""

TEXTS: Final = (
    b"", b"\0", b"internal", b"tls", b"admin", b"pulsar.repl.x", b"t", b"tenant/ns/topic",
    b"persistent://tenant/ns/topic", b"persistent://tenant/ns/topic-partition-0",
    b"tenant/cluster/ns/topic", b"non-persistent://tenant/ns/topic", b"persistent://tenant/other/topic", b"topic://tenant/ns/topic",
    b"segment://tenant/ns/topic/0000-7fff-0", b"PERSISTENT://tenant/ns/topic", b"persistent://tenant/ns/",
    b"persistent://tenant/ns/t\xc3\xa9", b"\xff", b"a\xc3", b"\xc0\xaf", b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"a\nb", b"persistent://tenant/ns/topic\0", b"x" * 1023, b"x" * 1024, b"x" * 1025, b"x" * 3000,
)  # fmt: skip

Mutation = Callable[[random.Random, Draft], object]


def _fields(dice: random.Random, draft: Draft) -> Fields:
    """One of the messages in a frame, and rather the larger ones."""
    messages = [each for each in draft.messages() if each]
    return (
        dice.choices(messages, [len(each) for each in messages])[0] if messages else draft.command
    )


def _field(dice: random.Random, draft: Draft, *kinds: int) -> Field | None:
    found = [each for message in draft.messages() for each in message if each.kind in kinds]
    return dice.choice(found) if found else None


def _insert(dice: random.Random, message: Fields, field: Field) -> None:
    message.insert(dice.randrange(len(message) + 1), field)


def _is_id(field: Field) -> bool:
    return field.kind == VARINT and isinstance(field.value, int)


def repeat_field(dice: random.Random, draft: Draft) -> None:
    """A field once more, as it was or with another value."""
    message = _fields(dice, draft)
    if message:
        again = dice.choice(message).copy()
        if dice.random() < 0.7:
            _change(dice, again)
        _insert(dice, message, again)


def repeat_type(dice: random.Random, draft: Draft) -> None:
    """The type once more, before or behind."""
    value = dice.choice((0, 2, 4, 5, 6, 11, 12, 15, 19, 23, 37, 69, 82, 300, draft.kind))
    _insert(dice, draft.command, Field(1, VARINT, value))


def change_value(dice: random.Random, draft: Draft) -> None:
    """Another value that could be meant."""
    field = _field(dice, draft, VARINT, TEXT)
    if field is not None:
        _change(dice, field)


def _change(dice: random.Random, field: Field) -> None:
    if field.kind == VARINT:
        field.value = dice.choice(NUMBERS)
    elif field.kind == TEXT and not isinstance(field.value, list):
        field.value = dice.choice(TEXTS)
    elif isinstance(field.value, list) and field.value:
        _change(dice, dice.choice(field.value))


def lengthen_varint(dice: random.Random, draft: Draft) -> None:
    """A tag, a number or a length in more bytes than it needs."""
    field = _field(dice, draft, VARINT, TEXT)
    if field is None:
        return
    length = dice.choice((2, 3, 5, 6, 9, 10, 11))
    if dice.random() < 0.4:
        field.tag = varint(field.number << 3 | field.kind, length)
    elif field.kind == VARINT and isinstance(field.value, int):
        field.body = varint(field.value, length)
    else:
        field.body = varint(len(field.text()), length) + field.text()


def high_tag_bits(dice: random.Random, draft: Draft) -> None:
    """A tag of more than 32 bits, the lower ones of which are a field's."""
    field = _field(dice, draft, VARINT, TEXT)
    if field is not None:
        field.tag = varint(
            (field.number << 3 | field.kind) + (1 << dice.choice((32, 33, 35, 63, 64)))
        )


def high_value_bits(dice: random.Random, draft: Draft) -> None:
    """A number beyond its type, the lower bits of which are what they were."""
    field = _field(dice, draft, VARINT)
    if field is not None and isinstance(field.value, int):
        field.value += 1 << dice.choice((31, 32, 33, 63, 64, 65, 69))


def hidden_field(dice: random.Random, draft: Draft) -> None:
    """A known field with another value, behind a tag or in a shape that not all understand."""
    message = _fields(dice, draft)
    if not message:
        return
    again = dice.choice(message).copy()
    _change(dice, again)
    hide = dice.choice((high_tag_bits, lengthen_varint, high_value_bits))
    hide(dice, Draft([again]))
    _insert(dice, message, again)


def foreign_field(dice: random.Random, draft: Draft) -> None:
    """Insert a field number of another message, or of none."""
    number = dice.choice(
        (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 19, 100, 2**28, 2**29 - 1, 2**29)
    )
    kind = dice.choice((VARINT, VARINT, FIXED64, TEXT, TEXT, FIXED32))
    value = dice.choice(TEXTS) if kind == TEXT else dice.choice(NUMBERS)
    _insert(dice, _fields(dice, draft), Field(number, kind, value))


def wrong_kind(dice: random.Random, draft: Draft) -> None:
    """A known field of another wire type."""
    field = _field(dice, draft, VARINT, TEXT)
    if field is not None:
        field.kind = dice.choice((VARINT, FIXED64, TEXT, START_GROUP, END_GROUP, FIXED32, 6, 7))


def group(dice: random.Random, draft: Draft) -> None:
    """A group around fields, or the beginning or the end of one."""
    message = _fields(dice, draft)
    number = dice.choice((1, 2, 5, 100))
    start, end = sorted((dice.randrange(len(message) + 1), dice.randrange(len(message) + 1)))
    if dice.random() < 0.8:
        message.insert(end, Field(number, END_GROUP, b""))
    if dice.random() < 0.8:
        message.insert(start, Field(number, START_GROUP, b""))


def pack(dice: random.Random, draft: Draft) -> None:
    """Numbers packed into one field."""
    field = _field(dice, draft, VARINT)
    if field is not None:
        numbers = dice.choices(NUMBERS, k=dice.randrange(4))
        field.kind, field.value = TEXT, b"".join(map(varint, numbers))


def wrong_length(dice: random.Random, draft: Draft) -> None:
    """A length that is not that of what follows."""
    field = _field(dice, draft, TEXT)
    if field is not None:
        text = field.text()
        size = len(text)
        lengths = (
            size + 1,
            size - 1,
            size + 4,
            0,
            size + 2**32,
            2**31,
            2**32 - 1,
            2**32,
            2**63,
            2**64 - 1,
        )
        field.body = varint(max(0, dice.choice(lengths))) + text


def drop_field(dice: random.Random, draft: Draft) -> None:
    """A field is missing."""
    message = _fields(dice, draft)
    if message:
        message.pop(dice.randrange(len(message)))


def shuffle(dice: random.Random, draft: Draft) -> None:
    """The fields in another order."""
    dice.shuffle(_fields(dice, draft))


def repeat_command(dice: random.Random, draft: Draft) -> None:
    """The sub-message twice, in two parts, or beside one of another type."""
    found = [each for each in draft.command if isinstance(each.value, list)]
    if not found:
        return
    again = dice.choice(found).copy()
    assert isinstance(again.value, list)
    match dice.randrange(4):
        case 0 if again.value:
            _change(dice, dice.choice(again.value))
        case 1 if again.value:
            del again.value[dice.randrange(len(again.value)) :]
        case 2:
            again.number = dice.choice((2, 4, 5, 6, 11, 15, 18, 23))
    _insert(dice, draft.command, again)


def other_type(dice: random.Random, draft: Draft) -> None:
    """A type that is not that of the sub-message."""
    for field in draft.command:
        if field.number == 1 and dice.random() < 0.7:
            field.value = dice.choice(
                (0, 1, 2, 4, 5, 6, 11, 12, 15, 18, 19, 23, 37, 69, 82, 300, 2**32 + 5)
            )
        elif isinstance(field.value, list) and dice.random() < 0.4:
            field.number = dice.choice((2, 4, 5, 6, 11, 12, 15, 18, 23))


def empty_message(dice: random.Random, draft: Draft) -> None:
    """A sub-message without fields, or a text in its place."""
    found = [
        each for message in draft.messages() for each in message if isinstance(each.value, list)
    ]
    if found:
        dice.choice(found).value = dice.choice(([], b"", b"\0", b"\xff"))


def collide(dice: random.Random, draft: Draft) -> None:
    """Use an id of another participant."""
    found = [each for message in draft.messages() for each in message if _is_id(each)]
    if found:
        dice.choice(found).value = dice.choice((1, 2, 300, 200, 7))


def wrong_size(dice: random.Random, draft: Draft) -> None:
    """A size in a frame's head that is not that of what follows."""
    at = dice.choice((0, 1, 1, 2, 2))
    draft.sizes[at] = dice.choice((1, -1, 2, -2, 4, 8, -8, 100, 2**31, 2**32 - 1))


def change_head(dice: random.Random, draft: Draft) -> None:
    """Something else in front of the metadata's size."""
    if draft.metadata is None:
        draft.metadata, draft.content = [], dice.randbytes(dice.randrange(40))
    entry = dice.choice((b"", b"\x08\x01", b"\x10\x05", b"\xff", dice.randbytes(5)))
    size = dice.choice((len(entry), len(entry), 0, 2**31, 2**32 - 1, 4000))
    checksum = CHECKSUM + dice.randbytes(4)
    draft.head = dice.choice((
        b"", checksum, checksum + checksum, CHECKSUM, BROKER_ENTRY, b"\x0e\x03" + dice.randbytes(4),
        BROKER_ENTRY + struct.pack(">I", size) + entry,
        BROKER_ENTRY + struct.pack(">I", size) + entry + checksum,
        2 * (BROKER_ENTRY + struct.pack(">I", size) + entry) + checksum,
        checksum + BROKER_ENTRY + struct.pack(">I", size) + entry,
    ))  # fmt: skip


def no_payload(dice: random.Random, draft: Draft) -> None:
    """A frame without what should follow, or with what should not."""
    if draft.metadata is None:
        draft.metadata = [Field(1, TEXT, b"p"), Field(2, VARINT, 1), Field(3, VARINT, 1)]
    elif dice.random() < 0.5:
        draft.metadata = None
    else:
        draft.content = b""


def count_otherwise(dice: random.Random, draft: Draft) -> None:
    """A number of messages in the command or the metadata that is not that of the other."""
    messages = [draft.metadata] if draft.metadata is not None else []
    number = 11
    if dice.random() < 0.5:
        messages = [
            each.value
            for each in draft.command
            if each.number == SEND and isinstance(each.value, list)
        ]
        number = 3
    for message in messages:
        message[:] = [each for each in message if each.number != number]
        message.append(
            Field(number, VARINT, dice.choice((0, 1, 2, 50, 1000, 2**31 - 1, 2**31, 2**64 - 1)))
        )


def delay(dice: random.Random, draft: Draft) -> None:
    """A time of delivery, in one way or another."""
    if draft.metadata is not None:
        field = Field(19, VARINT, dice.choice((0, 1, 2**41, 2**64 - 1)))
        if dice.random() < 0.5:
            dice.choice((high_tag_bits, lengthen_varint, high_value_bits))(dice, Draft([field]))
        _insert(dice, draft.metadata, field)


BY_STRUCTURE: Final[tuple[Mutation, ...]] = (
    repeat_field, repeat_type, change_value, change_value, lengthen_varint, high_tag_bits,
    high_value_bits, hidden_field, hidden_field, foreign_field, wrong_kind, group, pack,
    wrong_length, drop_field, shuffle, repeat_command, other_type, empty_message, collide, collide,
    wrong_size, change_head, no_payload, count_otherwise, delay,
)  # fmt: skip


OF_METADATA: Final[tuple[Mutation, ...]] = (
    repeat_field, change_value, lengthen_varint, high_tag_bits, high_value_bits, hidden_field,
    foreign_field, wrong_kind, group, pack, wrong_length, drop_field, shuffle, change_head,
    count_otherwise, delay,
)  # fmt: skip
"""Changes by a client to the part of a message that a broker passes on as it is."""


def flip(dice: random.Random, frame: bytearray) -> None:
    """One thing done to bytes of which nothing is known."""
    at = dice.randrange(len(frame))
    match dice.randrange(5):
        case 0 | 1:
            frame[at] ^= 1 << dice.randrange(8)
        case 2:
            frame[at] = dice.choice((0, 1, 8, 0x7F, 0x80, 0xFF))
        case 3:
            del frame[at : at + dice.randrange(1, 9)]
        case _:
            frame[at:at] = dice.randbytes(dice.randrange(1, 9))


def mutated(dice: random.Random, draft: Draft) -> bytes:
    """A frame with one to three things done to it."""
    draft = draft.copy()
    times = dice.choice((1, 1, 1, 1, 2, 3))
    if dice.random() < 0.85:
        for _ in range(times):
            dice.choice(BY_STRUCTURE)(dice, draft)
        return draft.encode()
    frame = bytearray(draft.encode())
    for _ in range(times):
        if len(frame) > 8:
            flip(dice, frame)
    if dice.random() < 0.7:  # let it be one frame in any case
        frame[:4] = struct.pack(">I", max(0, len(frame) - 4))
    return bytes(frame)
