"""The rows that the report is measured on, and what is said of the measurement."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import spark
from benchmarks.spark_rows import write
from spark_jobs.tables import SCHEMAS
from tests.spark_jobs import plain


def test_the_rows_are_those_of_a_recording(tmp_path: Path) -> None:
    """As many as asked for; no second above the limit by a burst, and demand above it all the time."""
    written = write(tmp_path, 4_000)
    rows = plain.read(tmp_path, "admitted")
    by_second: dict[tuple[str, str, object], int] = {}
    for row in rows:
        key = (row["resource_group"], row["dimension"], row["second"])
        by_second[key] = by_second.get(key, 0) + row["admitted"]

    assert (len(rows), written.seconds) == (4_000, 10)
    assert sum(len(plain.read(tmp_path, table)) for table in SCHEMAS) == written.rows
    messages = [value for (_, name, _), value in by_second.items() if name == "publishRateInMsgs"]
    assert len(messages) == 41 * 10
    assert 0.8 * 20_000 < min(messages) <= max(messages) <= 20_000
    assert sum(row["held_us"] > 0 for row in rows) > 100


FOUND = {"report": [7.0], "spark": [1.0, 2.0, 3.0, 4.0], "duckdb": [1.0, 2.0, 3.0 + 1e-12, 4.0]}


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """Return the contenders' results, each in 10 s."""
    found = {what: list(values) for what, values in FOUND.items()}

    def run(what: str, _: Path) -> spark.ContenderRun:
        return spark.ContenderRun(10.0, 2**30, found[what])

    monkeypatch.setattr(spark, "_run", run)
    monkeypatch.setenv("ROWS", "4000")
    monkeypatch.delenv("ROWS_DIR", raising=False)
    return found


@pytest.mark.usefixtures("found")
def test_every_figure_is_measured() -> None:
    """Those beside a peer say what was compared."""
    figures = {figure.name: figure for figure in spark.report()}
    rows = figures["spark/report-rows"].value

    assert all(name.startswith(tuple(spark.MEASUREMENTS)) for name in figures)
    assert figures["spark/report-rows-per-second"].value == rows / 10  # type: ignore[operator]
    assert figures["spark/report-memory"].value == 1024
    assert all(figure.about for figure in figures.values() if figure.peers)


def test_contenders_that_find_different_things_are_no_comparison(
    found: dict[str, list[float]],
) -> None:
    """Sums of floats may differ in their last digits, counts may not."""
    found["duckdb"][3] = 5.0

    with pytest.raises(AssertionError):
        list(spark.report())


def test_an_interrupted_measurement_ends_its_contender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report of many rows would go on for minutes otherwise, and be waited for."""
    endless = tmp_path / "python"
    endless.write_text("#!/bin/sh\nexec sleep 600\n")
    endless.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(endless))

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        spark._run("report", tmp_path)


@pytest.mark.usefixtures("found")
def test_rows_that_are_kept_are_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are made once for each number of rows; another number of them is another directory."""
    monkeypatch.setenv("ROWS_DIR", str(tmp_path))
    (first, *_) = list(spark.report())
    made = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet"))
    (second, *_) = list(spark.report())

    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows-4000"]
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")) == made
    assert first == second
    said = capsys.readouterr().err
    assert said.count("writing 4,000 rows") == 1
    assert said.count("rows-4000: used again") == 1
    assert said.count("duckdb: 10.0 s, 1,024 MB") == 2
