"""One direction of a connection: a byte stream, cut into frames and passed on.

::

    read --> head of a frame, kept until --> decide --> PASSES   --> out
             it can be decided (never          |------> TAKEN    the decider has it
             more than one frame)              |------> DISCARD  swallowed to its end
                 ^                             |------> STOP     decode nothing more
                 +---- a position -------------+------> bytes    go out in its place

A frame is decided as soon as its header has arrived. From then on the rest of it streams through, however
large it is, and neighbouring frames that pass leave as one slice of the bytes read: payloads are neither
copied nor awaited. After STOP, no byte behind that frame is decoded until ``resume``, however much of it
is already in memory (in apache/pulsar#26006 a limiter stopped reading the socket and went on decoding).

Under load, most of what one read brings is a run of frames of one producer or consumer. Where runs can
be found (``runs``), one that passes as a whole is decided at once; all else is decided frame by frame.

Some frames must arrive in full, or nearly so, before they can be decided: a SEND that is held back, a
command with long fields. Of such a frame more than `HEAD_FREE` bytes are kept only while there is room;
without room the stream stops, in front of it or within it. `kept_bytes` is what has arrived of that
frame, for the account of held memory (hold_buffer.py).

Many small frames take long to decide, and one read may bring thousands; so does one large command. A
stream decides a number of frames in a *turn*, and leaves the others until it is told to `go_on`: in
between, other connections have theirs. A frame or a run counts as one decision, and as more by what is
read of it field by field (`WORK_BYTES`, `WORK_FIELDS`), so that a turn takes about as long whatever the
client sends. A command that is larger than its content can need is refused before it has arrived.

Frames of our own making, and frames that were held back, may only enter between two frames:
``insert`` waits for that moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from coordinator.gate.protocol.frames import (
    COMMAND_HEAD_MAX,
    FRAME_PADDING,
    MAX_MESSAGE_SIZE,
    TYPE_TAG,
    FrameFault,
    MalformedFrame,
    read_head,
    read_sizes,
    sizes_fault,
)
from coordinator.gate.protocol.runs import CAN_FIND_RUNS, RunHandler, find_prompt_run, find_run

Buffer = bytes | memoryview


class FrameVerdict(Enum):
    """The decision about a frame."""

    PASSES = "goes on to the other side"
    TAKEN = "was taken by its handler, and had arrived in full"
    DISCARD = "is swallowed to its end"
    STOP = "stays where it is, and nothing behind it is decoded"


Decision = FrameVerdict | int | bytes
"""A verdict; or the position, behind the end of the bytes received, up to which bytes must arrive before
the frame can be decided; or a frame to send in its place."""

Handler = Callable[[bytes, int, int, int, int], Decision]
"""(data, start, start of the sub-message, end of command, end of frame) -> decision. The command itself
has arrived, and its head is in canonical form."""

HasRoom = Callable[[int], bool]
"""Tells whether this many bytes of an unfinished frame may be kept; if not, the stream stops."""

Otherwise = Callable[[int], None]
"""Called with the type of a frame that has no handler; raises MalformedFrame if it may not pass."""


# Enum members as globals: one look-up less per frame.
_PASSES: Final = FrameVerdict.PASSES
_SWALLOWED: Final = (FrameVerdict.TAKEN, FrameVerdict.DISCARD)
_NOTHING: Final = b""

ENDLESS: Final = 1 << 62
"""A turn that ends with the bytes received."""

WORK_BYTES: Final = 16
"""Bytes whose fields take about as long to read as one decision: eight at most, a microsecond each."""

WORK_FIELDS: Final = 512
"""Fields that the helper of runs.py reads in the time of one decision."""

_SHORT: Final = 64
"""Bytes of a command that count as one decision."""

HEAD_FREE: Final = 16 * 1024
"""Bytes of an unfinished frame that are kept without asking, as every read ends inside a frame."""


def _always(_size: int) -> bool:
    return True


class FrameStream:
    """Cuts the bytes read into frames, has each decided, and collects the bytes to write.

    Args:
        handlers: the handler of each command type.
        otherwise: called for frames of other types, which pass untouched unless it raises.
        run_handlers: the handler, by command type, that is asked first about a run of frames of one
            producer or consumer; unused where runs cannot be found.
        payload_type: the only type that may carry a payload here.
        prompt_runs: whether frames with delayed messages are decided one by one.
        has_room: asked before more than `HEAD_FREE` bytes of an unfinished frame are kept.
        keeps: told of what is kept of such a frame when that changes; 0 when it is decided.
        largest: the size of the largest command, by type; without it, commands are as large as frames.
        turn: the decisions of a turn, each about a frame or a run.
    """

    __slots__ = (
        "_discarding", "_handlers", "_has_room", "_head", "_inserts", "_keeps", "_kept_frames",
        "_largest", "_left", "_needed", "_otherwise", "_payload_type", "_prompt_runs", "_remaining",
        "_run_handlers", "_scanning", "_turn", "_unread", "decided", "failed", "frame_max",
        "inserting_bytes", "kept_bytes", "out", "stopped",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - keyword-only, each one explained above
        self,
        handlers: Mapping[int, Handler],
        payload_type: int,
        otherwise: Otherwise,
        run_handlers: Mapping[int, RunHandler] | None = None,
        *,
        prompt_runs: bool = False,
        has_room: HasRoom = _always,
        keeps: Callable[[int], object] = _always,
        largest: Callable[[int], int] | None = None,
        turn: int = ENDLESS,
    ) -> None:
        self._handlers = handlers
        self._largest = largest
        self._has_room = has_room
        self._keeps = keeps
        self._otherwise = otherwise
        self._run_handlers = run_handlers or {}
        self._payload_type = payload_type
        self._prompt_runs = prompt_runs
        #: The beginning of a frame that cannot be decided yet; empty between frames.
        self._head = bytearray()
        #: The length that ``_head`` must reach before the next attempt; more than it has.
        self._needed = 0
        #: Bytes of a decided frame that are still to come; if any, ``_head`` is empty.
        self._remaining = 0
        #: Whether those are discarded.
        self._discarding = False
        self._scanning = False
        self._turn = turn
        #: The decisions that are left of the present turn; below 0 after a frame that counts as many.
        self._left = turn
        #: The decisions so far; the caller that counts them sets it back to 0.
        self.decided = 0
        #: Bytes read but not decoded; empty while neither stopped nor between turns.
        self._unread: deque[bytes] = deque()
        #: Frames that wait for the one under way to end.
        self._inserts: list[Buffer] = []
        #: How many bytes these have.
        self.inserting_bytes = 0
        #: The largest frame, its size field included, in bytes.
        self.frame_max = MAX_MESSAGE_SIZE + FRAME_PADDING
        #: The bytes kept of the undecided frame, if they are more than `HEAD_FREE`.
        self.kept_bytes = 0
        #: The number of frames that had to be kept so.
        self._kept_frames = 0
        #: The bytes to write, in order; the caller that writes them clears them.
        self.out: list[Buffer] = []
        self.stopped = False
        #: Whether a frame made no sense: nothing behind it does.
        self.failed = False

    def expect(
        self,
        handlers: Mapping[int, Handler],
        otherwise: Otherwise,
        run_handlers: Mapping[int, RunHandler],
    ) -> None:
        """Use these handlers from the next frame on."""
        self._handlers = handlers
        self._otherwise = otherwise
        self._run_handlers = run_handlers

    @property
    def awaits_rest(self) -> bool:
        """Whether a frame has begun to arrive that cannot be decided yet."""
        return bool(self._head)

    @property
    def awaited_frame(self) -> int:
        """The number of the frame of `kept_bytes` that has not arrived in full; 0 is none."""
        return self._kept_frames if self.kept_bytes and not self.stopped else 0

    @property
    def missing_bytes(self) -> int:
        """The bytes of the frame that is passing which have not arrived."""
        return 0 if self._discarding else self._remaining

    @property
    def waits(self) -> bool:
        """Whether bytes that were read wait for a further turn."""
        return bool(self._unread) and not self.stopped

    @property
    def waiting_bytes(self) -> int:
        """The bytes that wait for a further turn."""
        return sum(map(len, self._unread)) if self.waits else 0

    def keep(self, data: bytes) -> None:
        """Take the bytes of a read, and decide none of them yet."""
        self._unread.append(data)

    def go_on(self) -> None:
        """Decide a further turn of the frames that wait.

        Raises:
            MalformedFrame: the stream makes no sense from here on; all earlier bytes are in ``out``.
        """
        if self.waits:
            self._advance()

    def resume(self) -> None:
        """Go on after STOP, with the very frame that stopped.

        Raises:
            MalformedFrame: as ``go_on``.
        """
        self.stopped = False
        self._advance()

    def charge(self, decisions: int) -> None:
        """Count the reading of many fields as this many decisions of this turn."""
        self._left -= decisions

    def insert(self, frame: Buffer) -> None:
        """Send a frame as soon as the one that is under way is complete."""
        self._inserts.append(frame)
        self.inserting_bytes += len(frame)
        self._send_inserts()

    def _send_inserts(self) -> None:
        mid_frame = self._remaining > 0 and not self._discarding
        if self._inserts and not mid_frame and not self._scanning:
            self._take_inserts()

    def _take_inserts(self) -> None:
        self.out += self._inserts
        self._inserts.clear()
        self.inserting_bytes = 0

    def _advance(self) -> None:
        self._scanning = True
        self._left = self._turn
        try:
            while self._unread and self._left > 0 and not self.stopped:
                data, kept = self._unread.popleft(), self.kept_bytes
                if self._head:
                    data = self._complete_head(data)
                if data:
                    self._scan(data)
                if self.kept_bytes != kept:
                    self._keeps(self.kept_bytes)
        except MalformedFrame:
            self.failed = True
            self._unread.clear()
            raise
        finally:
            self.decided += self._turn - self._left
            self._scanning = False
            self._send_inserts()

    def _complete_head(self, data: bytes) -> bytes:
        """Add the missing bytes to the head; return it once it is worth another attempt."""
        missing = self._needed - len(self._head)
        if missing < len(data):
            self._unread.appendleft(data[missing:])
        self._head += data[:missing]
        if len(self._head) < self._needed:
            if self.kept_bytes:
                self.kept_bytes = len(self._head)
                self.stopped = not self._has_room(self.kept_bytes)
            return _NOTHING
        head = bytes(self._head)
        self._head.clear()
        return head

    def _scan(self, data: bytes) -> None:
        """Walk over the frames in ``data``, beginning with the remainder of the one under way."""
        size = len(data)
        start = self._end_frame_under_way(data)  # the bytes from start to pos pass in one piece
        pos = self._remaining
        kept, self.kept_bytes = self.kept_bytes, 0
        runs_from = 0 if CAN_FIND_RUNS else size  # before that, none begins
        try:
            while pos < size:
                if self._left <= 0:
                    self._unread.appendleft(data[pos:])
                    size = pos
                    break
                if pos >= runs_from:
                    pos, runs_from = self._pass_runs(data, pos)
                    continue
                self._left -= 1
                decision, frame_end = self._judge(data, pos)
                if decision is _PASSES:
                    pos = frame_end
                    continue
                self._pass_on(data, start, pos)
                start = pos
                if isinstance(decision, bytes):
                    self._replace(decision)
                    decision = FrameVerdict.DISCARD
                if decision in _SWALLOWED:
                    self._discarding = frame_end > size
                    start = pos = frame_end
                else:
                    self._stay(data, pos, decision, 0 if pos else kept)
                    size = pos
        except MalformedFrame:
            self._remaining = 0  # the frame under way has ended in front of this one
            self._pass_on(data, start, pos)
            raise
        self._remaining = pos - size
        self._pass_on(data, start, min(pos, size))

    def _pass_runs(self, data: bytes, pos: int) -> tuple[int, int]:
        """Return where the runs end that pass from here, and where to look for the next one."""
        size, frame_max, handlers = len(data), self.frame_max, self._run_handlers
        find = find_prompt_run if self._prompt_runs else find_run
        while pos < size and self._left > 0:
            run = find(data, pos, frame_max)
            if run is None:
                return pos, pos + 1
            self._left -= run.fields // WORK_FIELDS
            handler = handlers.get(run.kind)
            if handler is None or not handler(run):
                # Its first frame is decided in this turn, so that the next one finds a shorter run.
                self._left = max(self._left, 1)
                return pos, run.end
            self._left -= 1
            pos = run.end
        return pos, pos

    def _judge(self, data: bytes, pos: int) -> tuple[Decision, int]:
        """Decide about the frame at a position; return its end, as far as that is known."""
        size = len(data)
        # Sizes have 8 bytes, the least head of a command 4 more: each is judged as soon as it is there.
        if size < (start := pos + 8):
            return start, size
        total, command = read_sizes(data, pos)
        if not 4 <= command <= total - 4 <= self.frame_max - 8:
            raise sizes_fault(total, command, self.frame_max)
        if size < start + 4:
            return start + 4, size
        command_end, frame_end = start + command, pos + 4 + total
        kind = data[start + 1]
        if (
            kind < 16
            and data[start] == TYPE_TAG
            and data[start + 2] == kind << 3 | 2
            and (data[start + 3] == command - 4 <= 0x7F)
        ):
            body = start + 4
        else:
            head_end = min(command_end, start + COMMAND_HEAD_MAX)
            if head_end > size:
                return head_end, frame_end
            kind, body = read_head(data, start, command_end)
        if frame_end != command_end and kind != self._payload_type:
            raise MalformedFrame(
                FrameFault.PAYLOAD, f"type {kind}, {frame_end - command_end} bytes"
            )
        handler = self._handlers.get(kind)
        if handler is None:
            self._otherwise(kind)
            return _PASSES, frame_end
        if command > _SHORT:
            self._check_command(kind, command, has_arrived=command_end <= size)
        if command_end > size:
            return command_end, frame_end
        return handler(data, pos, body, command_end, frame_end), frame_end

    def _check_command(self, kind: int, size: int, *, has_arrived: bool) -> None:
        """Refuse a command that is too large; charge the turn for one that is now read."""
        if self._largest is not None and size > (most := self._largest(kind)):
            raise MalformedFrame(
                FrameFault.COMMAND_TOO_LARGE, f"type {kind}, {size} bytes, at most {most}"
            )
        if has_arrived:
            self.charge(size // WORK_BYTES)

    def _stay(self, data: bytes, pos: int, verdict: FrameVerdict | int, kept: int) -> None:
        """Leave a frame undecided, for now or until resumed; its `kept` bytes are already counted."""
        if not isinstance(verdict, int):
            self._stop(data, pos, kept)
        elif verdict - pos <= HEAD_FREE:
            self._keep_head(data, pos, verdict)
        elif self._has_room(len(data) - pos):
            self._kept_frames += not kept
            self.kept_bytes = len(data) - pos
            self._keep_head(data, pos, verdict)
        else:
            self._stop(data, pos, kept)

    def _stop(self, data: bytes, pos: int, kept: int) -> None:
        self.stopped = True
        self.kept_bytes = kept
        self._unread.appendleft(data[pos:])

    def _replace(self, frame: bytes) -> None:
        """Send a frame in place of the decided one, behind those that waited for a gap."""
        self._take_inserts()
        self.out.append(frame)

    def _end_frame_under_way(self, data: bytes) -> int:
        """Close the frame whose remainder ``data`` begins with; return where the next frame begins."""
        remaining = self._remaining
        if self._discarding:
            if remaining <= len(data):
                self._discarding = False
            return remaining
        if self._inserts and 0 < remaining <= len(data):
            self._pass_on(data, 0, remaining)
            self._take_inserts()
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
