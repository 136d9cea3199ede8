"""From frames to the bounded values that one page can hold.

Nothing is collected without a bound: at most ``EVENTS_MAX`` events, ``GROUPS_MAX`` groups with curves
of ``POINTS_MAX`` points and ``BROKERS_MAX`` brokers, ``WORST_MAX`` worst seconds. What does not fit is
counted, and the Parquet files beside the page have all of it. A curve's point stands for several seconds
when there are more seconds than points; of those it keeps the mean and the largest value, so that no
peak vanishes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
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
    """The curves of one group and dimension.

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
class ReportData:
    """Everything that the page, the summary and figures.json show of one recording."""

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
    enforcement: list[Value] = field(default_factory=list)
    escaped: list[Value] = field(default_factory=list)
    buckets: list[Value] = field(default_factory=list)
    trees: list[Value] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Peer:
    """Another recording that is shown beside, for example of Pulsar's own resource groups."""

    cluster: str
    collected: ReportData
    warnings: list[str]


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
    if not chosen:
        return [], 0
    steps = {_name(span): -(-(span["last"] - span["first"] + 1) // POINTS_MAX) for span in chosen}
    firsts = [{**span, "step_s": steps[_name(span)]} for span in chosen]
    # From Arrow: rows of Python would have to go through a Python worker.
    drawn = F.broadcast(groups.sparkSession.createDataFrame(pa.Table.from_pylist(firsts)))
    # All groups at once: every query has a price of its own, however little it looks at.
    points = _by_group(rows(_points(groups, drawn), GROUPS_MAX * (POINTS_MAX + 1)))
    numbered = _broker_points(brokers, drawn)
    few = numbered.where(F.col("place") <= BROKERS_MAX).orderBy(*_GROUP, "place", "second")
    of_brokers = _by_group(rows(few, GROUPS_MAX * BROKERS_MAX * (POINTS_MAX + 1)))
    there_are = {
        _name(row): row["brokers"]
        for row in rows(numbered.groupBy(*_GROUP).agg(F.max("place").alias("brokers")), GROUPS_MAX)
    }
    found = [
        _curves_of(name, step_s, points[name], of_brokers[name], there_are.get(name, 0))
        for name, step_s in steps.items()
    ]
    return found, max(0, spans.count() - len(chosen))


def _points(groups: DataFrame, drawn: DataFrame) -> DataFrame:
    return (
        groups.join(drawn, _GROUP)
        .groupBy(*_GROUP, _point().alias("second"))
        .agg(
            F.max("limit").alias("limit"),
            F.avg("admitted").alias("admitted"),
            F.max("admitted").alias("admitted_max"),
            F.bool_and("known").alias("known"),
        )
        .orderBy(*_GROUP, "second")
    )


def _broker_points(brokers: DataFrame, drawn: DataFrame) -> DataFrame:
    """Points of every broker; `place` is its number among the group's brokers."""
    by_name = Window.partitionBy(*_GROUP).orderBy("broker")
    return (
        brokers.join(drawn, _GROUP)
        .groupBy(*_GROUP, "broker", _point().alias("second"))
        .agg(F.avg("admitted").alias("admitted"), F.avg("fair").alias("fair"))
        .withColumn("place", F.dense_rank().over(by_name))
    )


def _point() -> Column:
    """The first second of the point that a second belongs to."""
    since = F.floor((F.col("second") - F.col("first")) / F.col("step_s"))
    return (F.col("first") + since * F.col("step_s")).cast("bigint")


def _name(row: Value) -> tuple[str, str]:
    return row["resource_group"], row["dimension"]


def _by_group(found: list[Value]) -> dict[tuple[str, str], list[Value]]:
    grouped: dict[tuple[str, str], list[Value]] = defaultdict(list)
    for row in found:
        grouped[_name(row)].append(row)
    return grouped


def _curves_of(
    name: tuple[str, str],
    step_s: int,
    points: list[Value],
    of_brokers: list[Value],
    brokers: int,
) -> Curves:
    by_broker: dict[str, list[Value]] = defaultdict(list)
    for row in of_brokers:
        by_broker[row["broker"]].append(row)
    return Curves(
        resource_group=name[0],
        dimension=name[1],
        step_s=step_s,
        points=points,
        brokers=dict(by_broker),
        brokers_left_out=brokers - len(by_broker),
    )
