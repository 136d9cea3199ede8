"""The trust that the recording itself deserves: clocks, report ages, control bytes, dropped rows.

*Clock skew* needs no clock that is right. A report that A sent at its time t and B received at its time
t' bounds the difference of their clocks: t' - t = delay + skew, and a delay is never negative. With the
smallest difference of each direction, B - A lies between -min(B to A) and min(A to B); the middle is the
estimate, half the width its uncertainty (Cristian 1989). Figures are not corrected by it, they are
flagged when it could move a message to another second.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

_REPORT = ["sender", "sender_incarnation", "sequence"]


def clock_skew(reports: DataFrame) -> DataFrame:
    """One row per pair of brokers a < b.

    Columns: skew_s of b against a, apart_s (without its sign), uncertainty_s, reports compared.
    """
    sent = (
        reports.where(F.col("direction") == "sent")
        .groupBy(*_REPORT)
        .agg(F.min("ts").alias("sent_ts"))
    )
    received = (
        reports.where(F.col("direction") == "received")
        .groupBy(*_REPORT, F.col("broker").alias("receiver"))
        .agg(F.min("ts").alias("received_ts"))
    )
    took = received.join(sent, _REPORT).select(
        "sender",
        "receiver",
        (F.unix_micros("received_ts") - F.unix_micros("sent_ts")).alias("took_us"),
    )
    there = F.min(F.when(F.col("sender") < F.col("receiver"), F.col("took_us")))
    back = F.min(F.when(F.col("sender") > F.col("receiver"), F.col("took_us")))
    skew_s = (there - back) / 2e6
    of_pairs = took.groupBy(
        F.least("sender", "receiver").alias("a"), F.greatest("sender", "receiver").alias("b")
    ).agg(
        skew_s.alias("skew_s"),
        F.abs(skew_s).alias("apart_s"),
        ((there + back) / 2e6).alias("uncertainty_s"),
        F.count("*").alias("reports"),
    )
    return of_pairs.where("skew_s is not null")


def report_ages(reports: DataFrame) -> DataFrame:
    """The age of a report when the next one replaces it: p50_s, p99_s and max_s per pair of brokers.

    That of a sender that has gone and come back is not replaced: it was forgotten in between.
    """
    arrivals = (
        reports.where(F.col("direction") == "received")
        .groupBy(F.col("broker").alias("receiver"), "run", *_REPORT)
        .agg(F.min("monotonic_ns").alias("arrived_ns"))
    )
    in_order = Window.partitionBy("receiver", "run", "sender", "sender_incarnation").orderBy(
        "arrived_ns"
    )
    ages = arrivals.withColumn(
        "age_s", (F.col("arrived_ns") - F.lag("arrived_ns").over(in_order)) / 1e9
    ).where(F.col("age_s").isNotNull())
    return ages.groupBy("receiver", "sender").agg(
        F.percentile_approx("age_s", 0.5, 10_000).alias("p50_s"),
        F.percentile_approx("age_s", 0.99, 10_000).alias("p99_s"),
        F.max("age_s").alias("max_s"),
        F.count("*").alias("reports"),
    )


def control_bytes(reports: DataFrame) -> DataFrame:
    """The reports that each broker publishes: reports, bytes, bytes_per_second, bytes_per_row."""
    sent = (
        reports.where(F.col("direction") == "sent")
        .groupBy("broker", *_REPORT)
        .agg(
            F.max("report_bytes").alias("report_bytes"),
            F.count("resource_group").alias("report_rows"),
            F.min("ts").alias("ts"),
        )
    )
    span_s = (F.unix_micros(F.max("ts")) - F.unix_micros(F.min("ts"))) / 1e6
    return sent.groupBy("broker").agg(
        F.count("*").alias("reports"),
        F.sum("report_bytes").alias("bytes"),
        F.try_divide(F.sum("report_bytes").cast("double"), span_s).alias("bytes_per_second"),
        F.try_divide(F.sum("report_bytes").cast("double"), F.sum("report_rows")).alias(
            "bytes_per_row"
        ),
    )


def operations(recorded_stages: DataFrame) -> DataFrame:
    """One row per change of a group, as it stood last: stage, settle_s, residual, who gained or lost."""
    stood = F.struct(
        "resource_group",
        "text",
        "actor",
        "stage",
        (F.col("settle_us") / 1e6).alias("settle_s"),
        (F.col("residual_permille") / 1000).alias("residual"),
        "moved",
    )
    last = recorded_stages.groupBy("operation", "accepted").agg(F.max_by(stood, "ts").alias("last"))
    return last.select("operation", F.unix_seconds("accepted").alias("accepted"), "last.*")


def enforcement(recorded_paths: DataFrame) -> DataFrame:
    """One row per broker and enforcement path that it had: path, interval_s of its own limiter."""
    return recorded_paths.groupBy("broker", "path").agg(F.max("interval_s").alias("interval_s"))


def escaped(recorded_escapes: DataFrame) -> DataFrame:
    """One row per namespace and class round the gates: brokers, messages, bytes, first, last second."""
    return (
        recorded_escapes.withColumn("namespace", F.concat_ws("/", "tenant", "namespace"))
        .groupBy("namespace", "monitoring_class")
        .agg(
            F.array_join(F.sort_array(F.collect_set("broker")), ", ").alias("brokers"),
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.min(F.unix_seconds("since")).alias("first"),
            F.max(F.unix_seconds("since") + (F.col("observed_us") / 1e6).cast("long")).alias(
                "last"
            ),
        )
    )


def recorded(lifecycle: DataFrame, of_gaps: DataFrame) -> DataFrame:
    """One row per broker: runs, seconds recorded, gaps, seconds missing in them, rows dropped."""
    seconds = (
        lifecycle.groupBy("broker", "run")
        .agg(
            F.sum((F.col("cause") == "alive").cast("int")).alias("seconds"),
            F.max("rows_dropped").alias("rows_dropped"),
        )
        .groupBy("broker")
        .agg(
            F.count("*").alias("runs"),
            F.sum("seconds").alias("seconds"),
            F.sum("rows_dropped").alias("rows_dropped"),
        )
    )
    missing = of_gaps.groupBy("broker").agg(
        F.count("*").alias("gaps"),
        F.sum(F.col("to_second") - F.col("from_second") + 1).alias("seconds_missing"),
    )
    return seconds.join(missing, "broker", "left").fillna(0, ["gaps", "seconds_missing"])
