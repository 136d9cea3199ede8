"""Every scenario can be told, with every policy, and no promise is broken in any of them."""

from __future__ import annotations

import pytest

from coordinator.core.allocation.laws import ALL_LAWS
from coordinator.core.model import NANOS_PER_SECOND, Dimension, Rates
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.policies import POLICIES
from coordinator.simulation import demand_scenarios, failure_scenarios, fleet_scenarios
from coordinator.simulation.experiment import Figures, measure, perform, series_of
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.stage import GROUP, Parameters
from coordinator.simulation.traffic import Constant
from coordinator.simulation.trials import settle_summary
from coordinator.simulation.world import World
from deploy.demo.buckets import TARGETS
from tests.simulation.runs import played, run_many

LONG = {"S20", "S21", "S25"}
QUICK = [name for name in SCENARIOS if name not in LONG]
QUICKEST = ("S1", "S2", "S3", "S4", "S5", "S6", "S11", "S12", "S18", "S19", "S22", "S23")
"""Those that take two seconds or less under balanced."""
STARTED_S = 5
"""The second by which every broker has started and holds its first limit."""


def figures(scenario: str, seed: int = 0, **chosen: float | str | Dimension) -> Figures:
    """One run's figures of the first group."""
    parameters = Parameters(brokers=SCENARIOS[scenario].brokers, seed=seed, **chosen)  # type: ignore[arg-type]
    return played(scenario, parameters).figures


def test_the_table_has_all_25() -> None:
    """By name, in order, each with a line that says what happens."""
    assert list(SCENARIOS) == [f"S{number}" for number in range(1, 26)]
    assert all(scenario.description.endswith(".") for scenario in SCENARIOS.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "policy"),
    [
        pytest.param(
            scenario,
            policy,
            marks=() if policy == "balanced" and scenario in QUICKEST else pytest.mark.verify,
        )
        for scenario in QUICK
        for policy in POLICIES
    ],
)
def test_no_promise_is_broken(scenario: str, policy: str) -> None:
    """Every scenario under every policy: cores raise nothing, sums hold, traffic flows."""
    assert 0.3 < figures(scenario, policy=policy).utilisation <= 1.0


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize(("number", "scenario"), list(enumerate(SCENARIOS)))
def test_every_law_can_be_told(number: int, scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into the fifth second after the first event, those of other rate limiters too: traffic flows.

    Policies go round: each meets every law and every scenario.
    """
    # The first limits settle within two rounds; the longer warm-up is there for what is measured.
    for module in (demand_scenarios, failure_scenarios, fleet_scenarios):
        monkeypatch.setattr(module, "WARM_UP_S", STARTED_S)
    for turn, law in enumerate(ALL_LAWS, number):
        policy = POLICIES[turn % len(POLICIES)]
        parameters = Parameters(brokers=3, law=law, policy=policy, groups=5)
        stage = SCENARIOS[scenario].build(parameters)
        begin = min(stage.events, default=STARTED_S)
        stage.world.schedule.run_until((begin + 5) * NANOS_PER_SECOND)

        (record, *_) = stage.world.recording.records.values()
        assert sum(record.admitted_per_step) > 0, law


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("brokers", [2, 3, 8])
@pytest.mark.parametrize("scenario", ["S1", "S4", "S8", "S17", "S19"])
def test_scenarios_fit_other_numbers_of_brokers(scenario: str, brokers: int) -> None:
    """Every scenario runs with two brokers or more, and measures a share."""
    stage, recording = perform(scenario, Parameters(brokers=brokers))

    assert len(stage.names) == brokers
    assert measure(stage, recording)[0].utilisation > 0.5


@pytest.mark.verify
def test_a_summary_is_the_worst_of_its_seeds() -> None:
    """Largest overshoot and smallest share over the runs, mean utilisation."""
    runs = [figures("S10", seed) for seed in range(3)]

    summary = run_many("S10", Parameters(), seeds=3)

    assert summary.peak_overshoot == round(max(run.peak_overshoot for run in runs), 4)
    assert summary.min_share == round(min(run.min_share for run in runs), 4)
    assert summary.utilisation == round(sum(run.utilisation for run in runs) / 3, 4)
    settles = [rounds for run in runs for rounds in run.settle_rounds]
    assert summary.settle_rounds == settle_summary(settles)


def test_what_did_not_settle_is_larger_than_everything() -> None:
    """The largest of 1, 2 and never is never; of nothing there is nothing."""
    assert settle_summary([1, None, 2]) == {"median": 2, "max": None}
    assert settle_summary([3, 1]) == {"median": 1, "max": 3}
    assert settle_summary([]) == {"median": None, "max": None}


@pytest.mark.slow
@pytest.mark.parametrize("dimension", Dimension)
def test_every_dimension_can_be_limited(dimension: Dimension) -> None:
    """A step of demand settles alike in messages, in bytes at 100 MB/s, published and dispatched."""
    step = figures("S3", dimension=dimension)

    assert all(rounds is not None and rounds <= 2 for rounds in step.settle_rounds)
    assert step.utilisation > 0.99
    assert step.peak_overshoot <= 0.01


def test_shares_go_by_topics_where_the_group_says_so() -> None:
    """S13 ends with weights: one topic of thirteen gets a thirteenth, three get three."""
    stage, recording = perform("S13", Parameters())

    record = recording.group(GROUP)
    last = {name: track.admitted[-1] for name, track in record.tracks.items()}
    first, *others = stage.names
    assert last[first] == pytest.approx(stage.limit / 13, abs=2)
    assert all(last[name] == pytest.approx(3 * stage.limit / 13, abs=2) for name in others)


def test_messages_and_bytes_are_both_limited_at_once() -> None:
    """Small messages meet the one limit, large ones the other, and neither sum is above its limit.

    But for what the buckets have saved up: in a second as in all of them together.
    """
    world = World(seed=1, seconds=20)
    limits = Rates(publish_messages=1_000, publish_bytes=1_000_000)
    world.define(GROUP, limits, law="max-min", policy="balanced")
    for number, size in enumerate((100, 100, 10_000, 10_000)):
        world.start(f"broker-{number}", {GROUP: Constant(5_000, message_bytes=size)})

    recording = world.run()

    for dimension in (Dimension.PUBLISH_MESSAGES, Dimension.PUBLISH_BYTES):
        series = series_of(recording.group(GROUP, dimension))
        limit = limits.of(dimension)
        assert limit is not None
        saved_up = limit * CoreSettings(broker="any").burst_ns // NANOS_PER_SECOND
        admitted = [series.total_admitted(second) for second in range(20)]
        assert max(admitted) <= limit + saved_up
        assert sum(admitted) <= 20 * limit + saved_up
    in_bytes = series_of(recording.group(GROUP, Dimension.PUBLISH_BYTES))
    assert in_bytes.total_admitted(19) > 500_000


@pytest.mark.verify
@pytest.mark.slow
def test_five_minutes_saturated_keep_the_targets_of_every_bucket() -> None:
    """WSO2's protocol; and no message waits longer than a client's window beyond one central bucket."""
    found = figures("S25")

    assert list(found.bucket_peaks) == [1, 5, 10, 20]
    for seconds, target in TARGETS.items():
        assert found.bucket_peaks[seconds] <= target
    assert 0 <= found.latency_regret_s < 0.05
