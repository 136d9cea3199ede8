"""The fair queue: who may publish next, and who may be sent more.

A producer whose message was refused *waits*, and so does a consumer whose permits were. Every limiter
has a service order of those who wait for its tokens; a waiter stands in one order at a time, that of the
limiter that refused it. They are served by *turn*, one message each, with a full check before every
release. As long as somebody waits for a limiter, nobody who comes later overtakes, except whoever was
served less.

Turns are fair by what is scarce (start-time fair queueing: Goyal, Vin, Cheng 1996). A limiter has a
clock that tells how far everybody has been served. Each release moves the waiter's next turn ahead by the
time that the message takes up of the limit: bytes at the byte rate or messages at the message rate,
whichever is longer. So a producer of large messages or batches sends fewer of them, and none gets more
of the limit than another. A newcomer's turn is where the clock stands. While nobody waits, the clock
runs with the time, so that what somebody had too much of is forgotten as it is made up for.

Waking is batched. Orders are looked after when their first waiter can pass, rounded up to a grid of
5 ms that all share, so there is at most one timer per 5 ms however many groups are limited. A publish
limit that has others left to serve collects tokens for two of those intervals, unless somebody comes
whose turn is before theirs: a wake-up costs as much as several messages do, and who offers more than
passes waits anyway. Buckets hold several times that much, so no token is lost. A change of limits serves
the order at once (apache/pulsar#25502: there, a raised limit waited for the old delay to end).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import count
from typing import Protocol

from coordinator.gate.counters import TrafficCounter
from coordinator.gate.limiter import PublishLimiter
from coordinator.gate.metering import WAKE_INTERVAL_NS
from coordinator.gate.throttle import ThrottleReason

Turn = tuple[int, int]
"""A time on a limiter's clock, and a number that grows with every turn that is given."""


class Limiter(Protocol):
    """What admits: the publish limiter of a group, or its dispatch limiter."""

    counter: TrafficCounter
    reason: ThrottleReason
    #: Kept by the queue: whether anybody waits for it, the turn of whoever was served last, and since
    #: when nobody waits.
    contended: bool
    service_ns: int
    idle_since_ns: int

    def admits(self, messages: int, size: int, now_ns: int) -> bool:
        """Whether so many messages and bytes may pass now."""
        ...

    def consume(self, messages: int, size: int) -> None:
        """Take the tokens of what was admitted."""
        ...

    def span_ns(self, messages: int, size: int) -> int:
        """How long the limit is taken up by so much."""
        ...

    def binding(self, messages: int, size: int, now_ns: int) -> tuple[bool, bool]:
        """Whether messages, and whether bytes, are what has to be waited for longest."""
        ...

    def wait_ns(self, messages: int, size: int, now_ns: int) -> int | None:
        """How long until so much may pass if nothing else does; None is never."""
        ...

    def pause_ns(self, messages: int, size: int, now_ns: int) -> int | None:
        """How long until those are served who still wait when others were; None is never."""
        ...


class Waiter(Protocol):
    """A producer with held messages, or a consumer with withheld permits, as the queue sees it."""

    #: Kept by the queue: the turn (of equal ones the earlier number goes first), and how far it was
    #: served by the clock of each limiter.
    turn: Turn
    served_until_ns: dict[Limiter, int]
    #: The limiter waited for (None: does not wait).
    waits_for: Limiter | None

    @property
    def needed(self) -> Sequence[Limiter]:
        """Who must admit the first thing held."""
        ...

    def wait_for(self, limiter: Limiter | None, now_ns: int) -> None:
        """Wait for this limiter from now on, or for none."""
        ...

    def next_cost(self) -> tuple[int, int]:
        """Messages and bytes of the first thing held."""
        ...

    @property
    def held_since_ns(self) -> int:
        """Since when the first thing held is held."""
        ...

    def release(self) -> bool:
        """Send the first thing held on its way; tell whether there is more."""
        ...


class ServiceOrder:
    """Those who wait for one limiter, by turn."""

    __slots__ = ("_heap", "_waiting", "due_ns")

    def __init__(self) -> None:
        self._heap: list[tuple[Turn, int, Waiter]] = []
        #: Who is really waiting, by identity; entries of the heap that are not in here are stale.
        self._waiting: dict[int, Waiter] = {}
        #: When the first in line can pass; None is never.
        self.due_ns: int | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: Waiter) -> None:
        """Line up a waiter at its turn."""
        self._waiting[id(waiter)] = waiter
        heapq.heappush(self._heap, (waiter.turn, id(waiter), waiter))

    def remove(self, waiter: Waiter) -> None:
        """Take a waiter out of the line, wherever it stands."""
        del self._waiting[id(waiter)]
        if len(self._heap) > 2 * len(self._waiting) + 8:
            # With a limit of 0 nobody is ever served, and reconnecting clients would pile up.
            self._heap = [(w.turn, id(w), w) for w in self._waiting.values()]
            heapq.heapify(self._heap)

    def requeue_first(self) -> None:
        """The one whose turn it was, as ``first`` said, has got a new turn."""
        _, identity, waiter = self._heap[0]
        heapq.heapreplace(self._heap, (waiter.turn, identity, waiter))

    def first(self) -> Waiter | None:
        """Whose turn it is."""
        while self._heap:
            turn, identity, waiter = self._heap[0]
            if self._waiting.get(identity) is waiter and waiter.turn == turn:
                return waiter
            heapq.heappop(self._heap)
        return None


