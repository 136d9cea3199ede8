"""Usage by hour, for billing and capacity planning, and when a group reaches 80 % of its limit.

Run as ``pulsar-quota rollup DIR --out DIR`` or with spark-submit. Usage by group and dimension goes to
``hours/date=YYYY-MM-DD``, usage by tenant, namespace and group to ``namespaces/date=YYYY-MM-DD``, usage
by tree of groups to ``trees/date=YYYY-MM-DD``, what is missing of each broker's hours to
``coverage/date=YYYY-MM-DD``, the forecast to ``forecast``; days.py says how often days are written, and
forecast.py what a forecast is worth.

Exit codes: 0 done; 1 done, but files were left out or hours are not whole; 2 wrong use, or input of which
nothing can be made.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.claims import writing
from spark_jobs.coverage import coverage, warnings_of, with_missing
from spark_jobs.days import write_days
from spark_jobs.forecast import forecast
from spark_jobs.places import StorePlace, place_of
from spark_jobs.program import parser_of, run
from spark_jobs.recording import ReadOptions, Recording, recording_of
from spark_jobs.session import computing
from spark_jobs.timeline import THROTTLED, held_share, highest_limit, limits_over_time
from spark_jobs.trees import tree_hours

GROUP = ("resource_group", "dimension")
"""The columns that name a limit."""
ROWS_MAX = 2_000
"""Lines of a forecast that are shown; the Parquet file has all of them."""

_LINE = "{resource_group:<16} {dimension:<20} {hours:>6} {used:>7} {per_day:>9}  {reached}"
_TITLES = {
    "resource_group": "group", "dimension": "dimension", "hours": "hours", "used": "used",
    "per_day": "per day", "reached": "80 % is reached (UTC)",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RollUpOutcome:
    """Days that were written: how many there are now, the forecast line by line, and how it ends."""

    rows: tuple[Mapping[str, Any], ...]
    days: int
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 when nothing was left out."""
        return 1 if self.warnings else 0


def hours(admitted: DataFrame, configuration: DataFrame) -> DataFrame:
    """One row per group, dimension and hour in which a broker took part.

    Columns: date; admitted; peak (the most of one second); held_s (seconds in which a broker's clients
    waited, added up over brokers); throttled_s (seconds in which some broker's clients waited more than
    a tenth of it); seconds (that were recorded of some broker) and broker_seconds (of each, added up);
    limit (the highest in force, per second; null is none, if only for a part of the hour); used (admitted
    over what the limit would have let through in the whole hour).
    """
    of_brokers = admitted.groupBy(*GROUP, "broker", "second").agg(
        F.sum("admitted").alias("admitted"),
        F.sum("held_us").alias("held_us"),
        held_share(F.sum("held_us"), F.sum("observed_us")).alias("share_held"),
    )
    of_seconds = of_brokers.groupBy(*GROUP, "second").agg(
        F.sum("admitted").alias("admitted"),
        F.sum("held_us").alias("held_us"),
        F.max("share_held").alias("share_held"),
        F.count("*").alias("brokers"),
    )
    limits = F.broadcast(
        limits_over_time(configuration).select(*GROUP, "limit", "from_second", "to_second")
    )
    moment = F.unix_seconds("second")
    same = [of_seconds[name] == limits[name] for name in GROUP]
    in_force = moment.between(limits["from_second"], limits["to_second"])
    limited = of_seconds.join(limits, [*same, in_force], "left").select(
        *(of_seconds[name] for name in of_seconds.columns), "limit"
    )
    whole = highest_limit().cast("double") * 3_600
    return (
        limited.groupBy(*GROUP, F.date_trunc("hour", "second").alias("hour"))
        .agg(
            F.sum("admitted").alias("admitted"),
            F.max("admitted").alias("peak"),
            (F.sum("held_us") / 1e6).alias("held_s"),
            F.count_if(F.col("share_held") > THROTTLED).alias("throttled_s"),
            F.count("*").alias("seconds"),
            F.sum("brokers").alias("broker_seconds"),
            highest_limit().alias("limit"),
            F.try_divide(F.sum("admitted"), whole).alias("used"),
        )
        .withColumn("date", F.to_date("hour"))
    )


