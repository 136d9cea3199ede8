"""Limits of single topics, set over REST, with real producers."""

from __future__ import annotations

import time

import pulsar
import pytest

from tests.conftest import Connect, Measure
from tests.integration.world import World, eventually, least_per_second

pytestmark = [pytest.mark.cluster, pytest.mark.verify]


def limit_topic(world: World, topic: str, rate: int) -> None:
    """Limit a topic's publishes at one sidecar; others hear of it."""
    path = f"/quota/v1/{topic.replace('://', '/')}/publishRate"
    url = world.sidecars.admin_url("broker-2") + path
    body = {"publishThrottlingRateInMsg": rate}
    world.http.post(url, json=body).raise_for_status()


def in_force(world: World, topic: str, at: str) -> dict[str, int]:
    """Return a gate's limit of a topic: that of the whole, and the number of partitions."""
    for found in world.get("/quota/v1/gate/limits", at=at)["topics"]:
        if found["topic"] == topic:
            return {"rate": found["publishRateInMsgs"], "partitions": found["partitions"]}
    return {}


@pytest.mark.shows("pip-322/topic-level")
def test_a_partitioned_topic_has_one_limit_for_all_its_partitions(
    world: World, connect: Connect, measured: Measure
) -> None:
    """400/s for four partitions on several brokers, where Pulsar's own policy would let 1,600 pass."""
    topic = f"persistent://{world.namespace}/parts"
    path = f"/admin/v2/persistent/{world.namespace}/parts/partitions"
    world.http.put(world.cluster.brokers[0].web_url + path, json=4).raise_for_status()
    limit_topic(world, topic, 400)
    for broker in world.topic_of:
        eventually(
            lambda at=broker: in_force(world, topic, at) == {"rate": 400, "partitions": 4},  # type: ignore[misc]
            f"the limit and the partitions at {broker}",
        )
    receipts: list[float] = []

    def received(result: pulsar.Result, _: object) -> None:
        if result == pulsar.Result.Ok:
            receipts.append(time.monotonic())

    producer = connect(world.sidecars.service_url).create_producer(
        topic,
        batching_enabled=False,
        block_if_queue_full=True,
        message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
    )
    for number in range(2400):
        producer.send_async(str(number).encode(), received)
    producer.flush()

    assert len(receipts) == 2400
    steady = [at for at in receipts if at > receipts[0] + 1]
    mean = len(steady) / (steady[-1] - steady[0])
    measured("400/s of four partitions", mean, "/s", most=400 * 1.1)
    measured("the middle second of it", least_per_second(steady), "/s", least=400 * 0.85)


def test_pulsars_own_topic_policy_keeps_working(world: World, connect: Connect) -> None:
    """100/s by a policy of the topic at its broker, and no limit of ours: the broker is who throttles."""
    topic = f"persistent://{world.namespace}/own-policy"
    producer = connect(world.sidecars.service_url).create_producer(
        topic, batching_enabled=False, block_if_queue_full=True
    )
    policy = f"{world.cluster.brokers[0].web_url}/admin/v2/{topic.replace('://', '/')}/publishRate"

    def is_set() -> bool:
        answer = world.http.get(policy, params={"applied": "true"}, follow_redirects=True)
        rate: int = answer.json()["publishThrottlingRateInMsg"] if answer.content else 0
        return rate == 100

    world.http.post(
        policy, json={"publishThrottlingRateInMsg": 100}, follow_redirects=True
    ).raise_for_status()
    eventually(is_set, "the policy at the broker")

    def is_in_force() -> bool:
        # What the broker says of a policy it may do a little later.
        receipts: list[float] = []
        for number in range(600):
            producer.send_async(str(number).encode(), lambda *_: receipts.append(time.monotonic()))
        producer.flush()
        assert len(receipts) == 600
        # A second's burst and the broker's inaccuracy.
        return receipts[-1] - receipts[0] > 600 / 100 / 2

    eventually(is_in_force, "600 messages throttled to 100/s by the broker")
    assert in_force(world, topic, "broker-1") == {}
