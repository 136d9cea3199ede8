"""Deadlines of connections: which event each connection must deliver, and which are overdue.

Thousands of connections are open and few of them have a deadline. So one timer, the sweep, serves all of
them, and no frame, read or connection has a timer of its own. Three rules keep that cheap and fair:

* All waits of one kind are equally long. A dict in the order in which waits began is therefore in the
  order in which they end, and a sweep reads the expired waits and one more.
* An expired wait closes nothing by itself: the supervisor first checks whether the event has happened
  meanwhile. So the connection need not end most of its waits.
* Time is counted in sweeps. A gate that stands still does not sweep, so no peer is blamed for that time.

Pure: no clock, no timer, no socket.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import Enum
from typing import Final, Generic, TypeVar

SWEEP_S: Final = 1.0
"""The time between two sweeps, in which waits are counted."""


class Awaited(Enum):
    """The event that a connection must deliver before a deadline."""

    CONNECT = "the client says CONNECT"
    CONNECTED = "the broker answers CONNECT"
    CLIENT_READS = "the client takes some of what is unsent"
    BROKER_READS = "the broker takes some of what is unsent"
    FRAME = "the client completes a large frame that the gate keeps"
    END = "the rest is taken, and the connection is over"
    ALLOWANCE = "time passes, and a client that named too many messages may be read again"
    SIGN_OF_LIFE = "the gate tells a peer that it is not read, and not forgotten"


T = TypeVar("T", bound=Hashable)


class Deadlines(Generic[T]):
    """The waiting connections of each kind, with the sweep in which each wait began."""

    def __init__(self) -> None:
        self._sweep = 0
        #: In the order in which the waits began.
        self._since: dict[Awaited, dict[T, int]] = {awaited: {} for awaited in Awaited}

    def begin(self, awaited: Awaited, of: T) -> None:
        """Begin to wait; a wait that is under way begins anew."""
        since = self._since[awaited]
        since.pop(of, None)
        since[of] = self._sweep

    def end(self, awaited: Awaited, of: T) -> None:
        """End the wait, if there is one."""
        self._since[awaited].pop(of, None)

    def begin_or_end(self, awaited: Awaited, of: T, *, waits: bool) -> None:
        """Begin to wait, or end the wait."""
        if waits:
            self.begin(awaited, of)
        else:
            self.end(awaited, of)

    def forget(self, of: T) -> None:
        """End all waits of this connection."""
        for since in self._since.values():
            since.pop(of, None)

    def waits(self, awaited: Awaited, of: T) -> bool:
        """Return whether this connection has a wait of this kind."""
        return of in self._since[awaited]

    def waiting(self, awaited: Awaited) -> Iterable[T]:
        """Return the connections with a wait of this kind, the longest wait first."""
        return self._since[awaited].keys()

    def sweep(self) -> None:
        """Count one sweep; call it every `SWEEP_S`."""
        self._sweep += 1

    def take_over(self, awaited: Awaited, sweeps: int) -> tuple[T, ...]:
        """End the waits that have lasted this number of whole sweeps, and return their connections."""
        since = self._since[awaited]
        over = []
        for of, began in since.items():
            # The sweep after the beginning may come at once, so it does not count.
            if self._sweep - began <= sweeps:
                break
            over.append(of)
        for of in over:
            del since[of]
        return tuple(over)
