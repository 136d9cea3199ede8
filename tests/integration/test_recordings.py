"""The report of recordings of a real cluster is held against its brokers' counters.

Sidecars record into a directory; as a measurement into an S3 that refuses every third request that
writes, and into an HDFS that they know by its web service, with the counters of each second.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from coordinator.core.model import Dimension
from deploy.background import Background
from deploy.local.cluster import Cluster
from deploy.local.topics import TopicCounters
from tests.integration.steady import Steady
from tests.integration.world import World, eventually, world_of_others
from tests.spark_jobs.stores import servers

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

LIMIT, RAISED = 600, 900
WANTED = {"broker-1": 100, "broker-2": 400, "broker-3": 700}
"""Messages a second; fair shares are 100, 250 and 250, and when the limit is raised 100, 400 and 400."""
SIZE = 200
BYTES = 10**8
"""No dispatch, and bytes without end: messages alone are limited, bytes are recorded beside them."""
ACT_S = 5.0
_AT_REST = 6
"""Readings that are the same, half a second apart."""

LATE_S = 3.0
"""Of the recorded second, on a machine that stands still: the gate counts, and tells it later."""


@contextmanager
def crowded_bucket() -> Iterator[str]:
    """A bucket in which too many write."""
    with servers.s3() as endpoint:
        servers.make_bucket(endpoint, "crowded-bucket")
        yield f"s3://crowded-bucket/recorded?endpoint_override={endpoint}&scheme=http"


@dataclass(frozen=True)
class Counted:
    """A broker's counters, and the wall clock's seconds between which they were read."""

    asked_s: float
    answered_s: float
    of_topic: TopicCounters


class Counting(Background):
    """Reads the counters of all brokers' topics, again and again."""

    def __init__(self, world: World) -> None:
        super().__init__({"counting": self._count})
        self._world = world
        self.seen: dict[str, list[Counted]] = {name: [] for name in world.topic_of}

    def _count(self) -> None:
        while not self._stop.is_set():
            for name, topic in self._world.topic_of.items():
                asked_s = time.time()
                counters = self._world.topics.counters(topic)
                self.seen[name].append(Counted(asked_s, time.time(), counters))
            self._stop.wait(0.5)

    def rests(self) -> bool:
        """Whether the last readings of each are the same."""
        return all(
            len(of_broker) > _AT_REST
            and len({each.of_topic for each in of_broker[-_AT_REST:]}) == 1
            for of_broker in self.seen.values()
        )


@dataclass(frozen=True)
class Played:
    """Brokers' counters before, during and after a load, and when the limit was raised, if it was."""

    before: Mapping[str, TopicCounters]
    seen: Mapping[str, list[Counted]]
    after: Mapping[str, TopicCounters]
    raised_s: float | None


def test_a_recording_is_what_brokers_counted(cluster: Cluster, tmp_path: Path) -> None:
    """To the message and the byte; the report saw the change, and left nothing out."""
    directory, place, out = tmp_path / "sidecars", tmp_path / "recorded", tmp_path / "report"
    directory.mkdir()
    settings = {"record_dir": str(place), "record_file_seconds": 5.0, "record_cluster": "east"}
    with world_of_others(cluster, directory, settings) as world:
        played = play(world, raised=True)
        wait_until_written(world)
    figures = reported(str(place), out)

    adds_up_to_counters(played, admitted(out / "parquet"))
    assert figures["cluster"] == "east"
    assert figures["input"]["left_out"] == []
    assert any("configuration" in event["kinds"] for event in figures["events"])


