"""One direction of a connection: a byte stream, cut into frames and passed on.

::

    read --> head of a frame, kept until --> decide --> PASSES   --> out
             it can be decided (never          |------> TAKEN    the decider has it
             more than one frame)              |------> DISCARD  swallowed to its end
                 ^                             |------> STOP     decode nothing more
                 +---- a position -------------+

A frame is decided as soon as its header is there. From then on the rest of it streams through,
however large it is, and neighbouring frames that pass leave as one slice of what was read: payloads
are neither copied nor awaited. STOP means what it says: nothing behind that frame is looked at until
``resume``, however much of it is already in memory (apache/pulsar#26006 is the story of a limiter that
stopped reading the socket and went on decoding).

Frames of our own making, and frames that were held back, may only enter between two frames:
``insert`` waits for that moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from coordinator.gate.frames import (
    FRAME_PADDING,
    HEADER_MIN,
    MAX_MESSAGE_SIZE,
    TYPE_TAG,
    MalformedFrame,
    read_sizes,
    read_type,
    sizes_fault,
)

Buffer = bytes | memoryview


class Verdict(Enum):
    """What becomes of a frame."""

    PASSES = "goes on to the other side"
    TAKEN = "is in the hands of whoever decided, and had arrived in full"
    DISCARD = "is swallowed to its end"
    STOP = "stays where it is, and nothing behind it is decoded"


Handler = Callable[[bytes, int, int, int], Verdict | int]
"""(data, start, end of command, end of frame) -> verdict, or the position, behind the end of ``data``,
that must have arrived before the frame can be decided. The command itself has arrived."""

# Enum members as globals: one look-up less per frame.
_PASSES: Final = Verdict.PASSES
_SWALLOWED: Final = (Verdict.TAKEN, Verdict.DISCARD)
_NOTHING: Final = b""


class FrameStream:
    """Cuts what is read into frames, asks what becomes of each, and collects what goes out.

    Args:
        handlers: who decides, by command type; frames of other types pass untouched.
        payload_type: the only type that may carry a payload here without being looked at twice. Any
            other frame with a payload has its BaseCommand read to the end for its true type, because
            protobuf lets the type stand in odd places and the last one wins.
    """

    __slots__ = (
        "_discarding", "_handlers", "_head", "_inserts", "_needed", "_payload_type", "_remaining",
        "_scanning", "_unread", "frame_max", "out", "stopped",
    )  # fmt: skip

    def __init__(self, handlers: Mapping[int, Handler], payload_type: int) -> None:
        self._handlers = handlers
        self._payload_type = payload_type
        #: The beginning of a frame that cannot be decided yet; empty between frames.
        self._head = bytearray()
        #: How long ``_head`` must get before it is worth another look; more than it is.
        self._needed = 0
        #: How many bytes of a decided frame are still to come; if any, ``_head`` is empty.
        self._remaining = 0
        #: Whether those are swallowed.
        self._discarding = False
        self._scanning = False
        #: Read but not decoded; while not stopped, nothing stays here.
        self._unread: deque[bytes] = deque()
        #: Frames that wait for the one under way to end.
        self._inserts: list[Buffer] = []
        #: The largest frame, its size field included, in bytes.
        self.frame_max = MAX_MESSAGE_SIZE + FRAME_PADDING
        #: What is to be written, in order; whoever writes it clears it.
        self.out: list[Buffer] = []
        self.stopped = False

    @property
    def buffered_bytes(self) -> int:
        """What is in memory and not decided."""
        return len(self._head) + sum(map(len, self._unread))

    def feed(self, data: bytes) -> None:
        """Take in what was read.

        Raises:
            MalformedFrame: from here on the stream makes no sense; what came before is in ``out``.
        """
        self._unread.append(data)
        if not self.stopped:
            self._advance()

    def resume(self) -> None:
        """Go on after STOP, with the very frame that stopped.

        Raises:
            MalformedFrame: as ``feed``.
        """
        self.stopped = False
        self._advance()

    def insert(self, frame: Buffer) -> None:
        """Send a frame as soon as the one that is under way is complete."""
        self._inserts.append(frame)
        self._send_inserts()

    def _send_inserts(self) -> None:
        mid_frame = self._remaining > 0 and not self._discarding
        if self._inserts and not mid_frame and not self._scanning:
            self.out += self._inserts
            self._inserts.clear()

    def _advance(self) -> None:
        self._scanning = True
        try:
            while self._unread and not self.stopped:
                data = self._unread.popleft()
                if self._head:
                    data = self._complete_head(data)
                if data:
                    self._scan(data)
        finally:
            self._scanning = False
            self._send_inserts()

    def _complete_head(self, data: bytes) -> bytes:
        """Give the head what it lacks; return it once it is worth another look."""
        missing = self._needed - len(self._head)
        if missing < len(data):
            self._unread.appendleft(data[missing:])
        self._head += data[:missing]
        if len(self._head) < self._needed:
            return _NOTHING
        head = bytes(self._head)
        self._head.clear()
        return head

    def _scan(self, data: bytes) -> None:
        """Walk over the frames in ``data``, beginning with the remainder of the one under way."""
        size = len(data)
        handlers, payload_type, frame_max = self._handlers, self._payload_type, self.frame_max
        start = self._end_frame_under_way(data)  # what lies from start to pos passes, in one piece
        pos = self._remaining
        try:
            while pos < size:
                if size - pos < HEADER_MIN:
                    self._keep_head(data, pos, pos + HEADER_MIN)
                    size = pos
                    break
                total, command = read_sizes(data, pos)
                if not 2 <= command <= total - 4 <= frame_max - 8:
                    raise sizes_fault(total, command, frame_max)
                command_end, frame_end = pos + 8 + command, pos + 4 + total
                kind = data[pos + 9]
                verdict: Verdict | int = _PASSES
                if data[pos + 8] != TYPE_TAG or (frame_end > command_end and kind != payload_type):
                    verdict = self._judge_unusual(data, pos, command_end, frame_end)
                elif kind in handlers:
                    if command_end <= size:
                        verdict = handlers[kind](data, pos, command_end, frame_end)
                    else:
                        verdict = command_end
                if verdict is _PASSES:
                    pos = frame_end
                    continue
                self._pass_on(data, start, pos)
                start = pos
                if verdict in _SWALLOWED:
                    self._discarding = frame_end > size
                    start = pos = frame_end
                else:
                    self._stay(data, pos, verdict)
                    size = pos
        except MalformedFrame:
            self._pass_on(data, start, pos)
            raise
        self._remaining = pos - size
        self._pass_on(data, start, min(pos, size))

    def _judge_unusual(
        self, data: bytes, start: int, command_end: int, frame_end: int
    ) -> Verdict | int:
        """Decide about a frame that is not laid out as clients and brokers do."""
        if command_end > len(data):
            return command_end
        handler = self._handlers.get(read_type(data, start + 8, command_end))
        return _PASSES if handler is None else handler(data, start, command_end, frame_end)

    def _stay(self, data: bytes, pos: int, verdict: Verdict | int) -> None:
        """Keep the frame at ``pos``, undecided: for now, or until resumed."""
        if isinstance(verdict, int):
            self._keep_head(data, pos, verdict)
        else:
            self.stopped = True
            self._unread.appendleft(data[pos:])

    def _end_frame_under_way(self, data: bytes) -> int:
        """Close the frame whose remainder ``data`` begins with; return where passing begins."""
        remaining = self._remaining
        if self._discarding:
            if remaining <= len(data):
                self._discarding = False
            return remaining
        if self._inserts and 0 < remaining <= len(data):
            self._pass_on(data, 0, remaining)
            self.out += self._inserts
            self._inserts.clear()
            return remaining
        return 0

    def _keep_head(self, data: bytes, start: int, needed: int) -> None:
        self._head += data[start:]
        self._needed = needed - start

    def _pass_on(self, data: bytes, start: int, end: int) -> None:
        if end - start == len(data):
            self.out.append(data)
        elif start < end:
            self.out.append(memoryview(data)[start:end])
