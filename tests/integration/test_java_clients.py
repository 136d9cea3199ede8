"""Pulsar's own tools for clients, which are Java clients, run through the gates as they are.

Transactions belong in here: of the clients at hand only Java's knows them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress

import pulsar
import pytest

from benchmarks.gate_process import TENANT, running
from deploy.clients import quiet_client
from deploy.local.cluster import Cluster
from deploy.local.topics import Topics
from tests.integration.transactions import coordinating
from tests.integration.world import World

pytestmark = pytest.mark.cluster

_PRODUCED = re.compile(r"--- (\d+) records sent --- ([\d.]+) msg/s")
_CONSUMED = re.compile(r"--- (\d+) records received")


def run(cluster: Cluster, url: str, tool: str, *arguments: str) -> str:
    """Run a tool to its end in a directory of its own; return its output."""
    command = cluster.tool_command(tool, arguments, broker_url=url)
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
        stdin=subprocess.DEVNULL,
        cwd=cluster.state_dir,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    return said


@pytest.mark.verify
@pytest.mark.parametrize(
    ("limit", "count", "options"),
    [
        (400, 1000, ("-db",)),
        (400, 1000, ("-z", "LZ4")),
        (4, 5, ("-ch", "-s", "6000000", "-db")),
    ],
    ids=["single", "batched", "chunked"],
)
def test_pulsar_perf_sends_and_receives(
    world: World, limit: int, count: int, options: tuple[str, ...]
) -> None:
    """It sends at the allowed rate and receives every message; each chunk counts."""
    world.limit(publishRateInMsgs=limit)
    topic, url = world.topic_of["broker-2"], world.sidecars.service_url
    produce = ("produce", "-r", "2000", "-m", str(count), *options, topic)

    sent = _PRODUCED.findall(run(world.cluster, url, "perf", *produce))
    # It ends one message after the number of -m, and does not count that one.
    consume = ("consume", "-sp", "Earliest", "-m", str(count - 1), topic)
    received = _CONSUMED.findall(run(world.cluster, url, "perf", *consume))

    assert int(sent[-1][0]) >= count
    assert float(sent[-1][1]) <= 1.1 * limit
    assert int(received[-1]) >= count - 1


@pytest.mark.verify
def test_pulsar_client_sends_and_receives_on_partitions(world: World) -> None:
    """The command that users try first, on a topic whose partitions have several brokers."""
    path = f"/admin/v2/persistent/{world.namespace}/parts/partitions"
    world.http.put(world.cluster.brokers[0].web_url + path, json=4).raise_for_status()
    world.limit(publishRateInMsgs=300, dispatchRateInMsgs=300)
    topic, url = f"persistent://{world.namespace}/parts", world.sidecars.service_url

    messages = ("-m", "first", "-m", "second", "-n", "20")
    sent = run(world.cluster, url, "client", "produce", *messages, topic)
    consume = ("consume", "-s", "audit", "-p", "Earliest", "-n", "40", topic)
    received = run(world.cluster, url, "client", *consume)

    assert "40 messages successfully produced" in sent
    assert received.count("content:first") == received.count("content:second") == 20


@pytest.fixture(scope="module")
def transactions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of one broker that coordinates transactions, with a namespace."""
    with coordinating(tmp_path_factory.mktemp("transactions")) as cluster:
        Topics(cluster.brokers).create_tenant(TENANT)
        Topics(cluster.brokers).create_namespace(f"{TENANT}/limited", bundles=4)
        yield cluster


@pytest.mark.verify
def test_transactions_consume_and_publish_as_one(transactions: Cluster) -> None:
    """After the commit each consumed and produced message counts once."""
    broker = transactions.brokers[0]
    url = f"pulsar://127.0.0.1:{broker.gate_port}"
    source, target = (f"persistent://{TENANT}/limited/{name}" for name in ("source", "target"))
    with running("gate", broker.gate_port, broker.gate_upstream_port):
        run(transactions, url, "perf", "produce", "-r", "2000", "-m", "300", "-db", source)
        options = ("-ntxn", "100", "-nmc", "2", "-nmp", "2", "-sp", "Earliest")
        topics = ("--topics-c", source, "--topics-p", target)
        run(transactions, url, "perf", "transaction", *options, *topics)
        ids = list(delivered(url, target))

    assert len(set(ids)) == len(ids) == 200  # two of each transaction


def delivered(service_url: str, topic: str) -> Iterator[str]:
    """The ids of all messages that a topic has for a new consumer, which are those committed."""
    with closing(quiet_client(service_url)) as client:
        consumer = client.subscribe(
            topic, "audit", initial_position=pulsar.InitialPosition.Earliest
        )
        with suppress(pulsar.Timeout):
            while True:
                yield str(consumer.receive(timeout_millis=5_000).message_id())
