"""Each hour of a broker is told with its gaps, the minutes in which others heard it, and dropped rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.coverage import coverage, warnings_of, with_missing
from spark_jobs.places import StorePlace
from spark_jobs.recording import Recording, nothing, open_recording
from spark_jobs.tables import SCHEMAS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

HOUR = 1_800_000_000
"""The beginning of an hour of 2027-01-15, 08:00 UTC."""


def table(spark: SparkSession, name: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Rows of a table, with null in the columns that are not given."""
    columns = nothing(spark, SCHEMAS[name]).columns
    lines = [[row.get(column) for column in columns] for row in rows]
    return spark.createDataFrame(lines, SCHEMAS[name])


def at(second: int) -> datetime:
    """A second of the hour, or of one after it."""
    return datetime.fromtimestamp(HOUR + second, UTC)


def alive(seconds: Sequence[int], broker: str = "b", dropped: int = 0) -> list[dict[str, Any]]:
    """Seconds that a broker's sidecar recorded."""
    return [
        {"broker": broker, "run": "r", "cause": "alive", "second": at(each), "ts": at(each),
         "rows_dropped": dropped, "state": "ACTIVE", "incarnation": 1}
        for each in seconds
    ]  # fmt: skip


def heard(seconds: Sequence[int], sender: str = "b") -> list[dict[str, Any]]:
    """Reports of a broker that another one received."""
    return [
        {"broker": "other", "direction": "received", "sender": sender, "ts": at(each),
         "sender_incarnation": 1}
        for each in seconds
    ]  # fmt: skip


def covered(
    spark: SparkSession, lifecycle: list[dict[str, Any]], reports: list[dict[str, Any]]
) -> DataFrame:
    """The coverage of these rows."""
    return coverage(
        {
            "lifecycle": table(spark, "lifecycle", lifecycle),
            "reports": table(spark, "reports", reports),
            "membership": table(spark, "membership", []),
        }
    )


def rows(of: DataFrame) -> list[tuple[Any, ...]]:
    """Broker, hour from the first one, and the three numbers, in order."""
    return sorted(
        (row["broker"], (round(row["hour"].timestamp()) - HOUR) // 3_600,
         row["recorded_s"], row["missing_s"], row["rows_dropped"])
        for row in of.collect()
    )  # fmt: skip


def test_an_hour_that_was_recorded_as_a_whole_lacks_nothing(spark: SparkSession) -> None:
    """However much of it a sidecar ran."""
    assert rows(covered(spark, alive(range(100)), heard(range(100)))) == [("b", 0, 100, 0, 0)]


def test_a_gap_counts_for_each_hour_that_it_reaches_into(spark: SparkSession) -> None:
    """Seconds 3,590 to 7,209 are missing: ten, a whole hour, and ten."""
    recorded = [*range(3_500, 3_590), *range(7_210, 7_300)]
    found = covered(spark, alive(recorded), heard(range(3_500, 7_300)))

    assert rows(found) == [("b", 0, 90, 10, 0), ("b", 1, 0, 3_600, 0), ("b", 2, 90, 10, 0)]


def test_a_broker_that_others_heard_and_that_recorded_nothing_lacks_those_minutes(
    spark: SparkSession,
) -> None:
    """As where record_dir was not set, or its files are not here."""
    found = covered(spark, alive(range(60), "other"), heard(range(0, 240, 10)))

    assert rows(found) == [("b", 0, 0, 240, 0), ("other", 0, 60, 0, 0)]


def test_minutes_beside_recorded_ones_and_after_the_last_are_not_missing(
    spark: SparkSession,
) -> None:
    """Reports are heard before a run's first second and after its last; rows are written later."""
    recorded = [*range(60), *range(300, 360)]
    lifecycle = [
        *alive(recorded[:60]),
        *({**each, "run": "another"} for each in alive(recorded[60:])),
    ]
    found = covered(spark, lifecycle, heard(range(0, 600, 10)))

    assert rows(found) == [("b", 0, 120, 120, 0)]  # minutes 2 and 3


def test_dropped_rows_count_for_the_hour_in_which_they_were_dropped(spark: SparkSession) -> None:
    """The recorder counts them from its start."""
    lifecycle = [
        *alive(range(3_598, 3_600), dropped=5),
        *alive(range(3_600, 3_602), dropped=12),
    ]

    assert rows(covered(spark, lifecycle, [])) == [("b", 0, 2, 0, 5), ("b", 1, 2, 0, 7)]


def test_lines_and_a_warning_say_what_is_missing(spark: SparkSession) -> None:
    """By hour or month, of all brokers together; the warning names the first hours."""
    found = covered(spark, alive([*range(10), *range(20, 30)]), []).persist()
    lines = spark.createDataFrame(
        [("2027-01", at(0)), ("2027-02", at(7_200))], "month string, hour timestamp"
    )
    recording = Recording(spark, StorePlace("x"), "c", {}, {"lifecycle": 20})

    by_hour = with_missing(lines, found, "hour").orderBy("month").collect()
    assert [row["missing_s"] for row in by_hour] == [10, 0]
    by_month = with_missing(lines, found, "month").orderBy("month").collect()
    assert [(row["missing_s"], row["rows_dropped"]) for row in by_month] == [(10, 0), (0, 0)]
    assert warnings_of(recording, found) == (
        "not recorded as a whole: b 2027-01-15 08:00 lacks 10 s",
    )
    unknown = Recording(spark, StorePlace("x"), "c", {}, {})
    assert "whether hours are missing is not known" in warnings_of(unknown, found)[0]


def test_a_real_recording_tells_of_its_crash(spark: SparkSession, story: Path) -> None:
    """The second that the crashed sidecar of the story had not written yet."""
    recording = open_recording(spark, story)
    (warning,) = warnings_of(recording, coverage(recording.tables))

    assert warning.startswith("not recorded as a whole: broker-1 ")
