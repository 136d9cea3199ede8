"""The events of a group, found in the recorded rows, and the time that belongs to each.

kind            found in
=============== ==========================================================================
start           the first participant of a group
join            a broker's first participant while others had some already
leave           a broker's last participant left, or its sidecar stopped in good order
crash           a sidecar's rows end without a good-bye and the others saw it gone
configuration   the group's limit, law, policy or weights changed
step            a broker's demand moved so far that the fair shares did, and nothing else had happened
=============== ==========================================================================

An event *happened* in one second and was *known* in one: a crash is known when the first of the others no
longer lists the member, a step in the second after that in which it may have begun, everything else at
once. Events of one group within ``APART_S`` of each other
cannot be told apart by what follows; they are one event of several kinds. An event's *period* ends where
the next one happens.

*Gaps* are seconds in which a sidecar ran and recorded nothing: within a run (a full disk, a stalled
process), and from a crashed run's last row to the last that the others heard of it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.timeline import SETTINGS, run_number

STEP_S = 3
"""The seconds before a step, and from it on, whose means are compared."""
STEP_OVER = 0.25
"""Of C/N: by more than this both a broker's demand and its fair share move in a step."""
APART_S = 3
"""Events closer than this are one."""
SUBJECTS_MAX = 8
"""Brokers named of an event; more are counted."""

_GROUP = ["resource_group", "dimension"]


def runs(lifecycle: DataFrame, membership: DataFrame, reports: DataFrame) -> DataFrame:
    """One row per run: broker, run, first and last recorded second, orderly, gone and heard seconds."""
    seen = lifecycle.groupBy("broker", "run").agg(
        F.min(F.unix_seconds("second")).alias("first_second"),
        F.max(F.unix_seconds("second")).alias("last_second"),
        F.max("incarnation").alias("incarnation"),
        F.bool_or(F.col("state").isin("DRAINING", "STOPPED")).alias("orderly"),
    )
    gone = (
        membership.where((F.col("change") == "gone") & (F.col("member") != F.col("broker")))
        .groupBy(F.col("member").alias("broker"), F.col("member_incarnation").alias("incarnation"))
        .agg(F.min(F.unix_seconds("ts")).alias("gone_second"))
    )
    heard = (
        reports.where(F.col("direction") == "received")
        .groupBy(F.col("sender").alias("broker"), F.col("sender_incarnation").alias("incarnation"))
        .agg(F.max(F.unix_seconds("ts")).alias("heard_second"))
    )
    key = ["broker", "incarnation"]
    return seen.join(gone, key, "left").join(heard, key, "left")


def gaps(lifecycle: DataFrame, of_runs: DataFrame) -> DataFrame:
    """One row per gap: broker, run, from_second, to_second (inclusive), cause."""
    in_order = Window.partitionBy("broker", "run").orderBy("alive")
    alive = (
        lifecycle.where(F.col("cause") == "alive")
        .select("broker", "run", F.unix_seconds("second").alias("alive"))
        .distinct()
    )
    within = (
        alive.withColumn("before", F.lag("alive").over(in_order))
        .where(F.col("alive") - F.col("before") > 1)
        .select(
            "broker",
            "run",
            (F.col("before") + 1).alias("from_second"),
            (F.col("alive") - 1).alias("to_second"),
            F.lit("nothing recorded within a run").alias("cause"),
        )
    )
    tail = of_runs.where(_crashed() & (F.col("heard_second") > F.col("last_second"))).select(
        "broker",
        "run",
        (F.col("last_second") + 1).alias("from_second"),
        F.col("heard_second").alias("to_second"),
        F.lit("lost with a crashed sidecar").alias("cause"),
    )
    return within.unionByName(tail)


