"""Usage by group and hour, for billing and capacity planning, and when a group reaches 80 % of its limit.

Run as ``pulsar-quota rollup DIR --out DIR`` or with spark-submit. The rows go to
``hours/date=YYYY-MM-DD``. A day is always written whole, from all that was recorded of it: so the job
may run as often as one likes, and what came late is in the next run (dynamic partition overwrite). A day
of which there is less than when it was written, since retention deletes files, is left as it was.

The forecast is a straight line through the used part of each hour of the last ``FORECAST_DAYS`` days. It
is given only where the line rises and explains at least half of the variance; more would be a guess.

Exit codes: 0 done; 1 done, but files were skipped; 2 wrong use, or input of which nothing can be made.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.intake import Intake, RefusedInput, examine, read
from spark_jobs.session import session
from spark_jobs.timeline import THROTTLED, limits_over_time

FORECAST_DAYS = 14
REACHED = 0.8
"""The used part of a limit at which it should be raised before clients wait."""
EXPLAINED = 0.5
"""The part of the variance that the line must explain (R squared)."""
ROWS_MAX = 2_000
"""Groups and dimensions whose forecast is shown; the Parquet file has all of them."""

_GROUP = ["resource_group", "dimension"]
_SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Outcome:
    """A roll-up that was written: the forecast by group and dimension, and how it ends."""

    forecast: tuple[Mapping[str, Any], ...]
    days: int
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 when nothing was left out."""
        return 1 if self.warnings else 0


def hours(admitted: DataFrame, configuration: DataFrame) -> DataFrame:
    """One row per group, dimension and hour in which anybody took part.

    Columns: date; admitted; peak (the most of one second); held_s (seconds in which a broker's clients
    waited, added up over brokers); throttled_s (seconds in which some broker's clients waited more than
    a tenth of it); seconds (that were recorded of some broker) and broker_seconds (of each, added up);
    limit (the highest in force, per second; null is none); used (admitted over what the limit would have
    let through in the whole hour).
    """
    share_held = F.try_divide(F.sum("held_us"), F.sum("observed_us"))
    of_brokers = admitted.groupBy(*_GROUP, "broker", "second").agg(
        F.sum("admitted").alias("admitted"),
        F.sum("held_us").alias("held_us"),
        share_held.alias("share_held"),
    )
    of_seconds = of_brokers.groupBy(*_GROUP, "second").agg(
        F.sum("admitted").alias("admitted"),
        F.sum("held_us").alias("held_us"),
        F.max("share_held").alias("share_held"),
        F.count("*").alias("brokers"),
    )
    limits = F.broadcast(
        limits_over_time(configuration).select(*_GROUP, "limit", "from_second", "to_second")
    )
    moment = F.unix_seconds("second")
    same = [of_seconds[name] == limits[name] for name in _GROUP]
    in_force = moment.between(limits["from_second"], limits["to_second"])
    limited = of_seconds.join(limits, [*same, in_force], "left").select(
        *(of_seconds[name] for name in of_seconds.columns), "limit"
    )
    whole = F.max("limit").cast("double") * 3_600
    return (
        limited.groupBy(*_GROUP, F.date_trunc("hour", "second").alias("hour"))
        .agg(
            F.sum("admitted").alias("admitted"),
            F.max("admitted").alias("peak"),
            (F.sum("held_us") / 1e6).alias("held_s"),
            F.count_if(F.col("share_held") > THROTTLED).alias("throttled_s"),
            F.count("*").alias("seconds"),
            F.sum("brokers").alias("broker_seconds"),
            F.max("limit").alias("limit"),
            F.try_divide(F.sum("admitted"), whole).alias("used"),
        )
        .withColumn("date", F.to_date("hour"))
    )


