"""The one timer of a gate: it serves waiters that may pass by time alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator.core.model import NANOS_PER_MILLI
from coordinator.gate.limits.admission import AdmissionQueue


class WakeTimer:
    """The timer of an admission queue; at most one is set.

    Args:
        queue: the waiters.
        now_ns: returns the time.
    """

    def __init__(self, queue: AdmissionQueue, now_ns: Callable[[], int]) -> None:
        self._queue = queue
        self._now_ns = now_ns
        self._handle: asyncio.TimerHandle | None = None
        self._due_ns: int | None = None

    def plan(self) -> None:
        """Set the timer to the queue's next wake-up; to be called after every change of the queue."""
        due_ns = self._queue.next_wake_ns()
        if due_ns == self._due_ns:
            return
        self.cancel()
        self._due_ns = due_ns
        if due_ns is not None:
            # In whole milliseconds, rounded up: event loops round, and too early would be useless.
            wait_ms = -(-max(0, due_ns - self._now_ns()) // NANOS_PER_MILLI)
            self._handle = asyncio.get_running_loop().call_later(wait_ms / 1000, self._wake_up)

    def cancel(self) -> None:
        """Serve no waiter at the planned time."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wake_up(self) -> None:
        self._handle = self._due_ns = None
        self._queue.serve(self._now_ns())
        self.plan()
