"""From frames to the bounded values that one page can hold.

Nothing is collected without a bound: at most ``EVENTS_MAX`` events, ``GROUPS_MAX`` groups with curves
of ``POINTS_MAX`` points and ``BROKERS_MAX`` brokers, ``WORST_MAX`` worst seconds. What does not fit is
counted, and the Parquet files beside the page have all of it. A curve's point stands for several seconds
when there are more seconds than points; of those it keeps the mean and the largest value, so that no
peak vanishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

EVENTS_MAX = 2_000
GROUPS_MAX = 8
BROKERS_MAX = 24
POINTS_MAX = 600
WORST_MAX = 10
PAIRS_MAX = 500

_GROUP = ["resource_group", "dimension"]

Value = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Curves:
    """What is drawn of one group and dimension.

    Args:
        resource_group: the group.
        dimension: the dimension.
        step_s: seconds that a point stands for.
        points: of the group: second, limit, admitted, admitted_max, known.
        brokers: of each broker: points of second, admitted, fair.
        brokers_left_out: brokers that are not drawn.
    """

    resource_group: str
    dimension: str
    step_s: int
    points: list[Value]
    brokers: Mapping[str, list[Value]]
    brokers_left_out: int


@dataclass(slots=True)
class Collected:
    """Everything that the page, the summary and figures.json show."""

    events: list[Value] = field(default_factory=list)
    events_left_out: int = 0
    curves: list[Curves] = field(default_factory=list)
    groups_left_out: int = 0
    worst: list[Value] = field(default_factory=list)
    skew: list[Value] = field(default_factory=list)
    ages: list[Value] = field(default_factory=list)
    control: list[Value] = field(default_factory=list)
    recorded: list[Value] = field(default_factory=list)
    gaps: list[Value] = field(default_factory=list)
    operations: list[Value] = field(default_factory=list)


def rows(frame: DataFrame, limit: int) -> list[Value]:
    """The first rows of a frame as plain values."""
    return [row.asDict(recursive=True) for row in frame.limit(limit).collect()]


def worst_seconds(groups: DataFrame, events: DataFrame) -> list[Value]:
    """The known seconds in which most passed too much, and those furthest from fair shares."""
    over = F.try_divide(F.col("admitted"), F.col("limit").cast("double")) - 1
    periods = events.select(*_GROUP, "event", "kinds", "happened", "ends")
    ranked = (
        groups.where("known")
        .withColumn("over", over)
        .orderBy(F.desc(F.greatest("over", "worst")), "second")
        .limit(WORST_MAX)
    )
    found = ranked.join(periods, _GROUP).where(
        F.col("second").between(F.col("happened"), F.col("ends"))
    )
    return rows(found.orderBy(F.desc(F.greatest("over", "worst")), "second"), WORST_MAX)


def curves(groups: DataFrame, brokers: DataFrame) -> tuple[list[Curves], int]:
    """The curves of the groups with most seconds, and how many groups are left out."""
    spans = (
        groups.groupBy(*_GROUP)
        .agg(F.min("second").alias("first"), F.max("second").alias("last"))
        .orderBy(F.desc(F.col("last") - F.col("first")), *_GROUP)
    )
    chosen = rows(spans, GROUPS_MAX)
    left_out = max(0, spans.count() - len(chosen))
    return [_curves_of(groups, brokers, span) for span in chosen], left_out


def _curves_of(groups: DataFrame, brokers: DataFrame, span: Value) -> Curves:
    first, last = span["first"], span["last"]
    step_s = -(-(last - first + 1) // POINTS_MAX)
    same = (F.col("resource_group") == span["resource_group"]) & (
        F.col("dimension") == span["dimension"]
    )
    point = (
        F.lit(first) + F.floor((F.col("second") - F.lit(first)) / F.lit(step_s)) * F.lit(step_s)
    ).cast("bigint")
    points = (
        groups.where(same)
        .groupBy(point.alias("second"))
        .agg(
            F.max("limit").alias("limit"),
            F.avg("admitted").alias("admitted"),
            F.max("admitted").alias("admitted_max"),
            F.bool_and("known").alias("known"),
        )
        .orderBy("second")
    )
    of_broker = (
        brokers.where(same)
        .groupBy("broker", point.alias("second"))
        .agg(F.avg("admitted").alias("admitted"), F.avg("fair").alias("fair"))
        .orderBy("broker", "second")
    )
    names = [row["broker"] for row in rows(of_broker.select("broker").distinct(), 10_000)]
    drawn = sorted(names)[:BROKERS_MAX]
    by_broker: dict[str, list[Value]] = {name: [] for name in drawn}
    few = of_broker.where(F.col("broker").isin(drawn))
    for row in rows(few, BROKERS_MAX * (POINTS_MAX + 1)):
        by_broker[row["broker"]].append(row)
    return Curves(
        resource_group=span["resource_group"],
        dimension=span["dimension"],
        step_s=step_s,
        points=rows(points, POINTS_MAX + 1),
        brokers=by_broker,
        brokers_left_out=len(names) - len(drawn),
    )
