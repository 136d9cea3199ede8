"""The convergence report on recorded rows by the million: how fast, in how much memory, at which price.

Every contender is a process of its own, one after the other on the same files, from its start to its end:
a report is a command, and the start of a JVM is part of it. Rows are all that are recorded, also of
dimensions without a limit. Memory is what the process and all that it starts have at once, at most.
``ROWS=100000000 make bench ONLY=spark`` is the long form.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks.figures import Figure, Measurement
from benchmarks.spark_rows import write
from deploy.local import processes

ROWS = 10_000_000
TARGET_ROWS_PER_SECOND = 100_000_000 / 600
"""100 million in less than ten minutes, on two cores."""
_LOOK_S = 0.2
_MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class Run:
    """One contender's: wall time, processor time, memory at its most, and what it found."""

    seconds: float
    processor_s: float
    peak_bytes: int
    found: list[float]


def report() -> Iterator[Figure]:
    """Rows per second, memory, scaling, and the same by DuckDB."""
    with tempfile.TemporaryDirectory(prefix="pulsar-quota-bench-") as place:
        directory = Path(place)
        rows = write(directory, int(os.environ.get("ROWS") or ROWS)).rows
        # Each as soon as it is known: of 100 million rows the slower contenders take their time.
        made = _run("report", directory, 2)
        yield from _of_report(rows, made)
        alone = _run("report", directory, 1)
        assert alone.found == made.found
        yield Figure(
            "spark/report-two-cores-over-one", alone.seconds / made.seconds, "times", "higher"
        )
        ours, peer = _run("spark", directory, 2), _run("duckdb", directory, 2)
    _hold_against(ours.found, peer.found)
    yield Figure(
        "spark/shares-rows-per-second", rows / ours.seconds, "rows/s", "higher",
        peers={"duckdb": rows / peer.seconds},
    )  # fmt: skip
    yield Figure(
        "spark/shares-memory", ours.peak_bytes / _MEGABYTE, "MB", "lower",
        peers={"duckdb": peer.peak_bytes / _MEGABYTE},
    )  # fmt: skip


def _of_report(rows: int, made: Run) -> Iterator[Figure]:
    yield Figure("spark/report-rows", rows, "rows", "higher")
    yield Figure(
        "spark/report-rows-per-second", rows / made.seconds, "rows/s", "higher",
        target=TARGET_ROWS_PER_SECOND,
    )  # fmt: skip
    yield Figure("spark/report-time", made.seconds, "s", "lower")
    yield Figure("spark/report-processor-time", made.processor_s, "s", "lower")
    yield Figure("spark/report-memory", made.peak_bytes / _MEGABYTE, "MB", "lower")


MEASUREMENTS: Mapping[str, Measurement] = dict.fromkeys(
    (
        "spark/report-rows", "spark/report-rows-per-second", "spark/report-time",
        "spark/report-processor-time", "spark/report-memory", "spark/report-two-cores-over-one",
        "spark/shares-rows-per-second", "spark/shares-memory",
    ),
    report,
)  # fmt: skip


def _hold_against(ours: list[float], peer: list[float]) -> None:
    """Both count the same seconds and messages; shares are sums of floats in another order."""
    assert [ours[0], ours[1], ours[3]] == [peer[0], peer[1], peer[3]], (ours, peer)
    assert abs(ours[2] - peer[2]) <= 1e-9 * ours[2], (ours, peer)


def _run(what: str, directory: Path, cores: int) -> Run:
    command = [sys.executable, "-m", "benchmarks.spark_process", what, str(directory)]
    started = time.monotonic()
    with (
        subprocess.Popen(  # noqa: S603  # this file's own programs
            [*command, "--cores", str(cores)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        _Watch(process.pid) as watch,
    ):
        said, complained = process.communicate()
    seconds = time.monotonic() - started
    if process.returncode:
        reason = complained.strip().rpartition("\n")[2]
        raise RuntimeError(f"{what} on {cores} cores ended with {process.returncode}: {reason}")
    found = json.loads(said.splitlines()[-1])
    return Run(seconds, watch.processor_s, watch.peak_bytes, found)


class _Watch(threading.Thread):
    """Watches how much a process and its descendants have resident, and how long they compute.

    Not `os.times`: that tells of children that were waited for, and nobody waits for a JVM.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._done = threading.Event()
        self._processor_s: dict[int, float] = {}
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.join()

    @property
    def processor_s(self) -> float:
        """Of all processes, as far as they were seen."""
        return sum(self._processor_s.values())

    def run(self) -> None:
        """Look until told to stop."""
        while not self._done.wait(_LOOK_S):
            self.peak_bytes = max(self.peak_bytes, self._look(self._pid, b""))

    def _look(self, pid: int, parent: bytes) -> int:
        """Bytes of a process and all below it; one that has just ended has none."""
        place = Path(f"/proc/{pid}")
        try:
            command = (place / "cmdline").read_bytes()
            if command == parent:
                return 0  # between fork and exec it shows its parent's memory
            own = processes.resident_bytes(pid)
            computed_s = processes.processor_s(pid)
            children = [
                int(child)
                for path in place.glob("task/*/children")
                for child in path.read_text().split()
            ]
        except OSError:
            return 0
        self._processor_s[pid] = computed_s
        return own + sum(self._look(child, command) for child in children)
