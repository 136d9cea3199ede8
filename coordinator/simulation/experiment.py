"""One run of a scenario, and its figures; trials.py runs many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.simulation import metrics
from coordinator.simulation.recording import GroupRecord, RunRecording
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.stage import Parameters, Stage
from coordinator.simulation.valve import BURST_NS, STEP_NS

_GRACE_ROUNDS = 10
_STEPS_PER_SECOND = NANOS_PER_SECOND // STEP_NS


@dataclass(frozen=True, slots=True)
class Figures:
    """One group in one run; see metrics.py for the words.

    ``settle_rounds`` has an entry per event, None where it did not settle. Fairness, the error
    of the aggregate, oscillation and changes are those of the steady seconds.
    """

    settle_rounds: tuple[int | None, ...]
    peak_overshoot: float
    peak_overshoot_10s: float
    overshoot_volume: float
    time_over_1_01: float
    time_over_1_05: float
    mean_when_over: float
    max_sum_limits: float
    utilisation: float
    aggregate_error: float
    jain: float
    min_share: float
    regret: float
    oscillation: float
    changes_per_minute: float
    starvation_seconds: int
    reclaim_seconds: tuple[float, ...]
    bytes_out_per_second: float
    bytes_in_per_second: float
    bucket_peaks: Mapping[int, float]
    latency_regret_s: float


def perform(scenario: str, parameters: Parameters) -> tuple[Stage, RunRecording]:
    """Run a scenario once.

    Raises:
        PromiseBroken: something came about that must not.
    """
    stage = SCENARIOS[scenario].build(parameters)
    return stage, stage.world.run()


def measure(stage: Stage, recording: RunRecording) -> list[Figures]:
    """The figures of every limited dimension of every group of a run."""
    return [_measure_group(stage, recording, record) for record in recording.records.values()]


def series_of(record: GroupRecord) -> metrics.GroupSeries:
    """A group's record as the metrics take it."""
    middles = [
        second * NANOS_PER_SECOND + NANOS_PER_SECOND // 2 for second in range(record.seconds)
    ]
    return metrics.GroupSeries(
        limits=[record.limit_at(middle) for middle in middles],
        admitted={broker: track.admitted for broker, track in record.tracks.items()},
        wanted={broker: track.wanted for broker, track in record.tracks.items()},
        weights={broker: track.weights for broker, track in record.tracks.items()},
    )


def allowed_per_step(record: GroupRecord) -> list[float]:
    """Return the traffic that the group's limit allows in every step.

    A lower limit counts from the step after the one in which it was written: it takes a read of the
    store to reach the sidecars, and a step is the finest that is looked at.
    """
    limits = [record.limit_at(step * STEP_NS) for step in range(len(record.admitted_per_step))]
    before = [limits[0], *limits[:-1]]
    return [max(pair) / _STEPS_PER_SECOND for pair in zip(limits, before, strict=True)]


def central_per_step(record: GroupRecord, allowed: Sequence[float]) -> metrics.CentralBucket:
    """Return, step by step, what one central bucket would do with the same arrivals."""
    return metrics.central_bucket(
        record.wanted_per_step, allowed, window=1, burst=BURST_NS // STEP_NS
    )


def steady_seconds(stage: Stage) -> list[range]:
    """Return the stretches of seconds in which no limit should change any more.

    They begin ten rounds after an event, and where reports are d rounds late after 10 (1 + d): no
    sidecar acts on an event before a report of it has come.
    """
    steady = []
    for second in sorted({*stage.events, stage.measured_from}):
        calm = stage.calm_after(second)
        grace = _GRACE_ROUNDS * stage.round_seconds * (1 + stage.lateness_at(second))
        steady.append(range(min(calm.start + round(grace), calm.stop), calm.stop))
    return [part for part in steady if part]


