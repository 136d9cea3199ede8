"""Limits below one message per broker and second on the real cluster: the right to pass goes round.

Publishing and consuming are limited to the same at once, each on a topic of its own at every broker, by
clients that always want more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import pulsar
import pytest

from deploy.background import Background
from tests.conftest import Connect
from tests.integration.test_dispatch import Drinker
from tests.integration.world import World, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

PUBLISH, DISPATCH = "publishRateInMsgs", "dispatchRateInMsgs"
BACKLOG = 500
MINUTE_S = 60.0
SEEN_WITHIN_S = 0.5
"""A client sees a message at most this long after it passed."""


class SteadySender(Background):
    """A producer that always has a message to send, and notes when each was taken in."""

    def __init__(self, producer: pulsar.Producer) -> None:
        super().__init__({"sender": self._send})
        self._producer = producer
        self.times_s: list[float] = []
        self.failures: list[pulsar.PulsarException] = []

    def _send(self) -> None:
        while not self._stop.is_set():
            try:
                self._producer.send(b"message")
            except pulsar.PulsarException as failure:
                self.failures.append(failure)
            else:
                self.times_s.append(time.monotonic())


@contextmanager
def clients(
    world: World, connect: Connect
) -> Iterator[tuple[dict[str, SteadySender], dict[str, Drinker]]]:
    """A sender and a consumer at every broker; the consumers' topics have a backlog."""
    client = connect(world.sidecars.service_url)
    backlog_of = world.topics.one_for_each_broker(world.namespace, "backlog")
    for topic in backlog_of.values():
        client.subscribe(topic, "audit").close()
        producer = client.create_producer(topic, block_if_queue_full=True, batching_enabled=False)
        for number in range(BACKLOG):
            producer.send_async(str(number).encode(), lambda *_: None)
        producer.flush()
        producer.close()
    world.limit(**{PUBLISH: 1, DISPATCH: 1})
    senders = {
        name: SteadySender(client.create_producer(topic, batching_enabled=False))
        for name, topic in world.topic_of.items()
    }
    drinkers = {
        name: Drinker(client.subscribe(topic, "audit")) for name, topic in backlog_of.items()
    }
    with ExitStack() as stack:
        for sender in senders.values():
            stack.enter_context(sender)
        for drinker in drinkers.values():
            drinker.start()
            stack.callback(drinker.stop)
        # Without limits what is under way is through at once.
        free = {PUBLISH: -1, DISPATCH: -1}
        stack.callback(world.put, f"/admin/v2/resourcegroups/{world.group}", free, "broker-1")
        yield senders, drinkers


def set_limit(world: World, limit: float, policy: str) -> None:
    """Set both limits, and wait until each sidecar has its third of both in force."""
    body = {PUBLISH: limit, DISPATCH: limit, "overshootPolicy": policy}
    world.put(f"/admin/v2/resourcegroups/{world.group}", body, at="broker-3")
    third = round(limit / len(world.topic_of), 3)
    eventually(
        lambda: all(
            (row[PUBLISH], row[DISPATCH]) == (third, third) for row in world.local_limits().values()
        ),
        f"a third of {limit}/s at each",
    )


def assert_a_minute_has_thirds(
    times_s: dict[str, Sequence[float]], began_s: float, limit: float
) -> None:
    """Each broker's third within one, and none waits for longer than all have their turn."""
    third, turn_s = limit * MINUTE_S / len(times_s), len(times_s) / limit
    for broker, times in times_s.items():
        passed = [at for at in times if began_s <= at < began_s + MINUTE_S]
        assert abs(len(passed) - third) <= 1, (broker, limit, len(passed))
        assert max(b - a for a, b in pairwise(passed)) <= turn_s + SEEN_WITHIN_S, (broker, limit)


@pytest.mark.parametrize("policy", ["balanced", "strict"])
def test_a_minute_has_the_limits_messages_a_third_at_each_of_three_brokers(
    world: World, connect: Connect, policy: str
) -> None:
    """Two, one, and one in two seconds: 40, 20 and 10 at each, published and consumed."""
    with clients(world, connect) as (senders, drinkers):
        for limit in (2, 1, 0.5):
            set_limit(world, limit, policy)
            time.sleep(2 * len(senders) / limit)  # what was saved up under the limit before passes
            began_s = time.monotonic()
            time.sleep(MINUTE_S)
            sent: dict[str, Sequence[float]] = {n: each.times_s for n, each in senders.items()}
            received: dict[str, Sequence[float]] = {
                name: [at for at, _ in each.arrivals] for name, each in drinkers.items()
            }
            assert_a_minute_has_thirds(sent, began_s, limit)
            assert_a_minute_has_thirds(received, began_s, limit)
        assert not any(each.failures for each in senders.values())
