"""When a limit will be reached, from the part of it that each hour used.

The forecast is a straight line through the used part of each hour of the last ``FORECAST_DAYS`` days;
what had no limit in them has none. It is given only where the line rises and explains at least half of
the variance; more would be a guess.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

FORECAST_DAYS = 14
REACHED = 0.8
"""The used part of a limit at which it should be raised before clients wait."""
EXPLAINED = 0.5
"""The part of the variance that the line must explain (R squared)."""

_FORETOLD_DAYS = 3_650
_SECONDS_PER_DAY = 86_400


def forecast(of_hours: DataFrame, by: Sequence[str]) -> DataFrame:
    """One row for each of what has a limit: where its use goes.

    Columns: those of ``by``; hours (that the line goes through), used (in the last hour, on the line),
    per_day (how much that grows), explained (R squared), reached (when the line is at 80 %; null where
    it does not rise, explains too little, or is more than ten years away).

    Args:
        of_hours: hour, used (null is no limit), and what it is of.
        by: what tells apart what has a limit.
    """
    hours = of_hours.withColumn("day", F.unix_seconds("hour") / _SECONDS_PER_DAY)
    recent = hours.crossJoin(hours.agg(F.max("day").alias("newest"))).where(
        F.col("used").isNotNull() & (F.col("day") > F.col("newest") - FORECAST_DAYS)
    )
    line = (
        recent.groupBy(*by)
        .agg(
            F.count("*").alias("hours"),
            F.max("day").alias("last"),
            F.regr_slope("used", "day").alias("per_day"),
            F.regr_intercept("used", "day").alias("start"),
            F.regr_r2("used", "day").alias("explained"),
        )
        .withColumn("used", F.col("start") + F.col("per_day") * F.col("last"))
    )
    return line.select(*by, "hours", "used", "per_day", "explained", _reached().alias("reached"))


def _reached() -> Column:
    in_days = F.try_divide(REACHED - F.col("used"), F.col("per_day"))
    telling = (F.col("per_day") > 0) & (F.col("explained") >= EXPLAINED)
    moment = (F.col("last") + F.greatest(in_days, F.lit(0.0))) * _SECONDS_PER_DAY
    return F.when(telling & (in_days < _FORETOLD_DAYS), F.timestamp_seconds(moment))
