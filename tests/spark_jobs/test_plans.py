"""The jobs' plans bound how often rows move between executors, and run no Python on rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import events, usage_rollup
from spark_jobs.figures import event_figures
from spark_jobs.recording import open_recording
from spark_jobs.timeline import (
    broker_seconds,
    certified_seconds,
    group_seconds,
    limits_over_time,
    unknown_seconds,
)
from tests.spark_jobs.plans.jobs import FOLDER, plans_of_all_jobs
from tests.spark_jobs.plans.outline import outline_of
from tests.spark_jobs.stores.servers import INTERPRETED
from tests.spark_jobs.test_timeline import EDGES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BROKER_SECONDS = """resource_group string, dimension string, second bigint, broker string, run string,
    limit bigint, room bigint, admitted bigint, demand double, fair double, local_limit bigint,
    participants bigint, known boolean, brokers bigint"""
GROUP_SECONDS = """resource_group string, dimension string, second bigint, limit bigint, room double,
    admitted bigint, demand double, brokers bigint, worst double, off boolean, local_limits bigint,
    central double, known boolean, broken boolean"""
EVENTS = """resource_group string, dimension string, event bigint, kinds array<string>,
    subjects array<string>, happened bigint, known bigint, ends bigint"""


def plan_of(frame: DataFrame) -> str:
    """The physical plan, before it is adapted to what the data turn out to be."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def shuffles(plan: str) -> list[str]:
    """The columns by which rows are moved, once for each time that they are."""
    found = re.findall(r"(?<!Reused)Exchange hashpartitioning\(([^)]*), \d+\)", plan)
    return [re.sub(r"#\d+L?", "", columns) for columns in found]


def frame(spark: SparkSession, columns: str) -> DataFrame:
    """A frame that Spark has to plan for, knowing nothing of its rows."""
    return spark.createDataFrame(spark.sparkContext.emptyRDD(), columns)


