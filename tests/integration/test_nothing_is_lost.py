"""Every message with a receipt is stored and arrives, in order per producer, through every mishap.

A topic is read by a reader that connects afterwards: it sees each stored message once. A consumer that
was there all the time may see messages twice, as Pulsar allows: a client library hands out the messages
in its queue while it looks for a way back to the broker, which then sends them again.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pulsar
import pytest

from coordinator.core.lifecycle import Degradation
from tests.conftest import Connect
from tests.integration.told import sample
from tests.integration.world import World, eventually

pytestmark = pytest.mark.cluster

MESSAGES = 2000
PENDING = 500


@dataclass
class Publisher:
    """One producer that numbers its messages and remembers which got a receipt."""

    client: pulsar.Client
    topic: str
    receipts: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def publish(self, count: int, batching: bool) -> None:
        """Send messages and wait for all outcomes."""
        producer = self.client.create_producer(
            self.topic,
            send_timeout_millis=0,
            block_if_queue_full=True,
            max_pending_messages=PENDING,
            batching_enabled=batching,
        )
        for number in range(count):
            producer.send_async(str(number).encode(), self._outcome(number))
        producer.flush()
        producer.close()

    def _outcome(self, number: int) -> Callable[[pulsar.Result, object], None]:
        def done(result: pulsar.Result, _: object) -> None:
            if result == pulsar.Result.Ok:
                self.receipts.append(number)
            else:
                self.failures.append(f"{number}: {result}")

        return done


def subscribe(world: World, connect: Connect) -> dict[str, pulsar.Consumer]:
    """Subscribe to every topic before anything is published."""
    client = connect(world.sidecars.service_url)
    return {
        name: client.subscribe(topic, "audit", initial_position=pulsar.InitialPosition.Earliest)
        for name, topic in world.topic_of.items()
    }


def stored(world: World, connect: Connect, topic: str) -> list[int]:
    """All numbers that the topic holds, in its order."""
    reader = connect(world.sidecars.service_url).create_reader(topic, pulsar.MessageId.earliest)
    numbers = []
    while reader.has_message_available():
        numbers.append(int(reader.read_next(timeout_millis=30_000).data()))
    return numbers


def arrived(consumer: pulsar.Consumer, last: int) -> list[int]:
    """The numbers that a consumer gets until the last one, each once, by their first arrival."""
    numbers: dict[int, None] = {}
    while last not in numbers:
        message = consumer.receive(timeout_millis=30_000)
        consumer.acknowledge(message)
        numbers[int(message.data())] = None
    return list(numbers)


def publish_all(
    world: World, connect: Connect, batching: bool
) -> tuple[dict[str, Publisher], list[threading.Thread]]:
    """Publish to every topic through the gates, each in a thread of its own that has started."""
    publishers = {
        name: Publisher(connect(world.sidecars.service_url), topic)
        for name, topic in world.topic_of.items()
    }
    threads = [
        threading.Thread(target=publisher.publish, args=(MESSAGES, batching))
        for publisher in publishers.values()
    ]
    for thread in threads:
        thread.start()
    return publishers, threads


def join(threads: Sequence[threading.Thread]) -> None:
    """Wait until all is published."""
    for thread in threads:
        thread.join(150)
        assert not thread.is_alive(), "a producer waits for receipts"


@pytest.mark.parametrize(
    "batching",
    [
        pytest.param(False, id="single"),
        pytest.param(True, id="batched", marks=pytest.mark.verify),
    ],
)
def test_throttling_and_a_drain_lose_duplicate_and_reorder_nothing(
    world: World, connect: Connect, batching: bool
) -> None:
    """Held producers, and a sidecar that is stopped with SIGTERM and started again, exactly once each."""
    world.limit(publishRateInMsgs=1500)
    consumers = subscribe(world, connect)
    publishers, threads = publish_all(world, connect, batching)
    eventually(lambda: len(publishers["broker-1"].receipts) > 500, "traffic")
    world.sidecars.end("broker-1", signal.SIGTERM)
    time.sleep(0.5)
    world.sidecars.start("broker-1")
    join(threads)

    for name, publisher in publishers.items():
        assert publisher.failures == []
        assert publisher.receipts == list(range(MESSAGES))
        assert stored(world, connect, publisher.topic) == list(range(MESSAGES))
        assert arrived(consumers[name], MESSAGES - 1) == list(range(MESSAGES))


@pytest.mark.verify
def test_a_killed_broker_loses_and_reorders_nothing(world: World, connect: Connect) -> None:
    """After SIGKILL of a broker its clients go on elsewhere; only resends may come twice.

    Its sidecar is no member meanwhile, uses nothing, and is not ready; it returns with its broker.
    """
    world.limit(publishRateInMsgs=900)
    consumers = subscribe(world, connect)
    publishers, threads = publish_all(world, connect, batching=False)
    eventually(lambda: len(publishers["broker-2"].receipts) > 500, "traffic")
    world.cluster.kill("broker-2")
    try:
        eventually(lambda: gone(world, "broker-2"), "its sidecar leaves and says why")
        join(threads)
    finally:
        world.cluster.start_server("broker-2")
    eventually(
        lambda: world.get("/quota/v1/health", at="broker-2")["state"] == "ACTIVE",
        "broker-2 is back",
    )

    for name, publisher in publishers.items():
        resent = PENDING if name == "broker-2" else 0
        assert_only_resends_come_twice(publisher, stored(world, connect, publisher.topic), resent)
        assert arrived(consumers[name], MESSAGES - 1) == list(range(MESSAGES))


def test_a_killed_gate_ends_its_sidecar_and_loses_nothing(world: World, connect: Connect) -> None:
    """After SIGKILL of the gate's process alone; started again, clients go on where they were."""
    world.limit(publishRateInMsgs=900)
    consumers = subscribe(world, connect)
    publishers, threads = publish_all(world, connect, batching=False)
    eventually(lambda: len(publishers["broker-2"].receipts) > 500, "traffic")
    try:
        assert world.sidecars.kill_gate("broker-2") == 1
        said = world.sidecars.log_file("broker-2").read_text(encoding="utf-8")
        assert "The gate is gone (its process has ended)" in said
    finally:
        world.sidecars.start("broker-2")
    join(threads)

    for name, publisher in publishers.items():
        resent = PENDING if name == "broker-2" else 0
        assert_only_resends_come_twice(publisher, stored(world, connect, publisher.topic), resent)
        assert arrived(consumers[name], MESSAGES - 1) == list(range(MESSAGES))


