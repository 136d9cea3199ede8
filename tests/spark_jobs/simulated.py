"""A simulated run's tables, as its sidecars would have written them.

The recorder is the sidecar's own, one per process that the run starts; its wall clock is the run's true
time, from ``START_NS`` on. A crashed sidecar's last rows are there, too: a simulated disk is as fast as
needed. Brokers without a sidecar (S23) record nothing. Simulated groups have no namespaces, so that table
is missing.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from coordinator.adapters.recorder.files import RecordedFiles
from coordinator.adapters.recorder.recorder import ParquetRecorder
from coordinator.adapters.recorder.writer import RecorderBounds
from coordinator.simulation.recording import RunRecording
from coordinator.simulation.world import World
from tests.spark_jobs.recorded import START_NS

_KEPT = 2**62
_BOUNDS = RecorderBounds(file_rows=1_000_000, file_s=3_600.0, buffer_rows=2_000_000)


def run_recorded(world: World, cluster: str, place: Path) -> RunRecording:
    """Run a world and record it below a directory, as a cluster of this name, without losing a row."""
    numbers = count()
    recorders: list[ParquetRecorder] = []

    def make(broker: str) -> ParquetRecorder:
        run = f"{cluster}-{next(numbers)}"
        files = RecordedFiles(
            str(place), broker=broker, run=run, retention_s=_KEPT, bytes_max=_KEPT
        )
        recorder = ParquetRecorder(
            files,
            cluster=cluster,
            broker=broker,
            run=run,
            bounds=_BOUNDS,
            wall_ns=lambda: START_NS + world.schedule.now_ns,
        )
        recorder.start()
        recorders.append(recorder)
        return recorder

    world.record_with = make
    try:
        recording = world.run()
    finally:
        for recorder in recorders:
            recorder.close()
    for recorder in recorders:
        health = recorder.health()
        assert not health.rows_dropped, health.reason
        assert not health.rows_waiting, health.reason
    return recording
