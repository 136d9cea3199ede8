"""The policy strict in a hostile world: the limits in force never add up to more than the limit.

The same world must catch planted mistakes: a donor that does not lower itself, a receiver that adds what
it hears instead of taking the largest, an heir that does not wait or does not settle.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from coordinator.core import state
from coordinator.core.escrow import books, escrow, lease
from coordinator.core.invariants import InvariantBroken
from coordinator.core.model import Account, Closure, EscrowRecord, Parts, Rates
from tests.core.strict_world import GROUP, LEADER_PING_NS, STEP_NS, StrictWorld

BROKERS = ("b1", "b2", "b3", "b4")
brokers = st.sampled_from(BROKERS)
demands = st.sampled_from([0, 10, 300, 5000])
indices = st.integers(0, 400)

NUMBERS = (8, pytest.param(100, marks=pytest.mark.verify))
"""The stories that the proof plays, and those of `make verify`."""

STORIES = settings(
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
"""The stories of a hostile world that a test plays."""


class HostileWorld(RuleBasedStateMachine):
    """Everything that can go wrong, in any order; time passes between."""

    def __init__(self) -> None:
        super().__init__()
        self.world = StrictWorld()

    @initialize(count=st.integers(2, 4), demand=demands)
    def begin(self, count: int, demand: int) -> None:
        """Two to four sidecars that have found each other."""
        for broker in BROKERS[:count]:
            self.world.start(broker, demand)
        self.world.calm(20)

    @rule(broker=brokers, demand=demands)
    def start_or_want(self, broker: str, demand: int) -> None:
        if broker in self.world.processes:
            self.world.processes[broker].demand = demand
        else:
            self.world.start(broker, demand)

    @rule(broker=brokers)
    def crash(self, broker: str) -> None:
        if broker in self.world.processes:
            self.world.crash(broker)

    @rule(broker=brokers, demand=demands)
    def crash_and_restart(self, broker: str, demand: int) -> None:
        if broker in self.world.processes:
            self.world.crash(broker)
            self.world.start(broker, demand)

    @rule(broker=brokers)
    def cut_off_or_reconnect(self, broker: str) -> None:
        process = self.world.processes.get(broker)
        if process is not None and process.cut_off_ns is None:
            self.world.cut_off(broker)
        elif process is not None:
            self.world.reconnect(broker)

    @rule(broker=brokers, steps=st.integers(1, 60))
    def stand_still(self, broker: str, steps: int) -> None:
        if broker in self.world.processes:
            self.world.pause(broker, steps)

    @rule(broker=brokers, steps=st.integers(1, 30))
    def hear_late_of_zookeeper(self, broker: str, steps: int) -> None:
        if broker in self.world.processes:
            self.world.delay_answers(broker, steps)

    @rule(broker=brokers, demand=demands)
    def take_over_a_registration(self, broker: str, demand: int) -> None:
        if broker in self.world.processes:
            self.world.usurp(broker, demand)

    @rule(broker=brokers)
    def leave_and_return(self, broker: str) -> None:
        if broker in self.world.processes and self.world.processes[broker].cut_off_ns is None:
            self.world.leave(broker)

    @rule(limit=st.sampled_from([0, 1, 7, 500, 1000, 2000]))
    def change_the_limit(self, limit: int) -> None:
        self.world.set_limit(limit)

    @rule(broker=brokers)
    def see(self, broker: str) -> None:
        if broker in self.world.processes:
            self.world.see(broker)

    @rule(index=indices, keep=st.booleans())
    def deliver(self, index: int, keep: bool) -> None:
        self.world.deliver(index, keep=keep)

    @rule(index=indices)
    def drop(self, index: int) -> None:
        self.world.drop(index)

    @rule(steps=st.integers(1, 12), delivered=st.lists(indices, max_size=12))
    def time_passes(self, steps: int, delivered: list[int]) -> None:
        for _ in range(steps):
            self.world.step()
            for index in delivered:
                self.world.deliver(index, keep=index % 7 == 0)

    @rule(steps=st.sampled_from([15, 60, 120]))
    def calm(self, steps: int) -> None:
        self.world.calm(steps)

    @rule(broker=brokers)
    def crash_and_be_inherited_from(self, broker: str) -> None:
        if broker in self.world.processes:
            self.world.crash(broker)
            self.world.calm(120)

    @invariant()
    def no_more_is_in_force_than_there_is(self) -> None:
        self.world.check()


@pytest.mark.parametrize("stories", NUMBERS)
def test_no_story_puts_more_in_force_than_there_is(stories: int) -> None:
    """Loss, delay, duplicates, reordering, crashes, restarts, partitions, changes, in any order."""
    run_state_machine_as_test(HostileWorld, settings=settings(STORIES, max_examples=stories))


def a_bad_day() -> StrictWorld:
    """Everything twice on the bus, a death, its inheritance, and a sidecar that is cut off."""
    world = StrictWorld()
    world.start("b1", demand=5000)
    world.start("b2", demand=5000)
    world.calm(20)
    world.start("b3", demand=5000)
    for _ in range(5):
        world.step()
        for index in reversed(range(len(world.under_way))):
            world.deliver(index, keep=True)
    world.calm(20)
    world.processes["b2"].demand = 10
    world.calm(30)
    world.crash("b3")
    world.calm(120)
    world.processes["b2"].demand = 5000
    world.calm(30)
    world.usurp("b2", demand=5000)
    world.calm(120)
    world.cut_off("b2")
    world.calm(60)
    a_torn_connection(world)
    return world


def a_torn_connection(world: StrictWorld) -> None:
    """One that is made again just after the leader pinged, and lost just before it pings again."""
    world.reconnect("b2")
    world.calm(60)
    world.cut_off("b2")
    while world.now_ns % LEADER_PING_NS:
        world.calm(1)
    world.reconnect("b2")
    world.calm(LEADER_PING_NS // STEP_NS - 1)
    world.cut_off("b2")
    world.calm(60)


def test_a_bad_day_ends_with_everything_in_one_hand() -> None:
    """Four inheritances later nothing is lost and nothing was ever too much."""
    world = a_bad_day()

    assert world.in_force() == {"b1": 1000, "b2": 0, "former b2": 0}
    assert world.inherited == 4


class Adding(books.Books):
    """A receiver that adds what it hears: a report that comes twice counts twice."""

    def receive(self, giver: Account, issued: Parts) -> bool:
        known = self._received.get(giver, books.NOTHING)
        self._received[giver] = books.add(known, issued)
        return True


class Keeping(books.Books):
    """A donor that says that it gives, and keeps what it has."""

    def holding(self) -> Parts:
        return books.add(super().holding(), books.total(self._issued.values()))


class Hasty(escrow.Escrow):
    """An heir that takes a registration that was replaced for a holder that has stopped."""

    def _claim(self, kept: escrow._Kept, now_ns: int) -> EscrowRecord | None:
        kept.fence_ns = 0
        return super()._claim(kept, now_ns)


class FromTheAnswer(lease.Lease):
    """A lease that is counted from when ZooKeeper's answer was read."""

    def confirmed(self, asked_ns: int, connected_ns: int, timeout_ns: int, now_ns: int) -> None:
        super().confirmed(asked_ns, connected_ns, timeout_ns, now_ns)
        self.until_ns = now_ns + timeout_ns * 19 // 20