def test_a_slow_gate_keeps_its_connections_and_is_told(world: World, connect: Connect) -> None:
    """Stopped for some seconds, it answers late; no client has to connect or send again."""
    world.limit(publishRateInMsgs=900)
    consumers = subscribe(world, connect)
    publishers, threads = publish_all(world, connect, batching=False)
    eventually(lambda: len(publishers["broker-2"].receipts) > 500, "traffic")
    slow, spells = "pulsar_quota_gate_slow_seconds", "pulsar_quota_gate_slow_spells_total"
    before = sample(world, "broker-2", spells) or 0
    pid = world.sidecars.gate("broker-2").pid
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: (sample(world, "broker-2", slow) or 0) > 0, "it is told meanwhile")
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: sample(world, "broker-2", slow) == 0, "it answers in time again")
    assert (sample(world, "broker-2", spells) or 0) > before
    join(threads)

    for name, publisher in publishers.items():
        assert_only_resends_come_twice(publisher, stored(world, connect, publisher.topic), 0)
        assert arrived(consumers[name], MESSAGES - 1) == list(range(MESSAGES))
    assert world.sidecars.gate("broker-2").pid == pid


def assert_only_resends_come_twice(publisher: Publisher, numbers: list[int], resent: int) -> None:
    """All have a receipt and are stored, first copies in order, no more of them twice than were resent.

    A producer resends no more than it sends ahead of its receipts, and only to a broker that was struck.
    """
    assert publisher.failures == []
    assert sorted(publisher.receipts) == list(range(MESSAGES))
    assert list(dict.fromkeys(numbers)) == list(range(MESSAGES))
    assert len(numbers) - MESSAGES <= resent


def gone(world: World, name: str) -> bool:
    """Whether a sidecar whose broker is dead says so, and the others do not count on it."""
    answer = world.http.get(f"{world.sidecars.admin_url(name)}/quota/v1/ready")
    peers = [member["broker"] for member in world.get("/quota/v1/members", at="broker-1")]
    used = [row["broker"] for row in world.get(f"/quota/v1/usage/{world.group}")["brokers"]]
    return (
        answer.status_code == 503
        and Degradation.BROKER_DOWN.value in answer.json()["reason"]
        and name not in peers
        and name not in used
    )
