"""Frames of real clients and real brokers: `corpus.txt`, a frame a line, in hex.

    python -m tests.decoder.corpus RECORDING... > tests/decoder/corpus.txt

makes it of recordings as `tests.clients.recorder` writes them while programmes of tests/clients or
pulsar-perf run: a line of JSON per frame, ``way`` being ``>`` for what a client sent and ``<`` for what
it was answered, and ``connection`` a number. Frames that differ in nothing but values of about the same
length are kept once, under the name of the first client. Long content is cut, which no decoder looks at.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.decoder.wire import CONNECT, Draft, Field, Fields, take_apart, varint

_FILE: Final = Path(__file__).with_name("corpus.txt")
_CONTENT_MAX: Final = 500
_FRAME_MAX: Final = 900


class Recorded(NamedTuple):
    """A frame of a recording.

    Args:
        client: who sent it, or was sent it, by its name in CONNECT.
        from_client: which of the two.
        frame: its bytes.
    """

    client: str
    from_client: bool
    frame: bytes


def load() -> tuple[Recorded, ...]:
    """All of the corpus."""
    lines = (line.split() for line in _FILE.read_text().splitlines())
    return tuple(Recorded(client, way == ">", bytes.fromhex(frame)) for client, way, frame in lines)


def distinct(recordings: Iterable[Path]) -> Iterator[Recorded]:
    """The first frame of each shape."""
    seen = set()
    for recording in recordings:
        clients: dict[int, str] = {}
        for line in recording.read_text().splitlines():
            record = json.loads(line)
            frame, connection = bytes.fromhex(record["frame"]), record["connection"]
            if not frame:
                continue
            draft = take_apart(frame)
            assert draft.encode() == frame, (
                f"read in another way than it was written: {frame.hex()}"
            )
            if draft.kind == CONNECT:
                clients[connection] = _name(draft)
            shape = (record["way"], *_shape(draft))
            draft.content = draft.content[:_CONTENT_MAX]
            if shape in seen or len(draft.encode()) > _FRAME_MAX:
                continue
            seen.add(shape)
            yield Recorded(clients[connection], record["way"] == ">", draft.encode())


def _name(connect: Draft) -> str:
    fields = connect.command[1].value
    assert isinstance(fields, list)
    return "-".join(fields[0].text().decode().split())


def _shape(draft: Draft) -> Iterator[object]:
    yield draft.kind
    yield len(draft.head)
    for message in draft.messages():
        yield tuple(map(_shape_of, _once(message)))


def _once(message: Fields) -> Fields:
    """Of fields that follow one another many times, two."""
    return [
        each
        for at, each in enumerate(message)
        if at < 2 or not each.number == message[at - 1].number == message[at - 2].number
    ]


def _shape_of(each: Field) -> tuple[int, int, int]:
    size = 0
    if isinstance(each.value, int):
        size = each.value if each.value < 2 else 2 + len(varint(each.value)) // 4
    elif isinstance(each.value, bytes):
        size = min(len(each.value), 1) + (len(each.value) > 127)
    return each.number, each.kind, size


def main(arguments: list[str]) -> int:
    """Distil recordings."""
    for each in distinct(map(Path, arguments)):
        way = ">" if each.from_client else "<"
        sys.stdout.write(f"{each.client} {way} {each.frame.hex()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
