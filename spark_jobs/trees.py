"""Usage by tree of groups: what a group and all groups below it admitted, used of a guarantee, borrowed.

Traffic belongs to groups without children; a group above them has theirs, added up second by second.
Where a group stood, and what it was guaranteed, is known from the table ``trees``, of which one sidecar
writes a second. A second without rows has those of the nearest second, at most ``NEAR_S`` away: its
sidecar may have died just then, and of very many groups not all are recorded every second.

Of what a group admits in a second, up to its guarantee is *guaranteed*; what goes beyond that which it is
entitled to, as all groups of its tree would leave it if they wanted everything, is *borrowed*.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.timeline import highest_limit

NEAR_S = 60
"""The furthest second from which a group's place is taken."""

SETTLES_S = 1
"""A second in which a part changes has both, and so has the next one: its row is of the second's end."""

_GROUP = ["resource_group", "dimension"]
_KEY = [*_GROUP, "moment"]


def places(trees: DataFrame) -> DataFrame:
    """One row per group, dimension and recorded second, its ``moment``, with all of it as ``place``."""
    place = F.struct("above", "cluster_limit", "guarantee", "entitled", "part")
    return trees.groupBy(*_GROUP, F.unix_seconds("second").alias("moment")).agg(
        F.max_by(place, "ts").alias("place")
    )


def parts_in_force(trees: DataFrame) -> DataFrame:
    """One row per group of a tree, dimension and second: its largest and smallest part.

    They differ, as ``part_high`` and ``part_low``, where the part has just changed.
    """
    in_order = Window.partitionBy(*_GROUP).orderBy("moment")
    lately = in_order.rangeBetween(-SETTLES_S, 0)
    until = F.coalesce(F.lead("moment").over(in_order) - 1, F.col("moment") + SETTLES_S)
    known = places(trees).where(F.col("place.part").isNotNull())
    return known.withColumns(
        {
            "part_high": F.max("place.part").over(lately),
            "part_low": F.min("place.part").over(lately),
            "until": F.least(until, F.col("moment") + NEAR_S),
        }
    ).select(
        *_GROUP,
        F.explode(F.sequence("moment", "until")).alias("second"),
        "part_high",
        "part_low",
    )


def tree_hours(admitted: DataFrame, trees: DataFrame) -> DataFrame:
    """One row per group of a tree, dimension and hour in which it or a group below it took part.

    Columns: date; root, parent (empty for the root), level (0 for the root); admitted, by it and all
    below; peak (the most of one second); guaranteed and borrowed, parts of admitted; seconds (that were
    recorded of some broker) and broker_seconds (of each broker and group below, added up); limit (the
    most that it may have), guarantee, entitled (the highest of the hour, per second); used (admitted over
    what the limit would have let through in the whole hour; null where a part of it had none).
    """
    by_hour = tree_seconds(admitted, trees).withColumn(
        "hour", F.date_trunc("hour", F.timestamp_seconds("moment"))
    )
    whole = highest_limit().cast("double") * 3_600
    return (
        by_hour.groupBy(*_GROUP, "hour", "root", "parent", "level")
        .agg(*_sums(), F.try_divide(F.sum("admitted"), whole).alias("used"))
        .withColumn("date", F.to_date("hour"))
    )


def _sums() -> tuple[Column, ...]:
    return (
        F.sum("admitted").alias("admitted"),
        F.max("admitted").alias("peak"),
        F.sum("guaranteed").alias("guaranteed"),
        F.sum("borrowed").alias("borrowed"),
        F.count("*").alias("seconds"),
        F.sum("brokers").alias("broker_seconds"),
        F.max("limit").alias("limit"),
        F.max("guarantee").alias("guarantee"),
        F.max("entitled").alias("entitled"),
    )


def tree_totals(admitted: DataFrame, trees: DataFrame) -> DataFrame:
    """The same of all that was recorded: one row per group and dimension, without hour, date and used."""
    return tree_seconds(admitted, trees).groupBy(*_GROUP, "root", "parent", "level").agg(*_sums())


def tree_seconds(admitted: DataFrame, trees: DataFrame) -> DataFrame:
    """The seconds, each a ``moment``, of which hours are made."""
    seen = places(trees)
    of_leaves = admitted.groupBy(*_GROUP, F.unix_seconds("second").alias("moment")).agg(
        F.sum("admitted").alias("admitted"), F.countDistinct("broker").alias("brokers")
    )
    placed = of_leaves.join(seen, _KEY, "left").withColumn("place", _nearest())
    shared = placed.where(F.col("place").isNotNull()).withColumn(
        "resource_group", F.explode(F.concat("place.above", F.array("resource_group")))
    )
    together = shared.groupBy(*_KEY).agg(
        F.sum("admitted").alias("admitted"), F.sum("brokers").alias("brokers")
    )
    known = together.join(seen, _KEY, "left").withColumn("place", _nearest())
    return _told(known.where(F.col("place").isNotNull()).select("*", "place.*"))


def _nearest() -> Column:
    """The place of a second, of the last one before, or else of the next one."""
    in_order = Window.partitionBy(*_GROUP).orderBy("moment")
    before = F.last("place", ignorenulls=True).over(in_order.rangeBetween(-NEAR_S, 0))
    after = F.first("place", ignorenulls=True).over(in_order.rangeBetween(0, NEAR_S))
    return F.coalesce(before, after)


def _told(known: DataFrame) -> DataFrame:
    """Seconds with the group's place, and what of them is guaranteed and borrowed."""
    level = F.size("above")
    root = F.coalesce(F.try_element_at("above", F.lit(1)), F.col("resource_group"))
    parent = F.coalesce(F.try_element_at("above", F.lit(-1)), F.lit(""))
    beyond = F.greatest(F.least("admitted", "part") - F.col("entitled"), F.lit(0))
    borrows = (level > 0) & F.col("entitled").isNotNull()
    return known.select(
        *_KEY,
        root.alias("root"),
        parent.alias("parent"),
        level.alias("level"),
        "admitted",
        "brokers",
        F.least("admitted", "guarantee").alias("guaranteed"),
        F.when(borrows, beyond).otherwise(0).alias("borrowed"),
        F.col("cluster_limit").alias("limit"),
        "guarantee",
        "entitled",
    )
