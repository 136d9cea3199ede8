"""The report reads what the demo records of the peer."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deploy.demo import peer_tables
from spark_jobs.convergence_report import frames, kept_at
from spark_jobs.places import place_of
from spark_jobs.recording import open_recording
from tests.demo.scenes import a_peers_run

START = 1_800_000_000

pytestmark = [pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(900)]


def test_the_report_says_of_the_peer_what_there_is_to_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Starved brokers, events and all; nothing of what the peer keeps to itself."""
    place = tmp_path / "peer"
    peer_tables.write(a_peers_run(), place, START)
    recording = open_recording(spark, place)
    made = frames(recording.tables, kept_at(place_of(tmp_path / "kept")))
    events = [row.asDict() for row in made["events"].orderBy("event").collect()]

    assert recording.cluster == peer_tables.CLUSTER
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