class FromTheQuestion(lease.Lease):
    """A lease that is counted from the last question, as if the leader had heard it."""

    def _heard_since(self, asked_ns: int, lag_ns: int) -> int:
        return max(asked_ns, super()._heard_since(asked_ns, lag_ns))


class Sleepwalking(StrictWorld):
    """A gate that goes by the last limit, whatever the time is."""

    def in_force(self) -> dict[str, int]:
        return {
            broker: process.state.limits().get(GROUP, Rates()).publish_messages or 0
            for broker, process in self.processes.items()
        }


def claim_without_settling(
    record: EscrowRecord, heir: Account, closures: Mapping[Account, Mapping[Account, Closure]]
) -> EscrowRecord:
    """An heir that takes the estate, and leaves what passed between the others and the dead open."""
    settled = books.claim(record, heir, closures)
    return dataclasses.replace(
        settled,
        bases={
            account: parts if account == heir else record.bases.get(account, books.NOTHING)
            for account, parts in settled.bases.items()
        },
    )


@pytest.mark.parametrize(
    ("module", "name", "mistake"),
    [
        (escrow, "Books", Adding),
        (escrow, "Books", Keeping),
        (state, "Escrow", Hasty),
        (escrow, "claim", claim_without_settling),
        (state, "Lease", FromTheAnswer),
        (state, "Lease", FromTheQuestion),
        (lease, "_MARGIN", -8),
    ],
    ids=[
        "adds",
        "keeps",
        "does not wait",
        "does not settle",
        "leases from the answer",
        "leases from the question",
        "leases for too long",
    ],
)
def test_a_planted_mistake_is_found(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, mistake: object
) -> None:
    """The world that finds nothing wrong with the real books finds each of these by their sum alone."""
    monkeypatch.setattr(module, name, mistake)
    monkeypatch.setattr(state.CoordinatorState, "validate", lambda _: None)
    with pytest.raises(AssertionError, match=r"\} of \d+"):
        a_bad_day()


@pytest.mark.parametrize("kind", [StrictWorld, Sleepwalking], ids=["gate", "no gate"])
def test_a_process_that_stood_still_needs_a_gate_that_looks_at_the_lease(
    kind: type[StrictWorld],
) -> None:
    """A process that stands still cannot stop its gate: only a gate that checks the lease does."""
    world = kind()
    world.start("b1", demand=5000)
    world.start("b2", demand=5000)
    world.calm(20)
    world.pause("b2", steps=60)
    if isinstance(world, Sleepwalking):
        with pytest.raises(AssertionError, match=r"\} of \d+"):
            world.calm(59)
    else:
        world.calm(59)
        assert world.in_force() == {"b1": 1000, "b2": 0}


def test_an_unsettled_inheritance_breaks_the_books_before_any_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The core's own invariants name it as soon as the record is read."""
    monkeypatch.setattr(escrow, "claim", claim_without_settling)
    with pytest.raises(InvariantBroken, match="bases of a record add up to all parts"):
        a_bad_day()
