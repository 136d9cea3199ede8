"""Runs of scenarios that more than one test judges: a process plays each of them once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from coordinator.core.usage.map import Verdict
from coordinator.simulation.experiment import Figures, measure, perform
from coordinator.simulation.stage import Parameters, Stage
from coordinator.simulation.trials import Summary, Trial, run_all


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of a run.

    Attributes:
        figures: of the first group.
        distrusted: the sidecars that capped or dropped reports as implausible.
    """

    figures: Figures
    distrusted: frozenset[str]


@cache
def played(scenario: str, parameters: Parameters) -> Run:
    """Play a scenario, unless this process has played it with these choices.

    Raises:
        PromiseBroken: something came about that must not.
    """
    stage, recording = perform(scenario, parameters)
    return Run(measure(stage, recording)[0], distrusted(stage))


def distrusted(stage: Stage) -> frozenset[str]:
    """Return the sidecars that capped or dropped a report as implausible."""
    dropped = {Verdict.FLOOD, Verdict.FAREWELL}
    return frozenset(
        name
        for name, host in stage.world.hosts.items()
        if host.state.plausibility.times_capped or dropped & host.state.reports_dropped.keys()
    )


def run_many(scenario: str, parameters: Parameters, seeds: int) -> Summary:
    """Run a scenario with the seeds 0 to ``seeds - 1``, one after the other.

    Raises:
        PromiseBroken: something came about that must not; the message names the seed.
    """
    return next(run_all([Trial(scenario, parameters, seeds)], processes=1))
