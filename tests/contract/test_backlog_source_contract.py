"""BacklogSource: what every one promises, over memory and a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from urllib.parse import quote, urlsplit

import httpx
import pulsar
import pytest

from coordinator.adapters.broker.backlog import HttpBacklogSource
from coordinator.backlog.rules.model import (
    BacklogQuota,
    Glance,
    Position,
    QuotaPolicy,
    TopicStorage,
    TopicSummary,
)
from coordinator.backlog.rules.outside import BacklogSource
from coordinator.ports import NotFound, Refused
from deploy.clients import quiet_client
from deploy.local.cluster import Cluster
from deploy.local.state import Broker
from tests.memory.backlog import MemoryBacklogSource, MemoryTopicStorage

T = TypeVar("T")


class Bench(Protocol):
    """A broker with a topic, and what is done with the topic."""

    topic: str

    @property
    def source(self) -> BacklogSource:
        """Return the source under test."""

    def publish(self, count: int) -> list[int]:
        """Publish and return a time just before each, in ms."""

    def subscribe(self, name: str) -> None:
        """A subscription that begins at the first message."""

    def acknowledge(self, name: str, count: int) -> None:
        """Acknowledge the next messages."""

    def set_quota(self, quota: BacklogQuota) -> None:
        """Give the topic's namespace a quota."""


