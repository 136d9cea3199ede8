"""From recorded rows to one row per second: what was admitted, what the limit was, what was fair.

Three frames, each made from the one before, with built-in functions only:

*limits over time*: a group's limit C of a dimension from the second in which the first sidecar knew it.
In the second of a change the higher of the two limits is C: it is unknown on which side of the change
a message passed. Of the *room* that there was to use, and to share, the lower one is the measure then.
A group of a tree has its part of the tree as C, and likewise two where that has just changed.

*broker seconds*: what broker i admitted, u_i, and wanted, d_i, in a second, and its exact max-min share
a*_i. The demand is the gate's own observation in that second: a broker whose producers were held for 90 %
of it wants an unknown lot (counted as C, which gives the same shares as any more), held for 10 % and more
what it admitted and as much more as it was held, otherwise what it admitted.

*group seconds*: all brokers together, with how far the furthest is from its share, and what one ideal
*central bucket* would have admitted of the same arrivals.

The share by windows: with demands sorted by what they are per weight, the water level is the largest of
(C - what the smaller ones want) / (the weights that are left), over all positions; no broker gets more
than it wants. A broker weighs one, or where the group says so its number of topics.

The central bucket saves up ``BURST_S`` of its limit, and its clients let ``BURST_S`` of their demand
wait, as the gates' do. What of both is left over after a second is forgotten as soon as demand and limit
are further apart than that, so looking back ``LOOK_BACK_S`` seconds is enough.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.tables import DIMENSION_COLUMNS

SATURATED = 0.9
THROTTLED = 0.1
OBSERVED_US = (950_000, 1_500_000)
"""A second is known of which a broker's sidecar saw this much. Less is a part of it; more is a second
that was there twice, as where a clock is set back, two sidecars have one name, or a file is copied."""

SETTLED_WITHIN = 0.05
"""Of C/N: how far a settled broker may be from its share."""

BURST_S = 0.05
"""The savings of the central bucket, and the queue of its clients, as time."""
LOOK_BACK_S = 9

SETTINGS = ("law", "overshoot_policy", "weights")
"""The columns of a definition beside its limits."""

_FOREVER = 2**40
_GROUP = ["resource_group", "dimension"]


def definitions(configuration: DataFrame) -> DataFrame:
    """One row per group and definition: known_second, when the first sidecar knew it, and what it says.

    Args:
        configuration: the recorded table.
    """
    return (
        configuration.where(F.col("configuration_version").isNotNull())
        .groupBy("resource_group", "configuration_version")
        .agg(
            F.unix_seconds(F.min("ts")).alias("known_second"),
            *(F.first(name).alias(name) for name in (*DIMENSION_COLUMNS.values(), *SETTINGS)),
        )
    )


def limits_over_time(configuration: DataFrame) -> DataFrame:
    """One row per group, dimension and definition: limit, from_second and to_second, inclusive.

    A limit of null is "not limited". The first definition holds from the beginning of time: it was there
    before the recording.
    """
    pairs = ", ".join(f"'{name}', {column}" for name, column in DIMENSION_COLUMNS.items())
    by_dimension = definitions(configuration).select(
        "resource_group",
        "configuration_version",
        "known_second",
        *SETTINGS,
        F.expr(f"stack({len(DIMENSION_COLUMNS)}, {pairs}) as (dimension, limit)"),
    )
    in_order = Window.partitionBy(*_GROUP).orderBy("configuration_version")
    # Of two that came to be known in one second, or in another order by clocks apart, the last one holds:
    # a second with two limits would count its messages twice.
    later = in_order.rowsBetween(1, Window.unboundedFollowing)
    before = F.lag("limit").over(in_order)
    number = F.row_number().over(in_order)
    raised = F.col("limit").isNull() | (before.isNotNull() & (F.col("limit") >= before))
    begins = (
        F.when(number == 1, F.lit(0))
        .when(raised, F.col("known_second"))
        .otherwise(F.col("known_second") + 1)
    )
    return (
        by_dimension.withColumn("number", number)
        .withColumn("limit_before", before)
        .withColumn("from_second", begins)
        .withColumn(
            "to_second",
            F.coalesce(F.min("from_second").over(later) - 1, F.lit(_FOREVER)),
        )
        .withColumn("limit_after", F.lead("limit").over(in_order))
        .withColumn("changed_second", F.lead("known_second").over(in_order))
    )


def broker_seconds(
    admitted: DataFrame, limits: DataFrame, parts: DataFrame | None = None
) -> DataFrame:
    """One row per group, dimension, second and broker, for limited dimensions.

    Columns: limit, room, admitted, demand, fair, local_limit, participants, run (its number), known,
    brokers (how many of them take part). The second in which a broker's last participant left has a row
    with none.

    Args:
        admitted: the recorded table.
        limits: limits over time.
        parts: of groups of trees, second by second (trees.py): what the group has then, and shares among
            its brokers, is its part, and not the most that it may have. None if there is no tree.
    """
    # The second comes first: it tells most rows apart when they are sorted, and costs least.
    key = ["second", *_GROUP]
    ever_limited = limits.where(F.col("limit").isNotNull()).select(*_GROUP).distinct()
    seconds = admitted.join(F.broadcast(ever_limited), _GROUP, "left_semi").select(
        *_GROUP,
        F.unix_seconds("second").alias("second"),
        run_number().alias("run"),
        "broker", "ts", "observed_us", "admitted", "held_us", "local_limit", "participants", "topics",
    )  # fmt: skip
    # One exchange for all that follows: windows and groups below are all within a second.
    merged = (
        seconds.repartition(*(F.col(name) for name in key))
        .groupBy(*key, "broker")
        .agg(
            F.sum("admitted").alias("admitted"),
            F.sum("observed_us").alias("observed_us"),
            F.sum("held_us").alias("held_us"),
            F.max_by("local_limit", "ts").alias("local_limit"),
            F.max_by("participants", "ts").alias("participants"),
            F.max_by("topics", "ts").alias("topics"),
            F.max_by("run", "ts").alias("run"),
        )
    )
    in_force = F.broadcast(
        limits.drop("number", "law", "overshoot_policy", "configuration_version")
    )
    limited = merged.join(in_force, _GROUP).where(
        F.col("second").between(F.col("from_second"), F.col("to_second"))
        & F.col("limit").isNotNull()
    )
    least_room = _room()
    if parts is not None:
        limited = limited.join(parts, key, "left").withColumn(
            "limit", F.coalesce("part_high", "limit")
        )
        least_room = F.least(least_room, F.col("part_low"))
    by_topics = (F.col("weights") == "topics") & (F.col("topics") > 0)
    weight = F.when(by_topics, F.col("topics")).otherwise(1)
    takes_part = (F.col("participants") > 0) | (F.col("admitted") > 0)
    weighed = limited.withColumns(
        {"demand": _demand(), "weight": weight, "room": least_room, "takes_part": takes_part}
    )
    return with_shares(weighed, key).select(
        *key, "broker", "run", "limit", "room", "admitted", "demand", "fair", "local_limit",
        "participants", seen_once().alias("known"), "brokers",
    )  # fmt: skip


def seen_once() -> Column:
    """Whether a broker's second was seen as a whole, and once."""
    return F.col("observed_us").between(*OBSERVED_US)


