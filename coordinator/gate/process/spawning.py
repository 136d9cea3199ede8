"""Start the gate's process for the coordinator, and end it."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from coordinator.runtime import interpreter

PROGRAM: Final = ("-m", "coordinator.gate.process")
"""The program that Python runs as the gate; the descriptors of its sockets follow."""

_ENDS_WITHIN_S: Final = 5.0
_FIRST_HANDED_OVER: Final = 3


@dataclass(frozen=True, slots=True)
class Spawned:
    """A process that is to become the gate.

    Args:
        process: the process.
        end: the coordinator's end of the channel to it.
        liveness: the coordinator's end of the socket that its thread answers (liveness.py).
    """

    process: subprocess.Popen[bytes]
    end: socket.socket
    liveness: socket.socket


def handed_over() -> tuple[int, ...]:
    """Return the listening sockets that a supervisor keeps for this process (sd_listen_fds(3)).

    They belong to this process alone: a child process must not believe that they are its own, so the
    second call finds none.
    """
    process, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()) or not count.isdigit():
        return ()
    return tuple(range(_FIRST_HANDED_OVER, _FIRST_HANDED_OVER + int(count)))


@contextmanager
def spawned(program: Sequence[str] = PROGRAM, listening: Sequence[int] = ()) -> Iterator[Spawned]:
    """Start a process that is to become the gate; it ends with the block.

    It takes as long to load as the coordinator itself: best started before the coordinator loads.

    Args:
        program: the program that Python runs in it.
        listening: descriptors of listening sockets, which are handed to it and closed here.
    """
    (end, its_end), (liveness, its_liveness) = socket.socketpair(), socket.socketpair()
    with end, liveness:
        with its_end, its_liveness:
            handed = [its_end.fileno(), its_liveness.fileno(), *listening]
            process = subprocess.Popen(  # noqa: S603 - this very interpreter
                interpreter.command(*program, *map(str, handed)),
                pass_fds=handed,
                stdin=subprocess.DEVNULL,
                env=interpreter.environment(),
            )
        for descriptor in listening:
            os.close(descriptor)
        try:
            yield Spawned(process, end, liveness)
        finally:
            end.close()
            try:
                process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
