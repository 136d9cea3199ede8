"""Frames between the coordinator and the process of Pulsar's client are read as they were written."""

from __future__ import annotations

import asyncio
import io
import json
import struct
from collections.abc import Callable
from functools import partial

import pytest

from coordinator.adapters.pulsar.client import handle, process
from coordinator.adapters.pulsar.client.frames import (
    FRAME_BYTES_MAX,
    HEAD_BYTES_MAX,
    ClientSettings,
    Frame,
    NotUnderstoodError,
    Overflowed,
    Publish,
    Received,
    SendOutcome,
    TopicState,
    encode,
)

FRAMES: tuple[Frame, ...] = (
    ClientSettings("pulsar://b:6650", ["one", "two"], "internal", "secret", None, "lz4"),
    Publish(1, {"key": "välue"}, b"\x00\xff"),
    TopicState(1, False, "Timeout: no broker"),
    SendOutcome(7, True),
    Received("standalone-0-1", 2**41, {}, b""),
    Overflowed(3),
)


def framed(head: object, payload: bytes = b"") -> bytes:
    """A frame with this head, whatever it is."""
    said = json.dumps(head).encode()
    return struct.pack("!II", len(said), len(payload)) + said + payload


async def _by_coordinator(content: bytes) -> list[Frame]:
    reader, found = asyncio.StreamReader(), list[Frame]()
    reader.feed_data(content)
    reader.feed_eof()
    while (frame := await handle.receive(reader)) is not None:
        found.append(frame)
    return found


Read = Callable[[bytes], list[Frame]]

READERS: dict[str, Read] = {
    "coordinator": lambda content: asyncio.run(_by_coordinator(content)),
    "process": lambda content: list(iter(partial(process.receive, io.BytesIO(content)), None)),
}
"""Read a stream of this content to its end, on either side."""

on_both_sides = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@on_both_sides
def test_all_kinds_of_frames_are_read_as_they_were_written(read: Read) -> None:
    """One after the other, to the end of the stream."""
    assert read(b"".join(map(encode, FRAMES))) == list(FRAMES)


@on_both_sides
def test_a_frame_that_is_cut_off_is_the_end_of_the_stream(read: Read) -> None:
    """The other process has ended while it wrote."""
    whole = encode(FRAMES[1])
    for size in range(len(whole)):
        assert not read(whole[:size])


@on_both_sides
@pytest.mark.parametrize(
    "content",
    [
        struct.pack("!II", HEAD_BYTES_MAX + 1, 1),
        struct.pack("!II", 1, FRAME_BYTES_MAX),
        struct.pack("!II", 0, 0),
        struct.pack("!II", 1, 0) + b"\xff",
        struct.pack("!II", 60_000, 0) + b"[" * 60_000,
        framed([]),
        framed({"SendOutcome": 1}),
        framed([["SendOutcome"], 1, True]),
        framed(["Frame", 1]),
        framed(["SendOutcome", 1]),
        framed(["SendOutcome", 1, True, True]),
        framed(["SendOutcome", "1", True]),
        framed(["TopicState", 0, "yes", ""]),
        framed(["TopicState", 0, False, "\ud800"]),
        framed(["Received", "p", 1, {"\udfff": ""}], b"x"),
        framed(["Received", "p", 1, {"key": 1}], b"x"),
        framed(["ClientSettings", "u", [1], None, None, None, "none"]),
    ],
)
def test_anything_else_is_not_understood(read: Read, content: bytes) -> None:
    """Lengths that cannot be, heads that are no JSON or name no kind, fields of other types."""
    with pytest.raises(NotUnderstoodError):
        read(content)
