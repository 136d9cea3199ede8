"""Turns: a connection with much to decide leaves the event loop to the others in between.

libuv reads a socket up to 32 times before it looks at the next one, 8 MB in all, which may be half a
million frames: some seconds of processor time. In that time no other client is served. So a session
decides `TURN_DECISIONS` at a time, and while more is there its socket is not read.

In one pass of the event loop all connections together have `PASS_DECISIONS`. Bytes that arrive after that
are kept, undecided, for a turn in one of the next passes. A read with a few frames counts as nothing: it
costs about what the read itself does. A decision is a measure of time: large commands count as many
(coordinator/gate/protocol/stream.py).

*Order.* Connections that wait share the loop's time fairly (fair queueing: Demers, Keshav, Shenker 1989,
with the clock of Goyal, Vin, Cheng 1996). A clock counts decisions. A turn begins, by that clock, where
the last one of its connection has ended, or now; it ends as many decisions later as are expected of it.
The turn that ends first is served first, and the clock shows where it begins. So a client with few
frames waits for the turn under way, and not for the turns of a hundred busy clients. A connection that
exceeded its turn, because a frame counted as many decisions, waits longer for the next one. When no
connection waits, earlier turns are forgotten.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from typing import Final, Protocol

from coordinator.gate.protocol.stream import WORK_BYTES

TURN_DECISIONS: Final = 250
"""Decisions of one turn: of small frames about 2 ms."""

PASS_DECISIONS: Final = 1_250
"""Decisions of all connections in a pass of the event loop: about 10 ms."""

_FEW: Final = 32

_SHORT_READ: Final = 512
"""Bytes of a read with a few small frames."""


class TurnTaker(Protocol):
    """A connection."""

    #: Kept by the turns: how far it was served, by their clock.
    served: int

    @property
    def waiting_bytes(self) -> int:
        """The bytes that wait to be decided."""

    def take_turn(self) -> None:
        """Decide a turn of the bytes that wait; ask for another one if that was not all."""


class Turns:
    """The turns of all connections of a gate."""

    def __init__(self) -> None:
        #: The end of a turn by the clock, a number that breaks ties, its beginning, and whose turn it is.
        self._order: list[tuple[int, int, int, TurnTaker]] = []
        #: The numbers of the turns that are waited for, by identity; others in the order are stale.
        self._waiting: dict[int, int] = {}
        self._numbers = count()
        self._clock = self._latest = 0
        self._spent = 0
        self._planned = False

    @property
    def are_over(self) -> bool:
        """Whether the decisions of this pass are used up."""
        return self._spent >= PASS_DECISIONS

    def serves_now(self, connection: TurnTaker, size: int) -> bool:
        """Return whether a read of this many bytes is decided in this pass.

        A short read of a connection that has had no more than others is, even after all decisions are
        used up: to keep it for later costs as much.
        """
        if not self.are_over:
            return True
        had_little = connection.served <= self._clock + TURN_DECISIONS
        return size <= _SHORT_READ and had_little and id(connection) not in self._waiting

    def spend(self, connection: TurnTaker, decisions: int) -> None:
        """Count the decisions of a read or a turn."""
        connection.served = max(connection.served, self._clock) + decisions
        self._latest = max(self._latest, connection.served)
        if not self._waiting:
            self._clock = self._latest
        if decisions > _FEW:
            self._spent += decisions
            self._plan()

    def ask(self, connection: TurnTaker) -> None:
        """Have a turn; it keeps its place if it waits already."""
        if id(connection) not in self._waiting:
            number = self._waiting[id(connection)] = next(self._numbers)
            decisions = min(TURN_DECISIONS, connection.waiting_bytes // WORK_BYTES)
            begins = max(connection.served, self._clock)
            heapq.heappush(self._order, (begins + decisions, number, begins, connection))
        self._plan()

    def leave(self, connection: TurnTaker) -> None:
        """Wait no more, because the client is gone."""
        self._waiting.pop(id(connection), None)

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """Begin a pass: the turns of those that wait come first."""
        self._planned = False
        self._spent = 0
        try:
            while self._order and not self.are_over:
                _, number, begins, connection = heapq.heappop(self._order)
                if self._waiting.get(id(connection)) == number:
                    del self._waiting[id(connection)]
                    self._clock = max(self._clock, begins)
                    connection.take_turn()
        finally:
            if self._waiting:
                self._plan()
