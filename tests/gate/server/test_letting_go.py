"""Clients with malformed frames are closed one after the other, however many they are."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from coordinator.gate.server.letting_go import CLOSE_EVERY_S, REFUSED_S, RefusedClients


class Timers:
    """An event loop whose time the test makes."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._planned: list[asyncio.TimerHandle] = []
        self._loop = asyncio.new_event_loop()

    def time(self) -> float:
        """See `Loop`."""
        return self.now_s

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """See `Loop`."""
        handle = asyncio.TimerHandle(when, callback, (), self._loop)
        self._planned.append(handle)
        return handle

    def pass_all(self) -> None:
        """Let time pass until nothing is planned."""
        while self._planned:
            handle = self._planned.pop(0)
            if not handle.cancelled():
                self.now_s = max(self.now_s, handle.when())
                handle._run()
        self._loop.close()


def test_clients_with_malformed_frames_do_not_all_come_back_at_once() -> None:
    """The first is closed after its time, and each further one somewhat later, in order."""
    timers = Timers()
    clients = RefusedClients(lambda: timers)
    closed: list[tuple[int, float]] = []
    for number in range(100):
        clients.add(lambda number=number: closed.append((number, timers.now_s)))  # type: ignore[misc]
    timers.pass_all()

    assert [number for number, _ in closed] == list(range(100))
    times_s = [time_s for _, time_s in closed]
    assert times_s[0] == REFUSED_S
    assert all(b - a >= CLOSE_EVERY_S * 0.999 for a, b in itertools.pairwise(times_s))


def test_a_client_has_its_own_time_if_no_other_waits() -> None:
    """It does not wait for those that were closed before."""
    timers = Timers()
    clients = RefusedClients(lambda: timers)
    closed_s: list[float] = []
    clients.add(lambda: closed_s.append(timers.now_s))
    timers.now_s = 0.5
    clients.add(lambda: closed_s.append(timers.now_s))
    timers.pass_all()

    assert closed_s == [REFUSED_S, 0.5 + REFUSED_S]


def test_a_gate_that_ends_closes_them_at_once() -> None:
    """Each is closed once."""
    timers = Timers()
    clients = RefusedClients(lambda: timers)
    closed: list[str] = []
    clients.add(lambda: closed.append("first"))
    clients.add(lambda: closed.append("second"))
    clients.close_all()
    timers.pass_all()

    assert closed == ["first", "second"]
