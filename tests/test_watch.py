"""The watch over the core: what it sees of backlogs, and what it does when a look at the groups fails."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.adapters.memory import ManualClock
from coordinator.core.alarms import AlarmSettings
from coordinator.core.backlog.model import BacklogQuota
from coordinator.core.events import GroupsChanged
from coordinator.core.journal import Kind
from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.watch import Watch
from tests.core.backlog.world import TOPIC, World
from tests.turns import turns_of


async def test_a_look_that_fails_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is logged, and the next one is made."""
    watch = Watch(CoordinatorState(CoreSettings(broker="b1")), ManualClock())
    looks = 0
    again = asyncio.Event()

    async def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            again.set()
        raise KeyError("b7")

    monkeypatch.setattr(watch, "look", look)
    monkeypatch.setattr("coordinator.watch._PASS_S", 0.001)
    running = asyncio.create_task(watch.run())
    async with asyncio.timeout(30):
        await again.wait()

    assert not running.done()
    running.cancel()


async def test_a_look_at_many_groups_leaves_the_gate_its_turns() -> None:
    """One every few groups, since it is done on the loop that carries the traffic."""
    state = CoordinatorState(CoreSettings(broker="b1"))
    groups = tuple(ResourceGroup(f"g{n}", Rates(publish_messages=100)) for n in range(100))
    state.handle(GroupsChanged(groups), 0)

    assert await turns_of(Watch(state, ManualClock()).look()) >= 5


async def test_an_exceeded_backlog_quota_fires_once_and_is_over_when_a_check_says_so() -> None:
    """Between two checks, which are a minute apart, the last one stands."""
    at_once = AlarmSettings(raise_after_ns=0, clear_after_ns=0)
    state = CoordinatorState(CoreSettings(broker="b1", alarms=at_once))
    watch = Watch(state, ManualClock())
    world = World()
    world.topic.acknowledged = {"billing": 0}
    world.topic.quota = BacklogQuota(size_bytes=1024)
    world.publish(2)
    world.check()
    watch.backlogs_checked((world.view(),))
    for _ in range(3):
        await watch.look()
    assert [key.subject for key in watch.alarms.firing()] == [f"b1 {TOPIC}"]

    world.topic.acknowledged["billing"] = 2
    world.check()
    watch.backlogs_checked((world.view(),))
    for _ in range(3):
        await watch.look()
    assert watch.alarms.firing() == {}
    assert [note.kind for note in watch.journal.notes()] == [Kind.ALARM, Kind.OVER]
