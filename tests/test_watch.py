"""The watch over the core: what it does when a look at the groups fails."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.adapters.memory import ManualClock
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.watch import Watch


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
    async with asyncio.timeout(5):
        await again.wait()

    assert not running.done()
    running.cancel()
