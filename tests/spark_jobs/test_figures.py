"""An event is judged by the seconds that follow it, and there may be none."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_jobs.figures import event_figures
from spark_jobs.summary import figure, headline
from spark_jobs.timeline import unknown_seconds
from tests.spark_jobs.test_plans import BROKER_SECONDS, EVENTS, GROUP_SECONDS

MESSAGES = "publishRateInMsgs"


@pytest.mark.parametrize("limit", [100, 2**63 - 1])
def test_a_period_without_a_limit_or_a_participant_is_not_judged(
    spark: SparkSession, limit: int
) -> None:
    """Without a limit nothing can settle; the headline is of the others, whatever their limit."""
    limited = [*range(10), *range(20, 30)]
    groups = spark.createDataFrame(
        [
            (
                "g",
                MESSAGES,
                second,
                limit,
                float(limit),
                50,
                50.0,
                1,
                0.0,
                False,
                limit,
                50.0,
                True,
                None,
            )
            for second in limited
        ],
        GROUP_SECONDS,
    )
    brokers = spark.createDataFrame(
        [
            ("g", MESSAGES, second, "b", "1", limit, limit, 50, 50.0, 50.0, limit, 1, True, 1)
            for second in limited
        ],
        BROKER_SECONDS,
    )
    events = spark.createDataFrame(
        [
            ("g", MESSAGES, 1, ["start"], ["b"], 0, 0, 9),
            ("g", MESSAGES, 2, ["configuration"], ["unlimited"], 10, 10, 19),
            ("g", MESSAGES, 3, ["configuration"], ["100/s"], 20, 20, 29),
        ],
        EVENTS,
    )
    made = event_figures(groups, brokers, unknown_seconds(groups), events).orderBy("event")
    found = [row.asDict() for row in made.collect()]

    assert [(event["judged"], event["limit"]) for event in found] == [
        (True, limit), (False, None), (True, limit),
    ]  # fmt: skip
    assert [figure("settle_s", event["settle_s"], judged=event["judged"]) for event in found] == [
        "0 s", "-", "0 s",
    ]  # fmt: skip
    assert headline(found) == (
        f"g held to {limit:,} msg/s published within 0.00 %; every event settled in its first whole"
        " second; no second above the limit."
    )
