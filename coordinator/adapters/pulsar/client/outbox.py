"""Frames from the library's threads to the coordinator, in order and within bounds.

pulsar-client calls back on threads of its own C++ library, and an exception that leaves such a callback
ends the process. So a callback only puts an encoded frame here, under a lock. A thread of ours writes
all that is here to the socket at once, as fast as the coordinator reads.

Of messages at most `WAITING_MAX`, of `WAITING_BYTES_MAX` bytes, wait. Then the oldest is dropped and
counted, because the newest report of a broker replaces its earlier ones. So is one whose names and
properties no head of a frame holds. Answers to publishes are never dropped: the library itself bounds
how many are owed.
"""

from __future__ import annotations

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
    """Frames for the coordinator; every method may be called on any thread."""

    def __init__(self) -> None:
        #: Notified of everything that is put here.
        self._filled = threading.Condition()
        self._answered = 0
        self._answers = list[bytes]()
        self._messages = deque[bytes]()
        self._message_bytes = self._overflowed = 0
        self._is_finished = False

    def answer(self, sent: SendOutcome) -> None:
        """Add an answer; never raises."""
        with self._filled:
            self._answered += 1
            self._answers.append(encode(sent))
            self._filled.notify_all()

    def put(self, message: Received) -> None:
        """Add a message, and drop the oldest that exceed the bounds; never raises."""
        frame = encode(message)
        fits = len(frame) - len(message.payload) <= HEAD_BYTES_MAX
        with self._filled:
            if fits:
                self._messages.append(frame)
                self._message_bytes += len(frame)
            else:
                self._overflowed += 1
            while len(self._messages) > WAITING_MAX or self._message_bytes > WAITING_BYTES_MAX:
                self._message_bytes -= len(self._messages.popleft())
                self._overflowed += 1
            self._filled.notify_all()

    def finish(self) -> None:
        """Have no more written than what is here."""
        with self._filled:
            self._is_finished = True
            self._filled.notify_all()

    def wait(self, within_s: float) -> bool:
        """Wait until something is here, for a limited time; return whether nothing more will be."""
        with self._filled:
            self._filled.wait_for(self._is_filled, within_s)
            return self._is_finished

    def wait_for_answers(self, count: int, within_s: float) -> None:
        """Wait until this number of answers was added since the start, for a limited time."""
        with self._filled:
            self._filled.wait_for(lambda: self._answered >= count, within_s)

    def take(self) -> bytes:
        """Return the bytes of all frames that are here."""
        with self._filled:
            taken = [*self._answers, *self._messages]
            if self._overflowed:
                taken.append(encode(Overflowed(self._overflowed)))
            self._answers.clear()
            self._messages.clear()
            self._message_bytes = self._overflowed = 0
        return b"".join(taken)

    def _is_filled(self) -> bool:
        return bool(self._answers or self._messages or self._overflowed or self._is_finished)
