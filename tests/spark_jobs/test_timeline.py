"""One row per second: the shares are exact, limits hold from when they were known, gaps are known."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from spark_jobs.events import gap_edges
from spark_jobs.tables import SCHEMAS
from spark_jobs.timeline import (
    broker_seconds,
    certified_seconds,
    group_seconds,
    judged_seconds,
    limits_over_time,
)
from tests.spark_jobs.plain import max_min

MESSAGES = "publishRateInMsgs"
START = 1_800_000_000


def at(second: float) -> datetime:
    """A moment after the start."""
    return datetime.fromtimestamp(START + second, UTC)


def configuration(
    version: int, second: float, limit: int | None, broker: str = "b1", group: str = "g"
) -> tuple[Any, ...]:
    """A row: a sidecar knows a definition from a moment on."""
    head = ("test", broker, 1, "r", at(second), 1)
    return (*head, group, version, limit, None, None, None, "max-min", "balanced", "hold", "equal")


def test_a_limit_holds_from_the_second_in_which_the_first_sidecar_knew_it(
    spark: SparkSession,
) -> None:
    """In the second of a change the higher one does; a later sidecar's knowing changes nothing."""
    rows = [
        configuration(1, 0.2, 100),
        configuration(2, 10.5, 200, "b2"),
        configuration(2, 11.5, 200),
        configuration(3, 20.5, 50),
        configuration(4, 30.5, None),
    ]
    frame = spark.createDataFrame(rows, SCHEMAS["configuration"])
    found = limits_over_time(frame).where(f"dimension = '{MESSAGES}'").orderBy("number").collect()

    start = 1_800_000_000
    assert [(row["limit"], row["from_second"] - start) for row in found][1:] == [
        (200, 10),
        (50, 21),
        (None, 30),
    ]
    assert [row["to_second"] - start for row in found][:3] == [9, 20, 29]
    assert found[0]["from_second"] == 0


def test_no_second_has_two_limits(spark: SparkSession) -> None:
    """Of definitions of one second, or known in another order by clocks apart, the last one holds."""
    rows = [
        configuration(1, 0.2, 100),
        configuration(2, 10.5, 50),
        configuration(3, 10.7, 80),
        configuration(4, 30.5, 200),
        configuration(5, 29.5, 300, "b2"),
    ]
    frame = spark.createDataFrame(rows, SCHEMAS["configuration"])
    found = limits_over_time(frame).where(f"dimension = '{MESSAGES}'").orderBy("number").collect()

    held = [row for row in found if row["from_second"] <= row["to_second"]]
    assert [(row["limit"], row["to_second"] - START) for row in held[:-1]] == [(100, 9), (80, 28)]
    assert [row["from_second"] for row in held] == [0, START + 10, START + 29]
    assert held[-1]["limit"] == 300


@pytest.mark.slow
def test_shares_are_exact_max_min(spark: SparkSession) -> None:
    """On 400 random seconds of one to nine brokers, by windows as by hand with fractions."""
    dice = random.Random(20261121)
    rows, expected = [], {}
    for second in range(400):
        limit = 1000
        demands = {
            f"b{number}": dice.choice([0, dice.randint(1, 400), dice.randint(1, 2000)])
            for number in range(dice.randint(1, 9))
        }
        capped = {broker: Fraction(min(demand, limit)) for broker, demand in demands.items()}
        expected[second] = max_min(Fraction(limit), capped)
        head = ("test", 1, "r", at(second), 1, at(second), 1_000_000, "g", "Publish", MESSAGES)
        rows += [
            (head[0], broker, *head[1:], demand, 0, 100, 1, 1) for broker, demand in demands.items()
        ]
    admitted = spark.createDataFrame(rows, SCHEMAS["admitted"])
    limits = limits_over_time(
        spark.createDataFrame([configuration(1, 0, 1000)], SCHEMAS["configuration"])
    )
    for row in broker_seconds(admitted, limits).collect():
        fair = expected[row["second"] - 1_800_000_000][row["broker"]]
        assert row["fair"] == pytest.approx(float(fair), rel=1e-12, abs=1e-9)
        assert row["known"]


