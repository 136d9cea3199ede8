"""The gate changes nothing for a real client: each message arrives once, unchanged, in order.

Every feature of the client is used through gates that hold messages and withhold permits all the time,
with contents and sizes from a seed that a failure prints; what comes out is compared with what went in.
"""

from __future__ import annotations

import random
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.conftest import Connect
from tests.integration.world import World

pytestmark = pytest.mark.cluster

COUNT = 300


@dataclass(frozen=True)
class Way:
    """One way of using the client.

    Args:
        producer: options of the producer.
        consumer: options of the consumer.
        size_max: bytes of content, at most.
        count: messages.
    """

    producer: dict[str, Any] = field(default_factory=dict)
    consumer: dict[str, Any] = field(default_factory=dict)
    size_max: int = 2_000
    count: int = COUNT


WAYS = {
    "single": Way({"batching_enabled": False}),
    "batched": Way({"batching_enabled": True, "batching_max_messages": 20}),
    "batched by key": Way(
        {"batching_enabled": True, "batching_type": pulsar.BatchingType.KeyBased},
        {"consumer_type": pulsar.ConsumerType.KeyShared},
    ),
    "shared": Way({"batching_enabled": False}, {"consumer_type": pulsar.ConsumerType.Shared}),
    "failover": Way({"batching_enabled": True}, {"consumer_type": pulsar.ConsumerType.Failover}),
    "chunked": Way(
        {"batching_enabled": False, "chunking_enabled": True}, size_max=12_000_000, count=3
    ),
    "lz4": Way({"compression_type": pulsar.CompressionType.LZ4, "batching_enabled": True}),
    "zlib": Way({"compression_type": pulsar.CompressionType.ZLib, "batching_enabled": False}),
    "zstd": Way({"compression_type": pulsar.CompressionType.ZSTD, "batching_enabled": True}),
}


def contents(way: Way, dice: random.Random) -> list[bytes]:
    """Return the contents of messages: a number and random bytes."""
    return [
        f"{number}:".encode() + dice.randbytes(dice.randrange(way.size_max))
        for number in range(way.count)
    ]


def read_all(consumer: pulsar.Consumer, count: int) -> list[bytes]:
    """This number of messages, and any that come after them by mistake."""
    found: list[bytes] = []
    while True:
        try:
            message = consumer.receive(timeout_millis=500 if len(found) >= count else 60_000)
        except pulsar.Timeout:
            return found
        consumer.acknowledge(message)
        found.append(message.data())


def pass_through(
    producer: pulsar.Producer, consumer: pulsar.Consumer, sent: list[bytes], **options: Any
) -> list[bytes]:
    """Send all while they are received; return what was."""
    failures: list[pulsar.Result] = []

    def done(result: pulsar.Result, _: object) -> None:
        if result != pulsar.Result.Ok:
            failures.append(result)

    def send() -> None:
        for number, content in enumerate(sent):
            producer.send_async(content, done, partition_key=f"k{number % 7}", **options)
        producer.flush()

    thread = threading.Thread(target=send)
    thread.start()
    received = read_all(consumer, len(sent))
    thread.join(30)
    assert failures == []
    return received


def limit(world: World) -> None:
    """So tight that messages and permits wait, so wide that the test does not."""
    world.limit(publishRateInMsgs=900, dispatchRateInMsgs=900)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.shows("pip-322/nothing-breaks")
def test_what_is_sent_arrives(world: World, connect: Connect, name: str) -> None:
    """Each message arrives once, unchanged, and in order (in the order of its key, where keys order)."""
    seed = random.randrange(2**32)
    way = WAYS[name]
    limit(world)
    topic, client = world.topic_of["broker-1"], connect(world.sidecars.service_url)
    consumer = client.subscribe(topic, "s", **way.consumer)
    producer = client.create_producer(topic, block_if_queue_full=True, **way.producer)
    sent = contents(way, random.Random(seed))

    received = pass_through(producer, consumer, sent)

    if name == "batched by key":
        assert sorted(received) == sorted(sent), f"seed {seed}"
    else:
        assert received == sent, f"seed {seed}"


def test_encrypted_messages_arrive(world: World, connect: Connect, tmp_path: Path) -> None:
    """The gate counts what it cannot read."""
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    make = ("openssl", "genrsa", "-out", str(private), "2048")
    subprocess.run(make, check=True, capture_output=True)
    extract = ("openssl", "rsa", "-in", str(private), "-pubout", "-out", str(public))
    subprocess.run(extract, check=True, capture_output=True)
    keys = pulsar.CryptoKeyReader(str(public), str(private))
    limit(world)
    topic, client = world.topic_of["broker-2"], connect(world.sidecars.service_url)
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys)
    producer = client.create_producer(topic, encryption_key="key", crypto_key_reader=keys)
    sent = contents(Way(), random.Random(7))

    assert pass_through(producer, consumer, sent) == sent


def test_messages_with_a_schema_arrive(world: World, connect: Connect) -> None:
    """PRODUCER and SUBSCRIBE carry the schema, and both sides agree on it."""

    class Order(pulsar.schema.Record):  # type: ignore[misc]
        number = pulsar.schema.Integer()

    limit(world)
    topic, client = world.topic_of["broker-3"], connect(world.sidecars.service_url)
    schema = pulsar.schema.JsonSchema(Order)
    consumer = client.subscribe(topic, "s", schema=schema)
    producer = client.create_producer(topic, schema=schema)
    for number in range(50):
        producer.send(Order(number=number))

    assert [consumer.receive(60_000).value().number for _ in range(50)] == list(range(50))


def test_delayed_messages_arrive_late_and_once(world: World, connect: Connect) -> None:
    """Their delay counts from when they were sent; the gate only adds what it holds them.

    The broker's clock for delays ticks once a second, and it may be early by a tick.
    """
    limit(world)
    topic, client = world.topic_of["broker-1"], connect(world.sidecars.service_url)
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic, batching_enabled=False)
    sent = contents(Way(count=30), random.Random(7))
    started = time.monotonic()

    received = pass_through(producer, consumer, sent, deliver_after=timedelta(seconds=3))

    assert sorted(received) == sorted(sent)
    assert time.monotonic() - started > 1.9


@pytest.mark.parametrize("by_pattern", [False, True], ids=["partitioned", "pattern"])
def test_many_topics_of_one_consumer_arrive(
    world: World, connect: Connect, by_pattern: bool
) -> None:
    """Partitions on several brokers, each through its own gate; or topics that a pattern finds."""
    path = f"/admin/v2/persistent/{world.namespace}/parts/partitions"
    world.http.put(world.cluster.brokers[0].web_url + path, json=5).raise_for_status()
    limit(world)
    client = connect(world.sidecars.service_url)
    name = f"persistent://{world.namespace}/parts"
    topic = re.compile(f"{name}.*") if by_pattern else name
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(name, block_if_queue_full=True)
    sent = contents(Way(), random.Random(7))

    received = pass_through(producer, consumer, sent)

    assert sorted(received) == sorted(sent)
    for key in range(7):  # messages of one key are in one partition, hence in order
        assert [c for c in received if int(c.split(b":")[0]) % 7 == key] == sent[key::7]
