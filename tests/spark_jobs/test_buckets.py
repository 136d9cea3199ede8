"""The buckets of the report, from seconds whose sums are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.buckets import BUCKETS_S, bucket_peaks

START = 1_800_000_000
"""A multiple of twenty."""

RUNS: Mapping[str, tuple[float, Mapping[int, tuple[int, bool]]]] = {
    "one high second": (100, {n: (140 if n == 27 else 100, True) for n in range(40)}),
    "seconds not recorded": (100, {n: (100, n != 3) for n in range(20) if n != 12}),
    "below": (100, dict.fromkeys(range(20), (90, True))),
    "in turn": (100, {n: (80 if n % 2 else 100, True) for n in range(20)}),
    "wants less": (99, dict.fromkeys(range(20), (90, True))),
    "first not known": (100, {n: (100 if n else 1, n > 0) for n in range(20)}),
}
"""Of each group: its demand, and what passed in each second and whether that is known; limits are 100."""

GROUP_SECONDS = """resource_group string, dimension string, second bigint, limit bigint, room double,
    demand double, admitted bigint, known boolean"""

Buckets = Mapping[str, Mapping[int, Any]]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Buckets:
    """The buckets of every run by their length; all runs are one query, which takes seconds."""
    rows = [
        (run, "publishRateInMsgs", START + second, 100, 100.0, float(demand), admitted, known)
        for run, (demand, seconds) in RUNS.items()
        for second, (admitted, known) in seconds.items()
    ]
    groups = spark.createDataFrame(rows, GROUP_SECONDS)
    by_run: dict[str, dict[int, Any]] = {run: {} for run in RUNS}
    for row in bucket_peaks(groups).orderBy("length_s").collect():
        by_run[row["resource_group"]][row["length_s"]] = row
    return by_run


def test_a_second_above_the_limit_shows_in_each_bucket_that_it_belongs_to(found: Buckets) -> None:
    """Forty more in second 27 of forty: 40 % of a second, 8 % of five, 4 % of ten, 2 % of twenty."""
    rows = found["one high second"]

    assert {length: row["buckets"] for length, row in rows.items()} == {1: 40, 5: 8, 10: 4, 20: 2}
    assert {length: row["above"] for length, row in rows.items()} == dict.fromkeys(BUCKETS_S, 1)
    peaks = {length: row["peak"] for length, row in rows.items()}
    assert peaks == pytest.approx({1: 0.4, 5: 0.08, 10: 0.04, 20: 0.02})


def test_a_bucket_with_a_second_that_was_not_recorded_is_none(found: Buckets) -> None:
    """Half a bucket says nothing, and one that misses its worst second would flatter."""
    rows = found["seconds not recorded"]

    assert {length: row["buckets"] for length, row in rows.items()} == {1: 18, 5: 2}
    assert rows[5]["peak"] == pytest.approx(0.0)


def test_below_the_limit_the_worst_bucket_is_negative(found: Buckets) -> None:
    """So one sees how far away it is."""
    rows = found["below"].values()

    assert [row["peak"] for row in rows] == pytest.approx([-0.1] * 4)
    assert [row["above"] for row in rows] == [0] * 4


def test_clients_that_get_less_than_the_limit_wait_longer_than_at_one_bucket(
    found: Buckets,
) -> None:
    """80 and 100 of 100 in turn are 90 on average: a message waits a ninth longer, in every bucket."""
    regrets = [row["latency_regret"] for row in found["in turn"].values()]
    assert regrets == pytest.approx([100 / 90 - 1] * 4)


def test_clients_that_want_less_than_the_limit_do_not_wait(found: Buckets) -> None:
    """Then there is no regret, not one of nothing; a second that is not known does not count."""
    assert found["wants less"][1]["latency_regret"] is None
    assert found["first not known"][1]["latency_regret"] == pytest.approx(0.0)


def test_a_limit_may_be_as_large_as_a_number_can_be(spark: SparkSession) -> None:
    """Twenty seconds of it are more than 64 bits hold."""
    most = 2**63 - 1
    rows = [
        ("g", "publishRateInBytes", START + second, most, float(most), 9.0, 9, True)
        for second in range(20)
    ]
    found = bucket_peaks(spark.createDataFrame(rows, GROUP_SECONDS)).collect()

    assert [row["peak"] for row in found] == pytest.approx([-1.0] * 4)
