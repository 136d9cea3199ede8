"""Brokers that want more than their share of a limit would feel it."""

from __future__ import annotations

import math

import pytest
from pyspark.sql import SparkSession

from spark_jobs.advice_evidence import brokers_then

OF = ("Publish", "publishRateInMsgs")
CASES = {
    "alone": ([(1, "a", 130.0, 1), (2, "a", 101.0, 1)], {"a": (2, 31.0)}),
    "one wants little": ([(1, "a", 20.0, 1), (1, "b", 90.0, 1)], {"b": (1, 10.0)}),
    "no bound": ([(1, "a", math.inf, 1), (1, "b", 60.0, 1)], {"a": (1, 0.0), "b": (1, 10.0)}),
    "three": (
        [(1, "a", 10.0, 1), (1, "b", 100.0, 1), (1, "c", 100.0, 1)],
        {"b": (1, 55.0), "c": (1, 55.0)},
    ),
    "equal": ([(1, "a", 80.0, 3), (1, "b", 80.0, 1)], {"a": (1, 30.0), "b": (1, 30.0)}),
    "topics": ([(1, "a", 80.0, 3), (1, "b", 80.0, 1)], {"a": (1, 5.0), "b": (1, 55.0)}),
}
"""Of each group, at a limit of 100: second, broker, what it wants and its topics; who feels what."""

Felt = dict[str, dict[str, tuple[int, float]]]


@pytest.fixture(scope="module")
def felt(spark: SparkSession) -> Felt:
    """By group and broker: in how many seconds, and how much is lacking; all in one query."""
    key = "resource_group string, monitoring_class string, dimension string"
    rows = [(name, *OF, *row) for name, (seconds, _) in CASES.items() for row in seconds]
    brokers = spark.createDataFrame(
        rows, f"{key}, second bigint, broker string, most double, topics bigint"
    )
    throttled = spark.createDataFrame(
        [(name, *OF, 100, at) for name, at in {(row[0], row[3]) for row in rows}],
        f"{key}, limit bigint, second bigint",
    )
    settings = spark.createDataFrame(
        [(name, OF[1], "topics" if name == "topics" else "equal") for name in CASES],
        "resource_group string, dimension string, weights string",
    )
    return {
        name: {row["broker"]: (row["seconds"], row["lacking"]) for row in found}
        for (name, _), found in brokers_then(brokers, throttled, settings).items()
    }


@pytest.mark.parametrize("case", CASES)
def test_brokers_feel_what_they_want_beyond_their_share(felt: Felt, case: str) -> None:
    """The rest of one is the others', by topics where the group weighs by them."""
    assert felt[case] == CASES[case][1]


def test_the_worst_broker_is_named_first(felt: Felt) -> None:
    """Only the first few are shown."""
    assert list(felt["topics"]) == ["b", "a"]