def held_share(held_us: Column, observed_us: Column) -> Column:
    """The part of the observed time in which a broker's clients waited; null where none was observed."""
    return F.try_divide(F.least(held_us, observed_us), observed_us)


def highest_limit() -> Column:
    """The highest of the limits that are added up; null where one of them is none."""
    return F.when(F.count("limit") == F.count("*"), F.max("limit"))


def run_number() -> Column:
    """A number in place of a run's text, with which Spark cannot add up in compiled code."""
    return F.xxhash64("run")


def group_seconds(brokers: DataFrame, gap_edges: DataFrame) -> DataFrame:
    """One row per group, dimension and second.

    Columns: limit, room, admitted, demand (at most the room), brokers, worst (how far the furthest broker
    is from its share, as a part of C/N), furthest (that broker), off (not settled), local_limits (their
    sum), central (what the central bucket admits), known.

    Args:
        brokers: broker seconds.
        gap_edges: where gaps of a group's brokers begin and end (events.py).
    """
    distance = F.abs(F.col("admitted") - F.col("fair"))
    # Null in a second without participants: then none can be off.
    part = F.try_divide(F.col("limit"), F.col("brokers"))
    together = brokers.groupBy("second", *_GROUP).agg(
        F.max("limit").alias("limit"),
        F.sum("admitted").alias("admitted"),
        F.sum("demand").alias("wanted"),
        F.min("room").cast("double").alias("room"),
        F.max("brokers").alias("brokers"),
        F.max(F.try_divide(distance, part)).alias("worst"),
        F.max_by("broker", distance).alias("furthest"),
        F.try_sum("local_limit").alias("local_limits"),
        F.bool_and("known").alias("observed"),
    )
    so_far = (
        Window.partitionBy(*_GROUP)
        .orderBy("second")
        .rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        # Edges are rows among the seconds, so that one order of them serves both windows.
        together.unionByName(gap_edges, allowMissingColumns=True)
        .withColumns({"central": _central(), "in_gaps": F.sum("gaps").over(so_far)})
        .where(F.col("gaps").isNull())
        .withColumn("demand", F.least("wanted", "room"))
        .withColumn("known", F.col("observed") & (F.coalesce("in_gaps", F.lit(0)) == 0))
        .withColumn("off", F.coalesce(F.col("worst") > SETTLED_WITHIN, F.lit(False)))
        .drop("observed", "gaps", "in_gaps", "wanted")
    )


