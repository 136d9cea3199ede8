"""A recorder whose core, clocks and place a test holds in its hands."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow.parquet as pq

from coordinator.adapters.recorder.files import RecordedFiles
from coordinator.adapters.recorder.recorder import ParquetRecorder
from coordinator.adapters.recorder.tables import RecordedTable
from coordinator.adapters.recorder.writer import RecorderBounds

START_NS = 1_800_000_000_000_000_000
DAY_S = 86_400.0


@dataclass
class Clock:
    """Both clocks: a moment that the test moves."""

    wall_ns: int = START_NS
    monotonic_ns: int = 5_000

    def now_ns(self) -> int:
        return self.monotonic_ns

    def wall(self) -> int:
        return self.wall_ns

    def advance(self, seconds: float) -> None:
        self.wall_ns += round(seconds * 1e9)
        self.monotonic_ns += round(seconds * 1e9)


def files_at(
    place: str | Path, run: str = "run-1", broker: str = "broker-1", **more: Any
) -> RecordedFiles:
    """Files of one run."""
    settings: dict[str, Any] = {"retention_s": 10_000 * DAY_S, "bytes_max": 2**40}
    return RecordedFiles(str(place), broker=broker, run=run, **(settings | more))


@dataclass
class Recording:
    """A started recorder."""

    place: Path
    bounds: RecorderBounds = field(default_factory=lambda: RecorderBounds(file_s=0.05))
    files: RecordedFiles | None = None
    clock: Clock = field(default_factory=Clock)
    run: str = "run-1"
    broker: str = "broker-1"

    def __post_init__(self) -> None:
        self.recorder = ParquetRecorder(
            self.files or files_at(self.place, self.run, self.broker),
            cluster="test",
            broker=self.broker,
            run=self.run,
            bounds=self.bounds,
            wall_ns=self.clock.wall,
        )

    def __enter__(self) -> Self:
        self.recorder.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.recorder.close()

    def rows(self, table: RecordedTable) -> list[dict[str, Any]]:
        """All rows of a table, in the order in which they were recorded."""
        return rows_of(self.place, table)


def rows_of(place: Path, table: RecordedTable) -> list[dict[str, Any]]:
    """All rows of a table, by run and time."""
    paths = sorted(place.glob(f"table={table.value}/version=1/date=*/[!.]*.parquet"))
    rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(rows, key=lambda row: (row["run"], row["monotonic_ns"]))


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until something holds; fails after half a minute."""
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.005)
