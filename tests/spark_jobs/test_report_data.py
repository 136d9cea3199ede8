"""A page has bounded tables and curves, and counts what it leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import report_data
from spark_jobs.convergence_report import ReportOutcome
from spark_jobs.report_data import (
    BROKERS_MAX,
    GROUPS_MAX,
    TABLES,
    ReportData,
    broker_curves,
    collect,
    curves,
    curves_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MESSAGES = "publishRateInMsgs"
GROUP_SECONDS = """resource_group string, dimension string, second bigint, limit bigint, admitted bigint,
    known boolean"""
BROKER_SECONDS = """resource_group string, dimension string, second bigint, broker string,
    admitted bigint, fair double"""


@pytest.fixture(scope="module")
def groups(spark: SparkSession) -> DataFrame:
    """Two more groups than are drawn; the last one has 1,201 seconds, of which four are recorded."""
    long = [(0, 10, True), (1, 30, True), (600, 5, False), (1_200, 8, True)]
    rows = [(f"g{number}", MESSAGES, 0, 100, 1, True) for number in range(GROUPS_MAX + 1)]
    rows += [("long", MESSAGES, second, 100, admitted, known) for second, admitted, known in long]
    return spark.createDataFrame(rows, GROUP_SECONDS).persist()


def test_the_groups_with_most_seconds_are_drawn_with_points_of_several(groups: DataFrame) -> None:
    """A point keeps mean and largest value, and is known where each of its seconds is."""
    found = [row.asDict() for row in curves(groups).orderBy("resource_group", "second").collect()]
    names = [row["resource_group"] for row in found]
    keys = ("second", "step_s", "admitted", "admitted_max", "known")

    assert names == [*(f"g{number}" for number in range(GROUPS_MAX - 1)), *["long"] * 3]
    assert [tuple(row[key] for key in keys) for row in found[-3:]] == [
        (0, 3, 20.0, 30, True),
        (600, 3, 5.0, 5, False),
        (1_200, 3, 8.0, 8, True),
    ]


def test_the_first_brokers_are_drawn_and_the_others_counted(
    spark: SparkSession, groups: DataFrame
) -> None:
    """By name, with the points of their group; unknown and missing ones are no number."""
    there_are = BROKERS_MAX + 3
    rows = [
        ("long", MESSAGES, second, f"broker-{number:02}", number, 1.0)
        for number in range(there_are)
        for second in (0, 2, 600)
    ]
    of_groups = curves(groups)
    of_brokers = broker_curves(spark.createDataFrame(rows, BROKER_SECONDS), of_groups)
    drawn = curves_of(
        ReportData(
            curves=[row.asDict() for row in of_groups.collect()],
            broker_curves=[row.asDict() for row in of_brokers.collect()],
        )
    )
    long = drawn[0]

    assert (long.resource_group, long.step_s, len(long.seconds)) == ("long", 3, 401)
    assert (len(long.brokers), long.brokers_left_out) == (BROKERS_MAX, 3)
    assert "broker-23" in long.brokers
    assert str([long.along("admitted", "broker-05")[at] for at in (0, 1, 200)]) == "[5.0, nan, 5.0]"
    assert str([long.known("admitted", "broker-05")[at] for at in (0, 1, 200)]) == "[5.0, nan, nan]"


def test_rows_beyond_the_bound_are_counted(
    spark: SparkSession,
    report: tuple[ReportOutcome, Path],
    groups: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first ones are shown, in the order of the table."""
    order, _ = TABLES["events"]
    monkeypatch.setattr(report_data, "TABLES", {"events": (order, 3), "curves": TABLES["curves"]})
    events = spark.read.parquet(str(report[1] / "parquet/events"))
    found = collect({"events": events, "curves": curves(groups), "group_seconds": groups})

    assert [event["event"] for event in found.events] == [1, 2, 3]
    assert found.left_out == {"events": 2, "curves": 0, "groups": 2}


def test_clocks_that_are_furthest_apart_are_shown_first(
    spark: SparkSession, groups: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning is of the widest pair, and forty brokers have more pairs than are shown."""
    order, _ = TABLES["clock_skew"]
    monkeypatch.setattr(
        report_data, "TABLES", {"clock_skew": (order, 2), "curves": TABLES["curves"]}
    )
    pairs = [("b1", "b2", 0.1), ("b1", "b3", -0.4), ("b2", "b3", 0.2), ("b2", "b4", -0.2)]
    skew = spark.createDataFrame(
        [(*pair, abs(pair[2])) for pair in pairs],
        "a string, b string, skew_s double, apart_s double",
    )
    found = collect({"clock_skew": skew, "curves": curves(groups), "group_seconds": groups})

    assert [row["skew_s"] for row in found.clock_skew] == [-0.4, 0.2]
    assert found.left_out["clock_skew"] == 2