@dataclass
class MemoryBench:
    """In memory."""

    topic: str = "persistent://shop/orders/in coming"
    source: MemoryBacklogSource = field(default_factory=MemoryBacklogSource)

    @property
    def _topic(self) -> MemoryTopicStorage:
        return self.source.topics.setdefault(self.topic, MemoryTopicStorage(entries_per_ledger=100))

    def publish(self, count: int) -> list[int]:
        times = [time.time_ns() // 1_000_000 for _ in range(count)]
        for at_ms in times:
            self._topic.publish(at_ms)
        return times

    def subscribe(self, name: str) -> None:
        self._topic.acknowledged[name] = 0

    def acknowledge(self, name: str, count: int) -> None:
        self._topic.acknowledged[name] += count

    def set_quota(self, quota: BacklogQuota) -> None:
        self._topic.quota = quota


class RealBench:
    """A real broker, over its admin REST and with a real client."""

    def __init__(self, brokers: Sequence[Broker]) -> None:
        self._admin = httpx.Client(
            base_url=brokers[0].web_url, trust_env=False, follow_redirects=True, timeout=30
        )
        namespace = f"public/n{uuid.uuid4().hex[:10]}"
        self._namespace = f"/admin/v2/namespaces/{namespace}"
        self._admin.put(self._namespace, json={"bundles": {"numBundles": 1}}).raise_for_status()
        self.topic = f"persistent://{namespace}/in coming"
        path = f"persistent/{namespace}/{quote('in coming')}"
        self._admin.put(f"/admin/v2/{path}").raise_for_status()
        owner = self._admin.get(f"/lookup/v2/topic/{path}?listenerName=internal").json()
        port = urlsplit(owner["brokerUrl"]).port
        (broker,) = [broker for broker in brokers if broker.broker_port == port]
        self.source = HttpBacklogSource(broker.web_url)
        self._client = quiet_client(f"pulsar://127.0.0.1:{port}", listener_name="internal")
        self._producer = self._client.create_producer(self.topic, batching_enabled=False)
        self._consumers: dict[str, pulsar.Consumer] = {}

    def close(self) -> None:
        self._client.close()
        self._admin.close()

    def publish(self, count: int) -> list[int]:
        times = []
        for _ in range(count):
            times.append(time.time_ns() // 1_000_000)
            self._producer.send(b"x" * 1000)
        return times

    def subscribe(self, name: str) -> None:
        self._consumers[name] = self._client.subscribe(
            self.topic, name, initial_position=pulsar.InitialPosition.Earliest
        )

    def acknowledge(self, name: str, count: int) -> None:
        consumer = self._consumers[name]
        for _ in range(count):
            consumer.acknowledge(consumer.receive(60_000))

    def set_quota(self, quota: BacklogQuota) -> None:
        path = f"{self._namespace}/backlogQuota?backlogQuotaType="
        for kind, size, age, policy in (
            ("destination_storage", quota.size_bytes, None, quota.size_policy),
            ("message_age", None, quota.age_s, quota.age_policy),
        ):
            body = {
                "limitSize": -1 if size is None else size,
                "limitTime": -1 if age is None else age,
                "policy": policy.value,
            }
            self._admin.post(path + kind, json=body, follow_redirects=True).raise_for_status()


@pytest.fixture(params=["memory", pytest.param("http", marks=pytest.mark.cluster)])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A topic of its own at a broker."""
    if request.param == "memory":
        yield MemoryBench()
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    real = RealBench(cluster.brokers)
    async with real.source:
        yield real
    real.close()


async def test_storage_tells_the_cursors_the_ledgers_and_the_size_behind_each(bench: Bench) -> None:
    """Of two subscriptions, the one that has acknowledged less is the oldest."""
    storage = await _storage_after(bench, 8, {"a/b c": 2, "other": 5})
    oldest = storage.oldest()
    assert oldest is not None
    assert (oldest.name, oldest.mark_delete.entry, oldest.durable) == ("a/b c", 1, True)
    total = storage.size_after(Position(oldest.mark_delete.ledger, -1))
    assert storage.size_after(oldest.mark_delete) == total * 6 // 8


async def test_a_glance_tells_the_oldest_subscription_and_since_when(bench: Bench) -> None:
    """In one answer what the storage and an entry of it say in two."""
    storage = await _storage_after(bench, 6, {"a/b c": 3, "other": 5})
    oldest = storage.oldest()
    assert oldest is not None
    first = storage.first_after(oldest.mark_delete)
    assert first is not None
    published_ms = await bench.source.published_ms(bench.topic, first)
    size_bytes = storage.size_after(oldest.mark_delete)
    expected = Glance(size_bytes, published_ms, "a/b c", without_quota=True)
    assert await _glance_once(bench, lambda found: found == expected) == expected


async def test_a_glance_at_who_has_caught_up_finds_no_backlog(bench: Bench) -> None:
    """The glance still tells whether there is a quota."""
    bench.subscribe("a")
    bench.publish(2)
    bench.acknowledge("a", 2)
    nothing = Glance(0, None, None, without_quota=True)
    assert await _glance_once(bench, lambda found: found == nothing) == nothing

    def is_limited(found: Glance) -> bool:
        # Each time anew: a loaded broker was seen not to take it up.
        bench.set_quota(BacklogQuota(age_s=3_600))
        return not found.without_quota

    assert not (await _glance_once(bench, is_limited)).without_quota


async def test_an_entry_tells_when_it_was_published(bench: Bench) -> None:
    """Within the time that publishing takes."""
    bench.subscribe("a")
    times = bench.publish(3)
    storage = await bench.source.storage(bench.topic)
    first = storage.first_after(Position(storage.ledgers[0].number, -1))
    assert first is not None
    published_ms = await bench.source.published_ms(bench.topic, first)
    assert times[0] <= published_ms <= time.time_ns() // 1_000_000


async def test_who_has_acknowledged_everything_has_no_backlog(bench: Bench) -> None:
    """There is no oldest cursor then."""
    bench.subscribe("a")
    bench.publish(2)
    bench.acknowledge("a", 2)
    storage = await _storage_once(bench, lambda found: found.oldest() is None)
    assert storage.oldest() is None


async def test_an_open_ledger_has_no_end(bench: Bench) -> None:
    """Though brokers write a time beside it."""
    bench.subscribe("a")
    bench.publish(2)
    storage = await bench.source.storage(bench.topic)
    assert storage.ledgers[-1].number not in await bench.source.closed_ms(bench.topic)
    assert storage.is_open(storage.ledgers[-1].number)


async def test_the_quota_in_force_is_told_with_what_happens_when_it_is_exceeded(
    bench: Bench,
) -> None:
    """Of each kind its own."""
    bench.subscribe("a")
    bench.publish(1)
    assert await bench.source.quota(bench.topic) == BacklogQuota()
    wanted = BacklogQuota(10_240, 3_600, QuotaPolicy.REFUSE, QuotaPolicy.EVICT)
    bench.set_quota(wanted)
    found = await _once(lambda: bench.source.quota(bench.topic), lambda quota: quota == wanted)
    assert found == wanted


async def test_a_subscription_is_moved_to_a_position_and_never_back(bench: Bench) -> None:
    """So two that evict, or the same one twice, evict no more than one."""
    bench.subscribe("a/b c")
    bench.publish(6)
    ledger = (await bench.source.storage(bench.topic)).ledgers[-1].number
    for entry in (3, 3, 1):
        await _once_allowed(bench, Position(ledger, entry))
        storage = await _storage_once(bench, lambda found: _done(found, "a/b c") == 3)
        assert _done(storage, "a/b c") == 3


async def test_what_does_not_exist_is_not_found(bench: Bench) -> None:
    """It is not unreachable: a second question would not help."""
    missing = bench.topic + "-none"
    with pytest.raises(NotFound):
        await bench.source.glance(missing)
    with pytest.raises(NotFound):
        await bench.source.storage(missing)
    with pytest.raises(NotFound):
        await bench.source.published_ms(missing, Position(1, 0))


async def test_summaries_tell_the_topics_of_this_broker_with_their_backlogs(bench: Bench) -> None:
    """As soon as the broker has gathered its own statistics (every 5 s in the test cluster)."""
    bench.subscribe("a")
    bench.publish(4)
    found: dict[str, TopicSummary] = {}
    for _ in range(600):
        found = {topic.topic: topic for topic in await bench.source.summaries()}
        if bench.topic in found and found[bench.topic].backlogs.get("a") == 4:
            break
        await asyncio.sleep(0.1)
    assert found[bench.topic].has_backlog
    assert found[bench.topic].size_bytes > 3_000


async def _once_allowed(bench: Bench, position: Position) -> None:
    """A broker refuses while it is still at the last expiry."""
    for _ in range(300):
        with contextlib.suppress(Refused):
            return await bench.source.expire_to(bench.topic, "a/b c", position)
        await asyncio.sleep(0.1)
    raise AssertionError("the broker goes on refusing")


async def _storage_after(
    bench: Bench, published: int, acknowledged: Mapping[str, int]
) -> TopicStorage:
    """A topic's storage after messages are published, and acknowledged by each subscription."""
    for name in acknowledged:
        bench.subscribe(name)
    bench.publish(published)
    for name, count in acknowledged.items():
        bench.acknowledge(name, count)
    return await _storage_once(
        bench,
        lambda found: all(_done(found, name) == n - 1 for name, n in acknowledged.items()),
    )


async def _storage_once(bench: Bench, condition: Callable[[TopicStorage], bool]) -> TopicStorage:
    """The topic's storage as soon as it is so: acknowledging takes a moment."""
    return await _once(lambda: bench.source.storage(bench.topic), condition)


async def _glance_once(bench: Bench, condition: Callable[[Glance], bool]) -> Glance:
    """A glance at the topic as soon as it is so."""
    return await _once(lambda: bench.source.glance(bench.topic), condition)


async def _once(ask: Callable[[], Awaitable[T]], condition: Callable[[T], bool]) -> T:
    """Return the answer that meets the condition, or the one after half a minute."""
    found = await ask()
    for _ in range(300):
        if condition(found):
            break
        await asyncio.sleep(0.1)
        found = await ask()
    return found


def _done(storage: TopicStorage, name: str) -> int | None:
    return next((c.mark_delete.entry for c in storage.cursors if c.name == name), None)
