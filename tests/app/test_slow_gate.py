"""A gate that is slow to answer holds up its counts and nothing else of the coordinator."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from coordinator.core.events import Event, Tick
from coordinator.core.instructions import Instruction
from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic
from tests.app.sidecars import PUBLISH, RecordingGate, World
from tests.contract.listening import eventually


class SlowGate(RecordingGate):
    """A gate that answers with its counts once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def collect(self) -> tuple[Traffic, ...]:
        counts = await super().collect()
        await self.may_answer.wait()
        return counts


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Counter[type[Event]]:
    """The number of events that cores have handled, by kind."""
    counted: Counter[type[Event]] = Counter()
    handle = CoordinatorState.handle

    def handled(state: CoordinatorState, event: Event, now_ns: int) -> list[Instruction]:
        counted[type(event)] += 1
        return handle(state, event, now_ns)

    monkeypatch.setattr(CoordinatorState, "handle", handled)
    return counted


async def test_a_slow_gate_is_asked_once_and_time_goes_on_without_its_counts(
    events: Counter[type[Event]],
) -> None:
    """No round ends, since nothing is known of it; a lease is held on, and a new limit is told."""
    world = World()
    group = ResourceGroup("orders", Rates(publish_messages=3000), overshoot_policy="strict")
    created = await world.store.create_group(group)
    async with world.sidecar("b1", gate=SlowGate()) as sidecar:
        gate = sidecar.gate
        assert isinstance(gate, SlowGate)
        await eventually(lambda: sidecar.limit == 3000, "the record is there")
        gate.may_answer.clear()
        asked = gate.collected
        await eventually(lambda: gate.collected > asked, "asked while it is slow")
        asked, rounds, ticks = gate.collected, sidecar.runner.views.health().round, events[Tick]
        lease_ns = gate.lease_until_ns or 0

        await eventually(lambda: (gate.lease_until_ns or 0) > lease_ns, "held on")
        lower = replace(group, limits=Rates(publish_messages=1000))
        await world.store.update_group(lower, created.version)
        await eventually(lambda: sidecar.limit == 1000, "limited anew")

        assert events[Tick] > ticks
        assert (gate.collected, sidecar.runner.views.health().round) == (asked, rounds)

        gate.traffic = (Traffic("orders", PUBLISH, messages=7, participants=1),)
        gate.may_answer.set()
        await eventually(lambda: sidecar.runner.views.health().round > rounds, "rounds go on")