def _measure_group(stage: Stage, recording: RunRecording, record: GroupRecord) -> Figures:
    series = series_of(record)
    measured = range(stage.measured_from, stage.seconds)
    steady = steady_seconds(stage)
    found = [value for part in steady for value in metrics.shares(series, part).values()]
    allowed = allowed_per_step(record)
    first_step = stage.measured_from * _STEPS_PER_SECOND
    central = central_per_step(record, allowed)
    in_force = {broker: track.limits for broker, track in record.tracks.items()}
    admitted = record.admitted_per_step
    brokers = max(1, len(record.tracks))
    return Figures(
        settle_rounds=_settles(stage, series),
        peak_overshoot=metrics.peak_overshoot(admitted, allowed, _STEPS_PER_SECOND, first_step),
        peak_overshoot_10s=metrics.peak_overshoot(
            admitted, allowed, 10 * _STEPS_PER_SECOND, first_step
        ),
        overshoot_volume=metrics.overshoot_volume(series, measured),
        time_over_1_01=metrics.time_over(series, measured, 1.01),
        time_over_1_05=metrics.time_over(series, measured, 1.05),
        mean_when_over=metrics.mean_when_over(series, measured),
        max_sum_limits=record.max_sum_limits,
        utilisation=metrics.utilisation(series, measured),
        aggregate_error=max(
            (metrics.aggregate_error(series, part) for part in steady), default=0.0
        ),
        jain=min((_jain(series, part) for part in steady), default=1.0),
        min_share=min(found, default=1.0),
        regret=metrics.regret(admitted[first_step:], central.admitted[first_step:]),
        oscillation=max(
            (metrics.oscillation(in_force, series.limits, part) for part in steady), default=0.0
        ),
        changes_per_minute=_changes_per_minute(record, steady),
        starvation_seconds=metrics.starvation(series, measured),
        reclaim_seconds=tuple(
            (back - crash) / NANOS_PER_SECOND for crash, back in recording.reclaims
        ),
        bytes_out_per_second=recording.control.bytes_out / stage.seconds / brokers,
        bytes_in_per_second=recording.control.bytes_in / stage.seconds / brokers,
        bucket_peaks=_bucket_peaks(admitted, allowed, first_step),
        latency_regret_s=max(
            (_latency_regret_s(record, central, part) for part in _stretches(stage)), default=0.0
        ),
    )


def _bucket_peaks(
    admitted: Sequence[int], allowed: Sequence[float], first_step: int
) -> dict[int, float]:
    """Return the worst bucket of each length that fits into the run."""
    found = {
        seconds: metrics.bucket_peak(admitted, allowed, seconds * _STEPS_PER_SECOND, first_step)
        for seconds in metrics.BUCKETS_S
    }
    return {seconds: peak for seconds, peak in found.items() if peak is not None}


def _stretches(stage: Stage) -> list[range]:
    """The stretches between events, from the first second that is measured."""
    calm = [stage.calm_after(second) for second in sorted({*stage.events, stage.measured_from})]
    return [part for part in calm if part]


def _latency_regret_s(record: GroupRecord, central: metrics.CentralBucket, seconds: range) -> float:
    steps = slice(seconds.start * _STEPS_PER_SECOND, seconds.stop * _STEPS_PER_SECOND)
    own = metrics.mean_wait(record.waiting_per_step[steps], record.admitted_per_step[steps])
    ideal = metrics.mean_wait(central.waiting[steps], central.admitted[steps])
    return (own - ideal) / _STEPS_PER_SECOND


def _settles(stage: Stage, series: metrics.GroupSeries) -> tuple[int | None, ...]:
    calm = [stage.calm_after(event) for event in stage.events]
    return tuple(
        metrics.settle(series, part.start, part.stop, round_seconds=stage.round_seconds)
        for part in calm
    )


def _jain(series: metrics.GroupSeries, seconds: range) -> float:
    found = list(metrics.shares(series, seconds).values())
    return metrics.jain(found) if found else 1.0


def _changes_per_minute(record: GroupRecord, steady: list[range]) -> float:
    whole = sum(len(part) for part in steady)
    if not whole:
        return 0.0
    changes = sum(
        part.start <= change_ns // NANOS_PER_SECOND < part.stop
        for part in steady
        for change_ns in record.changes_ns
    )
    return changes * 60 / whole
