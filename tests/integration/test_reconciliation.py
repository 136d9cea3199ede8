"""Real clients that go round a real gate: they are seen, told, and charged if that is asked for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import PROGRAM, Sidecars
from tests.integration.world import TENANT, World, eventually, make_world

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

BROKER = "broker-1"
RATE = 200
SEEN_WITHIN_S = 10.0
OFTEN = {"reconcile_seconds": 2.0, "reconcile_part": 0.25}
"""A cluster of tests has many topics, and other work."""
_RATE = re.compile(
    r'^pulsar_quota_escaping_messages_per_second\{namespace="([^"]+)",way="[^"]+"\} (\S+)$',
    re.MULTILINE,
)


@contextmanager
def clients_round_the_gate(world: World, rate: int) -> Iterator[None]:
    """A stock client that publishes at the broker's own port; the block begins when it may send."""
    (port,) = (each.broker_port for each in world.cluster.brokers if each.name == BROKER)
    process = subprocess.Popen(
        [
            sys.executable,
            *("-m", "deploy.demo.load", "--url", f"pulsar://127.0.0.1:{port}"),
            *("--topic", world.topic_of[BROKER], "--rate", str(rate)),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "connected"
        yield
    finally:
        process.terminate()
        process.communicate(timeout=60)


def escaping(world: World) -> float:
    """The rate of the test's namespace, by the metric of the broker's sidecar."""
    text = world.http.get(f"{world.sidecars.admin_url(BROKER)}/metrics").text
    return float(dict(_RATE.findall(text)).get(world.namespace, 0.0))


def alarms(world: World) -> list[dict[str, Any]]:
    """The alarms of traffic round the gate that fire for the test's namespace."""
    return [
        each
        for each in world.get("/quota/v1/alarms", at=BROKER)
        if each["alarm"] == "TrafficRoundTheGate"
        and each["subject"].endswith(world.namespace)
        and each["state"] == "firing"
    ]


def examined(world: World) -> list[str]:
    """The doctor's findings about the test's namespace."""
    url = world.sidecars.admin_url(BROKER)
    command = [sys.executable, *PROGRAM, "--api", url, "--json", "doctor"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    findings = [each for each in json.loads(found.stdout) if each["subject"] == "round the gate"]
    assert findings, found.stdout
    return [each["text"] for each in findings if world.namespace in each["text"]]


@contextmanager
def reconciling(cluster: Cluster, tmp_path: Path, name: str, **keys: object) -> Iterator[World]:
    """A namespace at sidecars that compare the counters every other second."""
    with (
        Sidecars(cluster, tmp_path, {**OFTEN, **keys}) as sidecars,
        httpx.Client(trust_env=False, timeout=30.0) as http,
    ):
        sidecars.start()
        yield make_world(cluster, sidecars, http, f"{TENANT}/{name}")


def test_traffic_round_a_gate_is_told_within_ten_seconds(cluster: Cluster, tmp_path: Path) -> None:
    """By metric, alarm and doctor, within a tenth of its rate; and nothing before.

    So is a topic whose name keeps it out of the broker's metrics.
    """
    with reconciling(cluster, tmp_path, "told") as world:
        world.limit(publishRateInMsgs=10_000)
        assert_told(world)
        assert_topic_outside_the_metrics_told(world)
        world.limit(publishRateInMsgs=-1)


def examined_rate(world: World) -> float:
    """The rate in the doctor's sentence about the test's namespace."""
    (sentence,) = examined(world)
    return float(sentence.split()[0])


def overview_rate(world: World) -> float:
    """The rate in the overview of groups."""
    rows = world.get("/quota/v1/overview?limit=200", at=BROKER)["rows"]
    (row,) = (each for each in rows if each["group"] == world.group)
    return float(row["escaping"])


def assert_topic_outside_the_metrics_told(world: World) -> None:
    """Publish past the gates to a topic with a line feed in its name; its broker's sidecar tells it."""
    topic = f"non-persistent://{world.namespace}/one\ntwo"
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    (url,) = (each.service_url for each in world.cluster.brokers if each.name == BROKER)
    with closing(pulsar.Client(url, logger=quiet)) as client:
        client.create_producer(topic).send(b"x")
        eventually(
            lambda: any(tells_uncounted(world, name) for name in world.topic_of),
            "told",
            SEEN_WITHIN_S,
        )


def tells_uncounted(world: World, name: str) -> bool:
    """Whether a sidecar tells that it does not see all topics of the test's namespace, and alarms."""
    found = world.get("/quota/v1/reconciliation", at=name)["uncounted"]
    alarms_there = world.get("/quota/v1/alarms", at=name)
    subjects = [each["subject"] for each in alarms_there if each["state"] == "firing"]
    told = [each["namespace"] for each in found]
    return told == [world.namespace] and f"{name} {world.namespace} uncounted" in subjects


def assert_told(world: World) -> None:
    """Go round the gate for a while, and look at every place that tells of it."""
    with world.load({BROKER: RATE}):
        time.sleep(SEEN_WITHIN_S)
        assert (escaping(world), alarms(world), examined(world)) == (0.0, [], [])
        with clients_round_the_gate(world, RATE):
            eventually(lambda: escaping(world) > 0 and alarms(world) != [], "told", SEEN_WITHIN_S)
            (alarm,) = alarms(world)
            assert world.namespace in alarm["text"]
            (sentence,) = examined(world)
            assert "a client at the broker's own port" in sentence
            assert "of 127.0.0.1:" in sentence
            # A busy machine sends, and counts, now more and now less.
            for place in (escaping, examined_rate, overview_rate):
                eventually(lambda: place(world) == pytest.approx(RATE, rel=0.1), place.__name__)  # noqa: B023
        deadline = time.monotonic() + 3 * SEEN_WITHIN_S
        while escaping(world):
            assert time.monotonic() < deadline, "it is over, and told for ever"
            time.sleep(0.5)
        assert examined(world) == []


def test_charged_traffic_and_the_gates_keep_the_limit_together(
    cluster: Cluster, tmp_path: Path
) -> None:
    """500 of which 200 go round the gate: the gate lets 300 pass."""
    with reconciling(cluster, tmp_path, "charged", charge_escaped=True) as world:
        world.limit(publishRateInMsgs=500)
        with world.load({BROKER: 2_000}), clients_round_the_gate(world, RATE):
            world.comes_to(
                lambda rates: rates[BROKER] == pytest.approx(500, rel=0.03),
                "500 by both ways together",
                seconds=10.0,
            )
            eventually(lambda: escaping(world) == pytest.approx(RATE, rel=0.1), "its rate")
            admitted = world.get(f"/quota/v1/usage/{world.group}", at=BROKER)["brokers"]
            (own,) = (each for each in admitted if each["broker"] == BROKER)
            assert own["admitted"]["publishRateInMsgs"] == pytest.approx(500, rel=0.1)
        world.limit(publishRateInMsgs=-1)
