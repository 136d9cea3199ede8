"""The world itself: replay, promises that are really checked, and a core that fails."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from coordinator.core.events import Event, ParticipantsChanged
from coordinator.core.instructions import Instruction, SetLocalLimits
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import Dimension, MonitoringClass, Rates, ResourceGroup
from coordinator.core.state import CoordinatorState
from coordinator.simulation.certificate_watch import CertificateWatch
from coordinator.simulation.experiment import perform, series_of
from coordinator.simulation.fleet_scenarios import multiplied
from coordinator.simulation.invariants import PromiseBroken
from coordinator.simulation.network import NetworkConditions
from coordinator.simulation.recording import GroupRecord, Passed
from coordinator.simulation.stage import GROUP, Parameters
from coordinator.simulation.traffic import Constant
from coordinator.simulation.world import World
from coordinator.wire import reports

SECOND_NS = 1_000_000_000
NAMES = ("broker-1", "broker-2", "broker-3")


def saturated(
    seed: int = 1, *, seconds: int = 10, policy: str = "balanced", loss: float = 0.0
) -> World:
    """Three saturated brokers that share 900 per second."""
    world = World(seed, seconds, NetworkConditions(loss=loss))
    world.define(GROUP, Rates(publish_messages=900), law="max-min", policy=policy)
    for name in NAMES:
        world.start(name, {GROUP: Constant(900)}, poisson=True)
    return world


@pytest.mark.parametrize("scenario", ["S1", pytest.param("S14", marks=pytest.mark.verify)])
def test_a_seed_replays_a_run_exactly(scenario: str) -> None:
    """Every broker, every second, every limit and every byte of control traffic."""
    _, first = perform(scenario, Parameters(seed=11, loss=0.2))
    _, again = perform(scenario, Parameters(seed=11, loss=0.2))

    assert first == again


def test_another_seed_is_another_run() -> None:
    """The dice are really rolled."""
    assert saturated(1, loss=0.2).run() != saturated(2, loss=0.2).run()


def test_three_saturated_brokers_share_the_limit() -> None:
    """From the second second on each admits a third, to the message."""
    record = saturated().run().group(GROUP)

    for track in record.tracks.values():
        assert track.limits[2:] == [300] * 8
        assert all(abs(admitted - 300) <= 1 for admitted in track.admitted[2:])


def test_control_bytes_are_those_of_the_encoding() -> None:
    """Each report is counted once out and once per reader in; nothing is lost without loss."""
    world = saturated()
    sizes: list[int] = []
    world.listeners.append(lambda _, report: sizes.append(len(reports.encode(report))))

    control = world.run().control

    assert (control.reports, control.bytes_out, control.lost) == (len(sizes), sum(sizes), 0)
    assert control.deliveries <= control.reports * (len(NAMES) - 1)
    assert 0 < control.bytes_in <= control.bytes_out * (len(NAMES) - 1)


def test_a_crashed_broker_wants_and_holds_nothing() -> None:
    """Its traffic ends with it; the others have its part back after the session timeout."""
    world = saturated(seconds=20)
    world.at(10, lambda: world.crash("broker-1"))

    recording = world.run()

    record = recording.group(GROUP)
    assert record.tracks["broker-1"].admitted[11:] == [0] * 9
    assert record.tracks["broker-1"].wanted[11:] == [0] * 9
    assert record.tracks["broker-2"].limits[-1] == 450
    (crashed_ns, back_ns) = recording.reclaims[0]
    assert crashed_ns == 10 * SECOND_NS
    # The session timeout counts from when the leader last heard of it: two pings ago, client's and own.
    assert 4.0 - 4.0 / 3 - 1.0 <= (back_ns - crashed_ns) / SECOND_NS <= 5.0


def test_a_paused_sidecar_loses_its_session_and_comes_back() -> None:
    """While it stands still nothing passes; afterwards it registers anew and takes its part again."""
    world = saturated(seconds=25)
    world.at(5, lambda: world.hosts["broker-1"].pause(6 * SECOND_NS))
    first: dict[str, int | None] = {}
    world.at(4, lambda: first.update(incarnation=world.hosts["broker-1"].state.incarnation))

    record = world.run().group(GROUP)

    state = world.hosts["broker-1"].state
    assert state.lifecycle is Lifecycle.ACTIVE
    assert state.incarnation is not None
    assert first["incarnation"] is not None
    assert state.incarnation > first["incarnation"]
    assert record.tracks["broker-1"].admitted[6:11] == [0] * 5
    assert record.tracks["broker-1"].limits[-1] == 300


def test_a_clock_that_jumps_makes_no_traffic() -> None:
    """A minute's jump of one clock passes no more than a bucket can save up."""
    world = saturated(seconds=20)
    world.at(10, lambda: world.hosts["broker-1"].jump_clock(60 * SECOND_NS))

    track = world.run().group(GROUP).tracks["broker-1"]

    assert max(track.admitted[9:13]) <= 300 * 1.1 + 1


def test_a_restarted_broker_does_not_listen_to_its_past() -> None:
    """A quick restart ends with two live registrations' worth of nothing: all three are active."""
    world = saturated(seconds=25)
    world.at(10, lambda: world.restart("broker-2", SECOND_NS))

    record = world.run().group(GROUP)

    assert [host.state.lifecycle for host in world.hosts.values()] == [Lifecycle.ACTIVE] * 3
    assert [record.tracks[name].limits[-1] for name in NAMES] == [300] * 3


