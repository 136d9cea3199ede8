"""The fair queue: decide which waiting producer or consumer passes next.

A producer whose message was refused *waits*, and so does a consumer whose permits were. Every limiter has
a service order of the waiters for its tokens; a waiter stands in one order at a time, that of the limiter
that refused it. Waiters are served by *turn*, one message each, with a full check before every release.
While a limiter has waiters, a newcomer overtakes only those that were served more than it.

Turns share the scarce unit fairly among clients, and what a client gets among its producers
(service_order.py). Each release moves the next turns of both ahead by the time that the message takes up
of the limit: bytes at the byte rate or messages at the message rate, whichever is longer. So a producer
of large messages or batches sends fewer of them, and none gets more of the limit than another. A
newcomer's turn is the clock's present value. While no participant waits, the clock runs with real time,
so that an earlier excess is forgotten as time makes up for it.

Wake-ups are batched. An order is served when its first waiter can pass, rounded up to a grid of 5 ms that
all orders share, so there is at most one timer per 5 ms however many groups are limited. A publish limit
that leaves waiters unserved collects tokens for two of those intervals, unless a newcomer with an earlier
turn arrives: a wake-up costs as much as several messages do, and a producer that offers more than passes
waits anyway. Buckets hold several times that much, so no token is lost. A change of limits serves the
order at once (apache/pulsar#25502: there, a raised limit waited for the old delay to end).

Waiters whose limiter has a patience give up when it is over (overdue.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import count
from typing import Protocol
from weakref import WeakValueDictionary

from coordinator.core.owners import ANONYMOUS
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.metering import MeteredLimiter, wake_up_ns
from coordinator.gate.limits.overdue import OverdueWaiters
from coordinator.gate.limits.service_order import ClientTurns, ServiceOrder, Turn


class Waiter(Protocol):
    """A producer with held messages, or a consumer with withheld permits, as the queue sees it."""

    #: Kept by the queue: the turn within its client (of equal turns the earlier number goes first), and
    #: how far the waiter was served by the client's clock of each limiter.
    turn: Turn
    served_until_ns: dict[MeteredLimiter, int]
    #: The limiter waited for (None: does not wait).
    waits_for: MeteredLimiter | None

    @property
    def client(self) -> ClientTurns:
        """The client whose turns it shares."""

    @property
    def needed(self) -> Sequence[MeteredLimiter]:
        """The limiters that must admit its first held frame or permits."""

    def wait_for(self, limiter: MeteredLimiter | None, now_ns: int) -> None:
        """Wait for this limiter from now on, or for none."""

    def next_cost(self) -> tuple[int, int]:
        """Return the messages and bytes of its first held frame or permits."""

    @property
    def passes_next(self) -> bool:
        """Whether the next release lets something pass, and is no instalment."""

    @property
    def gives_up_ns(self) -> int | None:
        """The time at which its first held frame is overdue; None is never."""

    def give_up(self, now_ns: int) -> None:
        """Refuse what is overdue, now or as soon as that can be."""

    @property
    def held_since_ns(self) -> int:
        """The time since which its first frame or permits are held."""

    def release(self) -> bool:
        """Release the first held frame or permits; tell whether more are held."""


class AdmissionQueue:
    """Admits messages, queues participants that have to wait, and releases their held frames."""

    def __init__(self) -> None:
        self._orders: dict[MeteredLimiter, ServiceOrder[Waiter]] = {}
        #: The turns of clients that have proved a role, while they are connected.
        self._roles: WeakValueDictionary[str, ClientTurns] = WeakValueDictionary()
        #: (due, tie-break, limiter); an entry whose time is not its order's due time is stale.
        self._agenda: list[tuple[int, int, MeteredLimiter]] = []
        self._numbers = count()
        #: The waiters that give up.
        self.overdue = OverdueWaiters()

    def client_of(self, role: str) -> ClientTurns:
        """Return the turns that all connections of a role share; without a role, turns of its own."""
        if role == ANONYMOUS:
            return ClientTurns()
        found = self._roles.get(role)
        if found is None:
            found = self._roles[role] = ClientTurns()
        return found

    @property
    def waiting(self) -> int:
        """The number of producers and consumers that wait."""
        return sum(map(len, self._orders.values()))

    def waiting_for(self, limiter: MeteredLimiter) -> int:
        """Return the number of waiters for a limiter."""
        order = self._orders.get(limiter)
        return 0 if order is None else len(order)

    def admit(
        self, limiters: Sequence[PublishLimiter], messages: int, size: int, now_ns: int
    ) -> bool:
        """Take the tokens of a message if its limiters have no waiter; False when it has to wait."""
        if len(limiters) == 1:
            return limiters[0].take(messages, size, now_ns)
        for limiter in limiters:
            if limiter.contended or not limiter.admits(messages, size, now_ns):
                return False
        for limiter in limiters:
            limiter.consume(messages, size)
        return True

    def admit_run(
        self, limiters: Sequence[PublishLimiter], messages: int, size: int, now_ns: int
    ) -> bool:
        """Take the tokens of several messages at once; False when one of them may have to wait."""
        for limiter in limiters:
            if not limiter.has_room(messages, size, now_ns):
                return False
        for limiter in limiters:
            limiter.consume(messages, size)
        return True

    @staticmethod
    def first_against(
        limiters: Sequence[MeteredLimiter], messages: int, size: int, now_ns: int
    ) -> MeteredLimiter | None:
        """Return the limiter that a newcomer would wait for; None if it would not wait."""
        for limiter in limiters:
            if limiter.contended or not limiter.admits(messages, size, now_ns):
                return limiter
        return None

    def wait(self, waiter: Waiter, now_ns: int) -> None:
        """Queue a participant that holds something, or release at once if it need not wait."""
        more = True
        while more:
            needed = waiter.needed
            messages, size = waiter.next_cost()
            limiter = self.first_against(needed, messages, size, now_ns)
            if limiter is not None:
                self._line_up(waiter, limiter, next(self._numbers), now_ns)
                return
            more = self._release(waiter, needed, messages, size)

    def withdraw(self, waiter: Waiter, now_ns: int) -> None:
        """Remove a waiter: its connection is closed, or its held frames were dropped."""
        limiter = waiter.waits_for
        if limiter is not None:
            waiter.wait_for(None, now_ns)
            self._orders[limiter].remove(waiter)
            self._plan(limiter, now_ns)
            self.overdue.forget(waiter)

    def patience_changed(self, limiter: MeteredLimiter, now_ns: int) -> None:
        """Plan anew when the waiters of this limiter give up."""
        for waiter in self._orders[limiter].waiters() if limiter in self._orders else ():
            self.overdue.forget(waiter)
            self.overdue.plan(waiter, now_ns)

    def serve(self, now_ns: int) -> None:
        """Release all that may pass by now, in every order that is due; let those overdue give up."""
        while self._agenda and self._agenda[0][0] <= now_ns:
            due_ns, _, limiter = heapq.heappop(self._agenda)
            order = self._orders.get(limiter)
            if order is not None and order.due_ns == due_ns:
                self.serve_limiter(limiter, now_ns)
        self.overdue.serve(now_ns)

    def serve_limiter(self, limiter: MeteredLimiter, now_ns: int) -> None:
        """Release the waiters of this limiter that may pass now, due or not."""
        order = self._orders.get(limiter)
        if order is None:
            return
        hold_times, has_served = limiter.counter.hold_times, False
        while (waiter := order.first()) is not None:
            needed = waiter.needed
            messages, size = waiter.next_cost()
            blocker = self._blocker(waiter, needed, messages, size, now_ns)
            if blocker is limiter:
                break
            if blocker is not None:
                order.remove(waiter)
                self._line_up(waiter, blocker, waiter.turn[1], now_ns)
                continue
            self._charge(waiter, needed, messages, size)
            if waiter.passes_next:
                hold_times.add(now_ns - waiter.held_since_ns)
            has_served, has_more = True, self._release(waiter, needed, messages, size)
            if has_more and limiter in waiter.needed:
                waiter.turn = self._turn(waiter, limiter, next(self._numbers))
                order.requeue(waiter)
                continue
            order.remove(waiter)
            waiter.wait_for(None, now_ns)
            if has_more:
                self.wait(waiter, now_ns)
        self._plan(limiter, now_ns, has_served=has_served)

    def next_wake_ns(self) -> int | None:
        """Return the time of the next call of ``serve``; None when time alone changes nothing."""
        overdue_ns = self.overdue.due_ns
        while self._agenda:
            due_ns, _, limiter = self._agenda[0]
            order = self._orders.get(limiter)
            if order is not None and order.due_ns == due_ns:
                return due_ns if overdue_ns is None else min(due_ns, overdue_ns)
            heapq.heappop(self._agenda)
        return overdue_ns

    def _blocker(
        self,
        waiter: Waiter,
        needed: Sequence[MeteredLimiter],
        messages: int,
        size: int,
        now_ns: int,
    ) -> MeteredLimiter | None:
        """Return the limiter that blocks a waiter: it lacks tokens, or another waiter is first."""
        for limiter in needed:
            if not limiter.admits(messages, size, now_ns):
                return limiter
            if limiter is not waiter.waits_for and limiter.contended:
                turn = self._turn(waiter, limiter, waiter.turn[1])
                if self._orders[limiter].precedes(waiter.client, turn):
                    return limiter
        return None

    @staticmethod
    def _release(
        waiter: Waiter, needed: Sequence[MeteredLimiter], messages: int, size: int
    ) -> bool:
        for limiter in needed:
            limiter.consume(messages, size)
        return waiter.release()

    @staticmethod
    def _turn(waiter: Waiter, limiter: MeteredLimiter, number: int) -> Turn:
        served_until_ns = waiter.served_until_ns.get(limiter, 0)
        return waiter.client.begins_within_ns(limiter, served_until_ns), number

    @staticmethod
    def _charge(waiter: Waiter, needed: Sequence[MeteredLimiter], messages: int, size: int) -> None:
        """Move the next turns of the served waiter and its client ahead, by the clock of each limiter."""
        served = waiter.served_until_ns
        for limiter in needed:
            served[limiter] = waiter.client.charge(
                limiter, served.get(limiter, 0), limiter.span_ns(messages, size)
            )

    def _line_up(self, waiter: Waiter, limiter: MeteredLimiter, number: int, now_ns: int) -> None:
        order = self._orders.get(limiter)
        if order is None:
            order = self._orders[limiter] = ServiceOrder(limiter)
            limiter.contended = True
            limiter.service_ns += max(0, now_ns - limiter.idle_since_ns)
        waiter.turn = self._turn(waiter, limiter, number)
        waiter.wait_for(limiter, now_ns)
        if limiter.patience_ns is not None:
            self.overdue.plan(waiter, now_ns)
        order.add(waiter)
        if order.first() is waiter:
            self._plan(limiter, now_ns)

    def _plan(self, limiter: MeteredLimiter, now_ns: int, *, has_served: bool = False) -> None:
        """Record what the first in line waits for, and the time to serve it."""
        order = self._orders[limiter]
        first = order.first()
        if first is None:
            del self._orders[limiter]
            limiter.contended = False
            limiter.idle_since_ns = now_ns
            limiter.counter.hold(on_messages=False, on_bytes=False, now_ns=now_ns)
            return
        messages, size = first.next_cost()
        wait = limiter.pause_ns if has_served else limiter.wait_ns
        wait_ns = wait(messages, size, now_ns)
        if wait_ns != 0:
            on_messages, on_bytes = limiter.binding(messages, size, now_ns)
            limiter.counter.hold(on_messages=on_messages, on_bytes=on_bytes, now_ns=now_ns)
        due_ns = None if wait_ns is None else wake_up_ns(now_ns + wait_ns)
        if due_ns is not None and due_ns != order.due_ns:
            heapq.heappush(self._agenda, (due_ns, next(self._numbers), limiter))
        order.due_ns = due_ns
