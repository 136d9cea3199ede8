"""The buckets of the report, from seconds whose sums are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.buckets import BUCKETS_S, bucket_peaks

START = 1_800_000_000
"""A multiple of twenty."""


def _found(
    spark: SparkSession, seconds: Mapping[int, tuple[int, bool]], demand: float = 100.0
) -> dict[int, Any]:
    """The buckets of a limit of 100, from what passed in each second and whether that is known."""
    rows = [
        ("orders", "publishRateInMsgs", START + second, 100, 100.0, demand, admitted, known)
        for second, (admitted, known) in seconds.items()
    ]
    columns = (
        "resource_group string, dimension string, second bigint, limit bigint, room double,"
        " demand double, admitted bigint,"
    )
    groups = spark.createDataFrame(rows, f"{columns} known boolean")
    return {row["length_s"]: row for row in bucket_peaks(groups).collect()}


def test_a_second_above_the_limit_shows_in_each_bucket_that_it_belongs_to(
    spark: SparkSession,
) -> None:
    """Forty more in second 27 of forty: 40 % of a second, 8 % of five, 4 % of ten, 2 % of twenty."""
    found = _found(spark, {n: (140 if n == 27 else 100, True) for n in range(40)})

    assert {length: row["buckets"] for length, row in found.items()} == {1: 40, 5: 8, 10: 4, 20: 2}
    assert {length: row["above"] for length, row in found.items()} == dict.fromkeys(BUCKETS_S, 1)
    peaks = {length: row["peak"] for length, row in found.items()}
    assert peaks == pytest.approx({1: 0.4, 5: 0.08, 10: 0.04, 20: 0.02})


def test_a_bucket_with_a_second_that_was_not_recorded_is_none(spark: SparkSession) -> None:
    """Half a bucket says nothing, and one that misses its worst second would flatter."""
    found = _found(spark, {n: (100, n != 3) for n in range(20) if n != 12})

    assert {length: row["buckets"] for length, row in found.items()} == {1: 18, 5: 2}
    assert found[5]["peak"] == pytest.approx(0.0)


def test_below_the_limit_the_worst_bucket_is_negative(spark: SparkSession) -> None:
    """So one sees how far away it is."""
    found = _found(spark, dict.fromkeys(range(20), (90, True)))

    assert [row["peak"] for row in found.values()] == pytest.approx([-0.1] * 4)
    assert [row["above"] for row in found.values()] == [0] * 4


def test_clients_that_get_less_than_the_limit_wait_longer_than_at_one_bucket(
    spark: SparkSession,
) -> None:
    """80 and 100 of 100 in turn are 90 on average: a message waits a ninth longer, in every bucket."""
    found = _found(spark, {n: (80 if n % 2 else 100, True) for n in range(20)})

    regrets = [row["latency_regret"] for row in found.values()]
    assert regrets == pytest.approx([100 / 90 - 1] * 4)


def test_clients_that_want_less_than_the_limit_do_not_wait(spark: SparkSession) -> None:
    """Then there is no regret, not one of nothing; a second that is not known does not count."""
    assert _found(spark, dict.fromkeys(range(20), (90, True)), 99.0)[1]["latency_regret"] is None
    known = _found(spark, {n: (100 if n else 1, n > 0) for n in range(20)})
    assert known[1]["latency_regret"] == pytest.approx(0.0)
