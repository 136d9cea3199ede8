"""``simulate --record DIR``: a run's tables, as its sidecars would have written them.

The same recorder as a sidecar's, one per process that the scenario starts; its wall clock is the run's
true time, from ``STARTED_NS`` on. Each run is a cluster of its own, so that one directory can hold many:
``pulsar-quota report DIR --cluster S6.max-min.balanced``. A crashed sidecar's last rows are there, too:
a simulated disk is as fast as needed. Brokers without a sidecar (S23) record nothing. Simulated groups
have no namespaces, so that table is missing.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from coordinator.adapters.recorder.files import RecordedFiles
from coordinator.adapters.recorder.recorder import ParquetRecorder
from coordinator.adapters.recorder.writer import RecorderBounds
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.simulation.recording import RunRecording
from coordinator.simulation.scenarios import SCENARIOS
from coordinator.simulation.stage import Stage
from coordinator.simulation.trials import Trial

STARTED_NS = 1_800_000_000 * NANOS_PER_SECOND
"""The start of every simulated run: 2027-01-15 08:00:00 UTC, a whole hour."""

_KEPT = 2**62
_BOUNDS = RecorderBounds(file_rows=200_000, file_s=3_600.0, buffer_rows=2_000_000)


class NotRecorded(RuntimeError):
    """A part of the recording could not be written; the message gives the table and the reason."""


def cluster_of(trial: Trial) -> str:
    """Return the name of a run's cluster: its scenario, law and policy."""
    return f"{trial.scenario}.{trial.parameters.law}.{trial.parameters.policy}"


def record(trial: Trial, place: Path) -> tuple[Stage, RunRecording]:
    """Run a trial's first seed and record it below a directory.

    Raises:
        NotRecorded: something could not be written.
        PromiseBroken: a forbidden state occurred.
    """
    stage = SCENARIOS[trial.scenario].build(trial.parameters)
    return stage, record_stage(stage, cluster_of(trial), place)


def record_stage(stage: Stage, cluster: str, place: Path) -> RunRecording:
    """Run a stage and record it below a directory, as a cluster of this name.

    Raises:
        NotRecorded: something could not be written.
        PromiseBroken: a forbidden state occurred.
    """
    numbers = count()
    recorders: list[ParquetRecorder] = []

    def make(broker: str) -> ParquetRecorder:
        run = f"{cluster}.{next(numbers)}".replace(".", "-")
        files = RecordedFiles(
            str(place), cluster=cluster, broker=broker, run=run, retention_s=_KEPT, bytes_max=_KEPT
        )
        recorder = ParquetRecorder(
            files,
            cluster=cluster,
            broker=broker,
            run=run,
            bounds=_BOUNDS,
            wall_ns=lambda: STARTED_NS + stage.world.schedule.now_ns,
        )
        recorder.start()
        recorders.append(recorder)
        return recorder

    stage.world.record_with = make
    try:
        recording = stage.world.run()
    finally:
        for recorder in recorders:
            recorder.close()
    for recorder in recorders:
        health = recorder.health()
        if health.rows_dropped or health.rows_waiting:
            lost = health.rows_dropped + health.rows_waiting
            raise NotRecorded(f"{place}: {lost:,} rows were not written: {health.reason}")
    return recording