def forecast(of_hours: DataFrame) -> DataFrame:
    """One row per group and dimension with a limit: where its use goes.

    Columns: hours (that the line goes through), used (in the last hour, on the line), per_day (how much
    that grows), explained (R squared), reached (when the line is at 80 %; null where it does not rise,
    explains too little, or is more than ten years away).
    """
    day = F.unix_seconds("hour") / _SECONDS_PER_DAY
    recent = of_hours.where(F.col("used").isNotNull()).withColumn("day", day)
    last = recent.groupBy(*_GROUP).agg(F.max("day").alias("last"))
    line = (
        recent.join(last, _GROUP)
        .where(F.col("day") > F.col("last") - FORECAST_DAYS)
        .groupBy(*_GROUP)
        .agg(
            F.count("*").alias("hours"),
            F.max("last").alias("last"),
            F.regr_slope("used", "day").alias("per_day"),
            F.regr_intercept("used", "day").alias("start"),
            F.regr_r2("used", "day").alias("explained"),
        )
        .withColumn("used", F.col("start") + F.col("per_day") * F.col("last"))
    )
    in_days = F.try_divide(REACHED - F.col("used"), F.col("per_day"))
    telling = (F.col("per_day") > 0) & (F.col("explained") >= EXPLAINED)
    soon = telling & (in_days < 3_650)
    moment = (F.col("last") + F.greatest(in_days, F.lit(0.0))) * _SECONDS_PER_DAY
    return line.select(
        *_GROUP, "hours", "used", "per_day", "explained",
        F.when(soon, F.timestamp_seconds(moment)).alias("reached"),
    )  # fmt: skip


def roll_up(
    spark: SparkSession, directory: Path, out: Path, *, cluster: str | None = None
) -> Outcome:
    """Write the hours of every recorded day, and the forecast from all hours that were ever written.

    Raises:
        RefusedInput: nothing can be made of the directory.
        OSError: the output cannot be written.
    """
    intake = examine(directory, cluster)
    target = str(out / "hours")
    try:
        found = hours(
            read(spark, intake, "admitted"), read(spark, intake, "configuration")
        ).persist()
        kept = more_complete(spark, target, found, "broker_seconds")
        new = found.where(~F.col("date").isin(kept)).write.mode("overwrite")
        new.option("partitionOverwriteMode", "dynamic").partitionBy("date").parquet(target)
        written = spark.read.parquet(target)
        line = forecast(written).persist()
        line.coalesce(1).write.mode("overwrite").parquet(str(out / "forecast"))
        ordered = line.orderBy(F.desc_nulls_last("used"), *_GROUP)
        rows = tuple(row.asDict() for row in ordered.limit(ROWS_MAX).collect())
        days = written.select("date").distinct().count()
    except (PySparkException, Py4JJavaError) as error:
        reason = str(error).strip().splitlines()[0]
        raise RefusedInput(f"{directory}: Spark could not roll it up: {reason}") from error
    finally:
        spark.catalog.clearCache()
    return Outcome(rows, days, tuple(warnings_of(intake)))


def text(outcome: Outcome) -> str:
    """The forecast as a table for a terminal."""
    lines = [
        f"{'group':<16} {'dimension':<20} {'hours':>6} {'used':>7} {'per day':>9}  80 % is reached"
    ]
    for row in outcome.forecast:
        reached = "-" if row["reached"] is None else f"{row['reached']:%Y-%m-%d %H:%M}"
        per_day = "-" if row["per_day"] is None else f"{row['per_day']:+.2%}"
        used = "-" if row["used"] is None else f"{row['used']:.1%}"
        lines.append(
            f"{row['resource_group']:<16} {row['dimension']:<20} {row['hours']:>6} {used:>7}"
            f" {per_day:>9}  {reached}"
        )
    return "\n".join([*lines, *(f"warning: {warning}" for warning in outcome.warnings)])


def produce(directory: Path, out: Path, *, cluster: str | None = None, cores: int = 2) -> Outcome:
    """Roll up with a session of its own.

    Raises:
        RefusedInput: nothing can be made of the directory.
        OSError: the output cannot be written.
    """
    examine(directory, cluster)  # refuses before a session is started
    return roll_up(session("pulsar-quota rollup", cores), directory, out, cluster=cluster)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point for spark-submit."""
    parser = argparse.ArgumentParser(prog="usage_rollup", description=__doc__)
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


def more_complete(spark: SparkSession, target: str, found: DataFrame, measure: str) -> list[date]:
    """The days of which more (by this column) was known when they were written than there is now."""
    try:
        written = spark.read.parquet(target)
    except AnalysisException:
        return []  # nothing was written yet
    before = written.groupBy("date").agg(F.sum(measure).alias("before"))
    now = found.groupBy("date").agg(F.sum(measure).alias("now"))
    fewer = before.join(now, "date").where(F.col("now") < F.col("before"))
    return [row["date"] for row in fewer.collect()]


def warnings_of(intake: Intake) -> list[str]:
    """What was left out, in words."""
    if not intake.skipped:
        return []
    first = intake.skipped[0]
    return [f"{len(intake.skipped)} files were skipped, the first is {first.path}: {first.reason}"]


if __name__ == "__main__":
    sys.exit(main())
