"""A stranger's messages disturb no sidecar: they are counted, named, and logged once."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from deploy.local.sidecars import command
from tests.conftest import Connect
from tests.integration.told import is_ready
from tests.integration.world import World, eventually

pytestmark = pytest.mark.cluster


def test_garbage_on_the_bus_is_counted_and_logged_once(world: World, connect: Connect) -> None:
    """The sidecars stay ready, count it by reason, and say it once in their log."""
    url = world.cluster.brokers[0].service_url
    producer = connect(url).create_producer(world.sidecars.bus_topics[0])

    def counted() -> int:
        found: int = world.get("/quota/v1/health")["reportsDropped"].get("not a usage report", 0)
        return found

    def said() -> int:
        log = world.sidecars.log_file("broker-1").read_text()
        return log.count('"reason": "not a usage report: ')

    # Another test may have sent some before, to this sidecar or to the one before its restart.
    before = counted()
    producer.send(b"\xff\xffgarbage")
    eventually(lambda: counted() == before + 1, "the first is counted")
    told = said()
    assert told >= 1
    for _ in range(5):
        producer.send(b"\xff\xffgarbage")

    eventually(lambda: counted() == before + 6, "all are counted")
    assert said() == told
    eventually(lambda: is_ready(world, "broker-1"), "it is ready")
    metrics = world.http.get(f"{world.sidecars.admin_url('broker-1')}/metrics").text
    assert 'pulsar_quota_reports_dropped_total{reason="not a usage report"}' in metrics


def test_a_corrupt_definition_disturbs_no_other(world: World) -> None:
    """A node that is no JSON is named as a fault; other groups work and change as before."""
    world.limit(publishRateInMsgs=900)
    zookeeper = KazooClient(world.cluster.state.zookeeper_connect)
    zookeeper.start()
    path = f"/pulsar-quota/groups/broken-{world.group}"
    try:
        zookeeper.create(path, b"{not json")
        eventually(lambda: any(path in fault for fault in faults(world)), "the fault is named")
        eventually(lambda: reserves(world) == {1}, "every broker has its reserve of 900")
        world.put(
            f"/admin/v2/resourcegroups/{world.group}", {"publishRateInMsgs": 6000}, "broker-2"
        )
        eventually(lambda: reserves(world) == {10}, "the other group follows")
    finally:
        zookeeper.delete(path)
        zookeeper.stop()
        zookeeper.close()
    eventually(lambda: faults(world) == {}, "the fault is gone")


NO_LIMITS = (
    '"publishRateInMsgs":0.0005',
    '"publishRateInMsgs":-0.5',
    '"publishRateInMsgs":1e400',
    '"publishRateInMsgs":NaN',
    '"publishRateInBytes":0.5',
    '"publishRateInMsgs":0.5,"publishRateInBytes":100',
    '"publishRateInMsgs":0.5,"law":"static"',
)


def test_a_fraction_that_no_limit_can_have_leaves_the_last_definition_in_force(
    world: World,
) -> None:
    """A stranger's document is named as a fault; the group is held to the limit that it had."""
    world.limit(publishRateInMsgs=0.5)
    path = f"/pulsar-quota/groups/{world.group}"
    zookeeper = KazooClient(world.cluster.state.zookeeper_connect)
    zookeeper.start()
    own, _ = zookeeper.get(path)
    try:
        for number, rates in enumerate(NO_LIMITS):
            zookeeper.set(path, f'{{"schema":1,{rates},"n":{number}}}'.encode())
            eventually(lambda: path in faults(world), f"{rates} is a fault")
            in_force = world.get(f"/quota/v1/usage/{world.group}")["limits"]["publishRateInMsgs"]
            assert in_force == 0.5, rates
            zookeeper.set(path, own)
            eventually(lambda: path not in faults(world), "the fault is gone")
    finally:
        zookeeper.set(path, own)
        zookeeper.stop()
        zookeeper.close()


def reserves(world: World) -> set[int]:
    """The local limits of brokers through which nothing passes: half a per cent for all together."""
    return {row["publishRateInMsgs"] for row in world.local_limits().values()}


def faults(world: World) -> dict[str, str]:
    """Entries of the store that could not be read, by path."""
    found: dict[str, str] = world.get("/quota/v1/catalogue/faults")
    return found


def test_a_malformed_frame_closes_that_connection_only(world: World, connect: Connect) -> None:
    """A frame with an impossible length ends its own connection; another producer goes on."""
    topic = world.topic_of["broker-1"]
    producer = connect(world.sidecars.service_url).create_producer(topic)
    producer.send(b"before")
    before = world.topics.publishers(topic)
    gate = world.cluster.brokers[0].gate_port
    with socket.create_connection(("127.0.0.1", gate), timeout=30) as stranger:
        stranger.sendall(b"\xff\xff\xff\xff\x00\x00\x00\x05\x08\x02")
        stranger.settimeout(30)
        assert stranger.recv(100) == b""

    producer.send(b"after")
    assert world.topics.publishers(topic) == before  # the same connection, since the same moment
    assert len(before) == 1
    assert "malformed" in world.sidecars.log_file("broker-1").read_text()


def test_a_bad_request_is_refused_and_changes_nothing(world: World) -> None:
    """4xx with a reason that names the field; every sidecar has the group as it was."""
    world.limit(publishRateInMsgs=900)
    path = f"/admin/v2/resourcegroups/{world.group}"

    def told() -> list[object]:
        return [world.get(f"/quota/v1/groups/{world.group}", at=name) for name in world.topic_of]

    def alike() -> bool:
        answers = told()
        return world.namespace in str(answers[0]) and all(each == answers[0] for each in answers)

    eventually(alike, "every sidecar knows the group and its namespace")
    defined = told()
    for body, named in (
        ({"publishRateInMsgs": -2}, "publishRateInMsgs"),
        ({"publishRateInMsgs": 0.0005}, "publishRateInMsgs"),
        ({"publishRateInMsgs": "-0.5"}, "publishRateInMsgs"),
        ({"publishRateInMsgs": 0.5, "publishRateInBytes": 100}, "publishRateInMsgs"),
        ({"publishRateInMsgs": 0.5, "law": "steal"}, "publishRateInMsgs"),
        ({"publishRateInBytes": 0.5}, "publishRateInBytes"),
        ({"publishRateInMsgs": 600, "law": "mine"}, "law"),
        ({"publishRateInMsgs": 600, "partitionPolicy": "pause"}, "partitionPolicy"),
    ):
        answer = world.http.put(world.sidecars.admin_url("broker-1") + path, json=body)
        assert 400 <= answer.status_code < 500
        assert named in answer.json()["reason"]

    assert told() == defined


def test_a_bad_configuration_is_refused_at_the_start(world: World, tmp_path: Path) -> None:
    """The one that a sidecar runs with, and a key that means nothing: exit code 2, and its name."""
    own = world.sidecars.configuration_file("broker-1").read_text()
    file = tmp_path / "sidecar.toml"
    file.write_text(own + "hold_secondz = 30\n")

    ended = subprocess.run(command(file), capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 2
    assert "hold_secondz" in ended.stderr
    eventually(lambda: is_ready(world, "broker-1"), "the one that runs is ready")
