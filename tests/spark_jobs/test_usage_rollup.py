"""The roll-up: every hour is right whenever it is written, and the forecast says no more than it can."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from coordinator.core.model import MonitoringClass
from coordinator.core.traffic import NamespaceKey, NamespaceTraffic
from spark_jobs.forecast import forecast
from spark_jobs.recording import open_recording
from spark_jobs.refusals import RefusedInput
from spark_jobs.tables import SCHEMAS
from spark_jobs.usage_rollup import (
    GROUP,
    RollUpOutcome,
    first_lines,
    hours,
    main,
    namespace_hours,
    produce,
    roll_up,
    text,
)
from tests.adapters.recorder.world import Recording
from tests.spark_jobs.least import required
from tests.spark_jobs.plain import read
from tests.spark_jobs.test_coverage import at, table

MESSAGES = "publishRateInMsgs"


def written(spark: SparkSession, out: Path) -> list[dict[str, object]]:
    """The hours as they stand, of the one limited dimension."""
    frame = spark.read.parquet(str(out / "hours")).where(F.col("limit").isNotNull())
    return [row.asDict() for row in frame.orderBy("hour").collect()]


@pytest.fixture(scope="module")
def of_story(
    spark: SparkSession, story: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RollUpOutcome, Path]:
    """The roll-up of the story, and where it was written."""
    out = tmp_path_factory.mktemp("hours")
    return roll_up(open_recording(spark, story), out), out


def test_an_hour_adds_up_what_all_brokers_admitted(
    spark: SparkSession, story: Path, of_story: tuple[RollUpOutcome, Path]
) -> None:
    """Held against the recorded rows, added up in a loop."""
    rows = [row for row in read(story, "admitted") if row["dimension"] == MESSAGES]
    found = written(spark, of_story[1])

    assert sum(int(str(hour["admitted"])) for hour in found) == sum(row["admitted"] for row in rows)
    assert sum(int(str(hour["seconds"])) for hour in found) == len({row["second"] for row in rows})
    assert found[0]["limit"] == 6_000
    held_s = sum(row["held_us"] for row in rows) / 1e6
    assert sum(float(str(hour["held_s"])) for hour in found) == pytest.approx(held_s)


@pytest.mark.verify
def test_running_it_again_changes_nothing(spark: SparkSession, story: Path, tmp_path: Path) -> None:
    """A bill must not depend on the number of runs."""
    roll_up(open_recording(spark, story), tmp_path)
    once = written(spark, tmp_path)
    roll_up(open_recording(spark, story), tmp_path)

    assert written(spark, tmp_path) == once


@pytest.mark.verify
def test_what_came_late_is_in_the_next_run_and_what_was_deleted_stays(
    spark: SparkSession, story: Path, tmp_path: Path
) -> None:
    """A sidecar's files may come after the others', and retention deletes them in the end."""
    part = tmp_path / "part"
    shutil.copytree(story, part)
    late = sorted(part.glob("table=admitted/version=1/date=*/broker-2.*.parquet"))
    aside = [path.rename(tmp_path / path.name) for path in late]
    roll_up(open_recording(spark, part), tmp_path)
    early = sum(int(str(hour["admitted"])) for hour in written(spark, tmp_path))
    for path, home in zip(aside, late, strict=True):
        path.rename(home)
    roll_up(open_recording(spark, part), tmp_path)
    whole = written(spark, tmp_path)
    for path in part.glob("table=admitted/version=1/date=*/broker-1.*.parquet"):
        path.unlink()
    roll_up(open_recording(spark, part), tmp_path)

    assert sum(int(str(hour["admitted"])) for hour in whole) > early
    assert written(spark, tmp_path) == whole


def test_an_hour_with_a_limit_for_a_part_of_it_used_no_part_of_one(spark: SparkSession) -> None:
    """The limit is set ten seconds after the hour begins; 9,000 messages have passed by then."""
    admitted = [
        {"resource_group": "g", "dimension": MESSAGES, "broker": "b", "second": at(second),
         "admitted": passed, "held_us": 0, "observed_us": 1_000_000}
        for second, passed in ((0, 9_000), (20, 100), (3_600, 1_800))
    ]  # fmt: skip
    definitions = [
        {"resource_group": "g", "configuration_version": version, "ts": at(second),
         "publish_messages": limit}
        for version, (second, limit) in enumerate(((0, None), (10, 1_000)))
    ]  # fmt: skip
    frames = table(spark, "admitted", admitted), table(spark, "configuration", definitions)
    first, second = hours(*frames).orderBy("hour").collect()

    assert (first["admitted"], first["limit"], first["used"]) == (9_100, None, None)
    assert (second["limit"], second["used"]) == (1_000, 0.0005)


@pytest.fixture
def namespaces(spark: SparkSession) -> Callable[..., list[dict[str, object]]]:
    """The hours that recorded rows become: broker, minute, namespace, groups, messages, throttled."""

    def hours_of(*rows: tuple[str, int, str, list[str], int, int]) -> list[dict[str, object]]:
        start = datetime(2026, 11, 1, 10, 59, tzinfo=UTC)
        recorded = [
            ("c", broker, 1, "r", start, 0, start + timedelta(minutes=minute), 60_000_000,
             "shop", namespace, groups, "Publish", messages, 100 * messages, 1_500_000, throttled)
            for broker, minute, namespace, groups, messages, throttled in rows
        ]  # fmt: skip
        made = namespace_hours(spark.createDataFrame(recorded, SCHEMAS["namespaces"]))
        ordered = made.orderBy("namespace", "resource_group", "hour")
        return [row.asDict() for row in ordered.collect()]

    return hours_of


def test_an_hour_of_a_namespace_adds_up_brokers_and_minutes(
    namespaces: Callable[..., list[dict[str, object]]],
) -> None:
    """A second in which clients waited at two brokers counts as one second of waiting."""
    before, after = namespaces(
        ("b1", 0, "orders", ["g"], 100, 0),
        ("b1", 1, "orders", ["g"], 10, 0b0111),
        ("b2", 1, "orders", ["g"], 20, 0b1100),
        ("b1", 2, "orders", ["g"], 30, 0b0001),
    )

    assert (before["messages"], before["throttled_s"], before["broker_minutes"]) == (100, 0, 1)
    assert (after["messages"], after["bytes"], after["held_s"]) == (60, 6_000, 4.5)
    assert (after["throttled_s"], after["broker_minutes"]) == (5, 3)


def test_a_namespace_counts_for_each_of_its_groups(
    namespaces: Callable[..., list[dict[str, object]]],
) -> None:
    """It may have none, and the former and the present one in the hour of a move."""
    found = namespaces(
        ("b1", 1, "free", [], 5, 0),
        ("b1", 1, "orders", ["g"], 10, 0),
        ("b1", 2, "orders", ["h", "all"], 20, 0),
    )

    assert [(row["namespace"], row["resource_group"], row["messages"]) for row in found] == [
        ("free", None, 5),
        ("orders", "all", 20),
        ("orders", "g", 10),
        ("orders", "h", 20),
    ]


def record_namespaces(place: Path, broker: str, run: str, messages: int) -> None:
    """Two minutes of a sidecar's, of one namespace."""
    key = NamespaceKey("shop", "orders", ("g",), MonitoringClass.PUBLISH)
    with Recording(place, broker=broker, run=run) as recording:
        recording.recorder.namespaces_counted([], recording.clock.now_ns())
        for seconds, passed in ((60, messages), (60, messages), (1, 0)):
            recording.clock.advance(seconds)
            counted = [NamespaceTraffic(key, passed, 100 * passed)]
            recording.recorder.namespaces_counted(counted, recording.clock.now_ns())