def test_demand_is_what_was_held(spark: SparkSession) -> None:
    """A throttled broker's demand is hidden; it never counts for more than the limit."""
    cases = [
        (0, 300, 300.0),
        (99_000, 300, 300.0),
        (100_000, 300, 330.0),
        (500_000, 300, 450.0),
        (900_000, 300, 1000.0),
        (2_000_000, 300, 1000.0),
        (0, 1200, 1000.0),
    ]
    rows = [
        ("test", "b1", 1, "r", at(n), 1, at(n), 1_000_000, "g", "Publish", MESSAGES, admitted, held)
        for n, (held, admitted, _) in enumerate(cases)
    ]
    frame = spark.createDataFrame([(*row, 100, 1, 1) for row in rows], SCHEMAS["admitted"])
    limits = limits_over_time(
        spark.createDataFrame([configuration(1, 0, 1000)], SCHEMAS["configuration"])
    )

    found = broker_seconds(frame, limits).orderBy("second").collect()
    assert [row["demand"] for row in found] == pytest.approx([demand for *_, demand in cases])


def test_a_second_is_known_that_was_seen_as_a_whole_and_once(spark: SparkSession) -> None:
    """By one sidecar or by two after each other; one that is there twice would count twice."""
    seen = [
        (0, 1_000_000),
        (1, 600_000),
        (1, 400_000),
        (2, 900_000),
        (3, 1_000_000),
        (3, 1_000_000),
    ]
    rows = [
        ("test", "b1", 1, f"r{n}", at(second), n, at(second), observed, "g", "Publish", MESSAGES)
        for n, (second, observed) in enumerate(seen)
    ]
    frame = spark.createDataFrame([(*row, 50, 0, 100, 1, 1) for row in rows], SCHEMAS["admitted"])
    limits = limits_over_time(
        spark.createDataFrame([configuration(1, 0, 1000)], SCHEMAS["configuration"])
    )

    found = broker_seconds(frame, limits).orderBy("second").collect()
    assert [row["known"] for row in found] == [True, True, False, False]


COLUMNS = (
    "resource_group string, dimension string, second bigint, broker string, limit bigint, "
    "room bigint, admitted bigint, demand double, fair double, local_limit bigint, brokers bigint, "
    "known boolean"
)
"""Of broker seconds, as far as the sums of a group need them."""

EDGES = "resource_group string, dimension string, second bigint, gaps int"


def test_a_second_without_participants_has_no_distance(spark: SparkSession) -> None:
    """Limits are recorded before the first producer connects: such a second has no C/N."""
    rows = [("g", MESSAGES, 7, "b1", 3000, 3000, 0, 0.0, 0.0, 15, 0, True)]
    edges = spark.createDataFrame([], EDGES)
    (found,) = group_seconds(spark.createDataFrame(rows, COLUMNS), edges).collect()

    assert (found["worst"], found["off"], found["known"]) == (None, False, True)


def test_seconds_within_a_gap_are_not_known_and_a_day_of_them_is_two_rows(
    spark: SparkSession,
) -> None:
    """Of each limit of each group in which the broker took part, whichever gaps overlap."""
    spells = spark.createDataFrame(
        [("b1", "g", MESSAGES), ("b2", "g", MESSAGES), ("b3", "other", MESSAGES)],
        "broker string, resource_group string, dimension string",
    )
    gaps = spark.createDataFrame(
        [("b1", 10, 86_410), ("b2", 9, 10)], "broker string, from_second bigint, to_second bigint"
    )
    edges = gap_edges(gaps, spells)
    rows = [
        ("g", MESSAGES, second, "b2", 100, 100, 50, 50.0, 50.0, 50, 1, True)
        for second in (8, 9, 11, 86_410, 86_411)
    ]
    found = group_seconds(spark.createDataFrame(rows, COLUMNS), edges).orderBy("second").collect()

    assert edges.count() == 4
    assert [row["known"] for row in found] == [True, False, False, False, True]
    assert [row["central"] for row in found] == [50.0] * 5


def held(*seconds: tuple[int | None, ...]) -> list[tuple[Any, ...]]:
    """Return the local limits of brokers in each second, as rows; None: not recorded."""
    return [
        ("g", MESSAGES, START + second, f"b{broker}", limit)
        for second, limits in enumerate(seconds)
        for broker, limit in enumerate(limits)
        if limit is not None
    ]


def judged(
    spark: SparkSession, rows: list[tuple[Any, ...]], said: list[tuple[int | None, int, int]]
) -> list[Row]:
    """The seconds of these rows, judged by these certificates (most, newcomer, holders) of each."""
    brokers = spark.createDataFrame(
        rows,
        "resource_group string, dimension string, second bigint, broker string, local_limit bigint",
    )
    groups = brokers.groupBy("resource_group", "dimension", "second").agg(
        F.sum("local_limit").alias("local_limits"), F.count("broker").alias("brokers")
    )
    certificates = spark.createDataFrame(
        [
            (
                "c",
                f"b{number}",
                1,
                "r",
                at(0),
                1,
                at(row["second"] - START),
                "g",
                MESSAGES,
                1000,
                *each,
            )
            for row in groups.collect()
            for number, each in enumerate(said)
        ],
        SCHEMAS["certificates"],
    )
    found = judged_seconds(certified_seconds(groups, certificates), brokers)
    return found.orderBy("second").collect()