class _Careless(CoordinatorState):
    """A core that hands out the whole limit, as one with a bug in its policy would."""

    def handle(self, event: Event, now_ns: int) -> list[Instruction]:
        instructions = super().handle(event, now_ns)
        for group in self.limits():
            self.decider.in_force[group] = Rates(publish_messages=900)
        return [
            SetLocalLimits(instruction.group, Rates(publish_messages=900))
            if isinstance(instruction, SetLocalLimits)
            else instruction
            for instruction in instructions
        ]

    def validate(self, names: Collection[str] | None = None) -> None:
        """Pass: the promises of the world must find the mistake by themselves."""


def test_a_broken_promise_of_balanced_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the seed, the moment, the group and the figures."""
    monkeypatch.setattr("coordinator.simulation.host.CoordinatorState", _Careless)
    monkeypatch.setattr(CertificateWatch, "_check", lambda *_: None)

    with pytest.raises(PromiseBroken, match=r"seed 5, .* s, .*orders: .* 2,700 of 900"):
        saturated(5).run()


def test_eager_promises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same mistake is no broken promise of a policy that makes none."""
    monkeypatch.setattr("coordinator.simulation.host.CoordinatorState", _Careless)

    assert saturated(5, policy="eager").run().group(GROUP).max_sum_limits == pytest.approx(3.0)


class _Brittle(CoordinatorState):
    """A core that raises when a client connects."""

    def handle(self, event: Event, now_ns: int) -> list[Instruction]:
        if isinstance(event, ParticipantsChanged):
            raise KeyError("no such thing")
        return super().handle(event, now_ns)


class _Negative(CoordinatorState):
    """A core that puts another limit in force than it decided."""

    def handle(self, event: Event, now_ns: int) -> list[Instruction]:
        instructions = super().handle(event, now_ns)
        for each in instructions:
            if isinstance(each, SetLocalLimits):
                self.decider.in_force[each.group] = Rates(publish_messages=-1)
        return instructions


class _Adrift(CoordinatorState):
    """A core whose digest of a peer's rows drifts, without any decision."""

    def handle(self, event: Event, now_ns: int) -> list[Instruction]:
        instructions = super().handle(event, now_ns)
        for sender in self.usage._senders.values():
            sender.rows[MonitoringClass.PUBLISH].digest += 1
        return instructions


@pytest.mark.parametrize(
    ("core", "broken"),
    [
        (_Careless, r".* s, .*orders: certified to be at most 1,804, but 2,700 is in force"),
        (_Brittle, r".*broker-.: KeyError.*ParticipantsChanged"),
        # ``validate`` is asked after every event that made the core do something.
        (
            _Negative,
            r".*: InvariantBroken: The limit in force is the decided one \(.* local -1, .*",
        ),
        # Every second another core is checked whole, with all rows of all brokers.
        (_Adrift, r".* s, .* digest of a broker's rows is the sum"),
    ],
    ids=["certificate", "exception", "invariant", "digest"],
)
def test_what_a_core_breaks_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, core: type[CoordinatorState], broken: str
) -> None:
    """With the seed, the moment, the broker, and what was promised or raised."""
    monkeypatch.setattr("coordinator.simulation.host.CoordinatorState", core)

    with pytest.raises(PromiseBroken, match=f"seed 5, {broken}"):
        saturated(5).run()


@pytest.mark.parametrize(
    ("own", "above", "known"),
    [(0, 1_000, 0), (1_000, 0, 0), (None, 1_000, 1_000), (1_000, None, 1_000), (None, None, None)],
)
def test_the_limit_of_a_group_in_a_tree_is_the_lowest_above_it(
    own: int | None, above: int | None, known: int | None
) -> None:
    """A limit of 0 is the lowest of all, and no lack of one."""
    world = World(1, 1)
    world.plant(ResourceGroup("root", Rates(publish_messages=above)))
    world.plant(ResourceGroup("leaf", Rates(publish_messages=own), parent="root"))

    assert world._known_limit("leaf", Dimension.PUBLISH_MESSAGES) == known


def test_a_recording_splits_a_step_between_the_two_that_it_covers() -> None:
    """A host's step that ends 10 ms into the recording's passes a fifth there and the rest before."""
    record = GroupRecord(seconds=1)
    record.passed("a", 60_000_001, Passed(admitted=100, wanted=100, limit=5))

    assert record.admitted_per_step[:2] == [80, 20]
    assert series_of(record).admitted["a"] == [100]


def test_a_liar_multiplies_what_it_says_and_nothing_else() -> None:
    """Usage and demand are ten times the truth, the limit in force and the sequence are true."""
    world = saturated()
    heard = []
    world.listeners.append(lambda _, report: heard.append(report))
    world.run()
    report = next(report for report in heard if report.groups)

    lie = multiplied(report, factor=10)

    (truth,), (lied,) = report.groups[0].usages.values(), lie.groups[0].usages.values()
    assert lied.messages == 10 * truth.messages
    assert replace(lied, messages=truth.messages, messages_demand=truth.messages_demand) == truth
    assert replace(lie, groups=report.groups) == report
