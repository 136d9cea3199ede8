"""A dispatch limit shared by the consumers of three real brokers, for each kind of subscription.

Every broker has a topic of each group, more is published than the limit lets go out, and all groups
stand side by side. Rates are differences of the brokers' own counters of what they have sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any

import pulsar
import pytest

from deploy.local.topics import TopicCounters
from tests.integration.steady import Steady
from tests.integration.world import TENANT, World, eventually, make_world

pytestmark = pytest.mark.cluster

Connect = Callable[[str], pulsar.Client]
Figure = Callable[[str, str], None]
KINDS = {
    "Exclusive": (pulsar.ConsumerType.Exclusive, 1),
    "Failover": (pulsar.ConsumerType.Failover, 2),
    "Shared": (pulsar.ConsumerType.Shared, 2),
    "Key_Shared": (pulsar.ConsumerType.KeyShared, 2),
}
LIMITS = {"dispatchRateInMsgs": 300, "dispatchRateInBytes": 120_000}
#: Messages per second and topic, and bytes of their content: half as much again as a third of the limit.
OFFERED = {"dispatchRateInMsgs": (150, 100), "dispatchRateInBytes": (64, 900)}


class Reader:
    """Acknowledges whatever comes, and knows how late the latest message was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.late_s = 0.0

    def __call__(self, consumer: Any, message: Any) -> None:
        """Take a message, on the client's own thread."""
        with self._lock:
            self.late_s = time.time() - message.publish_timestamp() / 1000
        consumer.acknowledge(message)


@contextmanager
def consumed(
    groups: Mapping[tuple[str, str], World], connect: Connect, reader: Reader
) -> Iterator[None]:
    """Consumers of every group's topics; those of one subscription are on different connections."""
    url = next(iter(groups.values())).sidecars.service_url
    clients = [connect(url) for _ in range(2)]
    consumers = [
        client.subscribe(topic, "audit", consumer_type=kind, message_listener=reader)
        for (name, _), world in groups.items()
        for kind, count in (KINDS[name],)
        for topic in world.topic_of.values()
        for client in clients[:count]
    ]
    yield
    for consumer in consumers:
        consumer.close()


def sent(world: World, field: str) -> dict[str, tuple[int, float]]:
    """Messages or bytes that each broker has sent, and the moment of the reading."""

    def of(counters: TopicCounters) -> int:
        return counters.messages_out if field == "dispatchRateInMsgs" else counters.bytes_out

    found = {}
    for name, topic in world.topic_of.items():
        asked_s = time.monotonic()
        counted = of(world.topics.counters(topic))
        found[name] = counted, (asked_s + time.monotonic()) / 2
    return found


@pytest.mark.shows(
    "pip-82/producers-and-consumers", "pip-322/dispatch", "service-cluster/consumer-sees"
)
def test_consumers_of_three_brokers_share_a_limit(
    world: World, connect: Connect, figure: Figure
) -> None:
    """300 messages, or 120 kB, a second: a third at each broker, whatever the kind of subscription."""
    groups = {
        (name, field): make_world(
            world.cluster,
            world.sidecars,
            world.http,
            f"{TENANT}/{name.lower().replace('_', '-')}-{field[-5:].lower()}",
        )
        for name, field in product(KINDS, LIMITS)
    }
    for (_, field), each in groups.items():
        each.limit(**{field: LIMITS[field]})
    offered = {
        topic: OFFERED[field]
        for (_, field), each in groups.items()
        for topic in each.topic_of.values()
    }
    reader = Reader()
    sizes = {topic: size for topic, (_, size) in offered.items()}
    with (
        consumed(groups, connect, reader),
        Steady(world.sidecars.service_url, sizes) as load,
    ):
        load.offers({topic: rate for topic, (rate, _) in offered.items()})
        for (name, field), each in groups.items():
            third = LIMITS[field] // 3
            eventually(
                lambda each=each, field=field, third=third: all(  # type: ignore[misc]
                    limits[field] == third for limits in each.local_limits().values()
                ),
                f"a third at each broker, {name} {field}",
            )
        figures = wait_for_thirds(groups)
        late_s = reader.late_s
        eventually(lambda: reader.late_s > late_s + 1, "consumers see messages ever later")
    for name, told in figures.items():
        figure("pip-322/dispatch", f"{name} {told}")
    figure("service-cluster/consumer-sees", f"messages came {reader.late_s:.0f} s late, and later")


def wait_for_thirds(groups: Mapping[tuple[str, str], World]) -> dict[str, str]:
    """Wait until each group's brokers send a third each, within 3 %, over six seconds."""
    deadline = time.monotonic() + 90
    told: dict[str, dict[str, str]] = {name: {} for name in KINDS}
    missing = dict(groups)
    while missing:
        before = {key: sent(world, key[1]) for key, world in missing.items()}
        time.sleep(6)
        wrong = {}
        for (name, field), world in list(missing.items()):
            after = sent(world, field)
            rates = [
                (after[broker][0] - count) / (after[broker][1] - at_s)
                for broker, (count, at_s) in before[name, field].items()
            ]
            if rates == pytest.approx([LIMITS[field] / 3] * 3, rel=0.03):
                del missing[name, field]
                told[name][field] = " / ".join(f"{rate:,.0f}" for rate in rates)
            else:
                wrong[name, field] = rates
        assert not wrong or time.monotonic() < deadline, f"never a third each: {wrong}"
    return {
        name: f"{each['dispatchRateInMsgs']} messages/s, {each['dispatchRateInBytes']} B/s"
        for name, each in told.items()
    }