@pytest.fixture(scope="module", autouse=True)
def compiled(spark: SparkSession) -> Iterator[None]:
    """Plans as those who run the jobs have them."""
    for name in INTERPRETED:
        spark.conf.unset(name)
    yield
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="module")
def brokers(
    spark: SparkSession, story: Path, tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    """Broker seconds of the story, of limits that are written once, as in the report."""
    recording, place = (
        open_recording(spark, story),
        str(tmp_path_factory.mktemp("plans") / "limits"),
    )
    limits_over_time(recording.tables["configuration"]).write.parquet(place)
    return broker_seconds(recording.tables["admitted"], spark.read.parquet(place))


def test_shares_take_one_shuffle_of_the_recorded_rows(brokers: DataFrame) -> None:
    """By group, dimension and second: sums, windows and shares are all within one."""
    moved = [columns for columns in shuffles(plan_of(brokers)) if "second" in columns]

    assert moved == ["second, resource_group, dimension"]


def test_shares_take_one_sort_and_compiled_sums(brokers: DataFrame) -> None:
    """Sorting is most of the work; sums that keep text would have to sort, too, and are interpreted."""
    plan = plan_of(brokers)

    assert plan.count(" Sort [second") == 1
    assert "SortAggregate" not in plan


def test_group_seconds_are_moved_once_more(
    spark: SparkSession, story: Path, brokers: DataFrame
) -> None:
    """By group, for what looks back in time: a row a second, however many brokers there are."""
    no_gaps = spark.createDataFrame([], EDGES)
    certificates = open_recording(spark, story).tables["certificates"]
    made = certified_seconds(group_seconds(brokers, no_gaps), certificates)
    moved = shuffles(plan_of(made))

    assert moved.count("second, resource_group, dimension") == 1
    # Certificates and definitions are small; what is left is one move by time.
    assert len(moved) <= 6


def test_rows_of_what_has_no_limit_are_not_moved(brokers: DataFrame) -> None:
    """They are left out where they are read."""
    _, moved, below = plan_of(brokers).partition("Exchange hashpartitioning(second")

    assert moved
    assert "LeftSemi" in below


def test_what_brokers_show_takes_one_shuffle_of_their_seconds(spark: SparkSession) -> None:
    """Joins, leaves and steps are seen in the same pass over a broker's time."""
    made = events.signs(frame(spark, BROKER_SECONDS))

    assert shuffles(plan_of(made)) == ["resource_group, dimension, broker"]


@pytest.fixture(scope="module")
def figures_plan(spark: SparkSession) -> str:
    """Return the plan that makes the figures of every event from seconds."""
    groups = frame(spark, GROUP_SECONDS)
    made = event_figures(
        groups, frame(spark, BROKER_SECONDS), unknown_seconds(groups), frame(spark, EVENTS)
    )
    return plan_of(made)


def test_seconds_are_not_joined_with_all_events_of_their_group(figures_plan: str) -> None:
    """Every join is by a time or an event, too: else twice the time would be four times the work."""
    joins = re.findall(r"Join \[([^]]*)\]", figures_plan)

    assert len(joins) >= 6
    assert all(re.search(r"\b(second|span|event)#", columns) for columns in joins), joins


def test_figures_of_all_events_take_seventeen_shuffles(figures_plan: str) -> None:
    """However many events there are; most are of events already, of which there are few."""
    moved = shuffles(figures_plan)

    assert len(moved) <= 17
    assert sum("second" in columns or "span" in columns for columns in moved) <= 10


def test_the_rollup_moves_recorded_rows_once(spark: SparkSession, story: Path) -> None:
    """Added up by broker and second; what is left by second and by hour is less every time."""
    recording = open_recording(spark, story)
    made = usage_rollup.hours(recording.tables["admitted"], recording.tables["configuration"])
    moved = shuffles(plan_of(made))

    assert [columns for columns in moved if "broker" in columns] == [
        "resource_group, dimension, broker, second"
    ]
    assert len(moved) <= 5


def test_no_row_passes_through_python(brokers: DataFrame) -> None:
    """Built-in functions only, on the way of recorded rows to figures."""
    assert "Python" not in plan_of(brokers)


def test_an_outline_shows_what_moves_rows_and_not_how_often_columns_are_named() -> None:
    """Two plans of one outline: another projection and other numbers; a shuffle more is another one."""
    plan = """AdaptiveSparkPlan isFinalPlan=false
+- Project [a#1L, b#2]
   +- SortMergeJoin [a#1L], [c#3], LeftOuter
      :- Sort [a#1L ASC NULLS FIRST], false, 0
      :  +- Exchange hashpartitioning(a#1L, 2), ENSURE_REQUIREMENTS, [plan_id=7]
      :     +- Scan ExistingRDD[a#1L,b#2]
      +- HashAggregate(keys=[c#3], functions=[partial_sum(d#4)])
         +- Scan ExistingRDD[c#3,d#4]
"""
    told = outline_of(plan)

    assert told.splitlines() == [
        "  SortMergeJoin by [a] LeftOuter",
        "    Sort [a]",
        "      Exchange by [a] ENSURE_REQUIREMENTS",
        "        Scan",
        "    HashAggregate by [c], a part",
        "      Scan",
    ]
    assert outline_of(plan.replace("#1L", "#41L").replace(", 2)", ", 16)")) == told
    last = "         +- "
    moved = f"{last}Exchange hashpartitioning(c#3, 2), ENSURE_REQUIREMENTS, [plan_id=8]\n   {last}"
    assert "      Exchange by [c]" in outline_of(plan.replace(last, moved))


def test_every_plan_is_the_committed_one(spark: SparkSession) -> None:
    """A new shuffle, sort or join shows in the diff; `python -m tests.spark_jobs.plans` renews them."""
    plans = plans_of_all_jobs(spark)

    assert {path.stem for path in FOLDER.glob("*.txt")} == set(plans)
    for job, text in plans.items():
        committed = (FOLDER / f"{job}.txt").read_text()
        assert text.splitlines() == committed.splitlines(), job
