"""The laws and policies in the simulator: every scenario, ours under every policy beside the other laws.

A line is one figure of one scenario under one policy; ours is max-min, the other laws stand as peers, as
they act where they come from: at once (``eager``). All have the same arrivals with the same seed (what a
figure means: coordinator.simulation.metrics). ``pulsar-quota simulate`` has any law under any policy.

What demand that never rests does to a figure is not hidden: S9 and S21 have no settling time, only regret
against an ideal central bucket. None in a settling time is "not before the next event".

Targets are set for ``balanced``, the default, and ``strict``. No fairness is promised while brokers
cannot know of each other (S7, S17), while demand rotates in the rhythm of the reports (S9), and beside a
liar (S24). ``strict`` is refused where a broker has no gate (S23); its block shows what it would do.

``sim/saturated`` is WSO2's protocol (S25): buckets that stand one after the other, and beside the
overshoot how much longer a message waits than at one central bucket.

All of it takes a quarter of an hour on two cores, half of that S21's hour; ``ONLY=sim/S3`` is a part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from benchmarks.figures import Figure, Measurement
from coordinator.core.allocation.laws import ALL_LAWS
from coordinator.core.transfer.policies import POLICIES
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.stage import Parameters
from coordinator.simulation.trials import Summary, Trial, run_all
from deploy.demo.buckets import TARGETS as BUCKET_TARGETS

OURS: Final = "max-min"
DEFAULT_POLICY: Final = "balanced"
EAGER: Final = "eager"
SEEDS: Final = 1
LOSS_SEEDS: Final = 20
SIZES: Final = (2, 8, 32, 128)
GROUPS: Final = 100

PUBLISHED_LOSS_SETTLE: Final = {"hold": 4.0, "gated raise": 7.0, "escrow": 10.0}
"""Rounds to settle from a skewed start with 30 % of the reports lost, in an idealised model of each."""


@dataclass(frozen=True, slots=True)
class FigureKind:
    """One figure of a summary, and how it is to be read."""

    unit: str
    better: Literal["higher", "lower"]
    read: Callable[[Summary], float | None]


FIGURES: Final[Mapping[str, FigureKind]] = {
    "settle-median": FigureKind("rounds", "lower", lambda summary: summary.settle_rounds["median"]),
    "settle-worst": FigureKind("rounds", "lower", lambda summary: summary.settle_rounds["max"]),
    "reclaim": FigureKind("s", "lower", lambda summary: summary.reclaim_seconds["max"]),
    "peak-overshoot": FigureKind("parts of C", "lower", lambda summary: summary.peak_overshoot),
    "sum-of-limits": FigureKind("parts of C", "lower", lambda summary: summary.max_sum_limits),
    "utilisation": FigureKind("of min(D, C)", "higher", lambda summary: summary.utilisation),
    "aggregate-error": FigureKind("parts of C", "lower", lambda summary: summary.aggregate_error),
    "regret": FigureKind("of the central bucket", "lower", lambda summary: summary.regret),
    "jain": FigureKind("of u/a*", "higher", lambda summary: summary.jain),
    "smallest-share": FigureKind("u/a*", "higher", lambda summary: summary.min_share),
    "limit-changes": FigureKind("1/min", "lower", lambda summary: summary.changes_per_minute),
    "control-bytes": FigureKind(
        "B/s out per broker", "lower", lambda summary: summary.control_bytes_out
    ),
}
"""By the name that stands in a line."""

WSO2: Final[Mapping[int, Mapping[str, float]]] = {
    1: {"WSO2, in step every 50 ms": 0.131, "WSO2, every 10 ms": 0.037}
}
"""Published for the worst bucket of this length, 1,000 requests per second saturated for five minutes."""

_CRASHES: Final = frozenset({"S6"})
_LOSSLESS: Final = (
    "S1",
    "S2",
    "S3",
    "S4",
    "S5",
    "S8",
    "S10",
    "S11",
    "S12",
    "S13",
    "S16",
    "S22",
    "S23",
)
_FAIR: Final = (*_LOSSLESS, "S6", "S14", "S15", "S18", "S19", "S20")
_SETTLED_TARGETS: Final[Mapping[str, Mapping[str, float]]] = {
    "settle-median": dict.fromkeys(_LOSSLESS, 2),
    "settle-worst": dict.fromkeys(_LOSSLESS, 2),
    "reclaim": {"S6": 5},
    # Over the whole run, with what every change costs; steady use is what the aggregate error tells.
    "utilisation": dict.fromkeys(("S1", "S2", "S5"), 0.99) | {"S21": 0.97},
    "aggregate-error": dict.fromkeys(_FAIR, 0.01),
    "jain": dict.fromkeys(_FAIR, 0.999),
    "smallest-share": dict.fromkeys(_FAIR, 0.98),
    "limit-changes": dict.fromkeys(_LOSSLESS, 0),
}

TARGETS: Final[Mapping[str, Mapping[str, Mapping[str, float]]]] = {
    DEFAULT_POLICY: {
        **_SETTLED_TARGETS,
        "peak-overshoot": dict.fromkeys(SCENARIOS.keys() - {"S7", "S17"}, 0.05) | {"S11": 0},
    },
    "strict": {**_SETTLED_TARGETS, "sum-of-limits": dict.fromkeys(SCENARIOS, 1)},
}
"""By policy, figure and scenario."""


def trials(chosen: Trial, laws: Iterable[str] = ALL_LAWS) -> list[Trial]:
    """Return a trial for ours under every policy, and for each other of these laws as it acts."""
    settings = [(OURS, policy) for policy in POLICIES]
    settings += [(law, EAGER) for law in laws if law != OURS]
    return [
        replace(chosen, parameters=replace(chosen.parameters, law=law, policy=policy))
        for law, policy in settings
    ]


def scenario(name: str) -> Iterator[Figure]:
    """All figures of one scenario."""
    chosen = Trial(name, Parameters(SCENARIOS[name].brokers), SEEDS)
    yield from lines(name, list(run_all(trials(chosen), _processors())))


def lines(name: str, summaries: Sequence[Summary]) -> Iterator[Figure]:
    """The figures of a scenario."""
    for policy in POLICIES:
        for figure, kind in FIGURES.items():
            if _makes_sense(figure, name):
                target = TARGETS.get(policy, {}).get(figure, {}).get(name)
                line = f"sim/{name}/{policy}/{figure}"
                ours, peers = _beside(summaries, policy, kind.read)
                yield Figure(line, ours, kind.unit, kind.better, peers, target)


def _beside(
    summaries: Sequence[Summary], policy: str, read: Callable[[Summary], float | None]
) -> tuple[float | None, dict[str, float | None]]:
    """Return a figure of ours under a policy, and of the others."""
    (ours,) = (read(row) for row in summaries if (row.law, row.policy) == (OURS, policy))
    return ours, {row.law: read(row) for row in summaries if row.law != OURS}


def loss() -> Iterator[Figure]:
    """A skewed start with 30 % of the reports lost, over many seeds."""
    chosen = trials(Trial("S1", Parameters(loss=0.3), LOSS_SEEDS), laws=())
    medians, worst = {DEFAULT_POLICY: 4}, {DEFAULT_POLICY: 7, "strict": 10}
    for summary in run_all(chosen, _processors()):
        settle, policy = summary.settle_rounds, summary.policy
        name = f"sim/loss/{policy}"
        yield Figure(
            f"{name}/settle-median", settle["median"], "rounds", "lower", target=medians.get(policy)
        )
        yield Figure(
            f"{name}/settle-worst",
            settle["max"],
            "rounds",
            "lower",
            PUBLISHED_LOSS_SETTLE,
            worst.get(policy),
        )


def size() -> Iterator[Figure]:
    """From 2 brokers to 128 with a hundred groups, each on five of them."""
    chosen = [Trial("S20", Parameters(brokers, groups=GROUPS), SEEDS) for brokers in SIZES]
    for brokers, summary in zip(SIZES, run_all(chosen, _processors()), strict=True):
        for figure, target in (("settle-worst", 2.0), ("jain", 0.999), ("control-bytes", None)):
            kind = FIGURES[figure]
            name = f"sim/size/{brokers}/{figure}"
            yield Figure(name, kind.read(summary), kind.unit, kind.better, target=target)


def saturated() -> Iterator[Figure]:
    """WSO2's protocol: the worst bucket of each length, and the regret."""
    chosen = Trial("S25", Parameters(), SEEDS)
    yield from saturated_lines(list(run_all(trials(chosen), _processors())))


