"""The convergence report on recorded rows by the million: how fast, in how much memory, at which price.

Every contender is a process of its own, one after the other on the same files, from its start to its end:
a report is a command, and the start of a JVM is part of it. Rows are all that are recorded, also of
dimensions without a limit. Memory is what the process and all that it starts have at once, at most. All
are measured on two cores.

Beside DuckDB stand the *shares*: the report's part that takes each recorded row, which both compute alone
and whose results must be the same. The rest of the report (events, figures, pictures) has no equal to
stand beside.

``ROWS=91000000 make bench ONLY=spark`` is the long form, of 100 million rows in all tables. With
``ROWS_DIR=DIR`` the rows are kept there and used again; otherwise they are made anew and deleted.
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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow.parquet as pq

from benchmarks.figures import Figure, Measurement
from benchmarks.spark_rows import write
from deploy.local import processes

ROWS = 10_000_000
TARGET_ROWS = 100_000_000
TARGET_ROWS_PER_SECOND = TARGET_ROWS / 600
"""100 million in less than ten minutes, on two cores; of fewer rows the start is a larger part."""
_SHARES = "demand, exact share and distance of each broker in each second; not the whole report"
_LOOK_S = 0.2
_MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class ContenderRun:
    """One contender's: wall time, memory at its most, and what it found."""

    seconds: float
    peak_bytes: int
    found: list[float]


def report() -> Iterator[Figure]:
    """Rows per second, memory, and the same by DuckDB."""
    with _recorded(int(os.environ.get("ROWS") or ROWS)) as directory:
        rows = sum(pq.read_metadata(path).num_rows for path in directory.rglob("*.parquet"))
        # Each as soon as it is known: of 100 million rows a contender takes its time.
        yield from _of_report(rows, _timed("report", directory))
        yield from _of_shares(rows, directory)


def _of_report(rows: int, made: ContenderRun) -> Iterator[Figure]:
    yield Figure("spark/report-rows", rows, "rows", "higher")
    yield Figure(
        "spark/report-rows-per-second", rows / made.seconds, "rows/s", "higher",
        target=TARGET_ROWS_PER_SECOND if rows >= TARGET_ROWS else None,
    )  # fmt: skip
    yield Figure("spark/report-time", made.seconds, "s", "lower")
    yield Figure("spark/report-memory", made.peak_bytes / _MEGABYTE, "MB", "lower")


def _of_shares(rows: int, directory: Path) -> Iterator[Figure]:
    ours, peer = _timed("spark", directory), _timed("duckdb", directory)
    _hold_against(ours.found, peer.found)
    yield Figure(
        "spark/shares-rows-per-second", rows / ours.seconds, "rows/s", "higher",
        peers={"duckdb": rows / peer.seconds}, about=_SHARES,
    )  # fmt: skip
    yield Figure(
        "spark/shares-memory", ours.peak_bytes / _MEGABYTE, "MB", "lower",
        peers={"duckdb": peer.peak_bytes / _MEGABYTE}, about=_SHARES,
    )  # fmt: skip


MEASUREMENTS: Mapping[str, Measurement] = {"spark/": report}


@contextmanager
def _recorded(rows: int) -> Iterator[Path]:
    """A directory with this number of recorded rows: one that is kept, or a temporary one."""
    kept = os.environ.get("ROWS_DIR")
    place = Path(kept).absolute() if kept else Path(tempfile.gettempdir())
    place.mkdir(parents=True, exist_ok=True)
    directory = place / f"rows-{rows}"
    if kept and directory.exists():
        _say(f"{directory}: used again")
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="pulsar-quota-bench-", dir=place) as made:
        _say(f"writing {rows:,} rows")
        write(Path(made) / "rows", rows)
        if not kept:
            directory = Path(made) / "rows"
        else:
            (Path(made) / "rows").rename(directory)  # under its name only when it is whole
        yield directory


def _timed(what: str, directory: Path) -> ContenderRun:
    """A contender's run, with a word for those who wait for it."""
    _say(f"{what} ...")
    done = _run(what, directory)
    _say(f"{what}: {done.seconds:.1f} s, {done.peak_bytes / _MEGABYTE:,.0f} MB")
    return done


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _hold_against(ours: list[float], peer: list[float]) -> None:
    """Both count the same seconds and messages; shares are sums of floats in another order."""
    assert [ours[0], ours[1], ours[3]] == [peer[0], peer[1], peer[3]], (ours, peer)
    assert abs(ours[2] - peer[2]) <= 1e-9 * ours[2], (ours, peer)


def _run(what: str, directory: Path) -> ContenderRun:
    command = [sys.executable, "-m", "benchmarks.spark_process", what, str(directory)]
    started = time.monotonic()
    with (
        subprocess.Popen(  # noqa: S603  # this file's own programs
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        _Watch(process.pid) as watch,
    ):
        try:
            said, complained = process.communicate()
        finally:
            process.terminate()  # if this was interrupted; it has ended otherwise
    seconds = time.monotonic() - started
    if process.returncode:
        reason = complained.strip().rpartition("\n")[2]
        raise RuntimeError(f"{what} ended with {process.returncode}: {reason}")
    found = json.loads(said.splitlines()[-1])
    return ContenderRun(seconds, watch.peak_bytes, found)


class _Watch(threading.Thread):
    """Watches how much a process and its descendants have resident."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._done = threading.Event()
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.join()

    def run(self) -> None:
        """Look until told to stop."""
        while not self._done.wait(_LOOK_S):
            self.peak_bytes = max(self.peak_bytes, self._look(self._pid, b""))

    def _look(self, pid: int, parent: bytes) -> int:
        """Bytes of a process and all below it; one that has just ended has none."""
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if command == parent:
                return 0  # between fork and exec it shows its parent's memory
            own = processes.resident_bytes(pid)
        except OSError:
            return 0
        return own + sum(self._look(child, command) for child in processes.started_by(pid))
