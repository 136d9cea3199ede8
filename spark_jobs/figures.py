"""The figures of every event: how the limit was held, how it was shared, how soon it settled.

The definitions are those of the literature (Raghavan et al., SIGCOMM 2007, for the comparison with the
exact shares; Jain 1984) on seconds; the report's page repeats them in ``DEFINITIONS``. A second that
was not wholly recorded is no evidence: it is left out of every mean and every peak, and counts as not
settled, unless nothing of its period is known after it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

DEFINITIONS: Mapping[str, str] = {
    "settle_s": "Whole seconds after the one in which the event was known until, up to the next event, no"
    " broker is further than 5 % of C/N from its share a*; none when that never happens. A second that"
    " was not wholly recorded counts as not settled, unless nothing of the period is known after it.",
    "jain": "Jain's index (sum x)^2 / (n sum x^2) of x = u/a* over brokers, u and a* averaged over the"
    " second half of the period. 1 is perfectly fair; always read it with the smallest share.",
    "min_share": "The smallest of these x.",
    "max_off": "The largest |u - a*| / C over brokers in the second half.",
    "peak_1s": "The largest A/C - 1 of one second, at least 0; A is what all brokers admitted.",
    "peak_10s": "The same over ten seconds in a row that end in the period.",
    "volume_over": "Sum of (A - C)+ / C: how many seconds' worth of the limit passed too much.",
    "time_over_101": "Part of the seconds in which A exceeded 1.01 C.",
    "time_over_105": "Part of the seconds in which A exceeded 1.05 C.",
    "utilisation": "Sum of min(A, C) / sum of min(D, C); D is what all brokers wanted. In the second of a"
    " change C is the lower limit here.",
    "regret": "Sum of |A - B| / sum of B; B is what one ideal bucket for the whole cluster would have"
    " admitted of the same demand.",
    "error": "A over what could have been admitted, min(D, C), less one, in the second half.",
    "oscillation": "The largest peak-to-peak of a broker's local limit over C in the second half.",
    "limit_changes_per_minute": "Changes of local limits a minute, all brokers, in the second half.",
    "starvation_s": "The longest time in which a broker that wanted something got less than half its"
    " share.",
    "reclaim_s": "After a crash: seconds until the survivors' local limits add up to 0.99 C.",
    "certificates_broken": "Seconds in which the local limits in force added up to more than a sidecar"
    " had certified; none when nothing was certified.",
    "seconds_known": "Seconds of the period that were wholly recorded of all brokers.",
    "seconds_unknown": "Seconds that were not.",
}

RECLAIMED_AT = 0.99
JUDGED_FROM_S = 5
"""A period with fewer seconds in which the group had a limit and a participant says nothing about
settling; it is shown and not held to targets."""

SPAN_S = 600
"""The span by which periods are looked up: one has few periods, a long period few of them."""

_GROUP = ["resource_group", "dimension"]
_EVENT = [*_GROUP, "event"]


def event_figures(
    groups: DataFrame, brokers: DataFrame, unknown: DataFrame, events: DataFrame
) -> DataFrame:
    """One row per event with every figure of ``DEFINITIONS``.

    Args:
        groups: group seconds.
        brokers: broker seconds.
        unknown: the group seconds that are not known.
        events: events with their periods.
    """
    periods = events.select(*_EVENT, "happened", "known", "ends").withColumnRenamed(
        "known", "known_second"
    )
    judged = _in_period(_with_ten_seconds(groups), periods)
    known = brokers.join(unknown, [*_GROUP, "second"], "left_anti")
    of_brokers = _in_period(known.drop("known"), periods)
    figures = events
    for part in (_held(judged), _shared(of_brokers), _starved(of_brokers)):
        figures = figures.join(part, _EVENT, "left")
    crash = F.array_contains("kinds", "crash")
    return (
        figures.withColumn("starvation_s", F.coalesce("starvation_s", F.lit(0)))
        .withColumn("reclaim_s", F.when(crash, F.col("full_second") - F.col("happened")))
        .withColumn("settle_s", _settle())
        .withColumn("judged", F.coalesce("seconds_after", F.lit(0)) >= JUDGED_FROM_S)
        .drop("full_second", "last_off", "last_after", "seconds_after")
    )


def _settle() -> Column:
    return F.when(F.col("last_off").isNull(), F.when(F.col("last_after").isNotNull(), 0)).when(
        F.col("last_off") < F.col("last_after"), F.col("last_off") - F.col("known")
    )


def _in_period(seconds: DataFrame, periods: DataFrame) -> DataFrame:
    """Each second with its event; `steady` is the second half of what follows its being known.

    A second meets the periods of its own span of time only. Were it all of the group's, the work would
    grow with the square of the recorded time.
    """
    half = F.col("known_second") + (F.col("ends") - F.col("known_second")) / 2
    spans = F.explode(F.sequence(span_of("happened"), span_of("ends")))
    return (
        seconds.withColumn("span", span_of("second"))
        .join(periods.withColumn("span", spans), [*_GROUP, "span"])
        .where(F.col("second").between(F.col("happened"), F.col("ends")))
        .withColumn("steady", F.col("second") > half)
        .drop("span")
    )


def span_of(second: str) -> Column:
    """The span of time that a second is in."""
    return F.floor(F.col(second) / SPAN_S)


def _with_ten_seconds(groups: DataFrame) -> DataFrame:
    ten = Window.partitionBy(*_GROUP).orderBy("second").rangeBetween(-9, 0)
    known = F.col("known").cast("int")
    limit = F.col("limit").cast("double")  # a byte limit may be as large as a number can be
    over = F.try_divide(F.sum("admitted").over(ten), F.sum(limit).over(ten)) - 1
    return groups.withColumn("over_10s", F.when(F.sum(known).over(ten) == 10, over))


def _held(judged: DataFrame) -> DataFrame:
    limit = F.col("limit").cast("double")
    known = F.col("known")
    over = F.when(known, F.try_divide(F.col("admitted"), limit) - 1)
    wanted = F.when(known & F.col("steady"), F.col("demand"))
    passed = F.when(known & F.col("steady"), F.col("admitted"))
    # What the central bucket would have done in the second of a change depends on the moment.
    unchanged = known & (F.col("room") == limit)
    after = F.col("second") > F.col("known_second")
    # What is unknown at the very end died with a sidecar, whose crash is the next event's matter.
    unknown = ~known & (F.col("second") < F.col("last_known"))
    not_settled = unknown | (known & F.col("off"))
    reclaimed = (F.col("second") > F.col("happened")) & (
        F.col("local_limits") >= RECLAIMED_AT * limit
    )

    def part_over(share: float) -> Column:
        return F.avg((over > share).cast("double"))

    in_event = Window.partitionBy(*_EVENT)
    to_last = F.max(F.when(known, F.col("second"))).over(in_event)
    return (
        judged.withColumn("last_known", to_last)
        .groupBy(*_EVENT)
        .agg(
            F.sum(known.cast("int")).alias("seconds_known"),
            F.sum((~known).cast("int")).alias("seconds_unknown"),
            F.sum(F.when(known, F.col("broken").cast("int"))).alias("certificates_broken"),
            F.max("limit").alias("limit"),
            F.max("brokers").alias("brokers"),
            F.greatest(F.max(over), F.lit(0.0)).alias("peak_1s"),
            F.greatest(F.max("over_10s"), F.lit(0.0)).alias("peak_10s"),
            F.sum(F.greatest(over, F.lit(0.0))).alias("volume_over"),
            part_over(0.01).alias("time_over_101"),
            part_over(0.05).alias("time_over_105"),
            F.try_divide(
                F.sum(F.when(known, F.least("admitted", "room"))),
                F.sum(F.when(known, F.col("demand"))),
            ).alias("utilisation"),
            F.try_divide(
                F.sum(F.when(unchanged, F.abs(F.col("admitted") - F.col("central")))),
                F.sum(F.when(unchanged, F.col("central"))),
            ).alias("regret"),
            (F.try_divide(F.sum(passed), F.sum(wanted)) - 1).alias("error"),
            F.sum(passed).alias("admitted_steady"),
            F.max(F.when(after & not_settled, F.col("second"))).alias("last_off"),
            F.max(F.when(after & known, F.col("second"))).alias("last_after"),
            F.count_if(after).alias("seconds_after"),
            F.min(F.when(reclaimed, F.col("second"))).alias("full_second"),
        )
    )


def _shared(of_brokers: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*_EVENT, "broker").orderBy("second")
    changed = F.col("local_limit") != F.lag("local_limit").over(in_order)
    by_broker = (
        of_brokers.where("steady")
        .withColumn("changed", F.coalesce(changed.cast("int"), F.lit(0)))
        .groupBy(*_EVENT, "broker")
        .agg(
            F.sum("admitted").alias("got"),
            F.sum("fair").alias("share"),
            F.max("limit").cast("double").alias("limit"),
            F.count("*").alias("seconds"),
            (F.max("local_limit") - F.min("local_limit")).alias("swing"),
            F.sum("changed").alias("changes"),
        )
        .withColumn("x", F.when(F.col("share") > 0, F.col("got") / F.col("share")))
    )
    off = F.try_divide(F.abs(F.col("got") - F.col("share")) / F.col("seconds"), F.col("limit"))
    squares = F.count("x") * F.sum(F.col("x") * F.col("x"))
    return by_broker.groupBy(*_EVENT).agg(
        F.try_divide(F.sum("x") * F.sum("x"), squares).alias("jain"),
        F.min("x").alias("min_share"),
        F.min_by("broker", "x").alias("least_served"),
        F.max(off).alias("max_off"),
        F.max(F.try_divide(F.col("swing"), F.col("limit"))).alias("oscillation"),
        F.try_divide(F.sum("changes") * 60.0, F.max("seconds")).alias("limit_changes_per_minute"),
    )


def _starved(of_brokers: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*_EVENT, "broker").orderBy("second")
    return (
        of_brokers.where((F.col("demand") > 0) & (F.col("admitted") < F.col("fair") / 2))
        .withColumn("island", F.col("second") - F.row_number().over(in_order))
        .groupBy(*_EVENT, "broker", "island")
        .agg(F.count("*").alias("length"))
        .groupBy(*_EVENT)
        .agg(F.max("length").alias("starvation_s"))
    )
