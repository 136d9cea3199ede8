"""How the coordinator starts its gate's process, and sees it to its end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROGRAM: Final = ("-m", "coordinator.gate_process")
"""What Python runs to be the gate of who holds the socket that is named behind it."""

_ENDS_WITHIN_S: Final = 5.0
_FIRST_HANDED_OVER: Final = 3


@dataclass(frozen=True, slots=True)
class Spawned:
    """A process that is to be the gate.

    Args:
        process: it.
        end: the coordinator's end of the channel to it.
    """

    process: subprocess.Popen[bytes]
    end: socket.socket


def handed_over() -> tuple[int, ...]:
    """The listening sockets that a supervisor keeps for this process, by descriptor (sd_listen_fds(3)).

    They are this process's alone: whatever it starts must not think that they are its own, so the second
    call finds none.
    """
    process, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()) or not count.isdigit():
        return ()
    return tuple(range(_FIRST_HANDED_OVER, _FIRST_HANDED_OVER + int(count)))


@contextmanager
def spawned(program: Sequence[str] = PROGRAM, listening: Sequence[int] = ()) -> Iterator[Spawned]:
    """A new process that is to be the gate; it ends with the block.

    It takes as long to load as what the coordinator itself has to load: best done before that.

    Args:
        program: what Python runs in it.
        listening: descriptors of sockets that listen already, which it gets and this process lets go of.
    """
    ours, its = socket.socketpair()
    with ours:
        with its:
            process = subprocess.Popen(  # noqa: S603 - this very interpreter
                # -P: the modules are found where this process has them, not where it was started.
                [sys.executable, "-P", *program, str(its.fileno()), *map(str, listening)],
                pass_fds=[its.fileno(), *listening],
                stdin=subprocess.DEVNULL,
                env=os.environ
                | {
                    "PYTHONPATH": os.pathsep.join(str(Path(place).absolute()) for place in sys.path)
                },
            )
        for descriptor in listening:
            os.close(descriptor)
        try:
            yield Spawned(process, ours)
        finally:
            ours.close()
            try:
                process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
