"""The lines that ``make bench`` makes of simulated runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.figures import Figure
from benchmarks.sim import AS_SHIPPED, DEFAULT_POLICY, OURS, TARGETS, lines
from coordinator.core.transfer.policies import POLICIES
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.stage import Parameters
from coordinator.simulation.trials import Summary, run_many

LAWS = (OURS, "pulsar")


@pytest.fixture(scope="module")
def summary() -> Summary:
    """Any run's figures."""
    return run_many("S11", Parameters(brokers=2), seeds=1)


def lines_of(name: str, summary: Summary) -> dict[str, Figure]:
    """The lines of a scenario in which each law and policy overshoots by a part of its own."""
    summaries = {
        (law, policy): replace(summary, peak_overshoot=0.1 * place + 0.01 * number)
        for place, law in enumerate(LAWS)
        for number, policy in enumerate(POLICIES)
    }
    return {figure.name: figure for figure in lines(name, summaries)}


def test_peers_stand_beside_ours_under_the_same_policy(summary: Summary) -> None:
    """As shipped, ours with its default stands beside theirs at once."""
    found = lines_of("S3", summary)

    for number, policy in enumerate(POLICIES):
        line = found[f"sim/S3/{policy}/peak-overshoot"]
        assert (line.value, dict(line.peers)) == (0.01 * number, {"pulsar": 0.1 + 0.01 * number})
    shipped = found[f"sim/S3/{AS_SHIPPED}/peak-overshoot"]
    eager = 0.1 + 0.01 * POLICIES.index("eager")
    ours = 0.01 * POLICIES.index(DEFAULT_POLICY)
    assert (shipped.value, dict(shipped.peers)) == (ours, {"pulsar": eager})


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
