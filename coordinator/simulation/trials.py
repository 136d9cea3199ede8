"""A scenario for many seeds, and many such trials at once, put together into one line of figures each.

The figures of the seeds are put together from the side that looks worse: the largest overshoot, the
smallest share, the median and the largest settling time. Means would hide exactly the runs that matter.
Means are only what says how much, not how well: the utilisation and the control traffic.

Runs know nothing of each other, so ``run_all`` spreads them over the processors; what comes out is the
same for any number of them.
"""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

from coordinator.simulation.experiment import Figures, measure, perform
from coordinator.simulation.stage import Parameters


@dataclass(frozen=True, slots=True)
class Trial:
    """A scenario with its parameters, to be run with the seeds 0 to ``seeds - 1``."""

    scenario: str
    parameters: Parameters
    seeds: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A trial's figures; see metrics.py for the words. The fields are those of ``simulate --json``.

    ``settle_rounds`` are the median and the largest over all events of all seeds; None is "did not
    settle", and both are None for a scenario without events. ``reclaim_seconds`` are None when no broker
    died, or nothing was reclaimed. Control bytes are per broker and second. ``bucket_peaks`` are by the
    length of the buckets in seconds, "1" to "20", as far as they fit into the run.
    """

    scenario: str
    law: str
    policy: str
    brokers: int
    loss: float
    delay: float
    seeds: int
    settle_rounds: dict[str, float | None]
    peak_overshoot: float
    max_sum_limits: float
    utilisation: float
    jain: float
    min_share: float
    time_over_1_05: float
    dimension: str
    aggregate_error: float
    time_over_1_01: float
    peak_overshoot_10s: float
    overshoot_volume: float
    mean_when_over: float
    regret: float
    oscillation: float
    changes_per_minute: float
    starvation_seconds: int
    reclaim_seconds: dict[str, float | None]
    control_bytes_out: float
    control_bytes_in: float
    bucket_peaks: dict[str, float]
    latency_regret_ms: float


@dataclass(frozen=True, slots=True)
class _Run:
    """The result of one seed; ``loss`` and ``delay`` are those in force, chosen or the scenario's own."""

    loss: float
    delay_rounds: float
    figures: list[Figures]


def run_all(trials: Iterable[Trial], processes: int) -> Iterator[Summary]:
    """Run every trial and give the summaries in the same order, each as soon as it is there.

    Args:
        trials: what to run.
        processes: how many runs go on at a time; with 1 they go on in this process.

    Raises:
        PromiseBroken: something came about that must not; the message names the seed.
    """
    todo = list(trials)
    seeds = [
        (trial.scenario, replace(trial.parameters, seed=seed))
        for trial in todo
        for seed in range(trial.seeds)
    ]
    if processes == 1 or len(seeds) == 1:
        yield from _summaries(todo, map(_run, seeds))
        return
    spawn = multiprocessing.get_context("spawn")  # a fork would inherit other threads' locks
    pool = ProcessPoolExecutor(processes, mp_context=spawn)
    try:
        yield from _summaries(todo, pool.map(_run, seeds))
    finally:
        pool.shutdown(cancel_futures=True)


def settle_summary(settles: Iterable[int | None]) -> dict[str, float | None]:
    """Median and largest settling time; what did not settle is larger than everything."""
    return _median_and_max([float("inf") if rounds is None else rounds for rounds in settles])


def _run(chosen: tuple[str, Parameters]) -> _Run:
    stage, recording = perform(*chosen)
    return _Run(stage.loss, stage.delay_rounds, measure(stage, recording))


def _summaries(trials: Sequence[Trial], runs: Iterable[_Run]) -> Iterator[Summary]:
    remaining = iter(runs)
    for trial in trials:
        yield _summary(trial, list(islice(remaining, trial.seeds)))


def _summary(trial: Trial, runs: Sequence[_Run]) -> Summary:
    figures = [each for run in runs for each in run.figures]

    def largest(read: Callable[[Figures], float], digits: int = 4) -> float:
        return round(max(map(read, figures)), digits)

    def smallest(read: Callable[[Figures], float]) -> float:
        return round(min(map(read, figures)), 4)

    def mean(read: Callable[[Figures], float], digits: int = 4) -> float:
        return round(statistics.fmean(map(read, figures)), digits)

    parameters = trial.parameters
    return Summary(
        scenario=trial.scenario,
        law=parameters.law,
        policy=parameters.policy,
        brokers=parameters.brokers,
        loss=runs[-1].loss,
        delay=runs[-1].delay_rounds,
        seeds=trial.seeds,
        settle_rounds=settle_summary(rounds for each in figures for rounds in each.settle_rounds),
        peak_overshoot=largest(lambda each: each.peak_overshoot),
        max_sum_limits=largest(lambda each: each.max_sum_limits, 6),
        utilisation=mean(lambda each: each.utilisation),
        jain=smallest(lambda each: each.jain),
        min_share=smallest(lambda each: each.min_share),
        time_over_1_05=largest(lambda each: each.time_over_1_05),
        dimension=parameters.dimension.value,
        aggregate_error=largest(lambda each: each.aggregate_error),
        time_over_1_01=largest(lambda each: each.time_over_1_01),
        peak_overshoot_10s=largest(lambda each: each.peak_overshoot_10s),
        overshoot_volume=largest(lambda each: each.overshoot_volume),
        mean_when_over=largest(lambda each: each.mean_when_over),
        regret=largest(lambda each: each.regret),
        oscillation=largest(lambda each: each.oscillation),
        changes_per_minute=largest(lambda each: each.changes_per_minute, 1),
        starvation_seconds=max(each.starvation_seconds for each in figures),
        reclaim_seconds=_median_and_max(
            [round(seconds, 2) for run in runs for seconds in run.figures[0].reclaim_seconds]
        ),
        control_bytes_out=mean(lambda each: each.bytes_out_per_second, 1),
        control_bytes_in=mean(lambda each: each.bytes_in_per_second, 1),
        bucket_peaks=_worst_buckets(figures),
        latency_regret_ms=largest(lambda each: 1_000 * each.latency_regret_s, 3),
    )


def _worst_buckets(figures: Sequence[Figures]) -> dict[str, float]:
    """The worst bucket of each length that every run had."""
    lengths = set.intersection(*(set(each.bucket_peaks) for each in figures))
    return {
        str(seconds): round(max(each.bucket_peaks[seconds] for each in figures), 5)
        for seconds in sorted(lengths)
    }


def _median_and_max(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"median": None, "max": None}
    found = {"median": statistics.median_low(values), "max": max(values)}
    return {name: None if value == float("inf") else value for name, value in found.items()}
