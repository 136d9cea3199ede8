"""A place has the days of one cluster, and a day is one file."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.days import write_days
from spark_jobs.places import place_of
from spark_jobs.refusals import RefusedInput


def hours(spark: SparkSession, *known: int) -> DataFrame:
    """Hours of one day, with the seconds that are known of each."""
    rows = [(date(2027, 1, 1), seconds) for seconds in known]
    return spark.createDataFrame(rows, "date date, known bigint")


def test_days_of_another_cluster_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """One bill would have the usage of both; the same cluster writes there as often as it likes."""
    place = place_of(tmp_path)
    write_days(spark, hours(spark, 5), place, "known", cluster="east")
    with pytest.raises(RefusedInput, match="has days of cluster 'east'; name another place"):
        write_days(spark, hours(spark, 9), place, "known", cluster="west")
    written = write_days(spark, hours(spark, 6), place, "known", cluster="east")

    assert [(row["cluster"], row["known"]) for row in written.collect()] == [("east", 6)]


def test_a_day_is_whole_where_spark_splits_files(spark: SparkSession, tmp_path: Path) -> None:
    """A cluster may have a setting for it, and a second file would take the first one's name."""
    rows_of_a_file = "spark.sql.files.maxRecordsPerFile"
    spark.conf.set(rows_of_a_file, "1")
    try:
        written = write_days(
            spark, hours(spark, 1, 2, 3), place_of(tmp_path), "known", cluster="east"
        )
    finally:
        spark.conf.unset(rows_of_a_file)

    assert sorted(row["known"] for row in written.collect()) == [1, 2, 3]
