"""Backlogs by topic and hour, and when one reaches its quota if it goes on like this.

Run as ``pulsar-quota backlog-trends DIR --out DIR`` or with spark-submit. Each hour of each topic has a
row for its size (bytes) and one for the age of its oldest message (seconds): mean, peak, growth, the
used part of the quota, and in how many checks the quota was exceeded. As with the roll-up of usage, a
day is written whole into ``hours/date=YYYY-MM-DD``, so the job may run as often as one likes, and a day
of which there is less now than when it was written is left as it was. The forecast is the roll-up's,
with the quota in the limit's place: a straight line through the last days, given only where it rises and
explains enough.

Exit codes: 0 done; 1 done, but files were skipped; 2 wrong use, or input of which nothing can be made.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.intake import RefusedInput, examine, read
from spark_jobs.session import session
from spark_jobs.usage_rollup import forecast, more_complete, warnings_of

TABLE = "backlogs"
ROWS_MAX = 2_000
"""Topics and quota types that are shown; the Parquet file has all of them."""

_TOPIC = ["namespace", "topic", "quota_type"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Trends that were written: by topic and quota type, and how it ends."""

    trends: tuple[Mapping[str, Any], ...]
    days: int
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 when nothing was left out."""
        return 1 if self.warnings else 0


def hours(backlogs: DataFrame) -> DataFrame:
    """One row per topic, quota type (size or time) and hour in which a check saw a backlog.

    Columns: date; subscription (the oldest of the last check); checks; mean and peak (bytes or seconds;
    null where no age was known); growth (per hour, null with one check only); limit (the last one in
    force; null is none); used (the peak over the limit); exceeded (checks that saw it exceeded).
    """
    both = backlogs.select(
        "namespace", "topic", "subscription", "checked",
        F.inline(
            F.array(
                F.struct(
                    F.lit("size").alias("quota_type"),
                    F.col("size_bytes").cast("double").alias("value"),
                    F.col("size_limit").alias("limit"),
                ),
                F.struct(
                    F.lit("time").alias("quota_type"),
                    (F.col("age_us") / 1e6).alias("value"),
                    F.col("age_limit_s").alias("limit"),
                ),
            )
        ),
    )  # fmt: skip
    hour = F.unix_seconds("checked") / 3_600
    over = F.when(F.col("quota_type") == "size", F.col("value") >= F.col("limit")).otherwise(
        F.col("value") > F.col("limit")
    )
    found = both.groupBy(*_TOPIC, F.date_trunc("hour", "checked").alias("hour")).agg(
        F.max_by("subscription", "checked").alias("subscription"),
        F.count("*").alias("checks"),
        F.avg("value").alias("mean"),
        F.max("value").alias("peak"),
        F.regr_slope("value", hour).alias("growth"),
        F.max_by("limit", "checked").alias("limit"),
        F.count_if(over).alias("exceeded"),
    )
    used = F.try_divide(F.col("peak"), F.col("limit").cast("double"))
    return found.withColumn("used", used).withColumn("date", F.to_date("hour"))


def trends(of_hours: DataFrame) -> DataFrame:
    """One row per topic and quota type with a quota: how much is used, and when four fifths are.

    Columns: those of the roll-up's forecast, and exceeded (checks that ever saw it exceeded).
    """
    named = of_hours.withColumns(
        {
            "resource_group": F.concat_ws(" ", "namespace", "topic"),
            "dimension": F.col("quota_type"),
        }
    )
    totals = of_hours.groupBy(*_TOPIC).agg(F.sum("exceeded").alias("exceeded"))
    topic = F.split_part("resource_group", F.lit(" "), F.lit(2))
    lines = forecast(named).withColumns({"topic": topic, "quota_type": F.col("dimension")})
    return lines.drop("resource_group", "dimension").join(totals, ["topic", "quota_type"])


def produce_with(
    spark: SparkSession, directory: Path, out: Path, *, cluster: str | None = None
) -> Outcome:
    """Write the hours of every recorded day, and the trends of all hours that were ever written.

    Raises:
        RefusedInput: nothing can be made of the directory.
        OSError: the output cannot be written.
    """
    intake = examine(directory, cluster, required=(TABLE,))
    target = str(out / "hours")
    try:
        found = hours(read(spark, intake, TABLE)).persist()
        kept = more_complete(spark, target, found, "checks")
        new = found.where(~F.col("date").isin(kept)).write.mode("overwrite")
        new.option("partitionOverwriteMode", "dynamic").partitionBy("date").parquet(target)
        written = spark.read.parquet(target)
        lines = trends(written).persist()
        lines.coalesce(1).write.mode("overwrite").parquet(str(out / "trends"))
        ordered = lines.orderBy(F.desc_nulls_last("used"), "topic", "quota_type")
        rows = tuple(row.asDict() for row in ordered.limit(ROWS_MAX).collect())
        days = written.select("date").distinct().count()
    except (PySparkException, Py4JJavaError) as error:
        reason = str(error).strip().splitlines()[0]
        raise RefusedInput(f"{directory}: Spark could not make trends: {reason}") from error
    finally:
        spark.catalog.clearCache()
    return Outcome(rows, days, tuple(warnings_of(intake)))


def text(outcome: Outcome) -> str:
    """The trends as a table for a terminal."""
    lines = [f"{'quota':<6} {'used':>7} {'per day':>9} {'exceeded':>9}  80 % is reached    topic"]
    for row in outcome.trends:
        reached = "-" if row["reached"] is None else f"{row['reached']:%Y-%m-%d %H:%M}"
        per_day = "-" if row["per_day"] is None else f"{row['per_day']:+.2%}"
        used = "-" if row["used"] is None else f"{row['used']:.1%}"
        lines.append(
            f"{row['quota_type']:<6} {used:>7} {per_day:>9} {row['exceeded']:>9}  {reached:<16}   "
            f"{row['topic']}"
        )
    return "\n".join([*lines, *(f"warning: {warning}" for warning in outcome.warnings)])


def produce(directory: Path, out: Path, *, cluster: str | None = None, cores: int = 2) -> Outcome:
    """The same with a session of its own.

    Raises:
        RefusedInput: nothing can be made of the directory.
        OSError: the output cannot be written.
    """
    examine(directory, cluster, required=(TABLE,))  # refuses before a session is started
    spark = session("pulsar-quota backlog-trends", cores)
    return produce_with(spark, directory, out, cluster=cluster)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point for spark-submit."""
    parser = argparse.ArgumentParser(prog="backlog_trends", description=__doc__)
    parser.add_argument("directory", type=Path, help="what the sidecars recorded")
    parser.add_argument("--out", type=Path, required=True, help="where the hours go")
    parser.add_argument("--cluster", help="this cluster's files only")
    options = parser.parse_args(arguments)
    try:
        outcome = produce(options.directory, options.out, cluster=options.cluster)
    except RefusedInput as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{options.out}: cannot be written: {error}\n")
        return 1
    sys.stdout.write(f"{text(outcome)}\n")
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
