"""The fair queue: who may publish next.

A producer whose message was refused *waits*. Every limiter has a service order of the producers that
wait for its tokens; a producer stands in one order at a time, that of the limiter that refused it, and
takes its *turn* along when another one refuses it later: whoever waited longest goes first, wherever
it waits. A release gives its producer a new turn, behind everybody else: producers are served round
robin, one message each, with a full check before every release. As long as somebody waits for a
limiter, nobody who comes later overtakes.

Waking is batched. Orders are looked after when their first producer can pass, rounded up to a grid of
5 ms that all share, so there is at most one timer per 5 ms however many groups are limited. Buckets
hold several times that much, so no token is lost to the rounding. A change of limits serves the order
at once (apache/pulsar#25502: there, a raised limit waited for the old delay to end).

What costs a turn is decided in ``ServiceOrder`` alone: give a producer a later turn the more bytes
it sent, and this is fair queueing by bytes.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Protocol

from coordinator.gate.limiter import WAKE_INTERVAL_NS, PublishLimiter


class Waiter(Protocol):
    """A producer with held messages, as the queue sees it."""

    limiters: tuple[PublishLimiter, ...]
    #: Kept by the queue: the place in the round, and the limiter waited for (None: does not wait).
    turn: int
    waits_for: PublishLimiter | None

    def next_cost(self) -> tuple[int, int]:
        """Messages and bytes of the first held message."""
        ...

    def release(self) -> bool:
        """Send the first held message on its way; tell whether there are more."""
        ...


class ServiceOrder:
    """The producers that wait for one limiter, by turn."""

    __slots__ = ("_heap", "_waiting", "due_ns")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Waiter]] = []
        #: Who is really waiting, by identity; entries of the heap that are not in here are stale.
        self._waiting: dict[int, Waiter] = {}
        #: When the first in line can pass; None is never.
        self.due_ns: int | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: Waiter) -> None:
        """Line up a producer at its turn."""
        self._waiting[id(waiter)] = waiter
        heapq.heappush(self._heap, (waiter.turn, id(waiter), waiter))

    def remove(self, waiter: Waiter) -> None:
        """Take a producer out of the line, wherever it stands."""
        del self._waiting[id(waiter)]
        if len(self._heap) > 2 * len(self._waiting) + 8:
            # With a limit of 0 nobody is ever served, and reconnecting clients would pile up.
            self._heap = [(w.turn, id(w), w) for w in self._waiting.values()]
            heapq.heapify(self._heap)

    def requeue_first(self, turn: int) -> None:
        """Give the one whose turn it is, as ``first`` said, a new turn."""
        _, identity, waiter = self._heap[0]
        waiter.turn = turn
        heapq.heapreplace(self._heap, (turn, identity, waiter))

    def first(self) -> Waiter | None:
        """Whose turn it is."""
        while self._heap:
            turn, identity, waiter = self._heap[0]
            if self._waiting.get(identity) is waiter and waiter.turn == turn:
                return waiter
            heapq.heappop(self._heap)
        return None


class AdmissionQueue:
    """Admits messages, lines up producers, releases what they hold."""

    def __init__(self) -> None:
        self._orders: dict[PublishLimiter, ServiceOrder] = {}
        #: (due, tie-break, limiter); an entry whose time is not its order's due time is stale.
        self._agenda: list[tuple[int, int, PublishLimiter]] = []
        self._numbers = count()

    @property
    def waiting(self) -> int:
        """How many producers wait."""
        return sum(map(len, self._orders.values()))

    def admit(
        self, limiters: tuple[PublishLimiter, ...], messages: int, size: int, now_ns: int
    ) -> bool:
        """Take the tokens of a message that nobody had to wait for; False when it has to wait."""
        for limiter in limiters:
            if limiter.contended or not limiter.admits(messages, size, now_ns):
                return False
        for limiter in limiters:
            limiter.consume(messages, size)
        return True

    def wait(self, waiter: Waiter, now_ns: int) -> None:
        """Line up a producer that holds messages, or release at once what need not wait."""
        more = True
        while more:
            waiter.turn = next(self._numbers)
            messages, size = waiter.next_cost()
            for limiter in waiter.limiters:
                if limiter.contended or not limiter.admits(messages, size, now_ns):
                    self._line_up(waiter, limiter, now_ns)
                    return
            more = self._release(waiter, messages, size)

    def withdraw(self, waiter: Waiter, now_ns: int) -> None:
        """Forget a producer: its connection is closed, or its held messages were dropped."""
        limiter, waiter.waits_for = waiter.waits_for, None
        if limiter is not None:
            self._orders[limiter].remove(waiter)
            self._plan(limiter, now_ns)

    def serve(self, now_ns: int) -> None:
        """Release what may pass by now, in every order that is due."""
        while self._agenda and self._agenda[0][0] <= now_ns:
            due_ns, _, limiter = heapq.heappop(self._agenda)
            order = self._orders.get(limiter)
            if order is not None and order.due_ns == due_ns:
                self.serve_limiter(limiter, now_ns)

    def serve_limiter(self, limiter: PublishLimiter, now_ns: int) -> None:
        """Release what may pass now of those who wait for this limiter, due or not."""
        order = self._orders.get(limiter)
        if order is None:
            return
        while (waiter := order.first()) is not None:
            messages, size = waiter.next_cost()
            blocker = self._blocker(waiter, messages, size, now_ns)
            if blocker is limiter:
                break
            if blocker is None and self._release(waiter, messages, size):
                order.requeue_first(next(self._numbers))
                continue
            order.remove(waiter)
            waiter.waits_for = None
            if blocker is not None:
                self._line_up(waiter, blocker, now_ns)
        self._plan(limiter, now_ns)

    def next_wake_ns(self) -> int | None:
        """When ``serve`` is to be called next; None when time alone releases nobody."""
        while self._agenda:
            due_ns, _, limiter = self._agenda[0]
            order = self._orders.get(limiter)
            if order is not None and order.due_ns == due_ns:
                return due_ns
            heapq.heappop(self._agenda)
        return None

    def _blocker(
        self, waiter: Waiter, messages: int, size: int, now_ns: int
    ) -> PublishLimiter | None:
        """The limiter that a producer has to wait for: it lacks tokens, or somebody is before it."""
        for limiter in waiter.limiters:
            if not limiter.admits(messages, size, now_ns):
                return limiter
            if limiter is not waiter.waits_for and limiter.contended:
                first = self._orders[limiter].first()
                if first is not None and first.turn < waiter.turn:
                    return limiter
        return None

    @staticmethod
    def _release(waiter: Waiter, messages: int, size: int) -> bool:
        for limiter in waiter.limiters:
            limiter.consume(messages, size)
        return waiter.release()

    def _line_up(self, waiter: Waiter, limiter: PublishLimiter, now_ns: int) -> None:
        order = self._orders.get(limiter)
        if order is None:
            order = self._orders[limiter] = ServiceOrder()
            limiter.contended = True
        waiter.waits_for = limiter
        order.add(waiter)
        if order.first() is waiter:
            self._plan(limiter, now_ns)

    def _plan(self, limiter: PublishLimiter, now_ns: int) -> None:
        """Note what the first in line waits for and when it can pass."""
        order = self._orders[limiter]
        first = order.first()
        if first is None:
            del self._orders[limiter]
            limiter.contended = False
            limiter.counter.hold(on_messages=False, on_bytes=False, now_ns=now_ns)
            return
        messages, size = first.next_cost()
        wait_ns = limiter.wait_ns(messages, size, now_ns)
        if wait_ns != 0:
            on_messages, on_bytes = limiter.binding(messages, size, now_ns)
            limiter.counter.hold(on_messages=on_messages, on_bytes=on_bytes, now_ns=now_ns)
        due_ns = None if wait_ns is None else _round_up(now_ns + wait_ns)
        if due_ns is not None and due_ns != order.due_ns:
            heapq.heappush(self._agenda, (due_ns, next(self._numbers), limiter))
        order.due_ns = due_ns


def _round_up(time_ns: int) -> int:
    return -(-time_ns // WAKE_INTERVAL_NS) * WAKE_INTERVAL_NS
