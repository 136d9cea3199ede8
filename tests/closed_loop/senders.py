"""Senders: producers as the gate's fair queue sees them, and the times of their messages."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from itertools import count, takewhile

from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.metering import MeteredLimiter
from coordinator.gate.limits.service_order import ClientTurns

SECOND_NS = 1_000_000_000

Arrivals = Iterator[tuple[int, int]]
"""When frames come, in nanoseconds, and how many messages each has."""

_NEVER = (1 << 62, 0)


def steady(rate: int) -> Arrivals:
    """Single messages at this rate, at equal distances."""
    return ((number * SECOND_NS // rate, 1) for number in count())


def poisson(rate: float, dice: random.Random) -> Arrivals:
    """Single messages at this average rate, at random moments."""
    time_s = 0.0
    while True:
        time_s += dice.expovariate(rate)
        yield int(time_s * SECOND_NS), 1


def flushing(messages: int, *, every_s: int, at_s: float, batch: int = 1) -> Arrivals:
    """Messages that come all at once, in batches, every `every_s` seconds."""
    for number in count():
        for _ in range(messages // batch):
            yield int((number * every_s + at_s) * SECOND_NS), batch


def late(start_s: float, arrivals: Arrivals) -> Arrivals:
    """The same arrivals, from this second on."""
    return ((int(start_s * SECOND_NS) + at_ns, messages) for at_ns, messages in arrivals)


def until(end_s: float, arrivals: Arrivals) -> Arrivals:
    """The same arrivals, up to this second."""
    return takewhile(lambda arrival: arrival[0] < end_s * SECOND_NS, arrivals)


class Sender:
    """One producer: it holds back what the gate does not admit, and no more than its window.

    Args:
        arrivals: what it has to send.
        window: how many frames it sends ahead.
    """

    def __init__(self, arrivals: Arrivals, window: int = 1000) -> None:
        self._arrivals = arrivals
        self._next = next(arrivals, _NEVER)
        self._window = window
        self._held: deque[tuple[int, int]] = deque()
        #: Messages of the first frame held that are paid for.
        self._paid = 0
        self._now_ns = 0
        #: Messages that passed, and the longest that one has waited, in seconds.
        self.passed = 0
        self.waited_s = 0.0
        # What the queue asks of a waiter.
        self.client = ClientTurns()
        self.turn = (0, 0)
        self.served_until_ns: dict[MeteredLimiter, int] = {}
        self.waits_for: MeteredLimiter | None = None
        self.needed: tuple[PublishLimiter, ...] = ()

    def send(self, queue: AdmissionQueue, now_ns: int) -> None:
        """Send what has come by now."""
        while self._next[0] <= now_ns and len(self._held) < self._window:
            came_ns, messages = self._next
            self._next = next(self._arrivals, _NEVER)
            if self._held:
                self._held.append((came_ns, messages))
            elif queue.admit(self.needed, messages, messages, now_ns):
                self._pass(came_ns, messages, now_ns)
            else:
                self._held.append((came_ns, messages))
                queue.wait(self, now_ns)

    def leave(self) -> None:
        """Want nothing more; of what is held, only the frame that waits for its turn still passes."""
        self._arrivals, self._next = iter(()), _NEVER
        while len(self._held) > 1:
            self._held.pop()

    def tell_time(self, now_ns: int) -> None:
        """It is so late now."""
        self._now_ns = now_ns

    def wait_for(self, limiter: MeteredLimiter | None, now_ns: int) -> None:
        """Wait for this limiter from now on, or for none."""
        self._now_ns = now_ns
        self.waits_for = limiter

    @property
    def passes_next(self) -> bool:
        """Whether its next release lets a frame pass, and is no instalment."""
        return self._paid + self.next_cost()[0] == self._held[0][1]

    @property
    def gives_up_ns(self) -> int | None:
        """Never: the groups of these tests hold what is above their limits."""
        return None

    def give_up(self, now_ns: int) -> None:
        """See `gives_up_ns`."""

    def next_cost(self) -> tuple[int, int]:
        """Messages and bytes of the first frame held, or of an instalment of it."""
        _, messages = self._held[0]
        if all(limiter.lends(messages, messages) for limiter in self.needed):
            return messages - self._paid, messages - self._paid
        most = min(limiter.instalment[0] for limiter in self.needed)
        return min(messages - self._paid, most), min(messages - self._paid, most)

    @property
    def held_since_ns(self) -> int:
        """When the first frame held came."""
        return self._held[0][0]

    def release(self) -> bool:
        """Send the first frame held on its way, or pay for a part of it; tell whether there is more."""
        self._paid += self.next_cost()[0]
        if self._paid < self._held[0][1]:
            return True
        self._paid = 0
        self._pass(*self._held.popleft(), self._now_ns)
        return bool(self._held)

    def _pass(self, came_ns: int, messages: int, now_ns: int) -> None:
        self.passed += messages
        self.waited_s = max(self.waited_s, (now_ns - came_ns) / SECOND_NS)
