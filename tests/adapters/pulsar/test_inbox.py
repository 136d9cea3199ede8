"""Messages on pulsar-client's threads reach listeners in order, and within bounds."""

from __future__ import annotations

import asyncio

from coordinator.adapters.pulsar.channel import Counters, Inbox
from coordinator.runtime.supervision import TaskSupervisor

_TURNS = 50


async def test_the_newest_items_arrive_in_order_and_the_oldest_of_too_many_are_dropped() -> None:
    """Each is counted."""
    counters, got = Counters(), list[int]()
    inbox: Inbox[int] = Inbox("numbers", counters, TaskSupervisor())
    inbox.watch(got.append)
    inbox.open()
    for number in range(5_000):
        inbox.put(number)
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    assert got == list(range(5_000 - 4_096, 5_000))
    assert (counters.received, counters.dropped) == (5_000, 5_000 - 4_096)


async def test_an_item_that_a_listener_fails_on_costs_no_other_one() -> None:
    """The failure is counted under the inbox's name."""
    supervisor, got = TaskSupervisor(), list[float]()
    inbox: Inbox[int] = Inbox("numbers", Counters(), supervisor)
    inbox.watch(lambda number: got.append(1 / number))
    inbox.open()
    for number in (0, 2):
        inbox.put(number)
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    assert got == [0.5]
    assert supervisor.failures["numbers"].count == 1
