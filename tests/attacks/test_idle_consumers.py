"""Permits that consumers have had for long, all used at once: what comes for them keeps to the limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import httpx
import pulsar
import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.attacks.conftest import BROKER, LIMIT, SLACK_S, Target
from tests.attacks.raw import RawClient
from tests.gate import peer
from tests.integration.told import sample
from tests.integration.world import TENANT, World, eventually, make_world

pytestmark = pytest.mark.cluster

CONSUMERS = 300
BATCH = 200
DEBT_S = 5.0
PONG = 19
LARGE = 500_000
MESSAGES = 60
CLOSED = 'pulsar_quota_gate_refusals_total{reason="more for a consumer than may be held"}'


def test_one_batch_for_many_idle_consumers_comes_at_the_limit(target: Target) -> None:
    """Sixty thousand messages at 50 a second: what is not lent waits in the gate, and only that."""
    with RawClient(target.port) as idle, RawClient(target.broker.broker_port) as publisher:
        for number in range(1, CONSUMERS + 1):
            assert idle.open_consumer(target.topic, number, number, durable=False)
            assert idle.send(peer.flow(number, 1_000))

        def permitted() -> int:
            return sum(permits > 0 for permits, _ in target.world.topics.consumers(target.topic))

        def served() -> int:
            return sum(sent >= BATCH for _, sent in target.world.topics.consumers(target.topic))

        # Permits that come after the batch wait until it is paid, which takes longer than the test.
        eventually(
            lambda: permitted() == CONSUMERS, "the broker has permits of all", last=permitted
        )
        assert publisher.open_producer(target.topic)
        began_s = time.monotonic()
        assert publisher.send(peer.send(1, 0, BATCH, checksum=False))
        eventually(lambda: served() == CONSUMERS, "the broker has sent it to all", last=served)
        eventually(lambda: idle.counted(9) > 0, "what is lent comes at once")

        assert idle.ask(peer.PING, {PONG}) is not None
        came, took_s = BATCH * idle.counted(9), time.monotonic() - began_s
        assert came <= LIMIT * (took_s + DEBT_S + SLACK_S)
        assert target.figure("gate_held_frames") > 0
    eventually(
        lambda: target.figure("gate_held_frames") == 0, "a client that is gone has nothing held"
    )


@pytest.fixture
def unlimited(cluster: Cluster, sidecars: Sidecars) -> Iterator[World]:
    """A namespace without a limit, so that permits pass as they come."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        yield make_world(cluster, sidecars, http, f"{TENANT}/overfull")


def test_a_consumer_for_which_too_much_comes_is_closed_and_gets_all_of_it_later(
    unlimited: World, connect: Callable[[str], pulsar.Client]
) -> None:
    """Thirty megabytes for permits of before the limit: more than the gate holds for a connection."""
    topic = unlimited.topic_of[BROKER]
    consumer = connect(unlimited.sidecars.service_url).subscribe(topic, "s")
    unlimited.limit(dispatchRateInBytes=1_000_000)
    publisher = connect(unlimited.cluster.brokers[0].service_url)
    producer = publisher.create_producer(topic, batching_enabled=False, send_timeout_millis=0)
    for number in range(MESSAGES):
        producer.send(str(number).encode().ljust(LARGE))
    eventually(lambda: (sample(unlimited, BROKER, CLOSED) or 0) >= 1, "the gate closes it")

    unlimited.limit(dispatchRateInBytes=1_000_000_000)

    arrived: set[int] = set()
    while len(arrived) < MESSAGES:
        message = consumer.receive(timeout_millis=60_000)
        consumer.acknowledge(message)
        arrived.add(int(message.data()))
    assert arrived == set(range(MESSAGES))
