"""Delayed messages of a real client, counted and held at a rate of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pulsar
import pytest

from deploy.local.cluster import Cluster
from tests.attacks.raw import RawClient
from tests.conftest import Connect, Measure
from tests.gate import peer
from tests.integration.world import World, eventually, least_per_second, world_of_others

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

GROUP = "delayed-messages"
RATE = 50


@pytest.fixture(scope="module")
def counting(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Sidecars that count delayed messages apart."""
    directory = tmp_path_factory.mktemp("delayed")
    with world_of_others(cluster, directory, {"delayed_group": GROUP}) as world:
        yield world


def counted(world: World, broker: str, topic: str) -> dict[str, Any]:
    """Return the answer of the owner's gate about a topic."""
    found = world.get("/quota/v1/gate/delayed", at=broker)["topics"]
    return next((dict(each) for each in found if each["topic"] == topic), {})


@pytest.mark.shows("service-cluster/delayed", "service-cluster/producer-sees")
def test_delayed_messages_pass_at_their_own_rate_and_others_do_not_wait_for_them(
    counting: World, connect: Connect, measured: Measure
) -> None:
    """One limit for the cluster; a batching producer sends delayed messages one by one."""
    world = counting
    broker, topic = next(iter(world.topic_of.items()))
    world.put(f"/admin/v2/resourcegroups/{GROUP}", {"publishRateInMsgs": RATE}, at="broker-1")
    client = connect(world.sidecars.service_url)
    late, prompt = client.create_producer(topic), client.create_producer(topic)
    eventually(
        lambda: (
            world.get(f"/quota/v1/usage/{GROUP}", at=broker)["limits"]["publishRateInMsgs"] == RATE
        ),
        "the limit",
    )
    receipts: list[float] = []

    def received(result: pulsar.Result, _: object) -> None:
        if result == pulsar.Result.Ok:
            receipts.append(time.monotonic())

    for _ in range(8 * RATE):
        late.send_async(b"late", received, deliver_after=timedelta(seconds=1))
    for _ in range(20 * RATE):
        prompt.send_async(b"prompt", None)
    prompt.flush()
    before = len(receipts)
    late.flush()

    assert before < 7 * RATE, "a thousand others passed while most of these waited"
    steady = [at for at in receipts if at > receipts[0] + 1]
    assert len(receipts) == 8 * RATE
    mean = len(steady) / (steady[-1] - steady[0])
    measured(f"{RATE}/s of delayed messages", mean, "/s", most=RATE * 1.15)
    measured("the middle second of it", least_per_second(steady), "/s", least=RATE * 0.8)
    assert counted(world, broker, topic)["messages"] == 8 * RATE
    assert counted(world, broker, topic)["warnings"] == []
    told = world.get(f"/quota/v1/explain/{GROUP}", at=broker)["delayed"]
    assert "count here, whatever its value" in told[0]


def test_what_has_no_effect_at_the_broker_is_warned_of(counting: World, connect: Connect) -> None:
    """A Shared subscription waits, an Exclusive one does not, and due messages come at once."""
    world = counting
    broker, topic = list(world.topic_of.items())[1]
    world.put(f"/admin/v2/resourcegroups/{GROUP}", {"publishRateInMsgs": 10 * RATE}, at="broker-1")
    client = connect(world.sidecars.service_url)
    patient = client.subscribe(topic, "patient", consumer_type=pulsar.ConsumerType.Shared)
    hasty = client.subscribe(topic, "hasty", consumer_type=pulsar.ConsumerType.Exclusive)
    producer = client.create_producer(topic)
    began = time.monotonic()
    producer.send(b"later", deliver_after=timedelta(seconds=8))
    producer.send(b"due", deliver_at=1)
    assert {hasty.receive(20_000).data() for _ in range(2)} == {b"later", b"due"}
    assert time.monotonic() - began < 7, "the Exclusive subscription did not wait"
    assert patient.receive(20_000).data() == b"due"
    assert time.monotonic() - began < 7, "nor did the Shared one for what was due"
    assert patient.receive(20_000).data() == b"later"
    assert time.monotonic() - began > 6, "but it did for the other message"

    found = counted(world, broker, topic)
    assert (found["messages"], found["due"], found["hastySubscriptions"]) == (2, 1, ["hasty"])
    assert "1 of 2 delayed messages" in found["warnings"][0]
    assert "hasty" in found["warnings"][1]


def delayed(at: int, spelled: bytes) -> bytes:
    """A SEND whose metadata end with these bytes."""
    metadata = peer.message((1, "p"), (2, at), (3, 1)) + spelled
    payload = len(metadata).to_bytes(4, "big") + metadata + b"x" * 20
    return peer.frame(peer.message((1, 6), (6, peer.message((1, 1), (2, at)))), payload)


SPELLINGS = {
    "plain": peer.message((19, 2**41)),
    "in the past": peer.message((19, 0)),
    "negative": peer.message((19, 2**64 - 1)),
    "behind a 33-bit tag": peer.varint(1 << 32 | 19 << 3) + b"\x01",
    "behind an overlong tag": b"\x98\x81\x00\x01",
    "twice": peer.message((19, 1), (19, 1)),
}
"""Ways to say a time of delivery."""


def test_no_time_of_delivery_is_hidden_from_the_limit(counting: World) -> None:
    """However it is written, a delayed message counts as one, or its connection is closed."""
    world = counting
    broker, topic = list(world.topic_of.items())[2]
    world.put(f"/admin/v2/resourcegroups/{GROUP}", {"publishRateInMsgs": RATE}, at="broker-1")
    url = f"{world.sidecars.admin_url(broker)}/quota/v1/usage/{GROUP}"

    def is_limited() -> bool:
        answer = world.http.get(url)  # 404 until the group is known there
        return answer.is_success and answer.json()["limits"]["publishRateInMsgs"] == RATE

    eventually(is_limited, "the limit")
    port = world.cluster.broker(broker).gate_port
    for way, spelled in SPELLINGS.items():
        before, began_s = world.topics.counters(topic).messages_in, time.monotonic()
        with RawClient(port) as client:
            assert client.open_producer(topic)
            client.publish(2.0, lambda at, spelled=spelled: delayed(at, spelled))  # type: ignore[misc]
        passed = world.topics.counters(topic).messages_in - before
        assert passed <= RATE * (time.monotonic() - began_s + 1), way
