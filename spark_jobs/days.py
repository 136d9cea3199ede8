"""Rows by the hour, written by the day: what usage and bills have in common.

The rows go to ``date=YYYY-MM-DD`` below a directory. A day is always written whole, from all that was
recorded of it: so the job may run as often as one likes, and what came late is in the next run. A day of
which there is less than when it was written, since retention deletes files, is left as it was.
"""

from __future__ import annotations

import uuid
from datetime import date

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.places import StorePlace
from spark_jobs.stores import NoSuchFile, Store, store_of

DAY = "hours.parquet"
"""The file of a day."""

_PARQUET = ".parquet"
_STAGED = "_staged-"
_DONE = "_SUCCESS"


def write_days(
    spark: SparkSession, found: DataFrame, target: StorePlace, measure: str
) -> DataFrame:
    """Write hours by their ``date``; return the hours of every day that was ever written.

    Each day is one file, made aside and then given its name in one step: a reader sees the old day or the
    new one, wherever the job is killed.

    Args:
        spark: the session.
        found: the hours of all that there is now.
        target: where to.
        measure: the column that says how much is known of an hour.
    """
    store = store_of(target, spark)
    _tidy(store, target)
    found = found.persist()
    kept = _more_complete(spark, target, found, measure)
    staged = target / f"{_STAGED}{uuid.uuid4().hex}"
    new = found.where(~F.col("date").isin(kept)).repartition("date")
    new.write.partitionBy("date").parquet(staged.for_spark)
    for file in store.files(staged):
        day, _, name = file.below.rpartition("/")
        if day and name.endswith(_PARQUET):
            store.publish(file.place, target / day / DAY)
    store.remove(staged)
    store.put(target / _DONE, b"")
    # The schema is given, as an empty result writes no file to read it from.
    return spark.read.schema(found.schema).parquet(target.for_spark)


def _tidy(store: Store, target: StorePlace) -> None:
    """Delete what a job that was killed left unpublished."""
    try:
        there = store.files(target)
    except NoSuchFile:
        return
    for name in {file.below.partition("/")[0] for file in there}:
        if name.startswith(_STAGED):
            store.remove(target / name)


def _more_complete(
    spark: SparkSession, target: StorePlace, found: DataFrame, measure: str
) -> list[date]:
    """The days of which more was known when they were written than there is now."""
    try:
        written = spark.read.parquet(target.for_spark)
    except AnalysisException:
        return []  # nothing was written yet
    before = written.groupBy("date").agg(F.sum(measure).alias("before"))
    now = found.groupBy("date").agg(F.sum(measure).alias("now"))
    fewer = before.join(now, "date").where(F.col("now") < F.col("before"))
    return [row["date"] for row in fewer.collect()]
