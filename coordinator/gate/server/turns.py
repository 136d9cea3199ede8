"""Turns: a connection with many frames leaves the event loop to the others in between.

libuv reads a socket up to 32 times before it looks at the next one, 8 MB in all, which may be half a
million frames: some seconds of processor time. In that time no other client is served, and the
coordinator waits for the gate's answers. So a session decides `TURN_DECISIONS` at a time, and while more
is there its socket is not read. The connections that wait for a turn have one after the other.

In one pass of the event loop all connections together have `PASS_DECISIONS`. Bytes that arrive after that
are kept, undecided, for a turn in one of the next passes. A read with a few frames counts as nothing: it
costs about what the read itself does.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

TURN_DECISIONS: Final = 500
"""Decisions of one turn: of small frames about 4 ms."""

PASS_DECISIONS: Final = 2_500
"""Decisions of all connections in a pass of the event loop: about 20 ms."""

_FEW: Final = 32


class TurnTaker(Protocol):
    """A connection."""

    def take_turn(self) -> None:
        """Decide a turn of the bytes that wait; ask for another one if that was not all."""
        ...


class Turns:
    """The turns of all connections of a gate."""

    def __init__(self) -> None:
        #: In the order in which they asked.
        self._waiting: dict[TurnTaker, None] = {}
        self._spent = 0
        self._planned = False

    @property
    def are_over(self) -> bool:
        """Whether the decisions of this pass are used up."""
        return self._spent >= PASS_DECISIONS

    def spend(self, decisions: int) -> None:
        """Count the decisions of a read or a turn."""
        if decisions > _FEW:
            self._spent += decisions
            self._plan()

    def ask(self, connection: TurnTaker) -> None:
        """Have a turn when all that wait have had theirs."""
        self._waiting.setdefault(connection)
        self._plan()

    def leave(self, connection: TurnTaker) -> None:
        """Wait no more, because the client is gone."""
        self._waiting.pop(connection, None)

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """Begin a pass: the turns of those that wait come first."""
        self._planned = False
        self._spent = 0
        try:
            for connection in tuple(self._waiting):
                if self.are_over:
                    break
                if connection in self._waiting:  # it may have left during the turn of another one
                    del self._waiting[connection]
                    connection.take_turn()
        finally:
            if self._waiting:
                self._plan()
