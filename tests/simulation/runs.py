"""Runs of scenarios that more than one test judges: a process plays each of them once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from coordinator.core.model import Suspicion
from coordinator.insight.model import explain
from coordinator.simulation.experiment import Figures, measure, perform
from coordinator.simulation.stage import Parameters, Stage

Suspects = dict[str, set[tuple[str, Suspicion]]]
"""By sidecar, the brokers that it names at the end, with its suspicions."""


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of a run.

    Attributes:
        figures: of the first group.
        suspects: at the end.
    """

    figures: Figures
    suspects: Suspects


@cache
def played(scenario: str, parameters: Parameters) -> Run:
    """Play a scenario, unless this process has played it with these choices.

    Raises:
        PromiseBroken: something came about that must not.
    """
    stage, recording = perform(scenario, parameters)
    return Run(measure(stage, recording)[0], suspects_of(stage))


def suspects_of(stage: Stage) -> Suspects:
    """Return the suspects that each sidecar names, with their suspicions."""
    return {
        name: {
            (each.broker, each.reason) for each in explain.health(host.state, host.now_ns).suspects
        }
        for name, host in stage.world.hosts.items()
    }
