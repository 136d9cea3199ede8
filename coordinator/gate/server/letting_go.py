"""Clients that sent a malformed frame: closed one after the other, unread until then.

To connect and to send the next malformed frame costs the gate and the broker more than it costs the
client. If each were closed at once, the clients would choose how often that happens. So they are closed
`CLOSE_EVERY_S` apart, and none before `REFUSED_S` is over, however many there are; until then each takes
one of the gate's connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

REFUSED_S: Final = 1.0
CLOSE_EVERY_S: Final = 0.05


class Loop(Protocol):
    """An event loop, as far as it is a clock."""

    def time(self) -> float:
        """Return the time in seconds."""

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call a function at a time."""


class RefusedClients:
    """Closes connections in the order in which they were refused.

    Args:
        loop: returns the event loop.
    """

    def __init__(self, loop: Callable[[], Loop]) -> None:
        self._loop = loop
        #: When the time of each is over, and how it is closed, the oldest first.
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, close: Callable[[], None]) -> None:
        """Close a connection later."""
        self._waiting.append((self._loop().time() + REFUSED_S, close))
        if self._timer is None:
            self._plan(0.0)

    def close_all(self) -> None:
        """Close all connections that wait, because the gate ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            self._waiting.popleft()[1]()

    def _plan(self, earliest_s: float) -> None:
        due_s = max(self._waiting[0][0], earliest_s)
        self._timer = self._loop().call_at(due_s, self._close_next)

    def _close_next(self) -> None:
        self._timer = None
        self._waiting.popleft()[1]()
        if self._waiting:
            self._plan(self._loop().time() + CLOSE_EVERY_S)
