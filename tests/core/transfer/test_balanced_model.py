"""The policy balanced in a hostile world: members never hold more than the limit.

The world is that of the policy strict (strict_world.py). Balanced promises less. Who is no member does
not count: it goes on with what it held (``partitionPolicy`` hold: traffic first). When it is back it
starts from its reserve, and counts from that moment. And unannounced, the arrival
reserves, comes on top; a reserve of a limit that was higher is kept until the others were heard. Under a
lower limit they may add up to what they did before, and never to more than a moment ago. That must hold
for any loss, delay, duplicates and reordering; and the same world must catch planted mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from coordinator.core.decisions.decider import Decider
from coordinator.core.events import GroupsChanged
from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.policies import BALANCED
from coordinator.core.transfer.raise_protocol import Raises, _Raise
from tests.core.escrow.test_strict_model import NUMBERS, STORIES, HostileWorld
from tests.core.strict_world import GROUP, StrictWorld

NEVER_NS = 10**15


class BalancedWorld(StrictWorld):
    """The hostile world, with a group under balanced and patience without end.

    ``hold_ns`` is the end of the patience with a bus that is silent or deaf: to act then
    is a bet on time, and a bus that keeps reports for as long as it likes wins every bet.
    """

    def __init__(self) -> None:
        super().__init__()
        #: The highest limit that there was.
        self._highest = 0
        #: What members held together a moment ago.
        self._held = 0

    def settings_of(self, broker: str) -> CoreSettings:
        return CoreSettings(broker, hold_ns=NEVER_NS)

    def check(self) -> None:
        limit = max([self.limit, *self.known_limits.values()])
        self._highest = max(self._highest, limit)
        reserve = self._highest * CoreSettings("any").arrival_reserve_permille // 1000
        members = self.members.values()
        registered = {
            broker: held
            for broker, held in self.in_force().items()
            if self.processes[broker].registration in members
        }
        # Who does not know N yet takes itself to be alone.
        most = max(limit, self._held) + reserve * len(registered)
        self._held = sum(registered.values())
        assert self._held <= most, f"{registered} of {limit}"

    def _groups(self) -> GroupsChanged:
        rates = Rates(publish_messages=self.limit)
        return GroupsChanged((ResourceGroup(GROUP, rates, overshoot_policy=BALANCED),))


class HostileToBalanced(HostileWorld):
    """Everything that can go wrong, in any order; time passes between."""

    def __init__(self) -> None:
        super().__init__()
        self.world = BalancedWorld()


@pytest.mark.parametrize("stories", NUMBERS)
def test_no_story_lets_members_hold_more_than_there_is(stories: int) -> None:
    """Loss, delay, duplicates, crashes, restarts, partitions, changes: always the same stories."""
    run_state_machine_as_test(HostileToBalanced, settings=settings(STORIES, max_examples=stories))


def calm_without(world: BalancedWorld, steps: int, *pairs: tuple[str, str]) -> None:
    """Time in which nothing passes from the first to the second of these pairs."""
    for _ in range(steps):
        world.step()
        for receiver, report in list(world.under_way):
            if (report.broker, receiver) in pairs:
                world.under_way.remove((receiver, report))
        for _ in range(len(world.under_way)):
            world.deliver(0, keep=False)


def two_deaf_rivals() -> BalancedWorld:
    """b2 and b3 want the share that b1 leaves; they hear b1 and not each other; then b3 restarts."""
    world = BalancedWorld()
    for broker, demand in (("b1", 5000), ("b2", 10), ("b3", 10)):
        world.start(broker, demand)
    world.calm(30)
    for broker, demand in (("b1", 10), ("b2", 5000), ("b3", 5000)):
        world.processes[broker].demand = demand
    calm_without(world, 20, ("b2", "b3"), ("b3", "b2"))
    world.calm(40)
    calm_without(world, 5, ("b3", "b2"))
    world.crash("b3")
    world.start("b3", 5000)
    calm_without(world, 20, ("b2", "b3"), ("b3", "b2"))
    world.calm(60)
    return world


def back_while_one_is_dead() -> BalancedWorld:
    """b1 outlives its session, and b4 dies meanwhile; when b1 is back, b2 makes room by a restart."""
    world = BalancedWorld()
    for broker in ("b1", "b2", "b3", "b4"):
        world.start(broker, 10)
    world.calm(21)
    world.crash("b4")
    world.cut_off("b1")
    world.calm(120)
    world.reconnect("b1")
    world.crash("b2")
    world.start("b2", 10)
    world.calm(60)
    return world


def test_who_is_back_before_it_hears_everybody_starts_from_its_reserve() -> None:
    """No sidecar knows what it held before; in the end all of the limit is shared."""
    held = back_while_one_is_dead().in_force()

    assert sum(held.values()) == 1000
    assert max(held.values()) - min(held.values()) <= 1


def test_a_lower_limit_counts_at_once_and_is_right_when_all_have_heard() -> None:
    """Both have just begun to want all, and have not heard it of each other: each keeps nearly all."""
    world = BalancedWorld()
    world.start("b1", 10)
    world.start("b2", 10)
    world.calm(20)
    for process in world.processes.values():
        process.demand = 5000
    calm_without(world, 24, ("b1", "b2"), ("b2", "b1"))
    world.set_limit(500)
    calm_without(world, 3, ("b1", "b2"), ("b2", "b1"))
    assert 500 < sum(world.in_force().values()) <= 1000

    world.calm(15)
    assert world.in_force() == {"b1": 250, "b2": 250}


def test_the_first_raise_waits_for_all_members_also_when_the_reserve_became_smaller() -> None:
    """b2, without a part, does not hear b1, which holds the reserve of one that is alone."""
    world = BalancedWorld()
    world.start("b1", 5000)
    world.start("b2", 0)
    world.let_go("b2")
    calm_without(world, 20, ("b1", "b2"))
    world.start("b3", 0)
    world.let_go("b3")
    calm_without(world, 20, ("b1", "b2"))
    assert world.in_force()["b1"] == 5

    world.calm(20)
    assert world.in_force()["b1"] == 998


def test_rivals_that_do_not_hear_each_other_share_once_they_do() -> None:
    """Neither ever holds too much, and in the end all of the limit is shared."""
    held = two_deaf_rivals().in_force()

    assert held["b1"] <= 20
    assert abs(held["b2"] - held["b3"]) <= 1
    assert sum(held.values()) == 1000


def _hasty(raises: Raises, group: str, *_: object) -> int:
    """Raises as soon as a raise is announced."""
    return max(10_000, len(raises.groups()) + len(group))


def _any_answer(raise_: _Raise, sequence: int) -> int:
    """Takes an answer to an earlier report for one to this."""
    return raise_.ceiling if sequence else 0


def _keep(*_: object) -> None:
    """A new incarnation goes on with what the earlier one held."""


@pytest.mark.parametrize(
    ("story", "mistakes"),
    [
        (two_deaf_rivals, {"transfer.raise_protocol.Raises.known_to": _hasty}),
        (two_deaf_rivals, {"transfer.raise_protocol._Raise.known_since": _any_answer}),
        (
            back_while_one_is_dead,
            {
                "decisions.decider.Decider.restart": Decider.mark_all,
                "degradation.Degradations.restart": _keep,
            },
        ),
    ],
    ids=["waits for no answers", "takes old answers", "keeps what it held"],
)
def test_a_planted_mistake_is_found(
    monkeypatch: pytest.MonkeyPatch,
    story: Callable[[], BalancedWorld],
    mistakes: Mapping[str, Callable[..., object]],
) -> None:
    """The world that finds nothing wrong with the real policy finds each of these."""
    for what, mistake in mistakes.items():
        monkeypatch.setattr(f"coordinator.core.{what}", mistake)
    with pytest.raises(AssertionError, match=r"\} of 1000"):
        story()
