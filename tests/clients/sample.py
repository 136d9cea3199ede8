"""Checks that `make test` runs against brokers of every release; `docs/clients.md` lists them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial

import pulsar

from deploy.clients import quiet_client
from tests.clients.release_world import ReleaseWorld
from tests.integration.world import eventually

LIMIT = 50

BURST_S = 0.65
"""A bucket's burst, the time by which counts are late, and a gate that stood still for half a second."""


@contextmanager
def publishing(world: ReleaseWorld, *topics: str) -> Iterator[None]:
    """One classic client for each topic that publishes ten times the limit."""
    programs = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "deploy.demo.load", "--url", world.service_url),
                *("--topic", topic, "--rate", str(10 * LIMIT)),
            ],
            stdout=subprocess.DEVNULL,
        )
        for topic in topics
    ]
    try:
        yield
    finally:
        for program in programs:
            program.terminate()
        for program in programs:
            program.wait(timeout=60)


def a_group_holds_classic_clients(world: ReleaseWorld) -> None:
    """50/s on the namespace, through both gates: within 2 %, by the brokers' counters."""
    namespace = world.namespace()
    world.limit_namespace(namespace, publishRateInMsgs=LIMIT)
    topics = [f"persistent://{namespace}/parts-partition-{index}" for index in range(3)]
    with publishing(world, *topics):
        eventually(partial(world.has_published, namespace), "a message at the brokers")
        time.sleep(5.0)
        world.comes_to(namespace, LIMIT, within=0.02)


def a_dispatch_limit_loses_nothing(world: ReleaseWorld) -> None:
    """60 messages at 20/s take a Shared consumer their time, and all of them come."""
    namespace = world.namespace()
    world.limit_namespace(namespace, dispatchRateInMsgs=20)
    with closing(quiet_client(world.service_url)) as client:
        topic = f"persistent://{namespace}/dispatched"
        producer = client.create_producer(topic, batching_enabled=False)
        client.subscribe(topic, "s", pulsar.ConsumerType.Shared).close()  # keeps the messages
        for number in range(60):
            producer.send(str(number).encode())
        began_s = time.monotonic()
        consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
        numbers: list[int] = []
        while len(numbers) < 60:
            message = consumer.receive(timeout_millis=15_000)
            consumer.acknowledge(message)
            numbers.append(int(message.data()))
        took_s = time.monotonic() - began_s
    assert sorted(numbers) == list(range(60))
    assert took_s >= 60 / 20 - BURST_S


def a_limit_is_explained(world: ReleaseWorld) -> None:
    """Explain has a sentence for each broker, whose parts are not more than the limit."""
    namespace = world.namespace()
    world.limit_namespace(namespace, publishRateInMsgs=LIMIT)
    group = namespace.replace("/", "-")

    assert world.explained(group, "broker-1")["sentence"]
    assert sum(world.local_limits(group).values()) <= LIMIT


def the_broker_tells_the_oldest_message(world: ReleaseWorld) -> None:
    """PIP-323's fields are in `stats` and `partitioned-stats`: no sidecar has to add them.

    The fourth, the subscription's name, is there while there is a backlog.
    """
    parts = f"persistent://{world.namespace()}/parts"
    fields = {
        "backlogQuotaLimitSize",
        "backlogQuotaLimitTime",
        "oldestBacklogMessageAgeSeconds",
    }
    with closing(quiet_client(world.service_url)) as client:
        client.subscribe(parts, "s").close()
        for topic, kind in ((f"{parts}-partition-0", "stats"), (parts, "partitioned-stats")):
            assert world.statistics(topic, kind).keys() >= fields


SAMPLE: Sequence[Callable[[ReleaseWorld], None]] = (
    a_group_holds_classic_clients,
    a_dispatch_limit_loses_nothing,
    a_limit_is_explained,
    the_broker_tells_the_oldest_message,
)
