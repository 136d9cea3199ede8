"""Backlogs by topic and hour, and when one reaches its quota if it goes on like this.

Run as ``pulsar-quota backlog-trends DIR --out DIR`` or with spark-submit. Each hour of each topic has a
row for its size (bytes) and one for the age of its oldest message (seconds): mean, peak, growth, the
used part of the quota, and in how many checks the quota was exceeded. The rows go to
``hours/date=YYYY-MM-DD``, the forecast to ``trends``; days.py says how often days are written, what a
forecast is worth, and how the job ends. The quota stands in the limit's place.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.claims import writing
from spark_jobs.days import DaysOutcome, Job, forecast, foretold, write_days
from spark_jobs.intake import FileIntake, read
from spark_jobs.places import StorePlace
from spark_jobs.session import computing

TABLE = "backlogs"

_TOPIC = ("namespace", "topic", "quota_type")


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

    Columns: those of a forecast, and exceeded (checks that ever saw it exceeded).
    """
    totals = of_hours.groupBy(*_TOPIC).agg(F.sum("exceeded").alias("exceeded"))
    return forecast(of_hours, _TOPIC).join(totals, [*_TOPIC])


def follow(spark: SparkSession, intake: FileIntake, out: Path | StorePlace) -> DaysOutcome:
    """Write the hours of every recorded day, and the trends of all hours that were ever written.

    Raises:
        RefusedInput: nothing can be made of it.
        OSError: the output cannot be written.
    """
    with (
        writing(spark, out) as (target, _),
        computing(spark, f"{intake.directory}: Spark could not make trends"),
    ):
        found = hours(read(spark, intake, TABLE))
        written = write_days(spark, found, target / "hours", "checks")
        return foretold(intake, written, trends(written), target / "trends")


JOB = Job(
    "backlog-trends",
    (TABLE,),
    follow,
    layout="{quota_type:<6} {used:>7} {per_day:>9} {exceeded:>9}  {reached:<16}   {topic}",
    titles={"quota_type": "quota", "exceeded": "exceeded", "topic": "topic"},
)


if __name__ == "__main__":
    sys.exit(JOB.main())