class AdmissionQueue:
    """Admits messages, lines up whoever has to wait, releases what they hold."""

    def __init__(self) -> None:
        self._orders: dict[Limiter, ServiceOrder] = {}
        #: (due, tie-break, limiter); an entry whose time is not its order's due time is stale.
        self._agenda: list[tuple[int, int, Limiter]] = []
        self._numbers = count()

    @property
    def waiting(self) -> int:
        """How many producers and consumers wait."""
        return sum(map(len, self._orders.values()))

    def waiting_for(self, limiter: Limiter) -> int:
        """How many wait for a limiter."""
        order = self._orders.get(limiter)
        return 0 if order is None else len(order)

    def admit(
        self, limiters: Sequence[PublishLimiter], messages: int, size: int, now_ns: int
    ) -> bool:
        """Take the tokens of a message that nobody had to wait for; False when it has to wait."""
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

    def wait(self, waiter: Waiter, now_ns: int) -> None:
        """Line up whoever holds something, or release at once what need not wait."""
        more = True
        while more:
            needed = waiter.needed
            messages, size = waiter.next_cost()
            for limiter in needed:
                if limiter.contended or not limiter.admits(messages, size, now_ns):
                    self._line_up(waiter, limiter, next(self._numbers), now_ns)
                    return
            more = self._release(waiter, needed, messages, size)

    def withdraw(self, waiter: Waiter, now_ns: int) -> None:
        """Forget a waiter: its connection is closed, or what it held was dropped."""
        limiter = waiter.waits_for
        if limiter is not None:
            waiter.wait_for(None, now_ns)
            self._orders[limiter].remove(waiter)
            self._plan(limiter, now_ns)

    def serve(self, now_ns: int) -> None:
        """Release what may pass by now, in every order that is due."""
        while self._agenda and self._agenda[0][0] <= now_ns:
            due_ns, _, limiter = heapq.heappop(self._agenda)
            order = self._orders.get(limiter)
            if order is not None and order.due_ns == due_ns:
                self.serve_limiter(limiter, now_ns)

    def serve_limiter(self, limiter: Limiter, now_ns: int) -> None:
        """Release what may pass now of those who wait for this limiter, due or not."""
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
            hold_times.add(now_ns - waiter.held_since_ns)
            has_served, has_more = True, self._release(waiter, needed, messages, size)
            if has_more and limiter in waiter.needed:
                waiter.turn = waiter.served_until_ns[limiter], next(self._numbers)
                order.requeue_first()
                continue
            order.remove(waiter)
            waiter.wait_for(None, now_ns)
            if has_more:
                self.wait(waiter, now_ns)
        self._plan(limiter, now_ns, has_served=has_served)

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
        self, waiter: Waiter, needed: Sequence[Limiter], messages: int, size: int, now_ns: int
    ) -> Limiter | None:
        """The limiter that a waiter has to wait for: it lacks tokens, or somebody is before it."""
        for limiter in needed:
            if not limiter.admits(messages, size, now_ns):
                return limiter
            if limiter is not waiter.waits_for and limiter.contended:
                first = self._orders[limiter].first()
                if first is not None and first.turn < self._turn(waiter, limiter, waiter.turn[1]):
                    return limiter
        return None

    @staticmethod
    def _release(waiter: Waiter, needed: Sequence[Limiter], messages: int, size: int) -> bool:
        for limiter in needed:
            limiter.consume(messages, size)
        return waiter.release()

    @staticmethod
    def _turn(waiter: Waiter, limiter: Limiter, number: int) -> Turn:
        return max(limiter.service_ns, waiter.served_until_ns.get(limiter, 0)), number

    @staticmethod
    def _charge(waiter: Waiter, needed: Sequence[Limiter], messages: int, size: int) -> None:
        """Move the next turn of a waiter whose turn it is ahead, by the clock of each limiter."""
        served = waiter.served_until_ns
        for limiter in needed:
            start_ns = max(limiter.service_ns, served.get(limiter, 0))
            limiter.service_ns = start_ns
            served[limiter] = start_ns + limiter.span_ns(messages, size)

    def _line_up(self, waiter: Waiter, limiter: Limiter, number: int, now_ns: int) -> None:
        order = self._orders.get(limiter)
        if order is None:
            order = self._orders[limiter] = ServiceOrder()
            limiter.contended = True
            limiter.service_ns += max(0, now_ns - limiter.idle_since_ns)
        waiter.turn = self._turn(waiter, limiter, number)
        waiter.wait_for(limiter, now_ns)
        order.add(waiter)
        if order.first() is waiter:
            self._plan(limiter, now_ns)

    def _plan(self, limiter: Limiter, now_ns: int, *, has_served: bool = False) -> None:
        """Note what the first in line waits for, and when to look after it."""
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
        due_ns = None if wait_ns is None else _round_up(now_ns + wait_ns)
        if due_ns is not None and due_ns != order.due_ns:
            heapq.heappush(self._agenda, (due_ns, next(self._numbers), limiter))
        order.due_ns = due_ns


def _round_up(time_ns: int) -> int:
    return -(-time_ns // WAKE_INTERVAL_NS) * WAKE_INTERVAL_NS
