"""The peer's counters become the tables that the report reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from deploy.demo import peer_tables
from deploy.demo.recording import LimitChange
from spark_jobs.convergence_report import frames
from spark_jobs.intake import examine, read
from spark_jobs.session import session
from spark_jobs.tables import SCHEMAS
from tests.demo.scenes import act, recording
from tests.spark_jobs import plain

WALL_S = 1_800_000_000.0
START = 1_800_000_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One broker gets all, the other starves; the limit doubles; then the first is killed."""
    played = recording(
        {"broker-1": [(0, 2900), (20, 5900), (40, 0)], "broker-2": [(0, 100), (40, 3000)]},
        [
            act(0, 20, {"broker-1": 4000, "broker-2": 4000}),
            act(20, 40, {"broker-1": 8000, "broker-2": 4000}, limit=6_000, event="raise"),
            act(40, 60, {"broker-2": 4000}, limit=6_000, event="kill", known_s=44),
        ],
        limits=(LimitChange(0.0, 3_000), LimitChange(20.0, 6_000)),
        killed_s=40.0,
    )
    made = tmp_path_factory.mktemp("peer")
    peer_tables.write(played, made, WALL_S)
    return made


def test_a_second_is_what_the_counters_say(place: Path) -> None:
    """The held traffic is the offered less the admitted; a killed broker has no rows any more."""
    rows = sorted(plain.read(place, "admitted"), key=lambda row: (row["broker"], row["second"]))

    def told(row: dict[str, Any]) -> tuple[object, ...]:
        return row["broker"], row["second"].timestamp() - START, row["admitted"], row["held_us"]

    assert told(rows[0]) == ("broker-1", 0, 2900, round(1_100_000_000 / 2900))
    assert told(rows[39]) == ("broker-1", 39, 5900, round(2_100_000_000 / 5900))
    assert told(rows[40]) == ("broker-2", 0, 100, 1_000_000)
    assert told(rows[-1]) == ("broker-2", 59, 3000, 333_333)
    assert len(rows) == 100
    assert {row["local_limit"] for row in rows} == {None}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.java
def test_the_report_says_of_the_peer_what_there_is_to_say(place: Path, tmp_path: Path) -> None:
    """Starved brokers, events and all; nothing of what the peer keeps to itself."""
    spark: SparkSession = session("tests", quick=True)
    intake = examine(place)
    made = frames({name: read(spark, intake, name) for name in SCHEMAS}, tmp_path)
    events = [row.asDict() for row in made.events.orderBy("event").collect()]

    assert intake.cluster == peer_tables.CLUSTER
    assert [(event["kinds"], event["happened"] - START) for event in events] == [
        (["start"], 0),
        (["configuration"], 20),
        (["crash"], 39),
    ]
    assert [event["settle_s"] for event in events[:2]] == [None, None]
    assert events[0]["min_share"] == pytest.approx(100 / 1500)
    assert events[0]["peak_1s"] == 0
    assert events[2]["known"] - START == 44
    assert events[2]["utilisation"] == pytest.approx(66 / 86)
