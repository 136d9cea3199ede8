"""ReportBus: what every bus promises, over memory and Pulsar."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest

from coordinator.adapters.broker.admin import HttpBrokerAdmin
from coordinator.adapters.pulsar.bus import PulsarBus
from coordinator.ports import ReportBus
from deploy.local.cluster import Cluster
from deploy.local.ports import free_block
from deploy.local.state import Broker
from deploy.local.topics import Topics
from tests.contract.listening import Heard, eventually
from tests.memory.surroundings import MemoryBus, MemoryTopic

OpenBus = Callable[[], Awaitable[ReportBus]]

RECONNECTED_S = 90.0
"""A broker's restart and the client's back-off after it, on a busy machine."""


def _topic() -> str:
    return f"non-persistent://pulsar/system/contract-{uuid.uuid4().hex}"


def _owned_by(broker: Broker, cluster: Cluster) -> str:
    """A topic of the bus that this broker serves."""
    topics, namespace = Topics(cluster.brokers), "pulsar/system"
    topics.create_tenant("pulsar")
    topics.create_namespace(namespace, bundles=12)
    prefix = f"contract-{uuid.uuid4().hex}"
    return topics.one_for_each_broker(namespace, prefix, "non-persistent")[broker.name]


async def _connected(bus: ReportBus, deadline_s: float = 30.0) -> None:
    await eventually(lambda: all(bus.health().connected.values()), deadline_s=deadline_s)


@pytest.fixture(params=["memory", pytest.param("pulsar", marks=pytest.mark.cluster)])
async def open_bus(request: pytest.FixtureRequest) -> AsyncIterator[OpenBus]:
    """A function that connects one more sidecar to the same bus."""
    if request.param == "memory":
        shared = MemoryTopic()

        async def open_in_memory() -> ReportBus:
            return MemoryBus(shared)

        yield open_in_memory
        return
    broker: Broker = request.getfixturevalue("pulsar_broker")
    topic = _topic()
    opened: list[PulsarBus] = []

    async def open_on_pulsar() -> ReportBus:
        opened.append(PulsarBus(broker.service_url, (topic,), listener_name="internal"))
        await opened[-1].start()
        await _connected(opened[-1])
        return opened[-1]

    yield open_on_pulsar
    for bus in opened:
        await bus.stop()


async def test_own_payloads_come_back_as_the_same_bytes(open_bus: OpenBus) -> None:
    """Nothing on the bus looks into payloads, nonsense included."""
    bus = await open_bus()
    heard: Heard[bytes] = Heard()
    bus.watch(heard)
    payloads = {b"report", b"\x00", b"\xff\xfe garbage \x80", bytes(range(256)) * 400}
    for payload in payloads:
        bus.publish(payload)
    await eventually(lambda: set(heard.values) == payloads)


@pytest.mark.shows("pip-82/every-update", "pip-82/regular-topic", "pip-82/no-storage", real=True)
async def test_every_subscriber_gets_everything(open_bus: OpenBus) -> None:
    """Broadcast; the order is not assumed."""
    buses = [await open_bus() for _ in range(3)]
    heard: list[Heard[bytes]] = []
    for bus in buses:
        heard.append(Heard())
        bus.watch(heard[-1])
    everything = {f"{sender}/{n}".encode() for sender in range(3) for n in range(20)}
    for sender, bus in enumerate(buses):
        for number in range(20):
            bus.publish(f"{sender}/{number}".encode())
    for listener in heard:
        await eventually(partial(_has_all, listener, everything))


def _has_all(heard: Heard[bytes], payloads: set[bytes]) -> bool:
    return payloads <= set(heard.values)


async def test_publishing_never_calls_a_listener_from_within(open_bus: OpenBus) -> None:
    """A listener that publishes is not entered twice."""
    bus = await open_bus()
    heard: Heard[bytes] = Heard()
    bus.watch(heard)
    bus.publish(b"later")
    assert heard.values == []
    await heard.until(lambda payload: payload == b"later")


async def test_a_second_listener_hears_the_same(open_bus: OpenBus) -> None:
    """Listeners do not take payloads away from each other."""
    bus = await open_bus()
    first: Heard[bytes] = Heard()
    second: Heard[bytes] = Heard()
    bus.watch(first)
    bus.watch(second)
    bus.publish(b"both")
    for heard in (first, second):
        await heard.until(lambda payload: payload == b"both")


async def test_health_counts_what_was_sent_and_received(open_bus: OpenBus) -> None:
    """Once per payload and topic."""
    bus = await open_bus()
    for number in range(10):
        bus.publish(b"%d" % number)
    await eventually(lambda: bus.health().sent == 10 and bus.health().received == 10)
    assert bus.health().dropped == 0
    assert list(bus.health().connected.values()) == [True]


async def test_a_disconnected_memory_bus_drops_and_counts() -> None:
    """Both directions are cut, and come back."""
    topic = MemoryTopic()
    cut_off, other = MemoryBus(topic), MemoryBus(topic)
    heard: Heard[bytes] = Heard()
    cut_off.watch(heard)
    cut_off.disconnect()
    cut_off.publish(b"lost")
    other.publish(b"missed")
    await eventually(lambda: other.health().received == 1)
    assert cut_off.health().dropped == 1
    assert heard.values == []
    cut_off.connect()
    cut_off.publish(b"heard")
    await heard.until(lambda payload: payload == b"heard")


async def test_without_a_broker_a_bus_starts_drops_counts_and_stops_quickly() -> None:
    """Publishing neither raises nor waits, before the start and after the stop."""
    topics = ("non-persistent://pulsar/system/one", "non-persistent://pulsar/system/two")
    bus = PulsarBus(f"pulsar://127.0.0.1:{free_block()[0]}", topics)
    before_s = time.monotonic()
    bus.publish(b"before the start")
    await bus.start()
    for _ in range(100):
        bus.publish(b"unheard")
    assert time.monotonic() - before_s < 60.0
    await eventually(lambda: bus.health().dropped == 202)
    health = bus.health()
    assert health.connected == dict.fromkeys(topics, False)
    assert (health.sent, health.received) == (0, 0)
    # Long enough for the connection attempts to be under way when they are stopped.
    await eventually(lambda: time.monotonic() - before_s > 0.5)
    before_s = time.monotonic()
    await bus.stop()
    assert time.monotonic() - before_s < 60.0
    bus.publish(b"after the stop")
    assert bus.health().dropped == 204


def test_a_bus_without_topics_is_refused() -> None:
    """It would drop everything in silence."""
    with pytest.raises(ValueError, match="at least one topic"):
        PulsarBus("pulsar://127.0.0.1:6650", ())


@pytest.mark.cluster
@pytest.mark.shows("pip-82/compression", real=True)
async def test_reports_travel_on_every_topic_and_compressed(pulsar_broker: Broker) -> None:
    """Every topic carries every payload."""
    topics = (_topic(), _topic())
    bus = PulsarBus(pulsar_broker.service_url, topics, listener_name="internal", compression="lz4")
    heard: Heard[bytes] = Heard()
    bus.watch(heard)
    await bus.start()
    try:
        await _connected(bus)
        bus.publish(b"compressible " * 1000)
        await eventually(lambda: heard.values == [b"compressible " * 1000] * 2)
        await eventually(lambda: bus.health().sent == 2)
    finally:
        await bus.stop()


@pytest.mark.cluster
async def test_what_was_published_before_stopping_still_goes_out(pulsar_broker: Broker) -> None:
    """The last report of a sidecar, "I am leaving", frees its share at once."""
    topic = _topic()
    leaving = PulsarBus(pulsar_broker.service_url, (topic,), listener_name="internal")
    staying = PulsarBus(pulsar_broker.service_url, (topic,), listener_name="internal")
    heard: Heard[bytes] = Heard()
    staying.watch(heard)
    await leaving.start()
    await staying.start()
    try:
        await _connected(leaving)
        await _connected(staying)
        leaving.publish(b"leaving")
        await leaving.stop()
        await heard.until(lambda payload: payload == b"leaving")
    finally:
        await staying.stop()


@pytest.mark.cluster
async def test_the_bus_namespace_is_created_where_it_is_missing(pulsar_broker: Broker) -> None:
    """A bus in a namespace of its own connects once that was ensured."""
    tenant = f"bus-{uuid.uuid4().hex[:12]}"
    async with HttpBrokerAdmin(pulsar_broker.web_url) as admin:
        await admin.ensure_bus_namespace(tenant, "reports")
    topic = f"non-persistent://{tenant}/reports/usage"
    bus = PulsarBus(pulsar_broker.service_url, (topic,), listener_name="internal")
    await bus.start()
    try:
        await _connected(bus)
    finally:
        await bus.stop()


@pytest.mark.cluster
async def test_a_bus_reconnects_by_itself_after_its_broker_restarted(cluster: Cluster) -> None:
    """While it is away publishing returns at once, drops and counts."""
    broker = cluster.brokers[0]
    topic = await asyncio.to_thread(_owned_by, broker, cluster)
    bus = PulsarBus(broker.service_url, (topic,), listener_name="internal")
    heard: Heard[bytes] = Heard()
    bus.watch(heard)
    await bus.start()
    try:
        await _connected(bus)
        await asyncio.to_thread(cluster.kill, broker.name)
        try:
            await eventually(lambda: not any(bus.health().connected.values()))
            dropped = bus.health().dropped
            before_s = time.monotonic()
            for _ in range(1000):
                bus.publish(b"lost")
            assert time.monotonic() - before_s < 60.0
            await eventually(lambda: bus.health().dropped == dropped + 1000)
        finally:
            await asyncio.to_thread(cluster.start_server, broker.name)
        await _connected(bus, RECONNECTED_S)
        bus.publish(b"back")
        await heard.until(lambda payload: payload == b"back")
    finally:
        await bus.stop()
