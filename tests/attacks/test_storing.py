"""Schemas as data, and markers of transactions, are stored no faster than a limit allows.

The brokers' own figures are the judge: the versions of a schema, and the entries of topics.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from deploy.local.topics import Topics, path_of
from tests.attacks.conftest import BROKER, SLACK_S
from tests.attacks.raw import ERROR, RawClient
from tests.gate import peer
from tests.integration.transactions import coordinating
from tests.integration.world import TENANT, World, eventually, make_world

pytestmark = pytest.mark.cluster

LIMIT_BYTES = 60_000
"""Bytes per second that the group of schemas may publish."""

SCHEMA_BYTES = 30_000
SCHEMAS = 10
LIMIT = 10
"""Messages per second that the group of transactions may publish."""

COORDINATOR = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
"""The owner of this topic coordinates transactions."""

_AVRO, _GOT_SCHEMA = 4, 40
_NEW_TXN, _ADDED, _ENDED, _ENDED_THERE, _COORDINATES = 51, 53, 57, 59, 63


@pytest.fixture
def schemas(cluster: Cluster, sidecars: Sidecars) -> Iterator[World]:
    """A namespace that may publish `LIMIT_BYTES`, with a topic at each broker."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        world = make_world(cluster, sidecars, http, f"{TENANT}/schemas")
        world.limit(publishRateInBytes=LIMIT_BYTES)
        eventually(partial(_is_told, world), f"{BROKER} limits the group")
        yield world


def _is_told(world: World) -> bool:
    return world.group in world.get("/admin/v2/resourcegroups", at=BROKER)


def of_size(number: int) -> bytes:
    """A schema of much text; each number has another field, so it is another one that fits the others."""
    of_it = f'{{"name":"f{number}","type":"int","default":0,"doc":"{"x" * SCHEMA_BYTES}"}}'
    record = f'{{"type":"record","name":"r","fields":[{of_it}]}}'
    return peer.message((1, "r"), (3, record), (4, _AVRO))


def test_schemas_are_stored_no_faster_than_the_limit(schemas: World) -> None:
    """Each new one takes its bytes of the limit; one that is there already takes none."""
    broker = schemas.cluster.broker(BROKER)
    topic = schemas.topic_of[BROKER]
    request_ids = itertools.count(1)

    def create(client: RawClient, number: int) -> bool:
        request = peer.command(39, (1, next(request_ids)), (2, topic), (3, of_size(number)))
        answer = client.ask(request, {_GOT_SCHEMA, ERROR})
        return answer is not None and answer.kind == _GOT_SCHEMA and answer.number(2) is None

    with RawClient(broker.gate_port) as client:
        began_s = time.monotonic()
        assert all(create(client, number) for number in range(SCHEMAS))
        took_s = time.monotonic() - began_s
        client.send(
            b"".join(
                peer.command(39, (1, next(request_ids)), (2, topic), (3, of_size(100 + number)))
                for number in range(SCHEMAS)
            )
        )
        with RawClient(broker.gate_port) as another:
            assert create(another, 0), "while new ones wait"
    assert LIMIT_BYTES * (took_s + SLACK_S) >= SCHEMAS * SCHEMA_BYTES


@pytest.fixture(scope="module")
def transactions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, str]]:
    """A cluster that coordinates transactions, with a sidecar and a namespace of limit `LIMIT`."""
    directory: Path = tmp_path_factory.mktemp("markers")
    with coordinating(directory / "cluster") as cluster, Sidecars(cluster, directory) as sidecars:
        sidecars.start()
        namespace = f"{TENANT}/marked"
        Topics(cluster.brokers).create_tenant(TENANT)
        Topics(cluster.brokers).create_namespace(namespace, bundles=4)
        api = sidecars.admin_url(cluster.brokers[0].name)
        with httpx.Client(base_url=api, trust_env=False, timeout=30.0) as http:
            group = {"publishRateInMsgs": LIMIT}
            http.put("/admin/v2/resourcegroups/marked", json=group).raise_for_status()
            path = f"/admin/v2/namespaces/{namespace}/resourcegroup/marked"
            http.post(path).raise_for_status()
        yield cluster, namespace


def entries(cluster: Cluster, topic: str) -> int:
    """The entries that a broker has stored of a topic, markers among them."""
    path = f"/admin/v2/{path_of(topic)}/internalStats"
    return int(json.loads(Topics(cluster.brokers).ask("GET", path))["entriesAddedCounter"])


def coordinates(client: RawClient, request_id: int) -> bool:
    """Whether the broker has the transaction coordinator."""
    answer = client.ask(peer.command(62, (1, request_id), (2, 0)), {_COORDINATES, ERROR})
    return answer is not None and answer.kind == _COORDINATES and answer.number(2) is None


@pytest.mark.verify
def test_markers_are_stored_no_faster_than_the_limit(transactions: tuple[Cluster, str]) -> None:
    """Empty transactions over four topics, begun and ended in a loop, for ten seconds."""
    cluster, namespace = transactions
    topics = [f"persistent://{namespace}/t-{number}" for number in range(4)]
    request_ids = itertools.count(10)
    for topic in (*topics, COORDINATOR):
        Topics(cluster.brokers).owner(topic)
    with RawClient(cluster.brokers[0].gate_port) as client:
        for number, topic in enumerate(topics, start=1):
            assert client.open_producer(topic, number, number)
        eventually(lambda: coordinates(client, next(request_ids)), "it coordinates")
        before = sum(entries(cluster, topic) for topic in topics)
        began_s = time.monotonic()
        while time.monotonic() - began_s < 10:
            begun = client.ask(
                peer.command(50, (1, next(request_ids)), (2, 60_000), (3, 0)), {_NEW_TXN}
            )
            assert begun is not None
            of_it = ((2, begun.number(2, 0) or 0), (3, begun.number(3, 0) or 0))
            added = client.ask(
                peer.command(52, (1, next(request_ids)), *of_it, *((4, topic) for topic in topics)),
                {_ADDED},
            )
            assert added is not None
            assert added.number(4) is None
            ended = client.ask(peer.command(56, (1, next(request_ids)), *of_it, (4, 0)), {_ENDED})
            assert ended is not None
            assert ended.number(4) is None
        took_s = time.monotonic() - began_s
        time.sleep(1.0)
    stored = sum(entries(cluster, topic) for topic in topics) - before
    assert 0 < stored <= LIMIT * (took_s + SLACK_S)


@pytest.mark.verify
def test_markers_of_transactions_that_never_were_are_stored_no_faster_than_the_limit(
    transactions: tuple[Cluster, str],
) -> None:
    """A client asks for them as coordinators do, all at once: without authorization a broker obeys."""
    cluster, namespace = transactions
    topic = f"persistent://{namespace}/made-up"
    asked = 40 * LIMIT
    Topics(cluster.brokers).owner(topic)
    with RawClient(cluster.brokers[0].gate_port) as client:
        assert client.open_producer(topic)
        before = entries(cluster, topic)
        began_s = time.monotonic()
        client.send(
            b"".join(
                peer.command(58, (1, 10 + number), (2, number), (3, 9), (4, topic), (5, 0))
                for number in range(asked)
            )
        )
        eventually(lambda: client.counted(_ENDED_THERE) >= 10 * LIMIT, "a broker writes markers")
        stored = entries(cluster, topic) - before
        took_s = time.monotonic() - began_s
    assert 0 < stored <= LIMIT * (took_s + SLACK_S)
