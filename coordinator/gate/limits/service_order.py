"""The service order of one limiter: who of those that wait for its tokens comes next.

Clients share a limit fairly, and each client's producers share what it gets (hierarchical start-time fair
queueing: Goyal, Vin, Cheng 1996). So three hundred producers of one client together get what one producer
of another does. A client is a role, on all its connections, or a connection that has proved none.

Each limiter has a clock that measures how far its waiters have been served. A release moves the client's
next turn ahead by the time that the message takes up of the limit, and within the client the producer's
next turn likewise. The client with the earliest turn is served first, and of its producers the one with
the earliest turn. Of clients with equal turns it is the one that was served least: one that uses less
than its part then waits for one message, and not for one of each other client (as sparse flows in RFC
8290).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Final, Generic, Protocol, TypeVar

Turn = tuple[int, int]
"""A position on a clock, and a number that grows with every turn that is given."""

_CLOCKS_MAX: Final = 1024
"""The limiters beyond which a client's turns at those without waiters are forgotten."""


class Clocked(Protocol):
    """A limiter, as its service order sees it."""

    contended: bool
    service_ns: int

    def span_ns(self, messages: int, size: int) -> int:
        """Return the time, in nanoseconds, for which these messages and bytes take up the limit."""


class ClientTurns:
    """The turns of one client, by the clock of each limiter."""

    __slots__ = ("__weakref__", "_clocks_ns", "_room", "_served_until_ns")

    def __init__(self) -> None:
        self._served_until_ns: dict[Clocked, int] = {}
        #: Within the client: how far its own producers and consumers were served, by limiter.
        self._clocks_ns: dict[Clocked, int] = {}
        self._room = _CLOCKS_MAX

    def begins_ns(self, limiter: Clocked) -> int:
        """Return where its next turn at a limiter begins."""
        return max(limiter.service_ns, self._served_until_ns.get(limiter, 0))

    def served_until_ns(self, limiter: Clocked) -> int:
        """Return how far it was served at a limiter."""
        return self._served_until_ns.get(limiter, 0)

    def begins_within_ns(self, limiter: Clocked, served_until_ns: int) -> int:
        """Return where the next turn of one of its own begins, who was served so far."""
        return max(self._clocks_ns.get(limiter, 0), served_until_ns)

    def charge(self, limiter: Clocked, served_until_ns: int, span_ns: int) -> int:
        """Move its next turn ahead, and return how far the one of its own that was served is now."""
        limiter.service_ns = self.begins_ns(limiter)
        self._clocks_ns[limiter] = self.begins_within_ns(limiter, served_until_ns)
        return self.add(limiter, served_until_ns, span_ns)

    def add(self, limiter: Clocked, served_until_ns: int, span_ns: int) -> int:
        """Do the same out of turn: the clocks, which show whose turn it is, do not move."""
        if limiter not in self._served_until_ns and len(self._served_until_ns) >= self._room:
            self._forget()
        self._served_until_ns[limiter] = self.begins_ns(limiter) + span_ns
        return self.begins_within_ns(limiter, served_until_ns) + span_ns

    def _forget(self) -> None:
        """Keep the turns at limiters that have waiters, and make room for as many more.

        Elsewhere time makes up for what it had.
        """
        kept = {each: at for each, at in self._served_until_ns.items() if each.contended}
        self._served_until_ns = kept
        self._clocks_ns = {each: self._clocks_ns.get(each, 0) for each in kept}
        self._room = max(_CLOCKS_MAX, 2 * len(kept))


class Waiting(Protocol):
    """A waiter, as a service order sees it."""

    #: Kept by the queue: the turn within its client; of equal turns the earlier number goes first.
    turn: Turn

    @property
    def client(self) -> ClientTurns:
        """The client whose turns it shares."""


W = TypeVar("W", bound=Waiting)


