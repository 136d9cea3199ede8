"""What the jobs ask of Spark: how often rows move between executors, and no Python on their way."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs import usage_rollup
from spark_jobs.intake import examine, read
from spark_jobs.tables import SCHEMAS
from spark_jobs.timeline import (
    broker_seconds,
    certified_seconds,
    group_seconds,
    limits_over_time,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def plan_of(frame: DataFrame) -> str:
    """The physical plan, before it is adapted to what the data turn out to be."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def shuffles(plan: str) -> list[str]:
    """The columns by which rows are moved, once for each time that they are."""
    found = re.findall(r"(?<!Reused)Exchange hashpartitioning\(([^)]*), \d+\)", plan)
    return [re.sub(r"#\d+L?", "", columns) for columns in found]


@pytest.fixture(scope="module")
def brokers(spark: SparkSession, story: Path) -> DataFrame:
    """Broker seconds of the story."""
    intake = examine(story)
    limits = limits_over_time(read(spark, intake, "configuration"))
    return broker_seconds(read(spark, intake, "admitted"), limits)


def test_shares_take_one_shuffle_of_the_recorded_rows(brokers: DataFrame) -> None:
    """By group, dimension and second: sums, windows and shares are all within one."""
    moved = [columns for columns in shuffles(plan_of(brokers)) if "second" in columns]

    assert moved == ["resource_group, dimension, second"]


def test_group_seconds_are_moved_once_more(
    spark: SparkSession, story: Path, brokers: DataFrame
) -> None:
    """By group, for what looks back in time: a row a second, however many brokers there are."""
    no_gaps = spark.createDataFrame([], "resource_group string, second bigint")
    certificates = read(spark, examine(story), "certificates")
    made = certified_seconds(group_seconds(brokers, no_gaps), certificates)
    moved = shuffles(plan_of(made))

    assert moved.count("resource_group, dimension, second") == 1
    # Certificates, gaps and definitions are small; what is left is one move by time and one by gap.
    assert len(moved) <= 8


def test_the_rollup_moves_recorded_rows_once(spark: SparkSession, story: Path) -> None:
    """Added up by broker and second; what is left by second and by hour is less every time."""
    intake = examine(story)
    made = usage_rollup.hours(read(spark, intake, "admitted"), read(spark, intake, "configuration"))
    moved = shuffles(plan_of(made))

    assert [columns for columns in moved if "broker" in columns] == [
        "resource_group, dimension, broker, second"
    ]
    assert len(moved) <= 5


def test_a_hot_group_is_spread_over_all_partitions(spark: SparkSession) -> None:
    """Nine rows of ten are of one group: no partition has many more rows than another."""
    at = datetime.fromtimestamp(1_800_000_000, UTC)
    head = ("c", "b", 1, "r", at, 1)
    group = ("g", 1, 1000, None, None, None, "max-min", "balanced", "hold", "equal")
    limits = limits_over_time(
        spark.createDataFrame(
            [(*head, "hot", *group[1:]), (*head, "cold", *group[1:])], SCHEMAS["configuration"]
        )
    )
    moment = F.timestamp_seconds(F.lit(1_800_000_000) + F.col("id") % 2_000)
    rows = spark.range(20_000).select(
        F.lit("c").alias("cluster"),
        F.floor(F.col("id") / 2_000).cast("string").alias("broker"),
        F.lit(1).cast("bigint").alias("incarnation"),
        F.lit("r").alias("run"),
        moment.alias("ts"),
        F.lit(1).cast("bigint").alias("monotonic_ns"),
        moment.alias("second"),
        F.lit(1_000_000).cast("bigint").alias("observed_us"),
        F.when(F.col("id") % 10 == 0, "cold").otherwise("hot").alias("resource_group"),
        F.lit("Publish").alias("monitoring_class"),
        F.lit("publishRateInMsgs").alias("dimension"),
        *(
            F.lit(1).cast("bigint").alias(name)
            for name in ("admitted", "held_us", "local_limit", "participants", "topics")
        ),
    )
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    try:
        sizes = [
            row["count"]
            for row in broker_seconds(rows, limits)
            .groupBy(F.spark_partition_id())
            .count()
            .collect()
        ]
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
        spark.conf.set("spark.sql.shuffle.partitions", "2")

    assert sum(sizes) == 20_000
    assert len(sizes) == 8
    assert max(sizes) < 1.5 * 20_000 / 8


def test_no_row_passes_through_python(brokers: DataFrame) -> None:
    """Built-in functions only, on the way of recorded rows to figures."""
    assert "Python" not in plan_of(brokers)