def spells(brokers: DataFrame) -> DataFrame:
    """One row per group, dimension, broker and run (its number): when the run served the group.

    Columns: first (second), first_known and last_known (of those that were wholly recorded), taking_part
    (participants at the end).
    """
    known = F.when(F.col("known"), F.col("second"))
    return brokers.groupBy(*_GROUP, "broker", "run").agg(
        F.min("second").alias("first"),
        F.min(known).alias("first_known"),
        F.max(known).alias("last_known"),
        F.max_by("participants", "second").alias("taking_part"),
    )


def gap_edges(of_gaps: DataFrame, of_spells: DataFrame) -> DataFrame:
    """The edges of gaps, for every group in which the broker ever took part.

    Columns: resource_group, dimension, second, gaps (how many begin in it, less how many have ended). So
    a gap of a day is two rows, and their sum up to a second is how many gaps it is in.
    """
    took_part = of_spells.select("broker", "resource_group").distinct()
    dimensions = of_spells.select(*_GROUP).distinct()
    edges = F.array(
        F.struct(F.col("from_second").alias("second"), F.lit(1).alias("gaps")),
        F.struct((F.col("to_second") + 1).alias("second"), F.lit(-1).alias("gaps")),
    )
    return (
        of_gaps.join(took_part, "broker")
        .join(dimensions, "resource_group")
        .select(*_GROUP, F.inline(edges))
    )


def signs(brokers: DataFrame) -> DataFrame:
    """Find the events in a broker's own seconds: join, leave and step, with subject, happened and known.

    All in one pass over a broker's time, for this is the larger part of the rows. A join may be the
    group's start, and a step may follow from another event.
    """
    of_broker = Window.partitionBy(*_GROUP, "broker").orderBy("second")
    before, after = of_broker.rangeBetween(-STEP_S, -1), of_broker.rangeBetween(0, STEP_S - 1)
    takes_part = F.col("participants") > 0
    part = F.try_divide(F.col("limit"), F.col("brokers"))

    def moved(column: str) -> Column:
        wanted = F.when(takes_part, F.col(column))
        return F.try_divide(F.abs(F.avg(wanted).over(after) - F.avg(wanted).over(before)), part)

    # Rows that are missing in between are a gap, not a join: no client disconnected.
    new = (F.lag("participants", 1, 0).over(of_broker) == 0) | (
        F.col("run") != F.lag("run").over(of_broker)
    )
    telling = brokers.select(
        *_GROUP,
        "broker",
        "second",
        (takes_part & F.coalesce(new, F.lit(False))).alias("appeared"),
        (~takes_part).alias("left"),
        F.when(takes_part, F.least(moved("demand"), moved("fair"))).alias("move"),
        F.count_if(takes_part).over(before).alias("seconds_before"),
    ).where(F.col("appeared") | F.col("left") | (F.col("move") > STEP_OVER))
    furthest = F.col("move") == F.max("move").over(of_broker.rangeBetween(-STEP_S, STEP_S))
    second = F.col("second")
    found = telling.withColumn(
        "stepped", (F.col("move") > STEP_OVER) & furthest & (F.col("seconds_before") == STEP_S)
    ).withColumn(
        "signs",
        F.array_compact(
            F.array(
                F.when(F.col("appeared"), _sign("join", second)),
                F.when(F.col("left"), _sign("leave", second)),
                F.when(F.col("stepped"), _sign("step", second - 1, second)),
            )
        ),
    )
    return found.select(*_GROUP, F.col("broker").alias("subject"), F.inline("signs"))


