"""Backlog trends: what the sidecars recorded, by hour, and where it leads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from coordinator.backlog.rules.model import BacklogQuota
from spark_jobs.backlog_trends import JOB, TABLE, follow, hours, trends
from spark_jobs.intake import examine
from spark_jobs.refusals import RefusedInput
from spark_jobs.tables import SCHEMAS
from tests.adapters.recorder.world import Recording
from tests.backlog.rules.world import TOPIC, World

pytestmark = pytest.mark.verify

START = datetime(2026, 11, 1, tzinfo=UTC)


def record(place: Path, checks: int = 6) -> World:
    """A backlog that grows by 10 KiB every ten minutes, of 100 KiB that are allowed."""
    backlog = World()
    backlog.topic.acknowledged = {"a": 0}
    backlog.topic.quota = BacklogQuota(size_bytes=50 * 1024, age_s=86_400)
    backlog.now_ms = round(START.timestamp() * 1000)
    with Recording(place) as recording:
        for number in range(checks):
            backlog.publish(10)
            backlog.pass_s(600)
            backlog.check()
            views = backlog.monitor.views(backlog.now_ms)
            recording.recorder.backlogs_checked(views, backlog.now_ms, number)
    return backlog


def test_an_hour_has_a_row_for_size_and_one_for_age(spark: SparkSession, tmp_path: Path) -> None:
    """Mean, peak, growth, the used part of the quota, and the checks that saw it exceeded."""
    record(tmp_path / "recorded", checks=5)
    outcome = follow(spark, examine(tmp_path / "recorded", required=(TABLE,)), tmp_path / "out")
    rows = {
        row["quota_type"]: row.asDict()
        for row in spark.read.parquet(str(tmp_path / "out" / "hours")).collect()
    }
    size, age = rows["size"], rows["time"]
    assert (size["topic"], size["subscription"], size["checks"]) == (TOPIC, "a", 5)
    assert (size["mean"], size["peak"]) == (30 * 1024, 50 * 1024)
    assert size["growth"] == pytest.approx(60 * 1024)
    assert (size["used"], size["exceeded"]) == (1.0, 1)
    assert (age["peak"], age["growth"]) == (3_000, pytest.approx(3_600))
    assert age["exceeded"] == 0
    assert outcome.exit_code == 0
    assert TOPIC in JOB.text(outcome)


def test_running_it_again_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Days are written whole."""
    record(tmp_path / "recorded")
    first = follow(spark, examine(tmp_path / "recorded", required=(TABLE,)), tmp_path / "out")
    assert (
        follow(spark, examine(tmp_path / "recorded", required=(TABLE,)), tmp_path / "out") == first
    )


def test_what_was_recorded_of_no_backlog_is_refused(tmp_path: Path) -> None:
    """With the table's name."""
    (tmp_path / "recorded").mkdir()
    with pytest.raises(RefusedInput, match=TABLE):
        JOB.produce(tmp_path / "recorded", tmp_path / "out")


def recorded(spark: SparkSession, sizes: list[int]) -> Any:
    """A check an hour with these sizes of 1,000 that are allowed, without an age."""
    common = ("east", "broker-1", 1, "run", START, 0)
    rows = [
        (*common, START + timedelta(hours=hour), "shop/orders", TOPIC, "a", False, size,
         None, 1, 1_000, None, None)
        for hour, size in enumerate(sizes)
    ]  # fmt: skip
    return spark.createDataFrame(rows, SCHEMAS["backlogs"])


def test_a_steady_growth_is_drawn_on_to_four_fifths_of_the_quota(spark: SparkSession) -> None:
    """Ten bytes an hour: from 100 on, 800 are reached after 70 hours."""
    found = trends(hours(recorded(spark, [100 + 10 * hour for hour in range(48)])))
    rows = {row["quota_type"]: row for row in found.collect()}
    expected = (START + timedelta(hours=70)).replace(tzinfo=None)
    assert abs(rows["size"]["reached"] - expected) < timedelta(seconds=1)
    assert "time" not in rows


def test_a_backlog_that_comes_and_goes_has_no_forecast(spark: SparkSession) -> None:
    """A line explains nothing of it."""
    found = trends(hours(recorded(spark, [100, 700] * 24)))
    (row,) = found.where("quota_type = 'size'").collect()
    assert row["reached"] is None
