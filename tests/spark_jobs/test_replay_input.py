"""A story has its definitions in order, and no more seconds than were asked for."""

from __future__ import annotations

from datetime import UTC, datetime

import pandas as pd
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.replay_input import demand, story_of
from spark_jobs.tables import SCHEMAS

MESSAGES = "publishRateInMsgs"


def test_a_definition_holds_after_the_one_that_it_replaces() -> None:
    """A broker whose clock is behind knew the third one a second before the second one was known."""
    row = {
        "resource_group": "g", "monitoring_class": "Publish", "broker": "b", "second": 100,
        "messages": 1, "bytes": 10, "wanted": 1, "topics": 1,
    }  # fmt: skip
    settings = {
        "monitoring_class": "Publish", "publish_bytes": None, "dispatch_messages": None,
        "dispatch_bytes": None, "law": "max-min", "overshoot_policy": "balanced", "weights": "equal",
    }  # fmt: skip
    told = [
        {"resource_group": "g", "configuration_version": version, "known_second": known,
         "publish_messages": limit, **settings}
        for version, known, limit in ((1, 90, 10), (2, 105, 20), (3, 104, 30))
    ]  # fmt: skip
    story = story_of(pd.DataFrame([row]), pd.DataFrame(told))

    assert story is not None
    assert [(since, group.limits.publish_messages) for since, group in story.definitions] == [
        (0, 10), (5, 20), (5, 30),
    ]  # fmt: skip


def test_what_is_played_together_has_one_last_hour(spark: SparkSession) -> None:
    """A group of a tree that was idle for ten days would add them to the replay of all others."""
    start = 1_800_000_000
    at = [("idle", second) for second in range(3)]
    at += [("busy", 864_000 + second) for second in range(3)]
    rows = [
        (
            "c",
            "b1",
            1,
            "r",
            moment,
            0,
            moment,
            1_000_000,
            group,
            "Publish",
            MESSAGES,
            10,
            0,
            9,
            1,
            1,
        )
        for group, second in at
        for moment in [datetime.fromtimestamp(start + second, UTC)]
    ]
    admitted = spark.createDataFrame(rows, SCHEMAS["admitted"])

    def played(together: Column | None) -> list[tuple[str, int]]:
        found = demand(admitted, None, 2, together).orderBy("second").collect()
        return [(row["resource_group"], row["second"] - start) for row in found]

    assert played(None) == [("idle", 1), ("idle", 2), ("busy", 864_001), ("busy", 864_002)]
    assert played(F.lit("root")) == [("busy", 864_001), ("busy", 864_002)]