def namespace_hours(namespaces: DataFrame) -> DataFrame:
    """One row per tenant, namespace, group, class and hour in which something passed or waited.

    A namespace counts for each of its groups (its own, its tenant's, the cluster's), so tenants are added
    up over one group each; the group is null where it had none.

    Columns: date; messages and bytes admitted; held_s (seconds in which a broker's clients waited, added
    up over brokers); throttled_s (seconds in which some broker's clients waited more than a tenth of it);
    broker_minutes (in which that was so, of each broker, added up).
    """
    whose = ["tenant", "namespace", "resource_group", "monitoring_class"]
    of_minutes = (
        namespaces.withColumn("resource_group", F.explode_outer("resource_groups"))
        .groupBy(*whose, "minute")
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.sum("held_us").alias("held_us"),
            # A second in which clients waited at two brokers is one.
            F.bit_count(F.bit_or("throttled_seconds")).alias("throttled_s"),
            F.count("*").alias("broker_minutes"),
        )
    )
    return (
        of_minutes.groupBy(*whose, F.date_trunc("hour", "minute").alias("hour"))
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            (F.sum("held_us") / 1e6).alias("held_s"),
            F.sum("throttled_s").alias("throttled_s"),
            F.sum("broker_minutes").alias("broker_minutes"),
        )
        .withColumn("date", F.to_date("hour"))
    )


def roll_up(recording: Recording, out: Path | StorePlace) -> RollUpOutcome:
    """Write the hours of every recorded day, and the forecast from all hours that were ever written.

    Raises:
        RefusedInput: nothing can be made of it.
        OSError: the output cannot be written.
    """
    spark = recording.spark
    with (
        writing(spark, out) as (target, _),
        computing(spark, f"{recording.directory}: Spark could not roll it up"),
    ):
        tables = recording.tables
        keep = partial(write_days, spark, cluster=recording.cluster)
        covered = keep(coverage(tables), target / "coverage", "recorded_s")
        found = hours(tables["admitted"], tables["configuration"])
        found = with_missing(found, covered, "hour")
        written = keep(found, target / "hours", "broker_seconds")
        by_namespace = with_missing(namespace_hours(tables["namespaces"]), covered, "hour")
        keep(by_namespace, target / "namespaces", "broker_minutes")
        if recording.rows.get("trees"):
            of_trees = tree_hours(tables["admitted"], tables["trees"])
            of_trees = with_missing(of_trees, covered, "hour")
            of_trees = keep(of_trees, target / "trees", "broker_seconds")
            used = written.unionByName(_parents(of_trees), allowMissingColumns=True)
        else:
            used = written
        lines = forecast(used, GROUP).persist()
        lines.coalesce(1).write.mode("overwrite").parquet((target / "forecast").for_spark)
        return RollUpOutcome(
            rows=tuple(first_lines(lines)),
            days=written.select("date").distinct().count(),
            warnings=(*recording.warnings, *warnings_of(recording, covered)),
        )


def first_lines(lines: DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the lines of a forecast that are shown, those that use most first; times are UTC."""
    ordered = lines.orderBy(F.desc_nulls_last("used"), "dimension", "resource_group").limit(
        ROWS_MAX
    )
    # Of a timestamp Python would make one of the host's own zone.
    for row in ordered.withColumn("reached", F.unix_seconds("reached")).collect():
        second = row["reached"]
        reached = None if second is None else datetime.fromtimestamp(second, UTC)
        yield {**row.asDict(), "reached": reached}


def _parents(of_trees: DataFrame) -> DataFrame:
    """The hours of groups that have no traffic of their own."""
    parents = of_trees.select(F.col("parent").alias("resource_group")).distinct()
    return of_trees.join(parents, "resource_group", "left_semi").select(*GROUP, "hour", "used")


def produce(
    directory: Path | StorePlace | str,
    out: Path | StorePlace | str,
    **reading: Unpack[ReadOptions],
) -> RollUpOutcome:
    """Do it with a session of its own.

    Raises:
        RefusedInput: nothing can be made of the directory.
        OSError: the output cannot be written.
    """
    target = place_of(out)
    return roll_up(recording_of("pulsar-quota rollup", directory, **reading), target)


def text(outcome: RollUpOutcome) -> str:
    """The forecast as a table for a terminal."""
    lines = (_LINE.format_map(_for_people(row)) for row in outcome.rows)
    warnings = (f"warning: {warning}" for warning in outcome.warnings)
    return "\n".join([_LINE.format_map(_TITLES), *lines, *warnings])


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "used": "-" if row["used"] is None else f"{row['used']:.1%}",
        "per_day": "-" if row["per_day"] is None else f"{row['per_day']:+.2%}",
        "reached": "-" if row["reached"] is None else f"{row['reached']:%Y-%m-%d %H:%M}",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point for spark-submit."""
    return run(parser_of("usage_rollup", __doc__, "where the hours go"), arguments, produce, text)


if __name__ == "__main__":
    sys.exit(main())
