"""Following changes: whose turn it is, and that a change outlives the sidecar that took it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from coordinator.adapters.recorder.tables import RecordedTable
from coordinator.app.operation_tracker import OperationTracker
from coordinator.insight.model.operations import Operation, OperationStage
from coordinator.runtime import supervision
from coordinator.runtime.supervision import TaskSupervisor
from tests.adapters.recorder.world import Recording
from tests.core.cluster import GROUP, Cluster
from tests.memory.operations import MemoryOperations
from tests.memory.surroundings import ManualClock
from tests.turns import turns_of


class Sidecars:
    """Three busy cores that share a store of operations, each with its own following."""

    def __init__(self) -> None:
        self.cluster = Cluster(limit=3_000)
        for broker in ("b1", "b2", "b3"):
            self.cluster.start(broker, demand=5_000)
        self.cluster.run(10)
        self.store = MemoryOperations()
        self.clock = ManualClock(self.cluster.now_ns)
        self.following = {broker: self.follow(broker) for broker in self.cluster.states}

    def follow(self, broker: str) -> OperationTracker:
        """The following of a sidecar that has just started."""
        return OperationTracker(self.cluster.states[broker], self.clock, self.store)

    async def run(self, seconds: float) -> None:
        """Let time pass; each sidecar looks every 0.2 s, and adopts orphaned operations."""
        for _ in range(round(seconds / 0.2)):
            self.cluster.run(0.2)
            self.clock.advance(self.cluster.now_ns - self.clock.now_ns())
            for following in self.following.values():
                await following.look()
                await following.adopt()

    async def change(self, taker: str, limit: int) -> Operation:
        """A new limit, taken by one of the sidecars."""
        following = self.following[taker]
        held = following.holdings(GROUP)
        operation = Operation(-1, GROUP, 0, f"groups/{GROUP}", "more", "admin", "", held)
        accepted = await following.accept(operation)
        assert accepted is not None
        self.cluster.set_limit(limit)
        return accepted

    def kill(self, broker: str) -> None:
        """The sidecar is gone, and membership knows it."""
        del self.following[broker]
        self.cluster.kill(broker)
        self.cluster.end_session(broker)


@pytest.fixture
def sidecars() -> Sidecars:
    """Settled on 3,000 messages/s."""
    return Sidecars()


async def test_an_operation_outlives_the_sidecar_that_took_it(sidecars: Sidecars) -> None:
    """The member with the lowest name goes on, and says who gained since before the change."""
    taken = await sidecars.change("b2", 6_000)
    sidecars.kill("b2")

    await sidecars.run(10)

    assert await sidecars.store.opened() == ()
    (ended,) = await sidecars.store.ended(10)
    assert (ended.operation.id, ended.operation.stage) == (taken.id, OperationStage.SETTLED)
    assert ended.operation.taker == "b2"
    (moved,) = ended.operation.moved.values()
    assert moved["b1"] > 1_500
    assert moved["b2"] < -900


async def test_every_stage_is_recorded_once(sidecars: Sidecars, tmp_path: Path) -> None:
    """By the sidecar that follows the operation, for as long as it does."""
    with Recording(tmp_path, broker="b1") as recording:
        sidecars.following["b1"] = OperationTracker(
            sidecars.cluster.states["b1"],
            sidecars.clock,
            sidecars.store,
            recording.recorder.operation_changed,
        )
        first = await sidecars.change("b1", 6_000)
        second = await sidecars.change("b1", 4_000)
        await sidecars.run(10)

    stages = [(row["operation"], row["stage"]) for row in recording.rows(RecordedTable.OPERATIONS)]
    assert sorted(stages) == [
        (first.id, "accepted"),
        (first.id, "superseded"),
        (second.id, "accepted"),
        (second.id, "converging"),
        (second.id, "settled"),
    ]


async def test_following_many_changes_leaves_rounds_their_turns(sidecars: Sidecars) -> None:
    """One after each change that is looked at."""
    following = sidecars.following["b1"]
    for number in range(50):
        subject = f"namespaces/acme/{number}"
        operation = Operation(-1, f"g{number}", 0, subject, "more", "admin", "")
        await following.accept(operation)

    assert await turns_of(following.look()) >= 50


async def test_only_the_lowest_name_adopts(sidecars: Sidecars) -> None:
    """All others leave it alone, so no work is done twice."""
    await sidecars.change("b2", 6_000)
    sidecars.kill("b2")
    del sidecars.following["b1"]

    await sidecars.run(10)

    assert [each.operation.stage for each in await sidecars.store.opened()] == [
        OperationStage.ACCEPTED
    ]


async def test_a_restarted_sidecar_goes_on_with_its_own(sidecars: Sidecars) -> None:
    """It is a member again, so no other one would adopt them."""
    await sidecars.change("b3", 6_000)
    sidecars.following["b3"] = sidecars.follow("b3")

    await sidecars.run(10)

    (ended,) = await sidecars.store.ended(10)
    assert ended.operation.stage is OperationStage.SETTLED


async def test_the_time_of_an_adopted_one_counts_from_its_acceptance(
    sidecars: Sidecars, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the wall clock, since the taker's monotonic one died with it."""
    await sidecars.change("b2", 6_000)
    sidecars.kill("b2")
    later_ns = time.time_ns() + 60_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)

    await sidecars.run(10)

    (ended,) = await sidecars.store.ended(10)
    assert ended.operation.settle_ns is not None
    assert 59_000_000_000 <= ended.operation.settle_ns <= 70_000_000_000


