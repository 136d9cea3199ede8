"""Rows by the hour, written by the day, and a line through them: what usage and backlogs have in common.

The rows of such a job go to ``date=YYYY-MM-DD`` below a directory. A day is always written whole, from
all that was recorded of it: so the job may run as often as one likes, and what came late is in the next
run. A day of which there is less than when it was written, since retention deletes files, is left as it
was.

The forecast is a straight line through the used part of each hour of the last ``FORECAST_DAYS`` days. It
is given only where the line rises and explains at least half of the variance; more would be a guess.

Exit codes: 0 done; 1 done, but files were skipped; 2 wrong use, or input of which nothing can be made.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.footers import SUFFIX
from spark_jobs.intake import FileIntake, examine
from spark_jobs.places import StorePlace, place_of
from spark_jobs.refusals import RefusedInput
from spark_jobs.session import session, session_for
from spark_jobs.stores import NoSuchFile, Store, store_of

FORECAST_DAYS = 14
REACHED = 0.8
"""The used part of a limit at which it should be raised before clients wait."""
EXPLAINED = 0.5
"""The part of the variance that the line must explain (R squared)."""
ROWS_MAX = 2_000
"""Lines of a forecast that are shown; the Parquet file has all of them."""

DAY = "hours.parquet"
"""The file of a day."""

_STAGED = "_staged-"
_OF_SPARK = "part-"
_DONE = "_SUCCESS"
_FORETOLD_DAYS = 3_650
_SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True)
class DaysOutcome:
    """Days that were written: how many there are now, the forecast line by line, and how it ends."""

    rows: tuple[Mapping[str, Any], ...]
    days: int
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 when nothing was left out."""
        return 1 if self.warnings else 0


@dataclass(frozen=True, slots=True)
class Job:
    """A job that writes days.

    Args:
        name: of its command.
        required: tables without which nothing can be made.
        work: writes the days of an intake below a directory.
        layout: of a line of the forecast on a terminal: its columns, and how wide each is.
        titles: of the columns that are the job's own.
    """

    name: str
    required: Sequence[str]
    work: Callable[[SparkSession, FileIntake, Path | StorePlace], DaysOutcome]
    layout: str
    titles: Mapping[str, str]

    def produce(
        self,
        directory: Path | StorePlace | str,
        out: Path | StorePlace | str,
        *,
        cluster: str | None = None,
        cores: int = 2,
    ) -> DaysOutcome:
        """Do it with a session of its own.

        Raises:
            RefusedInput: nothing can be made of the directory.
            OSError: the output cannot be written.
        """
        name, place, target = f"pulsar-quota {self.name}", place_of(directory), place_of(out)
        started = session_for(name, cores, place, target)
        # Refuses before a session is started, if it can.
        intake = examine(place, cluster, self.required, started)
        return self.work(session(name, cores), intake, target)

    def text(self, outcome: DaysOutcome) -> str:
        """The forecast as a table for a terminal."""
        warnings = (f"warning: {warning}" for warning in outcome.warnings)
        heading = self.layout.format_map({**_TITLES, **self.titles})
        lines = (self.layout.format_map(_for_people(row)) for row in outcome.rows)
        return "\n".join([heading, *lines, *warnings])

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """The entry point for spark-submit."""
        parser = argparse.ArgumentParser(prog=self.name.replace("-", "_"))
        parser.add_argument("directory", help="what the sidecars recorded")
        parser.add_argument("--out", required=True, help="where the hours go")
        parser.add_argument("--cluster", help="this cluster's files only")
        options = parser.parse_args(arguments)
        try:
            outcome = self.produce(options.directory, options.out, cluster=options.cluster)
        except RefusedInput as error:
            sys.stderr.write(f"{error}\n")
            return 2
        except OSError as error:
            sys.stderr.write(f"{options.out}: cannot be written: {error}\n")
            return 1
        sys.stdout.write(f"{self.text(outcome)}\n")
        return outcome.exit_code


def write_days(
    spark: SparkSession, found: DataFrame, target: StorePlace, measure: str
) -> DataFrame:
    """Write hours by their ``date``; return the hours of every day that was ever written.

    Each day is one file, made aside and then given its name in one step: a reader sees the old day or the
    new one, wherever the job is killed. Earlier releases left a day as Spark writes it, in several files.

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
        if day and name.endswith(SUFFIX):
            for older in store.here(target / day):
                if older.name.startswith(_OF_SPARK):
                    store.remove(older.place)
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


def foretold(
    intake: FileIntake, written: DataFrame, lines: DataFrame, target: StorePlace
) -> DaysOutcome:
    """Write a forecast as one file, and say what there is: the lines that use most come first."""
    lines = lines.persist()
    lines.coalesce(1).write.mode("overwrite").parquet(target.for_spark)
    others = sorted(name for name in lines.columns if name not in _FORECAST)
    ordered = lines.orderBy(F.desc_nulls_last("used"), *others)
    return DaysOutcome(
        rows=tuple(row.asDict() for row in ordered.limit(ROWS_MAX).collect()),
        days=written.select("date").distinct().count(),
        warnings=intake.warnings,
    )


_TITLES = {"used": "used", "per_day": "per day", "reached": "80 % is reached"}
_FORECAST = ("hours", "used", "per_day", "explained", "reached")


def forecast(of_hours: DataFrame, by: Sequence[str]) -> DataFrame:
    """One row for each of what has a limit: where its use goes.

    Columns: those of ``by``; hours (that the line goes through), used (in the last hour, on the line),
    per_day (how much that grows), explained (R squared), reached (when the line is at 80 %; null where
    it does not rise, explains too little, or is more than ten years away).

    Args:
        of_hours: hour, used (null is no limit), and what it is of.
        by: what tells apart what has a limit.
    """
    day = F.unix_seconds("hour") / _SECONDS_PER_DAY
    recent = of_hours.where(F.col("used").isNotNull()).withColumn("day", day)
    last = recent.groupBy(*by).agg(F.max("day").alias("last"))
    line = (
        recent.join(last, [*by])
        .where(F.col("day") > F.col("last") - FORECAST_DAYS)
        .groupBy(*by)
        .agg(
            F.count("*").alias("hours"),
            F.max("last").alias("last"),
            F.regr_slope("used", "day").alias("per_day"),
            F.regr_intercept("used", "day").alias("start"),
            F.regr_r2("used", "day").alias("explained"),
        )
        .withColumn("used", F.col("start") + F.col("per_day") * F.col("last"))
    )
    return line.select(*by, "hours", "used", "per_day", "explained", _reached().alias("reached"))


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "used": "-" if row["used"] is None else f"{row['used']:.1%}",
        "per_day": "-" if row["per_day"] is None else f"{row['per_day']:+.2%}",
        "reached": "-" if row["reached"] is None else f"{row['reached']:%Y-%m-%d %H:%M}",
    }


def _reached() -> Column:
    in_days = F.try_divide(REACHED - F.col("used"), F.col("per_day"))
    telling = (F.col("per_day") > 0) & (F.col("explained") >= EXPLAINED)
    moment = (F.col("last") + F.greatest(in_days, F.lit(0.0))) * _SECONDS_PER_DAY
    return F.when(telling & (in_days < _FORETOLD_DAYS), F.timestamp_seconds(moment))


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
