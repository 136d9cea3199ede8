"""Real consumers through a real gate: the dispatch limit holds from the first second on.

The bound from above counts from the start: a client that stands still for a moment takes what came
in the meantime at once. The one from below says that deliveries go on: while the machine stands still
there are none, and no limit saves that up. tests/gate/limits/test_dispatch.py has the exact bounds of
both kinds, with slow brokers, too.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pulsar
import pytest

from tests.conftest import Connect, Measure
from tests.integration.world import World, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

LIMIT = 500
BACKLOG = 4000
KEYS = 60


class Drinker:
    """A consumer that takes whatever comes, acknowledges it and notes when and what."""

    def __init__(self, consumer: pulsar.Consumer) -> None:
        self._consumer = consumer
        self.arrivals: list[tuple[float, int]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._drink)

    def start(self) -> None:
        """Begin to receive."""
        self._thread.start()

    def stop(self) -> None:
        """Stop receiving."""
        self._stopping.set()
        self._thread.join(30)

    def _drink(self) -> None:
        while not self._stopping.is_set():
            try:
                message = self._consumer.receive(timeout_millis=200)
            except pulsar.Timeout:
                continue
            self.arrivals.append((time.monotonic(), int(message.data())))
            self._consumer.acknowledge(message)


def publish(client: pulsar.Client, topic: str, *, batched: bool) -> None:
    """Put numbered messages into the topic's backlog; the key is the number modulo KEYS."""
    producer = client.create_producer(
        topic, batching_enabled=batched, batching_max_messages=50, block_if_queue_full=True
    )
    for number in range(BACKLOG):
        producer.send_async(str(number).encode(), lambda *_: None, partition_key=str(number % KEYS))
    producer.flush()
    producer.close()


@contextmanager
def drinkers(
    world: World, connect: Connect, topic: str, kind: pulsar.ConsumerType, count: int
) -> Iterator[list[Drinker]]:
    """Consumers of one subscription, each on a connection of its own."""
    found: list[Drinker] = []
    for _ in range(count):
        client = connect(world.sidecars.service_url)
        found.append(Drinker(client.subscribe(topic, "audit", consumer_type=kind)))
        found[-1].start()
    try:
        yield found
    finally:
        for drinker in found:
            drinker.stop()


def per_half_second(arrivals: list[tuple[float, int]], since: float) -> list[int]:
    """Return the messages in each half second of four seconds."""
    return [sum(n <= 2 * (at - since) < n + 1 for at, _ in arrivals) for n in range(8)]


@pytest.mark.parametrize(
    ("kind", "count", "batched"),
    [
        pytest.param(pulsar.ConsumerType.Exclusive, 1, False, id="exclusive"),
        pytest.param(pulsar.ConsumerType.Exclusive, 1, True, id="exclusive-batched"),
        pytest.param(pulsar.ConsumerType.Shared, 3, False, id="shared"),
        pytest.param(pulsar.ConsumerType.Shared, 3, True, id="shared-batched"),
        pytest.param(pulsar.ConsumerType.Failover, 2, False, id="failover"),
        pytest.param(pulsar.ConsumerType.KeyShared, 3, False, id="key-shared"),
    ],
)
@pytest.mark.shows("pip-82/producers-and-consumers", "pip-322/dispatch")
def test_a_dispatch_limit_holds_and_loses_nothing(
    world: World,
    connect: Connect,
    measured: Measure,
    kind: pulsar.ConsumerType,
    count: int,
    batched: bool,
) -> None:
    """500/s of a backlog of 4,000; then the limit is lifted and the rest arrives, each message once.

    Several consumers wait for each other at a limit of 0: one that is first takes keys, and the active
    place, from which it must not be moved.
    """
    topic = world.topic_of["broker-1"]
    client = connect(world.sidecars.service_url)
    client.subscribe(topic, "audit", consumer_type=kind).close()
    publish(client, topic, batched=batched)
    at_first = LIMIT if count == 1 else 0
    world.limit(dispatchRateInMsgs=at_first)
    eventually(lambda: 0 <= limit_of(world) <= at_first, "a limit at its broker")

    began = time.monotonic()
    with drinkers(world, connect, topic, kind, count) as consumers:
        if count > 1:
            began = time.monotonic()
            world.limit(dispatchRateInMsgs=LIMIT)

        def arrivals() -> list[tuple[float, int]]:
            return sorted(item for drinker in consumers for item in drinker.arrivals)

        eventually(
            lambda: limit_of(world) > 0.98 * LIMIT, "the whole limit, as no other client consumes"
        )
        since = time.monotonic()
        eventually(lambda: time.monotonic() > since + 4, "four seconds")
        limited = per_half_second(arrivals(), since)
        under_the_limit = [at for at, _ in arrivals()]
        group = f"/admin/v2/resourcegroups/{world.group}"
        world.put(group, {"dispatchRateInMsgs": -1}, at="broker-2")
        lifted_at = time.monotonic()
        eventually(lambda: len(arrivals()) >= BACKLOG, "the rest")
        took = arrivals()[BACKLOG - 1][0] - lifted_at

    first = sum(at < under_the_limit[0] + 1 for at in under_the_limit)
    measured("first second", first, "messages", most=LIMIT * 1.3)
    ahead = max(n - 1.05 * LIMIT * (at - began) for n, at in enumerate(under_the_limit))
    measured("ahead of the limit and 5 % at any moment", ahead, "messages", most=0.2 * LIMIT)
    rate = 2 * statistics.median(limited)
    measured(f"median of half seconds at {LIMIT}", rate, "/s", least=0.3 * LIMIT)
    measured("the rest, once the limit is lifted", took, "s", most=10)
    assert sorted(number for _, number in arrivals()) == list(range(BACKLOG))
    assert_split(kind, [[number for _, number in drinker.arrivals] for drinker in consumers])


def assert_split(kind: pulsar.ConsumerType, taken: list[list[int]]) -> None:
    """Each consumer takes what the kind of subscription promises."""
    match kind:
        case pulsar.ConsumerType.Shared:
            assert min(map(len, taken)) > 0.5 * BACKLOG / len(taken)
        case pulsar.ConsumerType.KeyShared:
            owners = [{number % KEYS for number in numbers} for numbers in taken]
            assert all(owners)
            assert sum(map(len, owners)) == KEYS, "every key is one consumer's"
            for numbers in taken:
                by_key = sorted(numbers, key=lambda number: number % KEYS)
                assert by_key == sorted(numbers, key=lambda number: (number % KEYS, number))
        case _:
            assert max(map(len, taken)) == BACKLOG, "one consumer is active"
            assert max(taken, key=len) == list(range(BACKLOG))


def limit_of(world: World) -> int:
    """The dispatch limit that the sidecar of broker-1 enforces."""
    limit: int = world.local_limits()["broker-1"]["dispatchRateInMsgs"]
    return limit