async def test_every_sidecar_lists_what_others_follow(sidecars: Sidecars) -> None:
    """A client may ask another one than it sent its change to."""
    taken = await sidecars.change("b1", 6_000)

    (listed,) = await sidecars.following["b3"].operations(10)

    assert listed.operation.id == taken.id


async def test_nobody_looks_while_there_is_nothing_to_follow(
    sidecars: Sidecars, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first change, and after the last has ended."""
    monkeypatch.setattr("coordinator.app.operation_tracker._LOOK_S", 0.0)
    following, looks = sidecars.following["b1"], 0
    look = following.look

    async def counting() -> None:
        nonlocal looks
        looks += 1
        await look()

    monkeypatch.setattr(following, "look", counting)
    running = asyncio.create_task(following.run(TaskSupervisor()))
    for _ in range(100):
        await asyncio.sleep(0)
    assert looks == 0

    await sidecars.change("b1", 6_000)
    async with asyncio.timeout(60):
        while await sidecars.store.opened():
            sidecars.cluster.run(0.2)
            sidecars.clock.advance(sidecars.cluster.now_ns - sidecars.clock.now_ns())
            await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    ended_after, looks = looks, 0
    for _ in range(100):
        await asyncio.sleep(0)
    assert (ended_after > 0, looks) == (True, 0)
    running.cancel()
    await asyncio.wait([running])


async def test_a_failure_of_one_loop_leaves_no_second_one_of_the_other(
    sidecars: Sidecars, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is run again by itself."""
    monkeypatch.setattr("coordinator.app.operation_tracker._ADOPT_S", 0.0)
    for pause in ("_FIRST_PAUSE_S", "_LAST_PAUSE_S"):
        monkeypatch.setattr(supervision, pause, 0.0)

    async def fail() -> None:
        raise ValueError("a fault")

    following, supervisor = sidecars.following["b1"], TaskSupervisor()
    monkeypatch.setattr(following, "adopt", fail)
    before = len(asyncio.all_tasks())
    running = asyncio.create_task(following.run(supervisor))
    async with asyncio.timeout(60):
        while "adopted operations" not in supervisor.failures:
            await asyncio.sleep(0)
        tasks = len(asyncio.all_tasks())
        while supervisor.failures["adopted operations"].count < 10:
            await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == tasks == before + 3
    running.cancel()
    await asyncio.wait([running])