def saturated_lines(summaries: Sequence[Summary]) -> Iterator[Figure]:
    """The figures of WSO2's protocol."""
    for policy in POLICIES:
        name = f"sim/saturated/{policy}"
        for seconds, most in BUCKET_TARGETS.items():
            ours, peers = _beside(summaries, policy, _bucket_peak(seconds))
            target = None if policy == EAGER else most
            peers |= WSO2.get(seconds, {})
            yield Figure(f"{name}/bucket-{seconds}s", ours, "parts of C", "lower", peers, target)
        ours, peers = _beside(summaries, policy, lambda row: row.latency_regret_ms)
        about = "mean wait beyond that at one central bucket with the same arrivals"
        yield Figure(f"{name}/latency-regret", ours, "ms", "lower", peers, about=about)


MEASUREMENTS: Mapping[str, Measurement] = {
    "sim/saturated/": saturated,
    "sim/loss/": loss,
    "sim/size/": size,
    **{f"sim/{name}/": partial(scenario, name) for name in SCENARIOS},
}


def _makes_sense(figure: str, name: str) -> bool:
    if figure.startswith("settle-"):
        return SCENARIOS[name].settles
    return figure != "reclaim" or name in _CRASHES


def _bucket_peak(seconds: int) -> Callable[[Summary], float]:
    return lambda row: row.bucket_peaks[str(seconds)]


def _processors() -> int:
    return os.cpu_count() or 1
