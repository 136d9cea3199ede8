"""The coordinator's side of Pulsar's client: its process is started, and started again when it ends.

A process that ends, that is not understood, or that for `_SILENT_LOOKS` looks in a row says nothing or
owes the same answer is replaced, after `_FIRST_PAUSE_S` and twice as long after each further one up to
`_LAST_PAUSE_S`. Looks are counted, and not time, for the coordinator itself may stand still. All calls
are on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import socket
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import structlog

from coordinator.adapters.pulsar.client.frames import (
    LENGTHS_BYTES,
    ClientSettings,
    Frame,
    NotUnderstoodError,
    Overflowed,
    Publish,
    Received,
    SendOutcome,
    TopicState,
    decode,
    encode,
    sizes,
)
from coordinator.runtime import interpreter
from coordinator.runtime.supervision import TaskSupervisor

PROGRAM: Final = ("-m", "coordinator.adapters.pulsar.client")
"""The program that Python runs as the client."""

_FIRST_PAUSE_S = 0.2
_LAST_PAUSE_S = 5.0
_WELL_S = 60.0
_LOOK_EVERY_S = 3.0
_SILENT_LOOKS = 10
_TURN: Final = 50
"""Frames that are heard before the loop has its turn: a flood of reports is some 5 ms."""

_CLOSES_WITHIN_S = 10.0
_ENDS_WITHIN_S = 2.0
"""A process that has closed its socket has this time to end by itself, so that its exit code is told."""

_STDERR: Final = 2
"""The library writes its errors to standard output, where a command may owe an answer to a machine."""

_WAITING_BYTES_MAX = 16 * 1024 * 1024
"""Bytes for the process that wait to be read by it; more are refused."""


Done = Callable[[bool], None]
"""Told whether a broker took a message; once for each topic."""


class _Owed(NamedTuple):
    """The answers of the topics to a publish that have not come yet."""

    answers: int
    done: Done | None


_log = structlog.get_logger(__name__)


class ClientProcess:
    """A client of Pulsar with a producer and a reader on each of some topics.

    Args:
        name: of its task and in the log.
        settings: what to connect to.
        on_message: called with each message that arrives.
        supervisor: the process's supervisor.
        program: the program that Python runs as the client.

    Attributes:
        sent: messages that a broker took, once for each topic.
        unsent: messages that no broker took, likewise.
        received: messages that arrived.
        overflowed: those of them that were dropped, as there was no room.
        ended: processes that ended and were replaced.
        pid: of the process that runs now, or None.
    """

    def __init__(
        self,
        name: str,
        settings: ClientSettings,
        on_message: Callable[[Received], None],
        supervisor: TaskSupervisor,
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self._name = name
        self._settings = settings
        self._on_message = on_message
        self._supervisor = supervisor
        self._program = program
        self._numbers = itertools.count(1)
        self._owed: dict[int, _Owed] = {}
        #: None while no process listens, before the start and from the stop on.
        self._writer: asyncio.StreamWriter | None = None
        self._states = self._none_connected("")
        #: Whether the process has said anything since the last look.
        self._was_heard = False
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.pid: int | None = None
        self.sent = self.unsent = self.received = self.overflowed = self.ended = 0

    async def start(self) -> None:
        """Begin to connect, and never give up; returns at once, with the broker up or down."""
        self._task = asyncio.create_task(self._supervisor.keep(self._name, self._run))

    async def stop(self) -> None:
        """Let published messages go out, then end; at most `_CLOSES_WITHIN_S`."""
        self._stopped.set()
        writer, self._writer = self._writer, None
        if writer is not None and not writer.is_closing():
            writer.write_eof()
        elif self._task is not None:
            self._task.cancel()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_CLOSES_WITHIN_S)
            self._task.cancel()
            await asyncio.wait({self._task})

    def publish(
        self, payload: bytes, properties: Mapping[str, str], done: Done | None = None
    ) -> None:
        """Send on every topic; returns at once, and is answered at once while no process listens."""
        owed, writer = _Owed(len(self._settings.topics), done), self._writer
        if writer is None or not _takes_more(writer):
            self._answer_not_taken(owed)
            return
        number = next(self._numbers)
        self._owed[number] = owed
        writer.write(encode(Publish(number, properties, payload)))

    def connected(self) -> dict[str, bool]:
        """Return of each topic whether it is connected, as it was half a second ago at most."""
        return {
            topic: state.is_connected
            for topic, state in zip(self._settings.topics, self._states, strict=True)
        }

    @property
    def reason(self) -> str:
        """Why a topic is not connected, in the words of the library; empty if it is not known."""
        return next((state.reason for state in self._states if state.reason), "")

    async def _run(self) -> None:
        """Keep a process running until this is stopped."""
        clock = asyncio.get_running_loop().time
        pause_s = _FIRST_PAUSE_S
        while not self._stopped.is_set():
            begun_s = clock()
            how = await self._one_process()
            if self._stopped.is_set():
                return
            self.ended += 1
            self._states = self._none_connected(f"the client's process {how}")
            _log.error("the client of Pulsar is started again", client=self._name, process=how)
            if clock() - begun_s >= _WELL_S:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    async def _one_process(self) -> str:
        """Run a process to its end; return how it ended."""
        end, its_end = socket.socketpair()
        with end:
            with its_end:
                process = await asyncio.create_subprocess_exec(
                    *interpreter.command(*self._program),
                    stdin=its_end.fileno(),
                    stdout=_STDERR,
                    env=interpreter.environment(),
                )
            self.pid = process.pid
            try:
                return await self._talk(process, end) or await _end_of(process)
            finally:
                self.pid = None
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def _talk(self, process: Process, end: socket.socket) -> str:
        """Hear a process until it closes its socket; return why it has to be ended, if it has."""
        reader, writer = await asyncio.open_unix_connection(sock=end)
        watching = asyncio.create_task(self._watch(process))
        try:
            writer.write(encode(self._settings))
            self._writer = writer
            heard = 0
            while (frame := await receive(reader)) is not None:
                self._was_heard = True
                self._hear(frame)
                heard += 1
                if not heard % _TURN:  # what is there already is read without a pause
                    await asyncio.sleep(0)
            return "said nothing any more" if watching.done() else ""
        except NotUnderstoodError as error:
            return f"is not understood: {error}"
        finally:
            watching.cancel()
            self._writer = None
            self._states = self._none_connected("the client's process has closed its socket")
            writer.transport.abort()
            self._answer_none()

    async def _watch(self, process: Process) -> None:
        """End a process that says nothing, or whose library does not even say that it cannot send."""
        silent = 0
        while silent < _SILENT_LOOKS:
            self._was_heard, owed_before = False, self._first_owed()
            await asyncio.sleep(_LOOK_EVERY_S)
            owes_the_same = owed_before is not None and owed_before == self._first_owed()
            silent = silent + 1 if owes_the_same or not self._was_heard else 0
        process.kill()

    def _first_owed(self) -> int | None:
        """The oldest publish that has not been answered."""
        return next(iter(self._owed), None)

    def _hear(self, frame: Frame) -> None:
        match frame:
            case TopicState():
                self._take_state(frame)
            case SendOutcome():
                self._answered(frame)
            case Received():
                self.received += 1
                self._on_message(frame)
            case Overflowed(dropped):
                self.received += dropped
                self.overflowed += dropped
            case _:
                raise NotUnderstoodError(f"{type(frame).__name__} of a client")

    def _take_state(self, state: TopicState) -> None:
        if not 0 <= state.topic < len(self._states):
            raise NotUnderstoodError(f"topic {state.topic} of {len(self._states)}")
        before, self._states[state.topic] = self._states[state.topic], state
        log = _log.bind(topic=self._settings.topics[state.topic])
        if state.is_connected and not before.is_connected:
            log.info("topic connected")
        elif before.is_connected and not state.is_connected:
            log.warning("topic lost")
        if state.reason not in ("", before.reason):
            log.warning("topic unreachable", reason=state.reason)

    def _none_connected(self, reason: str) -> list[TopicState]:
        return [TopicState(at, False, reason) for at, _ in enumerate(self._settings.topics)]

    def _answered(self, sent: SendOutcome) -> None:
        owed = self._owed.get(sent.number)
        if owed is None:
            raise NotUnderstoodError(f"an answer to {sent.number}, to which none is owed")
        if owed.answers > 1:
            self._owed[sent.number] = _Owed(owed.answers - 1, owed.done)
        else:
            del self._owed[sent.number]
        self.sent += sent.is_taken
        self.unsent += not sent.is_taken
        self._tell(owed, is_taken=sent.is_taken)

    def _answer_none(self) -> None:
        """Say of all publishes without an answer that no broker took them."""
        unanswered = list(self._owed.values())
        self._owed.clear()
        for owed in unanswered:
            self._answer_not_taken(owed)

    def _answer_not_taken(self, owed: _Owed) -> None:
        self.unsent += owed.answers
        for _ in range(owed.answers):
            self._tell(owed, is_taken=False)

    def _tell(self, owed: _Owed, *, is_taken: bool) -> None:
        """Tell of one answer; a failure of who is told costs neither the process nor other answers."""
        if owed.done is not None:
            with self._supervisor.guard(self._name):
                owed.done(is_taken)


async def receive(reader: asyncio.StreamReader) -> Frame | None:
    """Wait for a frame; None is the end of the stream.

    Raises:
        NotUnderstoodError: the bytes are no frame, or it is too long.
    """
    try:
        head, payload = sizes(await reader.readexactly(LENGTHS_BYTES))
        return decode(await reader.readexactly(head), await reader.readexactly(payload))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def _takes_more(writer: asyncio.StreamWriter) -> bool:
    """Return whether a process may be written to: it may have just ended, or not read for long."""
    return (
        not writer.is_closing() and writer.transport.get_write_buffer_size() <= _WAITING_BYTES_MAX
    )


async def _end_of(process: Process) -> str:
    """Wait for the end of a process that has closed its socket; say how it ended."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ENDS_WITHIN_S):
            await process.wait()
    code = process.returncode
    if code is None:
        return "closed its socket"
    return (
        f"ended with exit code {code}"
        if code >= 0
        else f"was ended by {signal.Signals(-code).name}"
    )
