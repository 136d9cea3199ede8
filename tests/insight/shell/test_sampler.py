"""The watch over the core: what it sees of backlogs, and what it does when a look at the groups fails."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.backlog.rules.model import BacklogQuota
from coordinator.core.events import ConnectionChanged, ConnectionState, GroupsChanged
from coordinator.core.model import Dimension, Rates, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.board import Board, GroupRow
from coordinator.insight.model.conditions import Condition, ConditionKind
from coordinator.insight.shell.sampler import Sampler
from tests.backlog.rules.world import TOPIC, World
from tests.core.cluster import GROUP, Cluster
from tests.memory.surroundings import ManualClock
from tests.turns import turns_of


async def test_a_look_that_fails_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is logged, and the next one is made."""
    watch = Sampler(CoordinatorState(CoreSettings(broker="b1")), ManualClock())
    looks = 0
    again = asyncio.Event()

    async def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            again.set()
        raise KeyError("b7")

    monkeypatch.setattr(watch, "look", look)
    monkeypatch.setattr("coordinator.insight.shell.sampler._PASS_S", 0.001)
    running = asyncio.create_task(watch.run())
    async with asyncio.timeout(30):
        await again.wait()

    assert not running.done()
    running.cancel()


async def test_a_look_at_many_groups_leaves_rounds_their_turns() -> None:
    """One every few groups, since it is done on the loop that they are closed on."""
    state = CoordinatorState(CoreSettings(broker="b1"))
    groups = tuple(ResourceGroup(f"g{n}", Rates(publish_messages=100)) for n in range(100))
    state.handle(GroupsChanged(groups), 0)

    assert await turns_of(Sampler(state, ManualClock()).look()) >= 5


async def test_a_group_that_rests_shows_what_a_look_at_it_would_show() -> None:
    """Row by row and sample by sample, whatever begins or ends in it meanwhile, here or elsewhere."""
    cluster = Cluster(limit=3_000)
    for broker in ("b1", "b2"):
        cluster.start(broker)
    state, clock = cluster.states["b1"], ManualClock(cluster.now_ns)
    watch, looked_at = Sampler(state, clock), Board()

    async def look(seconds: int = 4) -> None:
        for _ in range(seconds):
            cluster.run(1)
            clock.advance(cluster.now_ns - clock.now_ns())
            await watch.look()
            looked_at.begin(state.groups.keys() if state.groups else set())
            looked_at.sample(state, GROUP, cluster.now_ns)
            assert watch.board.rows == looked_at.rows
            for dimension in Dimension:
                found = watch.board.series(GROUP, dimension)
                assert found == looked_at.series(GROUP, dimension)

    await look()
    for broker in ("b1", "b2"):
        cluster.want(broker, 5_000)
        await look()
        cluster.want(broker, 0)
        await look()
    cluster.set_limit(6_000)
    await look()
    for connection in (ConnectionState.SUSPENDED, ConnectionState.CONNECTED):
        cluster.send("b1", ConnectionChanged(connection))
        await look()


async def test_a_group_that_rests_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: not one of them is, before something is decided on it."""
    state = CoordinatorState(CoreSettings(broker="b1"))
    groups = tuple(ResourceGroup(f"g{n}", Rates(publish_messages=100)) for n in range(100))
    state.handle(GroupsChanged(groups), 0)
    watch, looks = Sampler(state, ManualClock()), list[str]()
    sample = Board.sample

    def noted(self: Board, state: CoordinatorState, name: str, now_ns: int) -> GroupRow | None:
        looks.append(name)
        return sample(self, state, name, now_ns)

    monkeypatch.setattr(Board, "sample", noted)
    await watch.look()
    assert len(looks) == 100
    looks.clear()
    await watch.look()
    assert looks == []

    changed = ResourceGroup("g7", Rates(publish_messages=200))
    state.handle(GroupsChanged((*groups[:7], changed, *groups[8:])), 1)
    await watch.look()
    assert looks == ["g7"]
    assert len(watch.board.series("g8", Dimension.PUBLISH_MESSAGES).times_ns) == 3


async def test_an_exceeded_backlog_quota_holds_until_a_check_says_otherwise() -> None:
    """Between two checks, which are a minute apart, the last one stands."""
    watch = Sampler(CoordinatorState(CoreSettings(broker="b1")), ManualClock())
    world = World()
    world.topic.acknowledged = {"billing": 0}
    world.topic.quota = BacklogQuota(size_bytes=1024)
    world.publish(2)
    world.check()
    watch.backlogs_checked((world.view(),))
    for _ in range(3):
        await watch.look()
        assert [each.subject for each in watch.conditions.listed] == [f"b1 {TOPIC}"]

    world.topic.acknowledged["billing"] = 2
    world.check()
    watch.backlogs_checked((world.view(),))
    await watch.look()
    assert watch.conditions.listed == ()


async def test_conditions_of_other_parts_are_gone_with_their_facts() -> None:
    """Each part is asked at the end of every pass."""
    watch = Sampler(CoordinatorState(CoreSettings(broker="b1")), ManualClock())
    holding = [Condition(ConditionKind.UNKNOWN_TOPICS, "b1", "2 producers use such topics")]
    watch.further.append(lambda _: holding)
    await watch.look()
    assert watch.conditions.listed == tuple(holding)

    holding.clear()
    await watch.look()
    assert watch.conditions.listed == ()


async def test_only_the_groups_that_are_looked_at_have_conditions() -> None:
    """A group near its limit is one, until it is deleted."""
    cluster = Cluster(limit=3_000)
    for broker in ("b1", "b2"):
        cluster.start(broker, 1_300)
    state, clock = cluster.states["b1"], ManualClock(cluster.now_ns)
    watch = Sampler(state, clock)
    cluster.run(10)
    clock.advance(cluster.now_ns - clock.now_ns())
    await watch.look()
    assert watch.conditions.counts == {ConditionKind.GROUP_NEAR_LIMIT: 1}

    cluster.send("b1", GroupsChanged(()))
    await watch.look()
    assert watch.conditions.listed == ()
