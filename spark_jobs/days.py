"""Rows by the hour, written by the day: what usage and bills have in common.

The rows go to ``date=YYYY-MM-DD`` below a directory. A day is always written whole, from all that was
recorded of it: so the job may run as often as one likes, and what came late is in the next run. A day of
which there is less than when it was written, since retention deletes files, is left as it was.

A place has the days of one cluster: those of another would be added up with them, or take their place.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import date

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.places import StorePlace
from spark_jobs.refusals import RefusedInput
from spark_jobs.stores import NoSuchFile, Store, store_of

DAY = "hours.parquet"
"""The file of a day."""

_PARQUET = ".parquet"
_STAGED = "_staged-"
_DONE = "_SUCCESS"


def write_days(
    spark: SparkSession, found: DataFrame, target: StorePlace, measure: str, *, cluster: str
) -> DataFrame:
    """Write hours by their ``date``; return the hours of every day that was ever written.

    Each day is one file, made aside and then given its name in one step: a reader sees the old day or the
    new one, wherever the job is killed.

    Args:
        spark: the session.
        found: the hours of all that there is now.
        target: where to.
        measure: the column that says how much is known of an hour.
        cluster: whose hours they are.

    Raises:
        RefusedInput: hours of another cluster were written there.
        OSError: they cannot be written.
    """
    store = store_of(target, spark)
    _tidy(store, target)
    found = found.withColumn("cluster", F.lit(cluster)).persist()
    kept = _more_complete(spark, target, found, measure, cluster)
    staged = target / f"{_STAGED}{uuid.uuid4().hex}"
    new = found.where(~F.col("date").isin(kept)).repartition("date")
    # A day has one file, whatever Spark was told of the size of files.
    new.write.option("maxRecordsPerFile", 0).partitionBy("date").parquet(staged.for_spark)
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
    with suppress(NoSuchFile):
        for name in store.directories(target):
            if name.startswith(_STAGED):
                store.remove(target / name)


def _more_complete(
    spark: SparkSession, target: StorePlace, found: DataFrame, measure: str, cluster: str
) -> list[date]:
    """The days of which more was known when they were written than there is now."""
    try:
        written = spark.read.parquet(target.for_spark)
    except AnalysisException:
        return []  # nothing was written yet
    known = F.sum(measure).alias("known")
    before = written.groupBy(F.to_date("date").alias("date"), "cluster").agg(known).collect()
    if others := sorted({row["cluster"] for row in before} - {cluster}):
        raise RefusedInput(
            f"{target}: has days of cluster {others[0]!r}; name another place for those of {cluster!r}"
        )
    now = {row["date"]: row["known"] for row in found.groupBy("date").agg(known).collect()}
    return [row["date"] for row in before if row["known"] > now.get(row["date"], row["known"])]
