"""The default policy meets its targets in the simulator, with the seeds that show it."""

from __future__ import annotations

import pytest

from coordinator.simulation.experiment import Figures
from coordinator.simulation.stage import Parameters
from coordinator.simulation.trials import settle_summary
from tests.simulation.runs import played

SEEDS = 3


def runs(scenario: str, seeds: int = SEEDS, loss: float | None = None) -> list[Figures]:
    """The figures of a scenario for several seeds, with max-min and balanced."""
    return [played(scenario, Parameters(seed=seed, loss=loss)).figures for seed in range(seeds)]


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["S1", "S2", "S3", "S4", "S5", "S10", "S11", "S12", "S13"])
def test_lossless_changes_settle_within_two_rounds(scenario: str) -> None:
    """Skew, steps, joiners, leavers, crowds, a cold start, returners and new limits."""
    settles = [rounds for run in runs(scenario) for rounds in run.settle_rounds]

    assert settles
    assert all(rounds is not None and rounds <= 2 for rounds in settles), settles


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["S1", "S3", "S10"])
def test_with_every_third_report_lost_changes_settle_within_seven_rounds(scenario: str) -> None:
    """The median of 20 seeds is at most four rounds, the worst at most seven."""
    settles = [rounds for run in runs(scenario, 20, 0.3) for rounds in run.settle_rounds]

    summary = settle_summary(settles)
    assert summary["median"] is not None
    assert summary["median"] <= 4
    assert summary["max"] is not None
    assert summary["max"] <= 7


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["S1", "S3", "S4", "S10", "S11", "S12", "S13"])
def test_the_worst_second_is_at_most_five_percent_over(scenario: str) -> None:
    """Demand, membership and the limit may change while reports arrive."""
    assert max(run.peak_overshoot for run in runs(scenario)) <= 0.05


@pytest.mark.verify
@pytest.mark.slow
def test_a_cold_start_of_all_never_passes_more_than_the_limit() -> None:
    """The traffic stays below it, and so do the limits in force at any instant."""
    cold = runs("S11", seeds=20)

    assert max(run.peak_overshoot for run in cold) <= 0.0
    assert max(run.max_sum_limits for run in cold) <= 1.0


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["S1", "S2", "S3", "S4", "S12"])
def test_steady_shares_are_fair(scenario: str) -> None:
    """Jain's index and the smallest share, ten rounds after a change."""
    fair = runs(scenario)

    assert min(run.jain for run in fair) >= 0.999
    assert min(run.min_share for run in fair) >= 0.98


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["S1", "S3", "S4", "S10", "S13", "S17"])
def test_limits_come_to_rest(scenario: str) -> None:
    """At constant demand no limit changes any more."""
    assert max(run.changes_per_minute for run in runs(scenario, seeds=3)) == 0.0


@pytest.mark.verify
@pytest.mark.slow
def test_a_dead_brokers_part_is_back_after_the_session_and_one_round() -> None:
    """The session timeout is 4 s."""
    reclaims = [seconds for run in runs("S6") for seconds in run.reclaim_seconds]

    assert len(reclaims) == SEEDS
    assert max(reclaims) <= 5.0


@pytest.mark.verify
@pytest.mark.slow
def test_an_hour_of_mishaps_leaves_the_limit_in_use() -> None:
    """With a mishap a minute 97 % of the possible traffic passes, and no broker starves for long."""
    (soak,) = runs("S21", seeds=1)

    assert soak.utilisation >= 0.97
    assert soak.starvation_seconds <= 5
    assert soak.regret <= 0.03