def test_a_certificate_is_broken_by_three_seconds_of_more(spark: SparkSession) -> None:
    """The lowest one counts, with what newcomers may hold; sidecars do not look at one moment."""
    sums = [1000, 1200, 1000, 1200, 1200, 1200, 1300, 1300, 1300, 1000]
    rows = held(*((total - 500, 300, 200) for total in sums))

    found = judged(spark, rows, [(1250, 0, 3), (1100, 100, 2), (None, 0, 0)])
    assert {row["certified"] for row in found} == {1200}
    assert [row["broken"] for row in found] == [second == 7 for second in range(len(sums))]


def test_no_certificate_is_broken_while_limits_move(spark: SparkSession) -> None:
    """A giver has lowered, a taker has not raised: the certificate is below both sums."""
    rows = held((1500, 1500, 0), (1500, 1500, 0), (1000, 1000, 1000), (1000, 1000, 1000))

    found = judged(spark, rows, [(2000, 0, 3)])
    assert [row["broken"] for row in found] == [False] * 4


def test_what_nobody_certified_was_not_broken(spark: SparkSession) -> None:
    """It is unknown."""
    found = judged(spark, held((900, 200), (900, 200), (900, 200)), [(None, 0, 0)])

    assert [row["broken"] for row in found] == [None] * 3


def test_a_broker_that_was_not_recorded_holds_nothing_for_sure(spark: SparkSession) -> None:
    """It may have left in between."""
    rows = held((700, 400), (None, 1100), (700, 400), (700, 400), (700, 400))

    found = judged(spark, rows, [(1000, 0, 2)])
    assert [row["broken"] for row in found] == [False, False, False, True, False]


def test_limits_may_add_up_to_more_than_a_number_holds(spark: SparkSession) -> None:
    """Then the sum is not known, and neither is whether it was certified."""
    most = 2**63 - 1
    rows = [
        ("g", MESSAGES, START + second, f"b{n}", most, most, 9, 9.0, 9.0, most, 2, True)
        for second in range(3)
        for n in (1, 2)
    ]
    brokers = spark.createDataFrame(rows, COLUMNS)
    groups = group_seconds(brokers, spark.createDataFrame([], EDGES))
    said = [
        ("c", "b1", 1, "r", at(n), 1, at(n), "g", MESSAGES, most, most, most, 1) for n in range(3)
    ]
    certificates = spark.createDataFrame(said, SCHEMAS["certificates"])
    found = judged_seconds(certified_seconds(groups, certificates), brokers).collect()

    assert {(row["local_limits"], row["certified"], row["broken"]) for row in found} == {
        (None, None, None)
    }


def test_a_hot_group_is_spread_over_all_partitions(spark: SparkSession) -> None:
    """Nine rows of ten are of one group: no partition has many more rows than another."""
    definitions = [configuration(1, 0, 1_000, group=name) for name in ("hot", "cold")]
    limits = limits_over_time(spark.createDataFrame(definitions, SCHEMAS["configuration"]))
    moment = F.timestamp_seconds(F.lit(START) + F.col("id") % 2_000)
    rows = spark.range(20_000).select(
        F.lit("c").alias("cluster"),
        F.floor(F.col("id") / 2_000).cast("string").alias("broker"),
        F.lit(1).cast("bigint").alias("incarnation"),
        F.lit("r").alias("run"),
        moment.alias("ts"),
        F.lit(1).cast("bigint").alias("monotonic_ns"),
        moment.alias("second"),
        F.lit(1_000_000).cast("bigint").alias("observed_us"),
        F.when(F.col("id") % 10 == 0, "cold").otherwise("hot").alias("resource_group"),
        F.lit("Publish").alias("monitoring_class"),
        F.lit("publishRateInMsgs").alias("dimension"),
        *(
            F.lit(1).cast("bigint").alias(name)
            for name in ("admitted", "held_us", "local_limit", "participants", "topics")
        ),
    )
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    try:
        sizes = [
            row["count"]
            for row in broker_seconds(rows, limits)
            .groupBy(F.spark_partition_id())
            .count()
            .collect()
        ]
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
        spark.conf.set("spark.sql.shuffle.partitions", "2")

    assert sum(sizes) == 20_000
    assert len(sizes) == 8
    assert max(sizes) < 1.5 * 20_000 / 8
