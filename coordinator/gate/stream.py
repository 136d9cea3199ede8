"""One direction of a connection: a byte stream, cut into frames and passed on.

::

    read --> head of a frame, kept until --> decide --> PASSES   --> out
             it can be decided (never          |------> TAKEN    the decider has it
             more than one frame)              |------> DISCARD  swallowed to its end
                 ^                             |------> STOP     decode nothing more
                 +---- a position -------------+------> bytes    go out in its place

A frame is decided as soon as its header is there. From then on the rest of it streams through,
however large it is, and neighbouring frames that pass leave as one slice of what was read: payloads
are neither copied nor awaited. STOP means what it says: nothing behind that frame is looked at until
``resume``, however much of it is already in memory (apache/pulsar#26006 is the story of a limiter that
stopped reading the socket and went on decoding).

Under load, most of what one read brings is a run of frames of one producer or consumer. Where runs can
be found (``runs``), one that passes as a whole is decided at once; all else is decided frame by frame.

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
from coordinator.gate.runs import CAN_FIND_RUNS, RunHandler, find_prompt_run, find_run

Buffer = bytes | memoryview


class Verdict(Enum):
    """What becomes of a frame."""

    PASSES = "goes on to the other side"
    TAKEN = "is in the hands of whoever decided, and had arrived in full"
    DISCARD = "is swallowed to its end"
    STOP = "stays where it is, and nothing behind it is decoded"


Decision = Verdict | int | bytes
"""A verdict; or the position, behind the end of what arrived, that must have arrived before the frame can
be decided; or a frame to send in its place, which it is discarded for."""

Handler = Callable[[bytes, int, int, int], Decision]
"""(data, start, end of command, end of frame) -> decision. The command itself has arrived."""


# Enum members as globals: one look-up less per frame.
_PASSES: Final = Verdict.PASSES
_SWALLOWED: Final = (Verdict.TAKEN, Verdict.DISCARD)
_NOTHING: Final = b""


class FrameStream:
    """Cuts what is read into frames, asks what becomes of each, and collects what goes out.

    Args:
        handlers: who decides, by command type; frames of other types pass untouched.
        run_handlers: who is asked first about a run of frames of one producer or consumer, by command
            type; where runs cannot be found, nobody is.
        payload_type: the only type that may carry a payload here without being looked at twice. Any
            other frame with a payload has its BaseCommand read to the end for its true type, because
            protobuf lets the type stand in odd places and the last one wins.
        prompt_runs: whether frames with delayed messages are decided one by one.
    """

    __slots__ = (
        "_discarding", "_handlers", "_head", "_inserts", "_needed", "_payload_type", "_prompt_runs",
        "_remaining", "_run_handlers", "_scanning", "_unread", "frame_max", "out", "stopped",
    )  # fmt: skip

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        payload_type: int,
        run_handlers: Mapping[int, RunHandler] | None = None,
        *,
        prompt_runs: bool = False,
    ) -> None:
        self._handlers = handlers
        self._run_handlers = run_handlers or {}
        self._payload_type = payload_type
        self._prompt_runs = prompt_runs
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
        start = self._end_frame_under_way(data)  # what lies from start to pos passes, in one piece
        pos = self._remaining
        runs_from = 0 if CAN_FIND_RUNS else size  # before that, none begins
        try:
            while pos < size:
                if pos >= runs_from:
                    pos, runs_from = self._pass_runs(data, pos)
                    continue
                decision, frame_end = self._judge(data, pos)
                if decision is _PASSES:
                    pos = frame_end
                    continue
                self._pass_on(data, start, pos)
                start = pos
                if isinstance(decision, bytes):
                    self._replace(decision)
                    decision = Verdict.DISCARD
                if decision in _SWALLOWED:
                    self._discarding = frame_end > size
                    start = pos = frame_end
                else:
                    self._stay(data, pos, decision)
                    size = pos
        except MalformedFrame:
            self._pass_on(data, start, pos)
            raise
        self._remaining = pos - size
        self._pass_on(data, start, min(pos, size))

    def _pass_runs(self, data: bytes, pos: int) -> tuple[int, int]:
        """Where the runs end that pass from here, and from where on it is worth to look for another."""
        size, frame_max, handlers = len(data), self.frame_max, self._run_handlers
        find = find_prompt_run if self._prompt_runs else find_run
        while pos < size:
            run = find(data, pos, frame_max)
            if run is None:
                return pos, pos + 1
            handler = handlers.get(run.kind)
            if handler is None or not handler(run):
                return pos, run.end
            pos = run.end
        return pos, pos

    def _judge(self, data: bytes, pos: int) -> tuple[Decision, int]:
        """Decide about the frame at a position; tell its end, as far as that is known."""
        size = len(data)
        if size - pos < HEADER_MIN:
            return pos + HEADER_MIN, size
        total, command = read_sizes(data, pos)
        if not 2 <= command <= total - 4 <= self.frame_max - 8:
            raise sizes_fault(total, command, self.frame_max)
        command_end, frame_end = pos + 8 + command, pos + 4 + total
        kind = data[pos + 9]
        is_usual = data[pos + 8] == TYPE_TAG and (
            frame_end == command_end or kind == self._payload_type
        )
        if is_usual and kind not in self._handlers:
            return _PASSES, frame_end
        if command_end > size:
            return command_end, frame_end
        if is_usual:
            return self._handlers[kind](data, pos, command_end, frame_end), frame_end
        return self._judge_unusual(data, pos, command_end, frame_end), frame_end

    def _judge_unusual(self, data: bytes, start: int, command_end: int, frame_end: int) -> Decision:
        """Decide about a frame that is not laid out as clients and brokers do."""
        handler = self._handlers.get(read_type(data, start + 8, command_end))
        return _PASSES if handler is None else handler(data, start, command_end, frame_end)

    def _stay(self, data: bytes, pos: int, verdict: Verdict | int) -> None:
        """Keep the frame at ``pos``, undecided: for now, or until resumed."""
        if isinstance(verdict, int):
            self._keep_head(data, pos, verdict)
        else:
            self.stopped = True
            self._unread.appendleft(data[pos:])

    def _replace(self, frame: bytes) -> None:
        """Send a frame in the place of the one that was decided, behind those that waited for a gap."""
        self.out += (*self._inserts, frame)
        self._inserts.clear()

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
