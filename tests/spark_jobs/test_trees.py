"""Usage by tree: a parent has what its children admit, and what is lent and guaranteed is told apart.

The recording is that of scenario S26 (an idle guarantee of 600 of 1,000 is borrowed, claimed back, and
lent again), written by the sidecars' own recorder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Container, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from coordinator.simulation.stage import Parameters
from spark_jobs import advise
from spark_jobs.changes import parse
from spark_jobs.convergence_report import ReportOutcome, make
from spark_jobs.recording import open_recording
from spark_jobs.refusals import RefusedInput
from spark_jobs.tables import SCHEMAS
from spark_jobs.trees import tree_hours
from spark_jobs.usage_rollup import roll_up, text
from spark_jobs.what_if import ask
from tests.simulation.tree_scenarios import LIMIT, idle_guarantee
from tests.spark_jobs import plain
from tests.spark_jobs.recorded import START_NS
from tests.spark_jobs.simulated import run_recorded

MESSAGES = "publishRateInMsgs"
CLAIMED_S, LENT_S = 30, 45
"""The scenario's seconds: the guarantee is claimed in the first, and idle again from the other on."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording of S26."""
    place = tmp_path_factory.mktemp("trees")
    run_recorded(idle_guarantee(Parameters(brokers=3)).stage.world, "S26", place)
    return place


@pytest.fixture(scope="module")
def hours(
    spark: SparkSession, recorded: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Mapping[str, Any]]:
    """The written hour of every group, by name; a sidecar has lost the rows of ten seconds."""
    place, out = tmp_path_factory.mktemp("lost") / "recorded", tmp_path_factory.mktemp("usage")
    shutil.copytree(recorded, place)
    _lose_seconds(min(place.glob("table=lifecycle/*/*/*.parquet")), range(20, 30))
    outcome = roll_up(open_recording(spark, place), out)
    assert any("lacks 10 s" in warning for warning in outcome.warnings)
    assert "shop" in text(outcome), "a parent is foretold as well"
    rows = spark.read.parquet(str(out / "trees")).where(F.col("dimension") == MESSAGES).collect()
    return {row["resource_group"]: row.asDict() for row in rows}


def _lose_seconds(path: Path, seconds: Container[int]) -> None:
    table = pq.ParquetFile(path).read()
    start = START_NS // 10**9
    kept = [
        at is None or at.timestamp() - start not in seconds for at in table["second"].to_pylist()
    ]
    pq.write_table(table.filter(kept), path)


def test_a_tree_says_what_is_missing_of_its_hour(hours: Mapping[str, Mapping[str, Any]]) -> None:
    """As hours of groups do: seconds of all brokers, and rows that recorders dropped."""
    assert {(row["missing_s"], row["rows_dropped"]) for row in hours.values()} == {(10, 0)}


def test_a_parent_has_what_all_groups_below_it_admit(
    hours: Mapping[str, Mapping[str, Any]], recorded: Path
) -> None:
    """Held against the recorded rows, added up in a loop."""
    rows = [row for row in plain.read(recorded, "admitted") if row["dimension"] == MESSAGES]
    by_group = dict.fromkeys(("orders", "web", "batch"), 0)
    by_second: dict[object, int] = {}
    for row in rows:
        by_group[row["resource_group"]] += row["admitted"]
        by_second[row["second"]] = by_second.get(row["second"], 0) + row["admitted"]

    assert {name: hours[name]["admitted"] for name in by_group} == by_group
    assert hours["shop"]["admitted"] == sum(by_group.values())
    assert hours["shop"]["peak"] == max(by_second.values())
    assert hours["shop"]["seconds"] == len(by_second)


def test_each_group_is_shown_in_its_place(hours: Mapping[str, Mapping[str, Any]]) -> None:
    """With the most that it may have, its guarantee, and what it has if all want everything."""
    shown = ("root", "parent", "level", "limit", "guarantee", "entitled")
    assert {name: tuple(row[each] for each in shown) for name, row in hours.items()} == {
        "shop": ("shop", "", 0, 1_000, 0, 1_000),
        "orders": ("shop", "shop", 1, 1_000, 600, 700),
        "web": ("shop", "shop", 1, 1_000, 0, 100),
        "batch": ("shop", "shop", 1, 300, 0, 200),
    }


def test_what_is_borrowed_and_guaranteed_is_added_up(
    hours: Mapping[str, Mapping[str, Any]],
) -> None:
    """While orders is idle web borrows 600/s beyond its own 100, and batch 100 beyond its 200."""
    lent_s = 60 - (LENT_S - CLAIMED_S)
    near = LIMIT * 6  # a start, and a second around each change
    assert hours["web"]["borrowed"] == pytest.approx(600 * lent_s, abs=near)
    assert hours["batch"]["borrowed"] == pytest.approx(100 * lent_s, abs=near)
    assert hours["orders"]["borrowed"] == pytest.approx(0, abs=near)
    assert hours["orders"]["guaranteed"] == pytest.approx(600 * (LENT_S - CLAIMED_S), abs=near)
    assert hours["web"]["guaranteed"] == hours["shop"]["borrowed"] == 0