def unknown_seconds(groups: DataFrame) -> DataFrame:
    """The group, dimension and second of the group seconds that were not wholly recorded."""
    return groups.where(~F.col("known")).select(*_GROUP, "second")


def certified_seconds(groups: DataFrame, certificates: DataFrame) -> DataFrame:
    """Group seconds with what was certified.

    Adds certified: the lowest of the certificates that were made at the end of the second; null when
    there is none.

    Args:
        groups: group seconds.
        certificates: the recorded table.
    """
    lowest = (
        certificates.where(F.col("most").isNotNull())
        .groupBy(*_GROUP, F.unix_seconds("second").alias("second"))
        .agg(
            F.min("most").alias("most"),
            F.max("newcomer").alias("newcomer"),
            F.min("holders").alias("holders"),
        )
    )
    newcomers = F.greatest(F.col("brokers") - F.col("holders"), F.lit(0))
    return (
        groups.join(lowest, [*_GROUP, "second"], "left")
        .withColumn("certified", F.try_add("most", F.try_multiply("newcomer", newcomers)))
        .drop("most", "newcomer", "holders")
    )


def judged_seconds(certified: DataFrame, brokers: DataFrame) -> DataFrame:
    """Certified seconds with whether more was in force, as broken; null when nothing was certified.

    Sidecars do not look at the same moment, and while limits move from one broker to another less is in
    force than before and after: a certificate is broken when it is exceeded by the sum of the least that
    each broker held in its own second, the one before and the one after.

    Args:
        certified: group seconds with what was certified.
        brokers: the broker seconds that they were made of.
    """
    key = [*_GROUP, "second"]
    # The sums of a second are at hand, and nearly always show that all is well.
    around = Window.partitionBy(*_GROUP).orderBy("second").rangeBetween(-1, 1)
    suspected = certified.withColumn("least", F.min("local_limits").over(around)).where(
        F.col("least") > F.col("certified")
    )
    held = F.coalesce("held", F.lit(0))
    return (
        certified.join(_least_held(suspected.select(*key), brokers), key, "left")
        .withColumn("broken", held > F.col("certified"))
        .drop("held")
    )