class _ClientOrder(Generic[W]):
    """The waiters of one client, by turn."""

    __slots__ = ("heap", "place", "waiting")

    def __init__(self, place: int) -> None:
        #: The number of the client's valid place in the order of clients.
        self.place = place
        self.heap: list[tuple[Turn, int, W]] = []
        #: The waiters, by identity; entries of the heap that are not in here are stale.
        self.waiting: dict[int, W] = {}

    def push(self, waiter: W) -> None:
        self.waiting[id(waiter)] = waiter
        heapq.heappush(self.heap, (waiter.turn, id(waiter), waiter))

    def remove(self, waiter: W) -> None:
        del self.waiting[id(waiter)]
        if len(self.heap) > 2 * len(self.waiting) + 8:
            # With a limit of 0 no waiter is ever served, and reconnecting clients would pile up.
            self.heap = [(w.turn, id(w), w) for w in self.waiting.values()]
            heapq.heapify(self.heap)

    def first(self) -> W:
        while True:
            turn, identity, waiter = self.heap[0]
            if self.waiting.get(identity) is waiter and waiter.turn == turn:
                return waiter
            heapq.heappop(self.heap)


class ServiceOrder(Generic[W]):
    """The waiters of one limiter, by the turns of their clients, and of each client by their own.

    Args:
        limiter: the limiter.
    """

    __slots__ = ("_clients", "_heap", "_limiter", "_of", "_places", "due_ns")

    def __init__(self, limiter: Clocked) -> None:
        self._limiter = limiter
        self._clients: dict[ClientTurns, _ClientOrder[W]] = {}
        #: The client of each waiter, by identity: that of the moment when it lined up.
        self._of: dict[int, ClientTurns] = {}
        #: Where a client's turn begins, how far it was served, the number of its place, and the client.
        self._heap: list[tuple[int, int, int, ClientTurns]] = []
        self._places = count()
        #: The time at which the first in line can pass; None is never.
        self.due_ns: int | None = None

    def __len__(self) -> int:
        return len(self._of)

    def waiters(self) -> Iterator[W]:
        """Yield all waiters."""
        for order in self._clients.values():
            yield from order.waiting.values()

    def add(self, waiter: W) -> None:
        """Line up a waiter at its turn."""
        client = self._of[id(waiter)] = waiter.client
        order = self._clients.get(client)
        if order is None:
            order = self._clients[client] = _ClientOrder(next(self._places))
            self._place(client, order, client.begins_ns(self._limiter))
        order.push(waiter)

    def remove(self, waiter: W) -> None:
        """Remove a waiter, wherever it stands."""
        client = self._of.pop(id(waiter))
        order = self._clients[client]
        order.remove(waiter)
        if not order.waiting:
            del self._clients[client]
            if len(self._heap) > 2 * len(self._clients) + 8:
                self._heap = [entry for entry in self._heap if self._is_valid(entry)]
                heapq.heapify(self._heap)

    def requeue(self, waiter: W) -> None:
        """Move the waiter that was served to its new turn."""
        self._clients[self._of[id(waiter)]].push(waiter)

    def first(self) -> W | None:
        """Return the waiter whose turn it is."""
        while self._heap:
            begins_ns, _, _, client = entry = self._heap[0]
            if not self._is_valid(entry):
                heapq.heappop(self._heap)
                continue
            order = self._clients[client]
            served_until_ns = client.served_until_ns(self._limiter)
            if served_until_ns <= begins_ns:
                return order.first()
            heapq.heappop(self._heap)  # it was served since, here or by another limiter
            self._place(client, order, served_until_ns)
        return None

    def precedes(self, client: ClientTurns, turn: Turn) -> bool:
        """Return whether the first in line comes before a waiter of this client and turn."""
        first = self.first()
        if first is None:
            return False
        if self._of[id(first)] is client:
            return first.turn < turn
        limiter = self._limiter
        own = (client.begins_ns(limiter), client.served_until_ns(limiter), turn[1])
        return (*self._heap[0][:2], first.turn[1]) < own

    def _place(self, client: ClientTurns, order: _ClientOrder[W], begins_ns: int) -> None:
        order.place = next(self._places)
        served_until_ns = client.served_until_ns(self._limiter)
        heapq.heappush(self._heap, (begins_ns, served_until_ns, order.place, client))

    def _is_valid(self, entry: tuple[int, int, int, ClientTurns]) -> bool:
        order = self._clients.get(entry[3])
        return order is not None and order.place == entry[2]
