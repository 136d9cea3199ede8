"""The lines that ``make bench`` makes of simulated runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.figures import Figure
from benchmarks.sim import EAGER, OURS, TARGETS, lines, saturated_lines, trials
from coordinator.core.allocation.laws import ALL_LAWS
from coordinator.core.transfer.policies import POLICIES
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.stage import Parameters
from coordinator.simulation.trials import Summary, Trial
from tests.simulation.runs import run_many


@pytest.fixture(scope="module")
def summary() -> Summary:
    """Any run's figures."""
    return run_many("S11", Parameters(brokers=2), seeds=1)


def played(summary: Summary) -> list[Summary]:
    """Ours under every policy and Pulsar's law at once, each with an overshoot of its own."""
    settings = [*((OURS, policy) for policy in POLICIES), ("pulsar", EAGER)]
    return [
        replace(summary, law=law, policy=policy, peak_overshoot=0.01 * number)
        for number, (law, policy) in enumerate(settings)
    ]


def lines_of(name: str, summary: Summary) -> dict[str, Figure]:
    """The lines of a scenario."""
    return {figure.name: figure for figure in lines(name, played(summary))}


def test_ours_under_every_policy_stands_beside_the_others_as_they_act(summary: Summary) -> None:
    """A trial for each, and a line for each policy."""
    found = lines_of("S3", summary)

    for number, policy in enumerate(POLICIES):
        line = found[f"sim/S3/{policy}/peak-overshoot"]
        assert (line.value, dict(line.peers)) == (0.01 * number, {"pulsar": 0.01 * len(POLICIES)})
    chosen = [each.parameters for each in trials(Trial("S3", Parameters(), 1))]
    assert [each.policy for each in chosen if each.law == OURS] == list(POLICIES)
    assert {each.law for each in chosen if each.policy == EAGER} == set(ALL_LAWS)


def test_what_never_rests_has_no_settling_time_but_regret(summary: Summary) -> None:
    """S9 rotates for ever; S3 settles; only a crash is reclaimed."""
    rotating, step = lines_of("S9", summary), lines_of("S3", summary)

    assert not [name for name in rotating if "settle" in name]
    assert "sim/S9/strict/regret" in rotating
    assert "sim/S3/strict/settle-worst" in step
    assert not [name for name in step if "reclaim" in name]


def test_targets_are_of_what_is_measured(summary: Summary) -> None:
    """Every target is that of a line: no policy, figure or scenario is misspelt."""
    for policy, of_figures in TARGETS.items():
        for figure, of_scenarios in of_figures.items():
            for name, target in of_scenarios.items():
                assert name in SCENARIOS
                assert lines_of(name, summary)[f"sim/{name}/{policy}/{figure}"].target == target


def test_the_buckets_of_a_saturated_run_stand_beside_what_wso2_measured(summary: Summary) -> None:
    """Four lengths and the latency regret, the eager policy without a target."""
    buckets = {"1": 0.006, "5": 0.002, "10": 0.001, "20": 0.0}
    found = [replace(each, bucket_peaks=buckets, latency_regret_ms=2.0) for each in played(summary)]

    lines_by_name = {figure.name: figure for figure in saturated_lines(found)}

    assert len(lines_by_name) == 5 * len(POLICIES)
    second = lines_by_name["sim/saturated/balanced/bucket-1s"]
    assert (second.value, second.target, second.met) == (0.006, 0.01, True)
    assert dict(second.peers) == {
        "pulsar": 0.006,
        "WSO2, in step every 50 ms": 0.131,
        "WSO2, every 10 ms": 0.037,
    }
    assert lines_by_name["sim/saturated/eager/bucket-1s"].target is None
    assert lines_by_name["sim/saturated/balanced/latency-regret"].value == 2.0
