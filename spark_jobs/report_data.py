"""From frames to the bounded values that one page can hold.

Every table and chart of the page is made of a frame that was written as Parquet, and of its first rows in
an order: ``TABLES`` has the order, and how many. What does not fit is counted, and the Parquet files
beside the page have it.

A curve has at most ``POINTS_MAX`` points, and a page those of ``GROUPS_MAX`` groups and ``BROKERS_MAX``
brokers each. A point stands for several seconds when there are more seconds than points; of those it
keeps the mean and the largest value, so that no peak vanishes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.session import AT_ONCE

GROUPS_MAX = 8
BROKERS_MAX = 24
POINTS_MAX = 600
WORST_MAX = 10

_GROUP = ["resource_group", "dimension"]
_ROWS_MAX = 500

TABLES: Mapping[str, tuple[tuple[str, ...], int]] = {
    "events": ((*_GROUP, "event"), 2_000),
    "curves": ((*_GROUP, "second"), GROUPS_MAX * POINTS_MAX),
    "broker_curves": ((*_GROUP, "place", "second"), GROUPS_MAX * BROKERS_MAX * POINTS_MAX),
    "worst_seconds": (("-furthest_off", "second"), WORST_MAX),
    "clock_skew": (("-apart_s", "a", "b"), _ROWS_MAX),
    "report_ages": (("receiver", "sender"), _ROWS_MAX),
    "control_bytes": (("broker",), _ROWS_MAX),
    "recorded": (("broker",), _ROWS_MAX),
    "gaps": (("from_second", "broker"), _ROWS_MAX),
    "operations": (("accepted", "operation"), _ROWS_MAX),
    "enforcement": (("broker", "path"), _ROWS_MAX),
    "escaped": (("-bytes", "namespace", "monitoring_class"), _ROWS_MAX),
    "buckets": ((*_GROUP, "length_s"), _ROWS_MAX),
    "trees": (("dimension", "root", "level", "resource_group"), _ROWS_MAX),
}  # fmt: skip
"""The tables of a page: by which columns each is ordered (- is downwards), and its rows at most."""

Value = Mapping[str, Any]


@dataclass(slots=True)
class ReportData:
    """Everything that the page, the summary and figures.json show of one recording.

    The rows of ``TABLES``, and `left_out`: how many rows a table has besides, and how many ``groups``
    have no curves.
    """

    events: list[Value] = field(default_factory=list)
    curves: list[Value] = field(default_factory=list)
    broker_curves: list[Value] = field(default_factory=list)
    worst_seconds: list[Value] = field(default_factory=list)
    clock_skew: list[Value] = field(default_factory=list)
    report_ages: list[Value] = field(default_factory=list)
    control_bytes: list[Value] = field(default_factory=list)
    recorded: list[Value] = field(default_factory=list)
    gaps: list[Value] = field(default_factory=list)
    operations: list[Value] = field(default_factory=list)
    enforcement: list[Value] = field(default_factory=list)
    escaped: list[Value] = field(default_factory=list)
    buckets: list[Value] = field(default_factory=list)
    trees: list[Value] = field(default_factory=list)
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peer:
    """Another recording that is shown beside, for example of Pulsar's own resource groups."""

    cluster: str
    collected: ReportData
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Curves:
    """The curves of one group and dimension.

    Args:
        resource_group: the group.
        dimension: the dimension.
        step_s: seconds that a point stands for.
        seconds: the first of each point, also of those of which nothing is known.
        points: of the group, by their first second.
        brokers: of each broker, by their first second.
        brokers_left_out: brokers that are not drawn.
    """

    resource_group: str
    dimension: str
    step_s: int
    seconds: Sequence[int]
    points: Mapping[int, Value]
    brokers: Mapping[str, Mapping[int, Value]]
    brokers_left_out: int

    def along(self, column: str, broker: str | None = None) -> list[float]:
        """A column of the group or a broker, point by point; NaN where there is none."""
        points = self.points if broker is None else self.brokers[broker]
        found = (points[second][column] if second in points else None for second in self.seconds)
        return [math.nan if value is None else float(value) for value in found]

    def known(self, column: str, broker: str | None = None) -> list[float]:
        """The same, and NaN where not all brokers were recorded."""
        known = (self.points.get(second, {}).get("known") for second in self.seconds)
        values = self.along(column, broker)
        return [value if of else math.nan for value, of in zip(values, known, strict=True)]


