"""The payload of a SEND or MESSAGE: its metadata, and the number of its messages.

A client states twice how many messages it sends: the broker counts by the command, consumers by the
metadata. The gate charges the larger number, so that neither can be understated. Overstating would cost
a group its tokens, so a number is believed only as far as the content can hold that many: a message in a
batch takes at least `MESSAGE_SIZE_MIN` bytes. For compressed content its uncompressed size counts. A
client may overstate that, too, so it is believed as far as the codec can compress (`RATIO_MAX`). The
bound is the limit of the format, not an estimate: a batch that compresses better would get round a lower
one. Pulsar's clients check the size of compressed content only, so the largest message is no bound. Nor
is the size in the head of a ZSTD frame or a SNAPPY block: the client writes that, too.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from coordinator.gate.protocol import schema
from coordinator.gate.protocol.frames import (
    Fields,
    FrameFault,
    MalformedFrame,
    read_message,
)

MESSAGE_SIZE_MIN: Final = 6
"""Bytes of the smallest message of a batch: its metadata's size, and a metadata with its own size."""

RATIO_MAX: Final = (1, 255, 1032, 14_564, 22)
"""The most bytes that one compressed byte can become, by CompressionType: NONE, LZ4, ZLIB, ZSTD and
SNAPPY.

* LZ4: each further byte of a match's length stands for 255 bytes (LZ4 block format).
* ZLIB: a match of 258 bytes takes a code of one bit for its length and one for its distance (RFC 1951).
* ZSTD: a block is at most 128 KiB. One that repeats a single byte takes 4 bytes, but a batch is no such
  block: sizes and metadata of its messages differ from byte to byte. A block with a match has a header of
  3 bytes, one of literals (1), a number of sequences and their modes (2), and 3 bytes for the match
  (RFC 8878).
* SNAPPY: a copy of 64 bytes takes 3 bytes (format_description.txt).
"""

_BROKER_ENTRY_MAGIC: Final = b"\x0e\x02"
_CHECKSUM_MAGIC: Final = b"\x0e\x01"
_INT32_MAX: Final = 0x7FFFFFFF

_PUBLISH_TIME: Final = 3
_COMPRESSION: Final = 8
_UNCOMPRESSED_SIZE: Final = 9
_NUM_MESSAGES_IN_BATCH: Final = 11
_DELIVER_AT_TIME: Final = 19

_size = struct.Struct(">I").unpack_from


class Published(NamedTuple):
    """The facts that a client states about its messages in a SEND.

    Args:
        messages: number of messages, as far as the content can hold them; at least 1.
        deliver_at_ms: time of delivery; None is at once.
        published_ms: time of publication, by the client's clock.
    """

    messages: int
    deliver_at_ms: int | None
    published_ms: int


def metadata_bounds(
    data: bytes, pos: int, frame_end: int, *, from_client: bool = False
) -> tuple[int, int]:
    """Return where the metadata of a SEND or MESSAGE lies whose payload begins at ``pos``.

    Until its size has arrived, start is 0 and end the position up to which bytes are missing.

    Raises:
        MalformedFrame: the sizes in the payload's head cannot be, or a client wrote a broker's entry.
    """
    arrived = len(data)
    needed = pos + 6
    if needed <= arrived and data[pos : pos + 2] == _BROKER_ENTRY_MAGIC:
        if from_client:
            raise MalformedFrame(FrameFault.BROKER_ENTRY, "SEND")
        pos += 6 + int(_size(data, pos + 2)[0])
        needed = pos + 6
    if needed <= arrived and data[pos : pos + 2] == _CHECKSUM_MAGIC:
        pos += 6
        needed = pos + 4
    start = 0
    if needed <= arrived:
        start = pos + 4
        needed = start + int(_size(data, pos)[0])
    if needed > frame_end:
        raise MalformedFrame(FrameFault.METADATA_SIZE, f"{needed - frame_end} bytes past the frame")
    return start, needed


def read_published(data: bytes, pos: int, end: int, frame_end: int, claimed: int) -> Published:
    """Read the metadata between two positions, whose command claimed this many messages.

    Raises:
        MalformedFrame: the metadata is not in canonical form, or a number is out of range.
    """
    fields = read_message(data, pos, end, schema.MESSAGE_METADATA)
    messages = max(claimed, _number(fields, _NUM_MESSAGES_IN_BATCH, 1))
    if messages > _INT32_MAX:
        raise MalformedFrame(FrameFault.OUT_OF_RANGE, f"num_messages_in_batch {messages}")
    messages = _held(messages, fields, frame_end - end)
    deliver_at = fields.get(_DELIVER_AT_TIME)
    deliver_at_ms = _signed(deliver_at) if isinstance(deliver_at, int) else None
    return Published(messages, deliver_at_ms, _number(fields, _PUBLISH_TIME, 0))


def read_delivered(data: bytes, pos: int, end: int, frame_end: int) -> tuple[int, int]:
    """Return the messages in a MESSAGE, and the permits that the broker takes for it; at least 1 each.

    Its metadata was written by a client that need not have come through a gate. If it is not in canonical
    form, the content's size bounds the number of messages; the consumer's connection is not to blame.
    """
    try:
        fields = read_message(data, pos, end, schema.MESSAGE_METADATA)
    except MalformedFrame:
        most = max(1, (frame_end - end) // MESSAGE_SIZE_MIN)
        return most, most
    permits = max(1, _number(fields, _NUM_MESSAGES_IN_BATCH, 1))
    permits = 1 if permits > _INT32_MAX else permits
    return _held(permits, fields, frame_end - end), permits


def _held(claimed: int, fields: Fields, content: int) -> int:
    """Return the claimed number of messages, or the number that the content can hold if less."""
    compression = _number(fields, _COMPRESSION, 0)
    if 0 < compression < len(RATIO_MAX):  # the broker treats all others as none
        uncompressed = _number(fields, _UNCOMPRESSED_SIZE, 0)
        content = max(content, min(uncompressed, content * RATIO_MAX[compression]))
    return max(1, min(claimed, content // MESSAGE_SIZE_MIN))


def _number(fields: Fields, number: int, default: int) -> int:
    value = fields.get(number)
    return value if isinstance(value, int) else default


def _signed(value: int) -> int:
    """Return an int64 as protobuf writes it: a negative one as its two's complement."""
    return value - (1 << 64) if value >> 63 else value