def _least_held(seconds: DataFrame, brokers: DataFrame) -> DataFrame:
    """The sum of what each broker held at least around each of these seconds, as held.

    Only of brokers that were recorded in all three: of another one the least may be nothing.
    """
    key = [*_GROUP, "second"]
    around = seconds.withColumn(
        "near", F.explode(F.array(*(F.col("second") + n for n in (-1, 0, 1))))
    )
    rows = brokers.select(*_GROUP, F.col("second").alias("near"), "broker", "local_limit")
    return (
        around.join(rows, [*_GROUP, "near"])
        .groupBy(*key, "broker")
        .agg(F.min("local_limit").alias("least"), F.count("near").alias("recorded"))
        .where(F.col("recorded") == 3)
        .groupBy(*key)
        .agg(F.try_sum("least").alias("held"))
    )


def _room() -> Column:
    """The least of the limits that were in force in a second."""
    before = F.when(F.col("second") == F.col("known_second"), F.col("limit_before"))
    after = F.when(F.col("second") == F.col("changed_second"), F.col("limit_after"))
    return F.least("limit", before, after)


def _demand() -> Column:
    limit = F.col("limit").cast("double")
    held = held_share(F.col("held_us"), F.col("observed_us"))
    wanted = (
        F.when(held >= SATURATED, limit)
        .when(held >= THROTTLED, F.col("admitted") * (1 + held))
        .otherwise(F.col("admitted").cast("double"))
    )
    return F.least(wanted, limit)


def _central() -> Column:
    """The traffic that passes in the last of some seconds; `saved` below 0 is a debt, not tokens."""
    lately = Window.partitionBy(*_GROUP).orderBy("second").rangeBetween(-LOOK_BACK_S, 0)
    # A list has no null in it: the edges of gaps are none of the seconds.
    second = F.when(F.col("room").isNotNull(), F.struct("wanted", "room"))
    seconds = F.collect_list(second).over(lately)
    none = F.lit(0.0)

    def next_second(bucket: Column, second: Column) -> Column:
        saved, wanted, room = bucket["saved"], second["wanted"], second["room"]
        left = F.least(F.greatest(saved + room - wanted, -BURST_S * wanted), BURST_S * room)
        passed = F.least(wanted + F.greatest(-saved, none), room + F.greatest(saved, none))
        return F.struct(left.alias("saved"), passed.alias("passed"))

    empty = F.struct(none.alias("saved"), none.alias("passed"))
    return F.aggregate(seconds, empty, next_second)["passed"]


def with_shares(demands: DataFrame, key: list[str]) -> DataFrame:
    """Add fair, the max-min share of each broker, and brokers, how many of them take part.

    Args:
        demands: of brokers, with room, demand, weight and takes_part.
        key: the columns of what they share.
    """
    # In order also where no order is needed, and by a column: so one sort does for all of them.
    smaller_first = Window.partitionBy(*key).orderBy("demand_per_weight", "broker")
    first, here, last = Window.unboundedPreceding, Window.currentRow, Window.unboundedFollowing
    all_of_them = smaller_first.rowsBetween(first, last)
    # Up to this one and less this one: Spark goes through the rows once more for every other frame.
    so_far = smaller_first.rowsBetween(first, here)
    smaller = F.sum("demand").over(so_far) - F.col("demand")
    weights_left = (
        F.sum("weight").over(all_of_them) - F.sum("weight").over(so_far) + F.col("weight")
    )
    levels = demands.withColumn("demand_per_weight", F.col("demand") / F.col("weight")).withColumns(
        {
            "brokers": F.count_if("takes_part").over(all_of_them),
            "level": (F.col("room") - smaller) / weights_left,
        }
    )
    top = F.max("level").over(all_of_them)
    return levels.withColumn("fair", F.least(F.col("demand"), top * F.col("weight")))