def collect(made: Mapping[str, DataFrame]) -> ReportData:
    """The bounded part that one page shows.

    Args:
        made: the frames of a report by name; those of ``TABLES`` may lack the trees.
    """
    names = [name for name in TABLES if name in made]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda name: _first_rows(name, made[name]), names)
    shown, left_out = {}, {}
    for name, (rows, more) in zip(names, found, strict=True):
        shown[name], left_out[name] = rows, more
    drawn = {_name(point) for point in shown["curves"]}
    if len(drawn) == GROUPS_MAX:
        groups = made["group_seconds"].select(*_GROUP).distinct().count()
        left_out["groups"] = groups - GROUPS_MAX
    return ReportData(**shown, left_out=left_out)


def _first_rows(name: str, table: DataFrame) -> tuple[list[Value], int]:
    """The rows of a table that a page shows, and how many it has besides."""
    order, most = TABLES[name]
    frame = table.where("limit is not null") if name == "trees" else table
    by = [F.desc(each[1:]) if each.startswith("-") else F.asc(each) for each in order]
    first = frame.orderBy(*by).limit(most).collect()
    more = frame.count() - most if len(first) == most else 0
    return [row.asDict(recursive=True) for row in first], more


def worst_seconds(groups: DataFrame, events: DataFrame) -> DataFrame:
    """The known seconds in which most passed too much, and those furthest from fair shares."""
    over = F.try_divide(F.col("admitted"), F.col("limit").cast("double")) - 1
    ranked = (
        groups.where("known")
        .withColumn("over", over)
        .withColumn("furthest_off", F.greatest("over", "worst"))
        .orderBy(F.desc("furthest_off"), "second")
        .limit(WORST_MAX)
    )
    periods = events.select(*_GROUP, "event", "kinds", "happened", "ends")
    return ranked.join(periods, _GROUP).where(
        F.col("second").between(F.col("happened"), F.col("ends"))
    )


def curves(groups: DataFrame) -> DataFrame:
    """The points of the groups with most seconds; `second` is the first of `step_s` ones."""
    last = F.max("second")
    spans = groups.groupBy(*_GROUP).agg(
        F.min("second").alias("first"),
        F.ceil((last - F.min("second") + 1) / POINTS_MAX).alias("step_s"),
        (last - F.min("second")).alias("span"),
    )
    drawn = F.broadcast(spans.orderBy(F.desc("span"), *_GROUP).limit(GROUPS_MAX))
    # All groups at once: every query has a price of its own, however little it looks at.
    return (
        groups.join(drawn, _GROUP)
        .groupBy(*_GROUP, "step_s", _point().alias("second"))
        .agg(
            F.max("limit").alias("limit"),
            F.avg("admitted").alias("admitted"),
            F.max("admitted").alias("admitted_max"),
            F.bool_and("known").alias("known"),
        )
    )


def broker_curves(brokers: DataFrame, of_groups: DataFrame) -> DataFrame:
    """The points of the first brokers of these groups; each has a place among them all.

    Args:
        brokers: broker seconds.
        of_groups: the points of the groups.
    """
    drawn = of_groups.groupBy(*_GROUP, "step_s").agg(F.min("second").alias("first"))
    of_group = Window.partitionBy(*_GROUP)
    return (
        brokers.join(F.broadcast(drawn), _GROUP)
        .groupBy(*_GROUP, "broker", _point().alias("second"))
        .agg(F.avg("admitted").alias("admitted"), F.avg("fair").alias("fair"))
        .withColumn("place", F.dense_rank().over(of_group.orderBy("broker")))
        .withColumn("brokers", F.max("place").over(of_group))
        .where(F.col("place") <= BROKERS_MAX)
    )


def curves_of(collected: ReportData) -> list[Curves]:
    """The curves of a page, those of most seconds first."""
    of_groups: dict[tuple[str, str], dict[int, Value]] = defaultdict(dict)
    for point in collected.curves:
        of_groups[_name(point)][point["second"]] = point
    of_brokers: dict[tuple[str, str], dict[str, dict[int, Value]]] = defaultdict(dict)
    there_are: dict[tuple[str, str], int] = {}
    for point in collected.broker_curves:
        there_are[_name(point)] = point["brokers"]
        of_brokers[_name(point)].setdefault(point["broker"], {})[point["second"]] = point
    found = []
    for name, points in of_groups.items():
        step_s = next(iter(points.values()))["step_s"]
        seconds = range(min(points), max(points) + 1, step_s)
        brokers = of_brokers[name]
        more = there_are.get(name, 0) - len(brokers)
        found.append(Curves(*name, step_s, seconds, points, brokers, more))
    return sorted(found, key=lambda each: each.seconds[0] - each.seconds[-1])


def _point() -> Column:
    """The first second of the point that a second belongs to."""
    since = F.floor((F.col("second") - F.col("first")) / F.col("step_s"))
    return (F.col("first") + since * F.col("step_s")).cast("bigint")


def _name(row: Value) -> tuple[str, str]:
    return row["resource_group"], row["dimension"]
