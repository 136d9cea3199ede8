"""The rows that the report is measured on, and what is said of the measurement."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import spark
from benchmarks.spark_rows import write
from spark_jobs.intake import examine
from tests.spark_jobs import plain


def test_the_rows_are_those_of_a_recording(tmp_path: Path) -> None:
    """As many as asked for; no second above the limit by a burst, and demand above it all the time."""
    written = write(tmp_path, 4_000)
    intake = examine(tmp_path)
    rows = plain.read(tmp_path, "admitted")
    by_second: dict[tuple[str, str, object], int] = {}
    for row in rows:
        key = (row["resource_group"], row["dimension"], row["second"])
        by_second[key] = by_second.get(key, 0) + row["admitted"]

    assert (len(rows), written.seconds) == (4_000, 10)
    assert sum(intake.rows.values()) == written.rows
    assert (intake.skipped, intake.duplicates) == ((), 0)
    messages = [value for (_, name, _), value in by_second.items() if name == "publishRateInMsgs"]
    assert len(messages) == 41 * 10
    assert 0.8 * 20_000 < min(messages) <= max(messages) <= 20_000
    assert sum(row["held_us"] > 0 for row in rows) > 100


def test_contenders_that_find_different_things_are_no_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sums of floats may differ in their last digits, counts may not."""
    found = {"report": [7.0], "spark": [1.0, 2.0, 3.0, 4.0], "duckdb": [1.0, 2.0, 3.0 + 1e-12, 4.0]}

    def run(what: str, _: Path, cores: int) -> spark.Run:
        return spark.Run(20.0 / cores, 30.0, 2**30, found[what])

    monkeypatch.setattr(spark, "_run", run)
    monkeypatch.setenv("ROWS", "4000")
    figures = {figure.name: figure for figure in spark.report()}

    assert set(figures) == set(spark.MEASUREMENTS)
    assert figures["spark/report-two-cores-over-one"].value == 2
    assert figures["spark/report-rows-per-second"].value == figures["spark/report-rows"].value / 10  # type: ignore[operator]
    assert figures["spark/report-memory"].value == 1024

    found["duckdb"][3] = 5.0
    with pytest.raises(AssertionError):
        list(spark.report())
