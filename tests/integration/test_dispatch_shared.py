"""A dispatch limit shared by the consumers of three real brokers, for each kind of subscription.

Two groups have a topic and a backlog at every broker; one is limited in messages, and one in bytes. The
kinds take turns on the same topics. Rates are differences of the brokers' own counters of what they have
sent. Both groups may save up a second of their limit: of a third of 90 kB/s a bucket saves up two
messages otherwise, and a broker that takes longer than 40 ms for an entry leaves a part of it unused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pulsar
import pytest

from deploy.local.topics import TopicCounters
from tests.conftest import Connect, Figure, Measure
from tests.integration.sliding import Counted
from tests.integration.steady import Steady
from tests.integration.windows import hold, windows, written
from tests.integration.world import World, eventually, make_world

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

KINDS = {
    "Exclusive": (pulsar.ConsumerType.Exclusive, 1),
    "Failover": (pulsar.ConsumerType.Failover, 2),
    "Shared": (pulsar.ConsumerType.Shared, 2),
    "Key_Shared": (pulsar.ConsumerType.KeyShared, 2),
}
BACKLOG = 3_000
KEYS = 60
WINDOW_S = 4.0


class Limited:
    """A group with a limit of dispatch, in one unit, and a backlog at each broker.

    Args:
        world: its namespace, with a topic at each broker.
        field: the limit's name.
        limit: of all brokers together.
        size: bytes of content of a message.
        counted: the broker's counter of the unit.
    """

    def __init__(
        self,
        world: World,
        field: str,
        limit: int,
        size: int,
        counted: Callable[[TopicCounters], int],
    ) -> None:
        self._world, self._limit, self._size, self._counted = world, limit, size, counted
        self.brokers, self.topics = list(world.topic_of), list(world.topic_of.values())
        world.limit(burstSeconds=1, **{field: limit})

    def fill(self, client: pulsar.Client) -> None:
        """Give each kind's subscription of each topic a backlog."""
        producers = []
        for topic in self.topics:
            for name, (kind, _) in KINDS.items():
                client.subscribe(topic, name, consumer_type=kind).close()
            producers.append(
                client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
            )
        content = bytes(self._size)
        for number in range(BACKLOG):
            for producer in producers:
                producer.send_async(content, lambda *_: None, partition_key=str(number % KEYS))
        for producer in producers:
            producer.flush()
            producer.close()

    def sends_thirds(self, measured: Measure, kind: str) -> str:
        """Wait for about a third at each broker, then hold windows to it; return the rates."""
        expected = dict.fromkeys(self.brokers, self._limit / 3)
        eventually(
            lambda: windows(self._sent, 1, 1)[0] == pytest.approx(expected, rel=0.15),
            f"a third of {kind} each",
        )
        seen = windows(self._sent, WINDOW_S)
        hold(measured, f"{kind}, {self._limit:,} together", seen, expected)
        return written(seen)

    def _sent(self) -> Counted:
        """Return the count of each broker's topic, and the moment of its reading."""
        found = {}
        for broker, topic in zip(self.brokers, self.topics, strict=True):
            counters, at_s = self._world.counted(topic)
            found[broker] = self._counted(counters), at_s
        return found


@pytest.fixture
def both(world: World) -> tuple[Limited, Limited]:
    """A group with 120 messages a second, and one with 90 kB a second."""
    other = make_world(world.cluster, world.sidecars, world.http, f"{world.namespace}-bytes")
    return (
        Limited(world, "dispatchRateInMsgs", 120, 100, lambda count: count.messages_out),
        Limited(other, "dispatchRateInBytes", 90_000, 600, lambda count: count.bytes_out),
    )


@contextmanager
def consumed(clients: list[pulsar.Client], topics: list[str], name: str) -> Iterator[None]:
    """Consumers of each topic; those of one subscription are on different connections."""
    kind, count = KINDS[name]
    consumers = [
        client.subscribe(topic, name, consumer_type=kind, message_listener=acknowledge)
        for topic in topics
        for client in clients[:count]
    ]
    try:
        yield
    finally:
        for consumer in consumers:
            consumer.close()


def acknowledge(consumer: Any, message: Any) -> None:
    """Take a message, on the client's own thread; the consumer may just have been closed."""
    with suppress(pulsar.AlreadyClosed):
        consumer.acknowledge(message)


@pytest.mark.shows("pip-82/producers-and-consumers", "pip-322/dispatch")
def test_consumers_at_three_brokers_share_a_limit(
    both: tuple[Limited, Limited],
    world: World,
    connect: Connect,
    measured: Measure,
    figure: Figure,
) -> None:
    """A third each, within 3 %, of 120 messages and of 90 kB a second, for four kinds in turn."""
    topics = [topic for each in both for topic in each.topics]
    clients = [connect(world.sidecars.service_url) for _ in range(2)]
    with ThreadPoolExecutor(len(both)) as pool:
        direct = connect(world.cluster.brokers[0].service_url)
        list(pool.map(lambda each: each.fill(direct), both))
        for name in KINDS:
            with consumed(clients, topics, name):
                rates = pool.map(lambda each, name=name: each.sends_thirds(measured, name), both)
                told = "{} {} messages/s, {} B/s".format(name, *rates)
            figure("pip-322/dispatch", told)


@pytest.mark.shows("service-cluster/consumer-sees")
def test_a_consumer_sees_messages_later_and_a_backlog_builds_up(
    world: World, connect: Connect, figure: Figure
) -> None:
    """Twice the limit is published: half of it waits, ever longer."""
    topic = world.topic_of["broker-1"]
    late_s: list[float] = []

    def take(consumer: Any, message: Any) -> None:
        late_s.append(time.time() - message.publish_timestamp() / 1000)
        acknowledge(consumer, message)

    def backlog() -> int:
        count = world.topics.counters(topic)
        return count.messages_in - count.messages_out

    world.limit(dispatchRateInMsgs=20)
    connect(world.sidecars.service_url).subscribe(topic, "audit", message_listener=take)
    with Steady(world.sidecars.service_url, {topic: 100}, arrears_s=1.0) as load:
        load.offers({topic: 40})
        eventually(lambda: bool(late_s), "a message")
        early_s, before = late_s[0], backlog()
        eventually(lambda: late_s[-1] > early_s + 2, "messages come later and later")
        eventually(lambda: backlog() > before + 60, "a backlog builds up")
    told = f"messages came {late_s[-1]:.1f} s late, {early_s:.1f} s at first; {backlog()} wait"
    figure("service-cluster/consumer-sees", told)
