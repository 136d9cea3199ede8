"""Find the hours of which something is missing: usage that was not recorded is on no bill.

Of an hour of a broker is missing: the seconds of its gaps (events.py), the minutes in which the others
heard reports of it while it recorded nothing at all, and rows that its recorder dropped, as on a full
disk. Of a broker whose sidecar was off nothing is known, and nothing is said. The minutes after the last
recorded one do not count: its sidecar may hold their rows, and write them soon.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs import events
from spark_jobs.recording import Recording

NAMED_MAX = 3
"""Hours that a warning names; the Parquet file has all of them."""

_HOUR = ["broker", "hour"]
_MISSING = ["missing_s", "rows_dropped"]
_MINUTE_S = 60
_HOUR_S = 3_600


def coverage(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per broker and hour that is known of: date, recorded_s, missing_s and rows_dropped.

    Args:
        tables: as recorded.
    """
    lifecycle, reports = tables["lifecycle"], tables["reports"]
    runs = events.runs(lifecycle, tables["membership"], reports)
    of_gaps = events.gaps(lifecycle, runs)
    alive = lifecycle.where(F.col("cause") == "alive")
    recorded = alive.groupBy(*_of("second")).agg(F.countDistinct("second").alias("recorded_s"))
    found = (
        recorded.join(_missing(alive, reports, of_gaps), _HOUR, "full")
        .join(_dropped(lifecycle), _HOUR, "left")
        .fillna(0, ["recorded_s", *_MISSING])
    )
    return found.withColumn("date", F.to_date("hour"))


def with_missing(lines: DataFrame, covered: DataFrame, by: str) -> DataFrame:
    """Add missing_s and rows_dropped of all brokers to lines.

    Args:
        lines: each of an hour or a month.
        covered: what `coverage` returns.
        by: their column that says of which: hour, or month as in 2027-01.
    """
    in_months = covered.withColumn("month", F.date_format("hour", "yyyy-MM"))
    sums = in_months.groupBy(by).agg(*(F.sum(name).alias(name) for name in _MISSING))
    return lines.join(F.broadcast(sums), by, "left").fillna(0, _MISSING)


def warnings_of(recording: Recording, covered: DataFrame) -> tuple[str, ...]:
    """The hours of which something is missing, in a sentence."""
    if not recording.rows.get("lifecycle"):
        return ("no row of table lifecycle: whether hours are missing is not known",)
    lacking = covered.where((F.col("missing_s") > 0) | (F.col("rows_dropped") > 0))
    at = F.date_format("hour", "yyyy-MM-dd HH:00").alias("at")
    first = lacking.orderBy("hour", "broker").select("*", at).limit(NAMED_MAX).collect()
    if not first:
        return ()
    others = lacking.count() - len(first)
    named = "; ".join(
        f"{row['broker']} {row['at']} lacks {row['missing_s']:,} s"
        + f" and {row['rows_dropped']:,} dropped rows" * bool(row["rows_dropped"])
        for row in first
    )
    more = f"; {others:,} more in coverage" if others else ""
    return (f"not recorded as a whole: {named}{more}",)


def _of(moment: str | Column) -> list[Column]:
    return [F.col("broker"), F.date_trunc("hour", moment).alias("hour")]


def _missing(alive: DataFrame, reports: DataFrame, of_gaps: DataFrame) -> DataFrame:
    """One row per broker and hour: missing_s."""
    first, last = (F.floor(F.col(name) / _HOUR_S) for name in ("from_second", "to_second"))
    in_gaps = of_gaps.withColumn("number", F.explode(F.sequence(first, last))).select(
        "broker",
        F.timestamp_seconds(F.col("number") * _HOUR_S).alias("hour"),
        (
            F.least("to_second", F.col("number") * _HOUR_S + _HOUR_S - 1)
            - F.greatest("from_second", F.col("number") * _HOUR_S)
            + 1
        ).alias("missing_s"),
    )
    told = of_gaps.select(F.col("broker").alias("of"), "from_second", "to_second")
    in_a_gap = [
        F.col("broker") == F.col("of"),
        F.col("minute") <= F.col("to_second"),
        F.col("minute") + _MINUTE_S > F.col("from_second"),
    ]
    silent = _silent(alive, reports).join(told, in_a_gap, "left_anti")
    of_minutes = silent.select(
        *_of(F.timestamp_seconds("minute")), F.lit(_MINUTE_S).cast("bigint").alias("missing_s")
    )
    return in_gaps.union(of_minutes).groupBy(*_HOUR).agg(F.sum("missing_s").alias("missing_s"))


def _silent(alive: DataFrame, reports: DataFrame) -> DataFrame:
    """One row per broker and minute, as its first second, in which it was heard and recorded nothing.

    A report is heard a little before a run's first second is recorded, and after its last one: so a
    minute beside a recorded one is not silent.
    """
    received = reports.where(F.col("direction") == "received")
    heard = received.select(F.col("sender").alias("broker"), _minute("ts"), F.lit(0).alias("alive"))
    recorded = alive.select("broker", _minute("second"), F.lit(1).alias("alive"))
    minutes = heard.union(recorded).groupBy("broker", "minute").agg(F.max("alive").alias("alive"))
    in_order = Window.partitionBy("broker").orderBy("minute")
    beside = F.max("alive").over(in_order.rangeBetween(-_MINUTE_S, _MINUTE_S))
    later = F.max("alive").over(in_order.rowsBetween(1, Window.unboundedFollowing))
    ever = F.max("alive").over(Window.partitionBy("broker"))
    silent = (F.col("beside") == 0) & ((F.col("later") == 1) | (F.col("ever") == 0))
    marked = minutes.withColumns({"beside": beside, "later": later, "ever": ever})
    return marked.where(silent).select("broker", "minute")


def _minute(moment: str) -> Column:
    return (F.floor(F.unix_seconds(moment) / _MINUTE_S) * _MINUTE_S).alias("minute")


def _dropped(lifecycle: DataFrame) -> DataFrame:
    """One row per broker and hour: rows_dropped, of which each run counts its own."""
    so_far = lifecycle.groupBy("run", *_of("ts")).agg(F.max("rows_dropped").alias("most"))
    before = F.lag("most", 1, 0).over(Window.partitionBy("broker", "run").orderBy("hour"))
    return (
        so_far.withColumn("rows_dropped", F.col("most") - before)
        .groupBy(*_HOUR)
        .agg(F.sum("rows_dropped").alias("rows_dropped"))
    )