@pytest.fixture(scope="module")
def report(
    spark: SparkSession, recorded: Path, tmp_path_factory: pytest.TempPathFactory
) -> ReportOutcome:
    """The convergence report of the same recording."""
    return make(open_recording(spark, recorded), tmp_path_factory.mktemp("report"))


@pytest.mark.verify
def test_the_report_holds_a_group_to_its_part_of_the_tree(report: ReportOutcome) -> None:
    """Of the most that it may have it has a tenth while its siblings want theirs."""
    figures = json.loads(Path(str(report.figures)).read_text())
    of_web = [
        each
        for each in figures["events"]
        if (each["resource_group"], each["dimension"]) == ("web", MESSAGES)
    ]

    assert len(of_web) == 2, "its part has moved twice"
    for event in of_web:
        assert event["settle_s"] <= 2
        assert abs(event["error"]) <= 0.02
        assert event["utilisation"] >= 0.98
        assert event["peak_1s"] <= 0.02


@pytest.mark.verify
def test_the_report_shows_who_borrowed(report: ReportOutcome) -> None:
    """In figures.json, on the page and in the text."""
    figures = json.loads(Path(str(report.figures)).read_text())
    rows = [each for each in figures["trees"] if each["dimension"] == MESSAGES]
    assert [(each["resource_group"], each["parent"]) for each in rows] == [
        ("shop", ""), ("batch", "shop"), ("orders", "shop"), ("web", "shop"),
    ]  # fmt: skip
    assert rows[3]["borrowed"] > 100 * rows[3]["seconds"]
    assert "web below shop: " in report.text
    assert "<h2>Trees of groups</h2>" in Path(str(report.page)).read_text()


@pytest.mark.verify
def test_what_a_change_gives_one_group_is_told_of_all_groups_of_its_tree(
    spark: SparkSession, recorded: Path
) -> None:
    """With twice the root's limit web, which has none of its own, gets nearly all of the second half."""
    answer = ask(open_recording(spark, recorded), parse(["shop.publishRateInMsgs=2000"]))
    totals = {
        (row["resource_group"], row["variant"]): row["admitted"]
        for row in answer.rows
        if row["broker"] is None
    }

    assert answer.warnings == ()
    for group in ("batch", "orders", "web"):
        assert totals[group, "replayed"] == pytest.approx(totals[group, "recorded"], rel=0.03)
    assert totals["batch", "changed"] == pytest.approx(300, rel=0.02)
    assert totals["web", "changed"] > totals["web", "recorded"] + 800
    assert sum(totals[each, "changed"] for each in ("batch", "orders", "web")) <= 2_000


def test_what_if_guarantees_could_not_be_kept_is_refused_with_the_sum(
    spark: SparkSession, recorded: Path
) -> None:
    """As the API refuses it."""
    with pytest.raises(RefusedInput, match="guarantees below shop would add up to 600"):
        ask(open_recording(spark, recorded), parse(["shop.publishRateInMsgs=100"]))


def rows_of_a_tree(spark: SparkSession, seconds: list[int], trees_at: list[int]) -> list[Any]:
    """The hours of a child that admits 10 a second, with its tree recorded at some of the seconds."""
    start = datetime(2026, 11, 1, 10, tzinfo=UTC)

    def at(second: int) -> datetime:
        return start + timedelta(seconds=second)

    admitted = [
        ("c", "b1", 1, "r", at(s), 0, at(s), 1_000_000, "web", "Publish", MESSAGES, 10, 0, 9, 1, 1)
        for s in seconds
    ]
    trees = [
        ("c", "b1", 1, "r", at(s), 0, at(s), group, MESSAGES, above, 1, 100, 0, 4, 50, None)
        for s in trees_at
        for group, above in (("shop", []), ("web", ["shop"]))
    ]
    frames = (
        spark.createDataFrame(admitted, SCHEMAS["admitted"]),
        spark.createDataFrame(trees, SCHEMAS["trees"]),
    )
    return tree_hours(*frames).orderBy("resource_group").collect()


def test_a_second_whose_recorder_died_has_the_nearest_place(spark: SparkSession) -> None:
    """Both before the first and after the last recorded second, but not a minute away."""
    shop, web = rows_of_a_tree(spark, [*range(10), 200], trees_at=[3, 4, 4])

    assert (shop["admitted"], web["admitted"], web["borrowed"]) == (100, 100, 60)
    assert (web["seconds"], web["root"], web["parent"]) == (10, "shop", "shop")


def test_a_group_outside_trees_is_in_no_row(spark: SparkSession) -> None:
    """Its hours are among those of all groups."""
    assert rows_of_a_tree(spark, [0], trees_at=[100]) == []


@pytest.mark.verify
def test_advice_on_a_group_of_a_tree_says_that_it_shares_a_limit(
    spark: SparkSession, recorded: Path
) -> None:
    """A limit of its own does not help a group that waits for want of a guarantee."""
    outcome = advise.ask(open_recording(spark, recorded), groups=["web"], replay_s=0)
    told = [caution for row in outcome.rows for caution in row["cautions"]]

    assert any(caution.startswith("it shares the limit of shop: ") for caution in told)
