"""Frames from the library's threads to the coordinator, in order and within bounds.

pulsar-client calls back on threads of its own C++ library, and an exception that leaves such a callback
ends the process. So a callback only puts an encoded frame here, under a lock; that wakes the event loop
once for many. The loop writes to the socket, as fast as the coordinator reads.

Of messages at most `WAITING_MAX`, of `WAITING_BYTES_MAX` bytes, wait. Then the oldest is dropped and
counted, because the newest report of a broker replaces its earlier ones. So is one whose names and
properties no head of a frame holds. Answers to publishes are never dropped: the library itself bounds
how many are owed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from typing import Final

from coordinator.adapters.pulsar.client.frames import (
    HEAD_BYTES_MAX,
    Overflowed,
    Received,
    SendOutcome,
    encode,
)

WAITING_MAX: Final = 4096
WAITING_BYTES_MAX: Final = 32 * 1024 * 1024


class Outbox:
    """Frames for the coordinator; made on the event loop.

    Attributes:
        answered: answers so far.
    """

    def __init__(self) -> None:
        self.answered = 0
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._answers = list[bytes]()
        self._messages = deque[bytes]()
        self._message_bytes = self._overflowed = 0
        self._filled = asyncio.Event()
        #: Whether the loop is told, or will be, that something is here; guarded by the lock.
        self._told = False

    def answer(self, sent: SendOutcome) -> None:
        """Add an answer; on any thread, never raises."""
        with self._lock:
            self.answered += 1
            self._answers.append(encode(sent))
            self._tell()

    def put(self, message: Received) -> None:
        """Add a message, and drop the oldest that exceed the bounds; on any thread, never raises."""
        frame = encode(message)
        fits = len(frame) - len(message.payload) <= HEAD_BYTES_MAX
        with self._lock:
            if fits:
                self._messages.append(frame)
                self._message_bytes += len(frame)
            else:
                self._overflowed += 1
            while len(self._messages) > WAITING_MAX or self._message_bytes > WAITING_BYTES_MAX:
                self._message_bytes -= len(self._messages.popleft())
                self._overflowed += 1
            self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            # The loop may be closed already while the last messages arrive.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._filled.set)

    async def filled(self) -> None:
        """Wait until something is here."""
        await self._filled.wait()

    def take(self) -> bytes:
        """Return the bytes of all frames that are here."""
        self._filled.clear()
        with self._lock:
            taken = [*self._answers, *self._messages]
            if self._overflowed:
                taken.append(encode(Overflowed(self._overflowed)))
            self._answers.clear()
            self._messages.clear()
            self._message_bytes = self._overflowed = 0
            self._told = False
        return b"".join(taken)