@pytest.mark.verify
def test_late_minutes_of_a_namespace_are_in_the_next_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Earlier minutes count once."""
    place, out = tmp_path / "recorded", tmp_path / "out"
    required(place)

    def messages() -> int:
        roll_up(open_recording(spark, place), out)
        written = spark.read.parquet(str(out / "namespaces"))
        return int(written.agg(F.sum("messages")).collect()[0][0])

    record_namespaces(place, "broker-1", "run-1", 30)
    assert messages() == 60
    record_namespaces(place, "broker-2", "run-2", 5)
    assert messages() == 70


def used(spark: SparkSession, shares: list[float]) -> DataFrame:
    """Hours of a group that used these parts of its limit, one after the other."""
    start = datetime(2026, 11, 1, tzinfo=UTC)
    rows = [("orders", MESSAGES, start + timedelta(hours=n), u) for n, u in enumerate(shares)]
    return spark.createDataFrame(
        rows, "resource_group string, dimension string, hour timestamp, used double"
    )


def test_a_steady_rise_is_drawn_on_to_80_percent(spark: SparkSession) -> None:
    """One percent a day from 50 % is at 80 % thirty days after the first hour."""
    (row,) = forecast(used(spark, [0.5 + hour / 2_400 for hour in range(240)]), GROUP).collect()

    assert row["per_day"] == pytest.approx(0.01)
    assert row["explained"] == pytest.approx(1.0)
    assert row["reached"].date() == date(2026, 12, 1)


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host whose clock shows nine hours more."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_a_forecast_is_told_in_utc_wherever_it_is_made(spark: SparkSession) -> None:
    """Give or take Spark's rounding."""
    (row,) = first_lines(forecast(used(spark, [0.5 + hour / 2_400 for hour in range(240)]), GROUP))

    assert abs(row["reached"] - datetime(2026, 12, 1, tzinfo=UTC)) <= timedelta(seconds=1)


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param([0.7 - hour / 2_400 for hour in range(240)], id="it falls"),
        pytest.param([0.3 + 0.4 * (hour % 2) for hour in range(240)], id="it only swings"),
    ],
)
def test_nothing_is_foretold_that_the_hours_do_not_show(
    spark: SparkSession, shares: list[float]
) -> None:
    """A guess would be taken for a date."""
    (row,) = forecast(used(spark, shares), GROUP).collect()

    assert row["reached"] is None


