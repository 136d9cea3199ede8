"""Whether the gate's process lives: asked and answered where no client's bytes can delay it.

The gate's event loop is as slow as the work that clients give it. So a late answer says that the gate
is *slow*, which ends nothing; it does not say that the gate is gone. That is asked on a socket of its own
and answered by a thread of its own in the gate's process. Python takes the interpreter from a busy thread
every 5 ms (`sys.getswitchinterval`), so this one has its turn whatever the loop does. A process that is
stopped, or stuck in C code, does not answer here either.

A *spell* of slowness begins when a first answer is late and ends when none is. Liveness is asked during
spells only, so a gate that answers in time does no work for it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import structlog

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.insight.model.gate_views import GateSlowness

LIVES_WITHIN_S: Final = 10.0
"""The gate is gone when its liveness is not answered for this time."""

_ASKED_EVERY_S: Final = 1.0
_SLICES: Final = 10
_BYTE: Final = b"?"

log = structlog.get_logger(__name__)


def answer_liveness(end: socket.socket) -> None:
    """Answer on this socket from a thread of its own, for as long as the process lives."""

    def answer() -> None:
        with suppress(OSError):  # the coordinator is gone, which the channel tells
            while asked := end.recv(1):
                end.sendall(asked)

    threading.Thread(target=answer, name="liveness", daemon=True).start()


async def comes_within(answer: asyncio.Future[Any], within_s: float) -> bool:
    """Wait for an answer at most this long; return whether it is there.

    In slices: if this process itself was stopped meanwhile, the next slice finds the answer.
    """
    for _ in range(_SLICES):
        answered, _ = await asyncio.wait([answer], timeout=within_s / _SLICES)
        if answered:
            return True
    return False


class Liveness:
    """The coordinator's end: counts spells of slowness, and asks in each whether the gate lives.

    Args:
        end: the socket, whose other end the gate's process has.
        lost: called with the reason when the gate does not live any more.
    """

    def __init__(self, end: socket.socket, lost: Callable[[str], None]) -> None:
        end.setblocking(False)
        self._end = end
        self._lost = lost
        self.lives_within_s = LIVES_WITHIN_S
        self._spells = 0
        #: Answers that are late now.
        self._late = 0
        self._since_s = 0.0
        self._is_slow = asyncio.Event()

    def slowness(self) -> GateSlowness:
        """Return the spells since the start, and the present one."""
        lasts_s = asyncio.get_running_loop().time() - self._since_s if self._late else 0.0
        return GateSlowness(self._spells, self._late > 0, round(lasts_s * NANOS_PER_SECOND))

    @contextmanager
    def late(self) -> Iterator[None]:
        """Count an answer as late while the block runs."""
        self._late += 1
        if self._late == 1:
            self._since_s = asyncio.get_running_loop().time()
            self._spells += 1
            self._is_slow.set()
            log.warning("the gate is slow: its answers are late, and waited for")
        try:
            yield
        finally:
            if self._late == 1:
                self._is_slow.clear()
                lasted_s = self.slowness().lasts_ns / NANOS_PER_SECOND
                log.warning("the gate was slow", seconds=round(lasted_s, 1))
            self._late -= 1

    async def run(self) -> None:
        """Ask for ever, in spells of slowness."""
        with suppress(EOFError, OSError):  # the process has ended, which the channel tells
            while True:
                await self._is_slow.wait()
                if not await self._lives():
                    self._lost(f"gives no sign of life for {self.lives_within_s:g} s")
                    return
                await asyncio.sleep(_ASKED_EVERY_S)

    async def _lives(self) -> bool:
        """Whether the thread answers in time; EOFError or OSError if the process has ended."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._end, _BYTE)
        answer = loop.create_task(loop.sock_recv(self._end, 1))
        try:
            if not await comes_within(answer, self.lives_within_s):
                return False
            if not answer.result():
                raise EOFError("the other process is gone")
            return True
        finally:
            answer.cancel()
