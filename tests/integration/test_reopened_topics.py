"""A topic that is closed and opened again goes on paying what it owes to its partition's limit."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from deploy.local.cluster import Cluster
from tests.attacks.raw import ERROR, PRODUCER_SUCCESS, RawClient
from tests.conftest import Measure
from tests.gate import peer
from tests.integration.world import TENANT, World, make_world, other_sidecars

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

BROKER = "broker-1"
RATE = 10_000
"""Bytes per second of each partition."""

OTHERS = 1_010
"""Names that are opened in between: more than a gate keeps of those that owe nothing."""

ROUNDS = 5
RECEIPT = 7


@pytest.fixture(scope="module")
def world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A namespace behind sidecars that limit each partition."""
    settings = {"partition_publish_rate_in_bytes": RATE}
    with (
        other_sidecars(cluster, tmp_path_factory.mktemp("reopened"), settings) as own,
        httpx.Client(trust_env=False, timeout=30.0) as http,
    ):
        yield make_world(cluster, own, http, f"{TENANT}/reopened")


def test_names_that_are_opened_in_between_wipe_out_no_debt(world: World, measured: Measure) -> None:
    """Four seconds of the limit at once, a thousand other names, and again, on one connection."""
    broker = world.cluster.broker(BROKER)
    topic, size = world.topic_of[BROKER], 4 * RATE
    sent = peer.send(1, 0, content=b"x" * size, checksum=False)
    with RawClient(broker.gate_port) as client:
        began_s = time.monotonic()
        for number in range(ROUNDS):
            assert client.open_producer(topic, 1, 1)
            assert client.ask(sent, {RECEIPT}) is not None, f"no receipt in round {number}"
            client.send(peer.close_producer(1, 2))
            open_and_close(client, world.namespace, number)
        took_s = time.monotonic() - began_s
    # The bucket is full at first, and the last message may be owed.
    measured("bytes, for what the limit allows", ROUNDS * size / (RATE * (took_s + 4.1)), most=1.0)
    measured("seconds for four messages and their debts", took_s, "s", least=4 * (ROUNDS - 1) - 0.2)


def open_and_close(client: RawClient, namespace: str, number: int) -> None:
    """Open producers of fresh names, and close them."""
    answered = client.counted(PRODUCER_SUCCESS) + client.counted(ERROR) + OTHERS
    for other in range(OTHERS):
        name = f"non-persistent://{namespace}/other-{number}-{other}"
        client.send(peer.producer(name, 100 + other, 100 + other))
    deadline_s = time.monotonic() + 60
    while client.counted(PRODUCER_SUCCESS) + client.counted(ERROR) < answered:
        assert time.monotonic() < deadline_s, "not all names are answered"
        time.sleep(0.05)
    for other in range(OTHERS):
        client.send(peer.close_producer(100 + other, 5_000 + other))
