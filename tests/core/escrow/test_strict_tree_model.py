"""A tree with a strict root in a hostile world: all leaves together never have more than the root.

The world is that of a strict group alone (strict_world.py); what counts is the sum over two leaves, whose
demand comes and goes and of which one has a guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from coordinator.core.decisions import decider
from coordinator.core.escrow.tree_quota import TreeQuotas
from coordinator.core.events import GroupsChanged, ParticipantsChanged, TrafficCounted
from coordinator.core.instructions import Instruction, SetLocalLimits
from coordinator.core.invariants import InvariantBroken
from coordinator.core.model import Dimension, MonitoringClass, Rates, ResourceGroup
from tests.core.escrow.test_strict_model import STORIES, HostileWorld
from tests.core.strict_world import FORMER, GROUP, Process, StrictWorld

LEAVES: Final = ("guaranteed", "plain")


class TreeWorld(StrictWorld):
    """The hostile world, whose group shares its limit among two leaves and has no traffic itself."""

    def __init__(self) -> None:
        super().__init__()
        #: The limits of the leaves at each gate.
        self._gates: dict[str, dict[str, int]] = {}

    def start(self, broker: str, demand: int) -> None:
        self._gates[broker] = {}
        super().start(broker, demand)
        for leaf in LEAVES:
            self._handle(broker, ParticipantsChanged(leaf, MonitoringClass.PUBLISH, 1))

    def in_force(self) -> dict[str, int]:
        """The limits of all leaves that the gates of running processes have, cut off or not."""
        return {
            broker: sum(self._gates[broker].values())
            if not process.leased or self.now_ns < process.lease_until_ns
            else 0
            for broker, process in self.processes.items()
        }

    def parts(self) -> dict[str, int]:
        """The limits of each leaf at all processes together."""
        return {
            leaf: sum(
                process.state.limits()[leaf].publish_messages or 0
                for process in self.processes.values()
            )
            for leaf in LEAVES
        }

    def _counted(self, process: Process) -> TrafficCounted:
        # The demand of the one is that of the other in other hundreds, so that both come and go.
        wants = (process.demand, 1000 - process.demand % 1000)
        each = zip(LEAVES, wants, strict=True)
        return TrafficCounted(tuple(self.traffic(process, leaf, want) for leaf, want in each))

    def usurp(self, broker: str, demand: int) -> None:
        self._gates[FORMER + broker] = self._gates[broker]
        super().usurp(broker, demand)

    def _carry_out(self, broker: str, instruction: Instruction) -> None:
        if not isinstance(instruction, SetLocalLimits):
            super()._carry_out(broker, instruction)
        elif instruction.group in LEAVES:
            super()._carry_out(broker, instruction)
            self._gates[broker][instruction.group] = int(
                instruction.limits.of(Dimension.PUBLISH_MESSAGES) or 0
            )
            self.check()  # a gate takes one limit up after the other

    def _groups(self) -> GroupsChanged:
        guaranteed, plain = LEAVES
        return GroupsChanged(
            (
                ResourceGroup(GROUP, Rates(publish_messages=self.limit), overshoot_policy="strict"),
                ResourceGroup(
                    guaranteed,
                    Rates(),
                    parent=GROUP,
                    guarantees=Rates(publish_messages=self.limit // 2),
                ),
                ResourceGroup(plain, Rates(), parent=GROUP),
            )
        )


class HostileToATree(HostileWorld):
    """Everything that can go wrong, in any order; time passes between."""

    def __init__(self) -> None:
        super().__init__()
        self.world = TreeWorld()


@pytest.mark.parametrize("stories", [4, pytest.param(60, marks=pytest.mark.verify)])
def test_no_story_puts_more_in_force_below_a_strict_root_than_its_limit(stories: int) -> None:
    """Loss, delay, duplicates, reordering, crashes, restarts, partitions, changes, in any order."""
    run_state_machine_as_test(HostileToATree, settings=settings(STORIES, max_examples=stories))


def claimed(world: TreeWorld) -> None:
    """One broker has what the plain leaf wants, another claims the guarantee."""
    world.start("b1", 0)
    world.start("b2", 0)
    world.calm(60)
    world.processes["b2"].demand = 5000


def test_a_guarantee_is_back_at_another_broker_within_two_rounds() -> None:
    """Of the root's quota, as much as is claimed moves with the claim."""
    world = TreeWorld()
    claimed(world)
    assert world.parts()["guaranteed"] < 100
    world.calm(20)

    assert world.parts()["guaranteed"] >= 495
    assert sum(world.parts().values()) >= 990


def fill(world: TreeWorld) -> None:
    """Three brokers have all of the limit in use."""
    for broker in ("b1", "b2", "b3"):
        world.start(broker, 5000)
    world.calm(60)


def test_all_of_the_limit_is_back_after_a_death() -> None:
    """The others inherit the quota of the root, and their leaves use it."""
    world = TreeWorld()
    fill(world)
    world.crash("b3")
    world.calm(200)

    assert world.inherited == 1
    assert 990 <= sum(world.in_force().values()) <= 1000


def _ignore_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker goes by the law alone."""
    monkeypatch.setattr(TreeQuotas, "share", lambda *_: {})


def _keep_to_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has just joined takes its reserves, as below a root without books."""
    monkeypatch.setattr(decider, "within", lambda decision, _: decision)


def full_and_joined(world: TreeWorld) -> None:
    """A broker dies, the others have all of the limit, and it comes back."""
    fill(world)
    world.crash("b3")
    world.calm(200)
    world.start("b3", 5000)
    world.calm(20)


def full_and_cut_off(world: TreeWorld) -> None:
    """A broker is cut off, and its quota is inherited."""
    fill(world)
    world.cut_off("b3")
    world.calm(400)


@pytest.mark.parametrize(
    ("plant", "story"), [(_ignore_quota, full_and_cut_off), (_keep_to_the_law, full_and_joined)]
)
def test_a_planted_mistake_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    story: Callable[[TreeWorld], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each in a story that goes well without it."""
    story(TreeWorld())
    plant(monkeypatch)
    with pytest.raises((AssertionError, InvariantBroken)):
        story(TreeWorld())