def events(
    of_signs: DataFrame, of_spells: DataFrame, limits: DataFrame, of_runs: DataFrame
) -> DataFrame:
    """One row per group, dimension and event, with its period.

    Columns: event (number, from 1), kinds, subjects, happened, known, ends (inclusive).
    """
    span = of_spells.groupBy(*_GROUP).agg(
        F.min("first").alias("start"),
        F.min("first_known").alias("first"),
        F.max("last_known").alias("last"),
    )
    sure = (
        of_signs.where(F.col("kind") != "step")
        .unionByName(_ends(of_spells, of_runs))
        .unionByName(_changes(limits))
    )
    single = sure.unionByName(_unexplained(of_signs.where(F.col("kind") == "step"), sure))
    starts = (F.col("kind") == "join") & (F.col("happened") == F.col("start"))
    inside = (
        single.join(span, _GROUP)
        .where(F.col("happened").between(F.col("first"), F.col("last")))
        .withColumn("kind", F.when(starts, F.lit("start")).otherwise(F.col("kind")))
    )
    in_order = Window.partitionBy(*_GROUP).orderBy("happened", "known", "kind", "subject")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, -1)
    starts_new = F.coalesce(
        (F.col("happened") - F.max("known").over(so_far) >= APART_S).cast("int"), F.lit(1)
    )
    numbered = inside.withColumn("starts", starts_new).withColumn(
        "event", F.sum("starts").over(in_order)
    )
    merged = numbered.groupBy(*_GROUP, "event").agg(
        F.array_sort(F.collect_set("kind")).alias("kinds"),
        F.slice(F.array_sort(F.collect_set("subject")), 1, SUBJECTS_MAX).alias("subjects"),
        F.min("happened").alias("happened"),
        F.max("known").alias("known"),
        F.max("last").alias("last"),
    )
    by_time = Window.partitionBy(*_GROUP).orderBy("event")
    return merged.withColumn(
        "ends", F.coalesce(F.lead("happened").over(by_time) - 1, F.col("last"))
    ).drop("last")


def _ends(of_spells: DataFrame, of_runs: DataFrame) -> DataFrame:
    """Runs that ended while their broker took part, in good order or not."""
    happened = F.greatest(F.col("last_second"), F.col("heard_second"))
    ended = of_runs.where(_crashed() | F.col("orderly")).select(
        "broker",
        run_number().alias("run"),
        F.when(_crashed(), F.lit("crash")).otherwise(F.lit("leave")).alias("kind"),
        F.when(_crashed(), happened).otherwise(F.col("last_second")).alias("happened"),
        F.when(_crashed(), F.greatest(happened, F.col("gone_second")))
        .otherwise(F.col("last_second"))
        .alias("known"),
    )
    return (
        of_spells.where(F.col("taking_part") > 0)
        .join(ended, ["broker", "run"])
        .select(*_GROUP, "kind", F.col("broker").alias("subject"), "happened", "known")
    )


def _changes(limits: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*_GROUP).orderBy("number")
    definition = F.struct("limit", *SETTINGS)
    changed = limits.withColumn("before", F.lag(definition).over(in_order)).where(
        (F.col("number") > 1) & ~definition.eqNullSafe(F.col("before"))
    )
    return changed.select(
        *_GROUP,
        F.lit("configuration").alias("kind"),
        F.coalesce(F.concat("limit", F.lit("/s")), F.lit("unlimited")).alias("subject"),
        F.col("known_second").alias("happened"),
        F.col("known_second").alias("known"),
    )


def _unexplained(steps: DataFrame, others: DataFrame) -> DataFrame:
    """The steps that do not follow from another event: shares move after a join, too."""
    explained = others.select(
        *(F.col(name).alias(f"of_{name}") for name in _GROUP),
        (F.col("happened") - APART_S).alias("since"),
        (F.col("known") + STEP_S + 1).alias("until"),
    )
    same = [F.col(name) == F.col(f"of_{name}") for name in _GROUP]
    near = F.col("happened").between(F.col("since"), F.col("until"))
    return steps.join(explained, [*same, near], "left_anti")


def _sign(kind: str, happened: Column, known: Column | None = None) -> Column:
    known = happened if known is None else known
    return F.struct(F.lit(kind).alias("kind"), happened.alias("happened"), known.alias("known"))


def _crashed() -> Column:
    return ~F.col("orderly") & F.col("gone_second").isNotNull()
