"""Jobs read from any store and write to it; the figures are those of a directory, to the last digit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.convergence_report import ReportOutcome, make
from spark_jobs.days import DAY, write_days
from spark_jobs.places import StorePlace, place_of
from spark_jobs.recording import open_recording
from spark_jobs.stores import store_of
from tests.spark_jobs.conftest import CONDITIONS
from tests.spark_jobs.stores.conftest import content_of

pytestmark = [pytest.mark.java, pytest.mark.verify, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_report_from_s3_to_hdfs_is_that_of_a_directory(
    spark: SparkSession, report: tuple[ReportOutcome, Path], in_a_bucket: str, hdfs_root: str
) -> None:
    """Every figure to its last digit, and every row; recorders wrote straight into the bucket."""
    recorded, out = place_of(in_a_bucket), place_of(f"{hdfs_root}/report")
    made = make(open_recording(spark, recorded), out, conditions=CONDITIONS)
    here, store = report[1], store_of(out, spark)

    figures = json.loads(content_of(spark, made.figures))
    assert figures["events"]
    assert figures == json.loads((here / "figures.json").read_text())
    assert content_of(spark, made.page).startswith(b"<!doctype html>")
    assert content_of(spark, out / "summary.txt").decode() == f"{made.text}\n"
    written = spark.read.parquet((out / "parquet/group_seconds").for_spark)
    local = spark.read.parquet(str(here / "parquet/group_seconds"))
    assert sorted(map(tuple, written.collect())) == sorted(map(tuple, local.collect()))
    assert not [file for file in store.here(out) if file.name.startswith(".")]


def hours(spark: SparkSession, seconds: Mapping[int, int]) -> DataFrame:
    """An hour of each of these days of a month, with the seconds that are known of it."""
    rows = [(date(2027, 1, day), known) for day, known in seconds.items()]
    return spark.createDataFrame(rows, "date date, known bigint")


def test_days_are_written_whole_in_every_store(place: StorePlace, spark: SparkSession) -> None:
    """A day is one file, of which the fuller version stays, and nothing is left aside."""
    store = store_of(place, spark)
    store.put(place / "_staged-killed/date=2027-01-01/part-0.parquet", b"left by a killed job")
    write_days(spark, hours(spark, {1: 30, 2: 20}), place, "known", cluster="east")
    later = hours(spark, {1: 10, 2: 25, 3: 5})
    written = write_days(spark, later, place, "known", cluster="east")

    assert {(row["date"].day, row["known"]) for row in written.collect()} == {
        (1, 30), (2, 25), (3, 5),
    }  # fmt: skip
    assert [file.below for file in store.files(place) if not file.name.startswith(".")] == [
        "_SUCCESS", *(f"date=2027-01-0{day}/{DAY}" for day in (1, 2, 3)),
    ]  # fmt: skip
