"""Waiters that give up: those that a limiter has held for its patience.

A limiter with a *patience* (`Handling.refuse_after_ns`) holds a message for that long and no longer. Each
of its waiters has one entry here, with the time at which the first of its messages is overdue. That one
may have passed by then; the entry then moves to the time of the next one. There are never more entries
than waiters, however fast messages pass.

Times are rounded up to a grid, so that many messages that are overdue together cost one wake-up.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Final, Protocol

from coordinator.gate.limits.metering import wake_up_ns

_FEWEST_STALE: Final = 8


class Patient(Protocol):
    """A waiter, as far as its patience goes."""

    @property
    def gives_up_ns(self) -> int | None:
        """The time at which its first message is overdue; None is never."""

    def give_up(self, now_ns: int) -> None:
        """Refuse what is overdue, now or as soon as that can be."""


class OverdueWaiters:
    """The waiters that will give up, by time."""

    __slots__ = ("_heap", "_numbers", "_planned")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Patient]] = []
        self._numbers = count()
        #: The number of the entry of each waiter, by identity; other entries are stale.
        self._planned: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._planned)

    @property
    def due_ns(self) -> int | None:
        """The time of the next call of ``serve``; None is never."""
        return self._heap[0][0] if self._heap else None

    def plan(self, waiter: Patient, now_ns: int, *, not_before_ns: int = 0) -> None:
        """Wake a waiter when its first message is overdue, but not before this time."""
        due_ns = waiter.gives_up_ns
        if due_ns is None or id(waiter) in self._planned:
            return
        number = self._planned[id(waiter)] = next(self._numbers)
        due_ns = wake_up_ns(max(due_ns, not_before_ns, now_ns))
        heapq.heappush(self._heap, (due_ns, number, waiter))

    def forget(self, waiter: Patient) -> None:
        """Drop a waiter's entry."""
        self._planned.pop(id(waiter), None)
        if len(self._heap) > 2 * len(self._planned) + _FEWEST_STALE:
            self._heap = [each for each in self._heap if self._planned.get(id(each[2])) == each[1]]
            heapq.heapify(self._heap)

    def serve(self, now_ns: int) -> None:
        """Let all give up that are overdue by now."""
        overdue: list[Patient] = []
        while self._heap and self._heap[0][0] <= now_ns:
            _, number, waiter = heapq.heappop(self._heap)
            if self._planned.get(id(waiter)) == number:
                del self._planned[id(waiter)]
                overdue.append(waiter)
        for waiter in overdue:
            due_ns = waiter.gives_up_ns
            if due_ns is not None and due_ns <= now_ns:
                waiter.give_up(now_ns)
            else:
                self.plan(waiter, now_ns)