@pytest.mark.verify
def test_recordings_in_stores_are_what_brokers_counted(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To the message and the byte, from the first second to the last; and the report saw the change."""
    for name, value in servers.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    hdfs_files, directory = tmp_path / "hdfs", tmp_path / "stores"
    for made in (hdfs_files, directory):
        made.mkdir()
    with crowded_bucket() as bucket, servers.hdfs(hdfs_files) as hdfs:
        settings = {"record_dir": bucket, "record_file_seconds": 10.0, "record_cluster": "east"}
        with world_of_others(cluster, directory, settings) as world:
            in_s3 = play(world, raised=True)
            wait_until_written(world)
            record_into(world, f"fsspec+{hdfs.web}/recorded")
            in_hdfs = play(world, raised=False)
            wait_until_written(world)
        out = tmp_path / "report"
        figures = reported(bucket, out, peer=f"{hdfs.root}/recorded")

    holds_against_counters(in_s3, admitted(out / "parquet"))
    holds_against_counters(in_hdfs, admitted(out / "peer"))
    changes = [
        event
        for event in figures["events"]
        if event["dimension"] == "publishRateInMsgs" and "configuration" in event["kinds"]
    ]
    assert in_s3.raised_s is not None
    assert [abs(event["happened"] - in_s3.raised_s) <= 2 for event in changes] == [True], changes
    assert figures["input"]["left_out"] == []
    assert sum(row["rows_dropped"] for row in figures["quality"]["recorded"]) == 0
    assert {row["broker"] for row in figures["quality"]["recorded"]} == set(WANTED)
    assert figures["peer"]["events"]
    assert not re.findall("left out|dropped|missing", " ".join(figures["peer"]["warnings"]))


def holds_against_counters(
    played: Played, recorded: Mapping[tuple[str, str], Counter[int]]
) -> None:
    """Each broker's sums are its counters' at the end, and in every second as far as these tell."""
    adds_up_to_counters(played, recorded)
    for name, seen in played.seen.items():
        before, by_second = played.before[name], recorded["publishRateInMsgs", name]
        for each in seen:
            least = passed_until(by_second, each.asked_s - LATE_S)
            most = passed_until(by_second, each.answered_s + LATE_S)
            passed = each.of_topic.messages_in - before.messages_in
            assert least <= passed <= most, (name, each)


def adds_up_to_counters(played: Played, recorded: Mapping[tuple[str, str], Counter[int]]) -> None:
    """Each broker's sums are its counters' at the end."""
    for name, after in played.after.items():
        before = played.before[name]
        assert after.messages_in > before.messages_in
        by_second = recorded["publishRateInMsgs", name]
        assert by_second.total() == after.messages_in - before.messages_in, name
        by_bytes = recorded["publishRateInBytes", name]
        assert by_bytes.total() == after.bytes_in - before.bytes_in, name


def play(world: World, *, raised: bool) -> Played:
    """An act under load, another one with a raised limit if asked for, and a rest."""
    world.limit(publishRateInMsgs=LIMIT, publishRateInBytes=BYTES)
    before = {name: world.topics.counters(topic) for name, topic in world.topic_of.items()}
    topics = dict.fromkeys(world.topic_of.values(), SIZE)
    raised_s = None
    with Counting(world) as counting, Steady(world.sidecars.service_url, topics) as load:
        load.offers({world.topic_of[name]: rate for name, rate in WANTED.items()})
        time.sleep(ACT_S)
        if raised:
            raised_s = time.time()
            world.limit(publishRateInMsgs=RAISED, publishRateInBytes=BYTES)
            time.sleep(ACT_S)
        load.offers(dict.fromkeys(topics, 0))
        eventually(counting.rests, "clients have sent all that waited")
    after = {name: world.topics.counters(topic) for name, topic in world.topic_of.items()}
    return Played(before, counting.seen, after, raised_s)


def record_into(world: World, url: str) -> None:
    """Start all sidecars anew, with another place to record into."""
    for name in world.topic_of:
        world.sidecars.end(name)
        world.sidecars.reload(name, {"record_dir": url})
    world.sidecars.start()


def wait_until_written(world: World) -> None:
    """Wait until the store has every row that there is now."""
    there_are = {}
    for name in world.topic_of:
        now = recorder_rows(world, name)
        there_are[name] = now["written_total"] + now["waiting"]
    for name, rows in there_are.items():
        eventually(
            lambda name=name, rows=rows: recorder_rows(world, name)["written_total"] >= rows,  # type: ignore[misc]
            f"{name} has written {rows:,.0f} rows",
        )


def recorder_rows(world: World, name: str) -> Mapping[str, float]:
    """A sidecar's numbers of recorded rows."""
    text = world.http.get(f"{world.sidecars.admin_url(name)}/metrics").text
    found = re.findall(r"^pulsar_quota_recorder_rows_(\w+) (\S+)$", text, re.MULTILINE)
    return {what: float(number) for what, number in found}


def reported(url: str, out: Path, peer: str = "") -> Any:
    """The figures of a report on a recording, with another one beside it if there is one."""
    beside = ["--peer", peer] if peer else []
    options = (
        *([f"--jars {servers.s3_class_path()}"] if peer else []),
        f'--driver-java-options "{servers.QUICK}"',
        *(f"--conf {key}={value}" for key, value in servers.INTERPRETED.items()),
        "pyspark-shell",
    )
    made = subprocess.run(
        [sys.executable, "-m", "coordinator.cli", "report", url, *beside, "--out", str(out)],
        env=os.environ | {"PYSPARK_SUBMIT_ARGS": " ".join(options)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert (out / "figures.json").exists(), made.stdout + made.stderr
    return json.loads((out / "figures.json").read_text())


def admitted(tables: Path) -> Mapping[tuple[str, str], Counter[int]]:
    """The admitted messages and bytes by dimension, broker and second."""
    found: dict[tuple[str, str], Counter[int]] = {
        (dimension.value, name): Counter() for dimension in Dimension for name in WANTED
    }
    columns = ["dimension", "broker", "second", "admitted"]
    for row in ds.dataset(tables / "broker_seconds").to_table(columns=columns).to_pylist():
        found[row["dimension"], row["broker"]][row["second"]] += row["admitted"]
    return found


def passed_until(by_second: Mapping[int, int], moment_s: float) -> int:
    """Messages of the seconds that had ended then."""
    return sum(passed for second, passed in by_second.items() if second + 1 <= moment_s)