def test_a_group_that_is_gone_is_not_foretold(spark: SparkSession) -> None:
    """Its hours stay for ever; the last two weeks are those of all groups."""
    old = used(spark, [0.5 + hour / 2_400 for hour in range(240)])
    later = (F.col("hour") + F.expr("interval 30 days")).alias("hour")
    new = old.select(F.lit("returns").alias("resource_group"), "dimension", later, "used")
    found = forecast(old.unionByName(new), GROUP).collect()

    assert [(row["resource_group"], row["hours"]) for row in found] == [("returns", 240)]


def test_the_answer_names_the_group(of_story: tuple[RollUpOutcome, Path]) -> None:
    """A line per limited dimension."""
    assert "orders" in text(of_story[0])


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """Nothing is written for it."""
    with pytest.raises(RefusedInput):
        produce(tmp_path, tmp_path / "out")
    assert main([str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_a_forecast_is_shown_in_columns() -> None:
    """Titles stand above their columns; an unknown value is a dash; warnings come last."""
    known = {"used": 0.7512, "per_day": 0.0123, "reached": datetime(2026, 12, 1, 9, 30)}  # noqa: DTZ001 - as Spark gives it
    orders = {"resource_group": "orders", "dimension": MESSAGES, "hours": 240} | known
    returns = {"resource_group": "returns", "dimension": "dispatchRateInBytes", "hours": 1}
    rows = (orders, returns | dict.fromkeys(known))
    shown = """\
group            dimension             hours    used   per day  80 % is reached (UTC)
orders           publishRateInMsgs       240   75.1%    +1.23%  2026-12-01 09:30
returns          dispatchRateInBytes       1       -         -  -
warning: late"""

    assert text(RollUpOutcome(rows, 1, ("late",))) == shown
