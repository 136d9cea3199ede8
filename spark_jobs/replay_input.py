"""From recorded tables to stories that can be played again (coordinator/simulation/replay.py).

The demand of a second is the gate's own observation in it, as in timeline.py: what was admitted, more of
it where clients waited a while, and not known where they waited nearly all of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from coordinator.core.model import (
    DIMENSIONS_OF,
    Dimension,
    MonitoringClass,
    Rates,
    ResourceGroup,
)
from coordinator.simulation.replay import UNBOUNDED, BrokerStory, ReplayInput
from coordinator.simulation.tree_replay import TreePlace
from spark_jobs import timeline
from spark_jobs.recording import Recording
from spark_jobs.tables import DIMENSION_COLUMNS
from spark_jobs.timeline import SATURATED, SETTINGS, THROTTLED, held_share

KEY = ["resource_group", "monitoring_class"]
"""The subject of a story."""

DEFINITIONS_MAX = 1_000
"""Of one group; older ones are left out, and the first of the others holds before it was known."""


def demand(
    admitted: DataFrame, groups: Sequence[str] | None, seconds: int, together: Column | None = None
) -> DataFrame:
    """One row per group, class, broker and second: messages, bytes, wanted, topics, and the local limits.

    ``wanted`` is in messages; null is that no client was connected, UNBOUNDED that it is not known.

    Args:
        admitted: the recorded table.
        groups: which ones; None is all.
        seconds: how many, the last ones of each group, or of all that are played together.
        together: what is played together, such as the root of a tree; None is each group alone.
    """
    chosen = admitted if groups is None else admitted.where(F.col("resource_group").isin(*groups))
    messages = F.col("dimension").endswith("InMsgs")

    def total(of_unit: Column, column: str) -> Column:
        return F.sum(F.when(of_unit, F.col(column)))

    held = (
        held_share(total(unit, "held_us"), total(unit, "observed_us"))
        for unit in (messages, ~messages)
    )
    rows = chosen.groupBy(*KEY, "broker", F.unix_seconds("second").alias("second")).agg(
        total(messages, "admitted").alias("messages"),
        total(~messages, "admitted").alias("bytes"),
        F.max_by("local_limit", F.when(messages, F.col("ts"))).alias("messages_limit"),
        F.max_by("local_limit", F.when(~messages, F.col("ts"))).alias("bytes_limit"),
        F.greatest(*held).alias("held"),
        F.max("participants").alias("participants"),
        F.max("topics").alias("topics"),
    )
    whose = F.col("resource_group") if together is None else together
    last = F.max("second").over(Window.partitionBy(whose, "monitoring_class"))
    wanted = (
        F.when(F.col("held") >= SATURATED, F.lit(UNBOUNDED))
        .when(F.col("held") >= THROTTLED, F.col("messages") * (1 + F.col("held")))
        .when((F.col("participants") > 0) | (F.col("messages") > 0), F.col("messages"))
    )
    return (
        rows.withColumn("last", last)
        .where(F.col("second") > F.col("last") - seconds)
        .select(
            *KEY, "broker", "second", "topics", "messages_limit", "bytes_limit",
            F.coalesce("messages", F.lit(0)).alias("messages"),
            F.coalesce("bytes", F.lit(0)).alias("bytes"),
            wanted.cast("bigint").alias("wanted"),
        )
    )  # fmt: skip


def definitions(configuration: DataFrame) -> DataFrame:
    """One row per group, class and definition: known_second and everything that it says."""
    newest_first = Window.partitionBy("resource_group").orderBy(F.desc("configuration_version"))
    known = (
        timeline.definitions(configuration)
        .withColumn("number", F.row_number().over(newest_first))
        .where(F.col("number") <= DEFINITIONS_MAX)
        .drop("number")
    )
    classes = F.array(*(F.lit(monitoring_class.value) for monitoring_class in MonitoringClass))
    return known.withColumn("monitoring_class", F.explode(classes))


def story_of(
    rows: pd.DataFrame, told: pd.DataFrame, span: tuple[int, int] | None = None
) -> ReplayInput | None:
    """One group and class as a story; None when no definition of it limits anything.

    Args:
        rows: of ``demand``, of one group and class.
        told: of ``definitions``, of the same.
        span: of a group of a tree, the first and the last second of the tree; it may have no rows.
    """
    if (rows.empty and span is None) or told.empty:
        return None
    first, last = span or (int(rows["second"].min()), int(rows["second"].max()))
    told = told.sort_values("configuration_version")
    # By clocks apart a definition may be known before the one that it replaces.
    since = (told["known_second"].cummax() - first).clip(lower=0).astype(int).tolist()
    groups = [_definition(row) for row in told.to_dict("records")]
    monitoring_class = MonitoringClass(told["monitoring_class"].iloc[0])
    story = ReplayInput(
        monitoring_class,
        list(zip([0, *since[1:]], groups, strict=True)),
        {
            str(name): _broker(of_broker, first, last)
            for name, of_broker in rows.groupby("broker", sort=True)
        },
        {} if span is None else _in_force(rows, monitoring_class, span),
    )
    return story if story.dimensions else None


def _in_force(
    rows: pd.DataFrame, monitoring_class: MonitoringClass, span: tuple[int, int]
) -> dict[Dimension, list[int]]:
    """The sums of the local limits, second by second; 0 where nothing is limited."""
    held = rows.groupby("second")[["messages_limit", "bytes_limit"]].sum()
    held = held.reindex(range(span[0], span[1] + 1)).fillna(0)
    columns = zip(DIMENSIONS_OF[monitoring_class], held.columns, strict=True)
    return {dimension: [int(rate) for rate in held[column]] for dimension, column in columns}


def tree_places(recording: Recording) -> dict[str, TreePlace]:
    """The last recorded place of every group of a tree, by name; of a recording without any, none."""
    if not recording.rows.get("trees"):
        return {}
    trees = recording.tables["trees"]
    last = F.struct("above", "weight", "guarantee")
    rows = trees.groupBy("resource_group", "dimension").agg(F.max_by(last, "ts").alias("last"))
    guarantees: dict[str, dict[Dimension, int | None]] = {}
    found: dict[str, TreePlace] = {}
    for row in rows.collect():
        name, (above, weight, guarantee) = row["resource_group"], row["last"]
        guarantees.setdefault(name, {})[Dimension(row["dimension"])] = guarantee or None
        rates = Rates.from_mapping(dict.fromkeys(Dimension) | guarantees[name])
        root, parent = (above[0], above[-1]) if above else (name, "")
        found[name] = TreePlace(root, parent, weight, rates)
    return found


def _definition(row: Mapping[str, Any]) -> ResourceGroup:
    rates = {
        Dimension(name): None if pd.isna(row[column]) else int(row[column])
        for name, column in DIMENSION_COLUMNS.items()
    }
    named = {name: row[name] for name in SETTINGS if row[name] is not None}
    return replace(ResourceGroup(row["resource_group"], Rates.from_mapping(rates)), **named)


def _broker(rows: pd.DataFrame, first: int, last: int) -> BrokerStory:
    by_second = rows.set_index("second").reindex(range(first, last + 1))
    return BrokerStory(
        wanted=[None if pd.isna(value) else int(value) for value in by_second["wanted"]],
        messages=[int(value) for value in by_second["messages"].fillna(0)],
        size=[int(value) for value in by_second["bytes"].fillna(0)],
        topics=max(1, int(rows["topics"].max())),
    )
