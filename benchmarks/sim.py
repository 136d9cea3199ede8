"""What the laws and policies do in the simulator: every scenario, every law, every policy.

A line is one figure of one scenario under one policy: ours is max-min, the others stand as peers. All are
run with the same seed (what a figure means: coordinator.simulation.metrics). S20 and S21 take
long and are run for max-min only.

Targets are set where one is promised: rotation in the rhythm of the reports (S9), a mixed fleet (S23)
and a lying reporter (S24) have none, and neither has a partition (S17), in which two sides cannot know
of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from benchmarks.figures import Figure, Measurement
from coordinator.core.laws import ALL_LAWS
from coordinator.core.policies import POLICIES
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.stage import Parameters
from coordinator.simulation.trials import Summary, run_many

OURS: Final = "max-min"
DEFAULT_POLICY: Final = "balanced"
SEEDS: Final = 1
LOSS_SEEDS: Final = 20
LONG: Final = frozenset({"S20", "S21"})

PUBLISHED_LOSS_SETTLE: Final = {"hold": 4.0, "gated raise": 7.0, "escrow": 10.0}
"""Rounds to settle from a skewed start with 30 % of the reports lost, in an idealised model of each."""

TARGETS: Final[Mapping[str, Mapping[str, float]]] = {
    "settle-median": dict.fromkeys(("S1", "S2", "S3", "S4", "S5", "S10", "S11", "S12", "S13"), 2),
    "settle-worst": dict.fromkeys(("S1", "S2", "S3", "S4", "S5", "S10", "S11", "S12", "S13"), 2),
    "peak-overshoot": dict.fromkeys((f"S{n}" for n in range(1, 23) if n not in {9, 11, 17}), 0.05)
    | {"S11": 0.0},
    "utilisation": dict.fromkeys(("S1", "S2", "S5", "S8"), 0.99) | {"S21": 0.97},
    "jain": dict.fromkeys(("S1", "S2", "S3", "S5", "S8", "S10", "S12", "S13", "S20"), 0.999),
    "smallest-share": dict.fromkeys(
        ("S1", "S2", "S3", "S5", "S8", "S10", "S12", "S13", "S20"), 0.98
    ),
}
"""By figure and scenario, for the default policy."""

_FIGURES: Final[Mapping[str, tuple[str, bool, Callable[[Summary], float | None]]]] = {
    "settle-median": ("rounds", False, lambda summary: summary.settle_rounds["median"]),
    "settle-worst": ("rounds", False, lambda summary: summary.settle_rounds["max"]),
    "peak-overshoot": ("parts of C", False, lambda summary: summary.peak_overshoot),
    "utilisation": ("of min(D, C)", True, lambda summary: summary.utilisation),
    "jain": ("of u/a*", True, lambda summary: summary.jain),
    "smallest-share": ("u/a*", True, lambda summary: summary.min_share),
}


def scenario(name: str) -> Iterator[Figure]:
    """All figures of one scenario."""
    brokers = SCENARIOS[name].brokers
    laws = [OURS] if name in LONG else list(ALL_LAWS)
    for policy in POLICIES:
        summaries = {
            law: run_many(name, Parameters(brokers=brokers, law=law, policy=policy), SEEDS)
            for law in laws
        }
        for figure, (unit, more_is_better, read) in _FIGURES.items():
            values = {law: read(summary) for law, summary in summaries.items()}
            target = TARGETS[figure].get(name) if policy == DEFAULT_POLICY else None
            ours = values.pop(OURS)
            yield Figure(
                f"sim/{name}/{policy}/{figure}",
                ours,
                unit,
                "higher" if more_is_better else "lower",
                values,
                target,
            )


def loss() -> Iterator[Figure]:
    """A skewed start with 30 % of the reports lost, over many seeds."""
    for policy in POLICIES:
        parameters = Parameters(law=OURS, policy=policy, loss=0.3)
        settle = run_many("S1", parameters, LOSS_SEEDS).settle_rounds
        promised = policy == DEFAULT_POLICY
        yield Figure(
            f"sim/loss/{policy}/settle-median",
            settle["median"],
            "rounds",
            "lower",
            target=4 if promised else None,
        )
        yield Figure(
            f"sim/loss/{policy}/settle-worst",
            settle["max"],
            "rounds",
            "lower",
            PUBLISHED_LOSS_SETTLE,
            target=7 if promised else None,
        )


MEASUREMENTS: Mapping[str, Measurement] = {
    "sim/loss/": loss,
    **{f"sim/{name}/": partial(scenario, name) for name in SCENARIOS},
}
