"""The evidence beside an advice: what the core does at such limits, and who would feel them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from coordinator.core.model import Dimension
from coordinator.simulation.replay import replay
from spark_jobs.recording import Recording
from spark_jobs.replay_input import KEY, definitions, demand, story_of
from spark_jobs.tables import DIMENSION_COLUMNS
from spark_jobs.timeline import with_shares

REPLAY_S = 300
"""Of each group that are played again. A second of a broker takes about a millisecond, each time."""
REPLAY_GROUPS = 50
"""With more groups nothing is played unless asked for."""
PLAYED = (0.8, 1.0, 1.25)
"""Parts of the advised limit that are played."""
FELT_MAX = 5
"""Brokers and namespaces that are named."""

_GROUP = ["resource_group", "monitoring_class", "dimension"]
_PLAYED = """resource_group string, dimension string, part double, limit bigint, throttled bigint,
    seconds bigint"""

Found = dict[tuple[str, str], list[dict[str, Any]]]
"""Rows by group and dimension."""


def brokers_then(brokers: DataFrame, throttled: DataFrame, settings: DataFrame) -> Found:
    """The brokers that would want more than their share, by group and dimension; the worst first.

    Args:
        brokers: their demand; infinite where it is not known, which is counted in seconds alone.
        throttled: group, class, dimension and second, with the limit that throttles it.
        settings: what each group weighs its brokers by.
    """
    weights = settings.select("resource_group", "dimension", "weights")
    rows = brokers.join(throttled, [*_GROUP, "second"]).join(
        F.broadcast(weights), ["resource_group", "dimension"]
    )
    limit = F.col("limit").cast("double")
    demands = rows.withColumns(
        {
            "room": limit,
            "demand": F.least("most", limit),  # any more gives the same shares
            "weight": F.when(F.col("weights") == "topics", F.col("topics")).otherwise(1),
            "takes_part": F.lit(True),
        }
    )
    more = F.col("most") - F.col("fair")
    felt = with_shares(demands, [*_GROUP, "second"]).where(more > 0).groupBy(*_GROUP, "broker")
    lacking = F.when(F.col("most") < math.inf, more).otherwise(0.0)
    sums = felt.agg(F.count("*").alias("seconds"), F.sum(lacking).alias("lacking"))
    return _by_subject(sums, "broker", "lacking")


def namespaces_then(namespaces: DataFrame, throttled: DataFrame) -> Found:
    """The namespaces with most of the traffic in the minutes that have a throttled second.

    Args:
        namespaces: the recorded table.
        throttled: group, class, dimension and second.
    """
    minutes = throttled.select(
        *_GROUP, (F.col("second") - F.col("second") % 60).alias("minute")
    ).distinct()
    of_groups = namespaces.select(
        F.explode("resource_groups").alias("resource_group"), "monitoring_class",
        F.unix_seconds("minute").alias("minute"), "messages", "bytes",
        F.concat_ws("/", "tenant", "namespace").alias("name"),
    )  # fmt: skip
    passed = F.when(F.col("dimension").endswith("InMsgs"), F.col("messages")).otherwise(
        F.col("bytes")
    )
    rows = (
        of_groups.join(minutes, ["resource_group", "monitoring_class", "minute"])
        .groupBy(*_GROUP, "name")
        .agg(F.sum(passed).alias("passed"))
    )
    return _by_subject(rows, "name", "passed")


def _by_subject(rows: DataFrame, name: str, measure: str) -> Found:
    largest = Window.partitionBy(*_GROUP).orderBy(F.desc(measure), name)
    kept = rows.withColumn("rank", F.row_number().over(largest)).where(F.col("rank") <= FELT_MAX)
    told = [column for column in rows.columns if column not in _GROUP]
    return _by_limit(kept.orderBy(*_GROUP, "rank"), told)


def _by_limit(rows: DataFrame, columns: Sequence[str]) -> Found:
    found: Found = {}
    for row in rows.collect():
        told = {column: row[column] for column in columns}
        found.setdefault((row["resource_group"], row["dimension"]), []).append(told)
    return found


def played(
    recording: Recording,
    found: Sequence[Mapping[str, Any]],
    replay_s: int | None,
) -> Found:
    """Play the busiest seconds at parts of the advised limits."""
    limits: dict[tuple[str, str], dict[Dimension, int]] = {}
    first: dict[tuple[str, str], int] = {}
    for row in found:
        if row["limit"] is not None:
            key = (row["resource_group"], row["monitoring_class"])
            limits.setdefault(key, {})[Dimension(row["dimension"])] = row["limit"]
            first.setdefault(key, row["busiest"])
    groups = {group for group, _ in limits}
    if replay_s == 0 or not groups or (replay_s is None and len(groups) > REPLAY_GROUPS):
        return {}
    seconds = replay_s or REPLAY_S
    windows = recording.spark.createDataFrame(
        [(*key, since) for key, since in first.items()],
        "resource_group string, monitoring_class string, since bigint",
    )
    at = F.unix_seconds("second")
    busiest = (
        recording.tables["admitted"]
        .join(F.broadcast(windows), KEY)
        .where(at.between(F.col("since"), F.col("since") + seconds - 1))
        .drop("since")
    )
    told = definitions(recording.tables["configuration"])
    answers = (
        demand(busiest, None, seconds)
        .groupBy(*KEY)
        .cogroup(told.join(F.broadcast(windows.drop("since")), KEY).groupBy(*KEY))
        .applyInPandas(_player(limits), _PLAYED)
    )
    return _by_limit(answers.orderBy("part"), ("part", "limit", "throttled", "seconds"))


def _player(
    limits: Mapping[tuple[str, str], Mapping[Dimension, int]],
) -> Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]:
    """Return the work of an executor that plays one group and class."""

    def play(rows: pd.DataFrame, told: pd.DataFrame) -> pd.DataFrame:
        if rows.empty or told.empty:
            return pd.DataFrame()
        name = rows["resource_group"].iloc[0]
        advised = limits[name, rows["monitoring_class"].iloc[0]]
        found = []
        for part in PLAYED:
            parts = {dimension: max(1, round(part * limit)) for dimension, limit in advised.items()}
            of_columns = {
                DIMENSION_COLUMNS[dimension.value]: parts[dimension] for dimension in parts
            }
            story = story_of(rows, told.assign(**of_columns))
            assert story is not None  # it is limited now
            for dimension, figures in replay(story).items():
                if dimension in parts:
                    throttled = round(figures.throttled * story.seconds)
                    row = (part, parts[dimension], throttled, story.seconds)
                    found.append((name, dimension.value, *row))
        return pd.DataFrame(found)

    return play
