"""BacklogSource: what every one promises, over memory and a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import httpx
import pulsar
import pytest

from coordinator.adapters.broker_backlog import HttpBacklogSource
from coordinator.adapters.broker_summary import each_topic
from coordinator.adapters.memory_backlog import MemoryBacklogSource, MemoryTopicStorage
from coordinator.core.backlog.model import (
    BacklogQuota,
    Glance,
    Position,
    QuotaPolicy,
    TopicSummary,
)
from coordinator.ports import BacklogSource, NotFound, Refused, StoreUnreachable
from deploy.local.cluster import Cluster
from deploy.local.state import Broker


class Bench(Protocol):
    """A broker with a topic, and what is done with the topic."""

    topic: str

    @property
    def source(self) -> BacklogSource:
        """What is tested."""
        ...

    def publish(self, count: int) -> list[int]:
        """Publish and return a time just before each, in ms."""
        ...

    def subscribe(self, name: str) -> None:
        """A subscription that begins at the first message."""
        ...

    def acknowledge(self, name: str, count: int) -> None:
        """Acknowledge the next messages."""
        ...

    def set_quota(self, quota: BacklogQuota) -> None:
        """Give the topic's namespace a quota."""
        ...


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
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        url = f"pulsar://127.0.0.1:{port}"
        self._client = pulsar.Client(url, listener_name="internal", logger=logger)
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
            consumer.acknowledge(consumer.receive(10_000))

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
    bench.subscribe("a/b c")
    bench.subscribe("other")
    bench.publish(8)
    bench.acknowledge("a/b c", 2)
    bench.acknowledge("other", 5)
    storage = await _storage_once(
        bench, lambda found: (_done(found, "a/b c"), _done(found, "other")) == (1, 4)
    )
    oldest = storage.oldest()
    assert oldest is not None
    assert (oldest.name, oldest.mark_delete.entry, oldest.durable) == ("a/b c", 1, True)
    total = storage.size_after(Position(oldest.mark_delete.ledger, -1))
    assert storage.size_after(oldest.mark_delete) == total * 6 // 8


async def test_a_glance_tells_the_oldest_subscription_and_since_when(bench: Bench) -> None:
    """In one answer what the storage and an entry of it say in two."""
    bench.subscribe("a/b c")
    bench.subscribe("other")
    bench.publish(6)
    bench.acknowledge("a/b c", 3)
    bench.acknowledge("other", 5)
    storage = await _storage_once(
        bench, lambda found: (_done(found, "a/b c"), _done(found, "other")) == (2, 4)
    )
    oldest = storage.oldest()
    first = storage.first_after(oldest.mark_delete)
    published_ms = await bench.source.published_ms(bench.topic, first)
    size_bytes = storage.size_after(oldest.mark_delete)
    assert await bench.source.glance(bench.topic) == Glance(size_bytes, published_ms, "a/b c", True)


async def test_a_glance_at_who_has_caught_up_finds_no_backlog(bench: Bench) -> None:
    """And whether there is a quota, all the same."""
    bench.subscribe("a")
    bench.publish(2)
    bench.acknowledge("a", 2)
    nothing = Glance(0, None, None, without_quota=True)
    assert await _glance_once(bench, lambda found: found == nothing) == nothing

    def is_limited(found: Glance) -> bool:
        bench.set_quota(
            BacklogQuota(age_s=3_600)
        )  # a loaded broker was seen not to take it up at once
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
    for _ in range(300):
        if await bench.source.quota(bench.topic) == wanted:
            break
        await asyncio.sleep(0.1)
    assert await bench.source.quota(bench.topic) == wanted


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
    """Not unreachable: to ask again would not help."""
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


async def _storage_once(bench: Bench, condition: Any) -> Any:
    """A topic's storage as soon as it is so: acknowledging takes a moment."""
    storage = await bench.source.storage(bench.topic)
    for _ in range(300):
        if condition(storage):
            return storage
        storage = await bench.source.storage(bench.topic)
        await asyncio.sleep(0.1)
    return storage


async def _glance_once(bench: Bench, condition: Any) -> Any:
    """A glance at the topic as soon as it is so."""
    glance = await bench.source.glance(bench.topic)
    for _ in range(300):
        if condition(glance):
            return glance
        await asyncio.sleep(0.1)
        glance = await bench.source.glance(bench.topic)
    return glance


def _done(storage: Any, name: str) -> int | None:
    return next((c.mark_delete.entry for c in storage.cursors if c.name == name), None)


# What only HTTP can do.


def answering(status: int, body: str = "", headers: dict[str, str] | None = None) -> Any:
    """A broker that answers everything with this."""
    return httpx.MockTransport(lambda _: httpx.Response(status, text=body, headers=headers))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (307, NotFound),
        (404, NotFound),
        (401, Refused),
        (403, Refused),
        (405, Refused),
        (500, StoreUnreachable),
        (503, StoreUnreachable),
    ],
)
async def test_a_status_says_what_kind_of_no_it_is(status: int, error: type[Exception]) -> None:
    """Another owner's topic is not here; what is forbidden stays forbidden; the rest may pass."""
    async with HttpBacklogSource("http://broker", transport=answering(status)) as source:
        with pytest.raises(error, match=str(status)):
            await source.storage("persistent://a/b/c")


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"ledgers": 1}', '{"cursors": {}}'])
async def test_an_answer_that_makes_no_sense_is_no_answer(body: str) -> None:
    """It is named, and nothing else fails by it."""
    async with HttpBacklogSource("http://broker", transport=answering(200, body)) as source:
        with pytest.raises(StoreUnreachable):
            await source.storage("persistent://a/b/c")
        with pytest.raises(StoreUnreachable):
            await source.glance("persistent://a/b/c")
        with pytest.raises(StoreUnreachable):
            await source.closed_ms("persistent://a/b/c")
    async with HttpBacklogSource("http://broker", transport=answering(200, body)) as source:
        if body not in ("{", ""):
            return
        with pytest.raises(StoreUnreachable):
            await source.summaries()


async def test_a_timeout_is_unreachable() -> None:
    """And not a topic that is gone."""

    def hang(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow")

    transport = httpx.MockTransport(hang)
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        with pytest.raises(StoreUnreachable, match="ReadTimeout"):
            await source.summaries()


@pytest.mark.parametrize(
    ("stamp", "published_ms"),
    [
        ("2026-09-15T16:51:11.802Z", 1_789_491_071_802),
        ("2026-09-15T18:51:11.802+02:00", 1_789_491_071_802),
        ("1789491071802", 1_789_491_071_802),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
async def test_publish_times_are_read_in_every_zone(stamp: str, published_ms: int) -> None:
    """Brokers write them in their own."""
    transport = answering(200, "x" * 100_000, {"X-Pulsar-publish-time": stamp})
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        assert await source.published_ms("persistent://a/b/c", Position(1, 0)) == published_ms


@pytest.mark.parametrize("headers", [{}, {"X-Pulsar-publish-time": "yesterday"}])
async def test_an_entry_without_a_publish_time_is_told(headers: dict[str, str]) -> None:
    """No age is made up."""
    async with HttpBacklogSource("http://b", transport=answering(200, "", headers)) as source:
        with pytest.raises(StoreUnreachable, match="publish time"):
            await source.published_ms("persistent://a/b/c", Position(1, 0))


async def test_the_time_of_the_broker_goes_before_the_producers() -> None:
    """Where brokers stamp entries themselves, clients' clocks do not matter."""
    headers = {
        "X-Pulsar-publish-time": "1970-01-01T00:00:00Z",
        "X-Pulsar-Broker-Entry-METADATA-timestamp": "2026-09-15T16:51:11.802Z",
    }
    async with HttpBacklogSource("http://b", transport=answering(200, "", headers)) as source:
        assert await source.published_ms("persistent://a/b/c", Position(1, 0)) > 0


@pytest.mark.parametrize(
    ("body", "quota"),
    [
        ("{}", BacklogQuota()),
        ('{"destination_storage": {"limit": 5}}', BacklogQuota(size_bytes=5)),
        ('{"destination_storage": {"limitSize": 0, "limitTime": -1}}', BacklogQuota(size_bytes=0)),
        ('{"message_age": {"limitSize": -1, "limitTime": 0}}', BacklogQuota()),
        ('{"message_age": {"limitTime": 2147483647}}', BacklogQuota(age_s=2**31 - 1)),
        ('{"destination_storage": {"limitSize": 9223372036854775807}}', BacklogQuota(2**63 - 1)),
    ],
)
async def test_absurd_quotas_are_read_as_pulsar_reads_them(body: str, quota: BacklogQuota) -> None:
    """A size from 0 on limits, an age above 0."""
    async with HttpBacklogSource("http://broker", transport=answering(200, body)) as source:
        assert await source.quota("persistent://a/b/c") == quota


async def test_a_quota_policy_that_nobody_knows_is_told() -> None:
    """To take it for another one could evict messages."""
    body = '{"message_age": {"limitTime": 5, "policy": "explode"}}'
    async with HttpBacklogSource("http://broker", transport=answering(200, body)) as source:
        with pytest.raises(StoreUnreachable, match="explode"):
            await source.quota("persistent://a/b/c")


async def test_a_partition_has_the_quota_of_its_topic() -> None:
    """Pulsar answers 412 to who asks for a partition's."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("persistent/a/b/c/backlogQuotaMap"):
            return httpx.Response(200, json={"message_age": {"limitTime": 7}})
        return httpx.Response(412)

    transport = httpx.MockTransport(answer)
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        for name in ("c", "c-partition-12"):
            assert await source.quota(f"persistent://a/b/{name}") == BacklogQuota(age_s=7)


@pytest.mark.parametrize("answers", [True, False])
async def test_another_broker_is_asked_for_a_quota_that_is_its_to_say(answers: bool) -> None:
    """The owner of the first partition; when it is out of reach, the own broker is not."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "broker":
            return httpx.Response(307, headers={"location": "http://other/there?applied=true"})
        if not answers:
            raise httpx.ConnectError("refused")
        assert request.headers["authorization"] == "Bearer secret"
        return httpx.Response(200, json={"message_age": {"limitTime": 7}})

    transport = httpx.MockTransport(answer)
    async with HttpBacklogSource("http://broker", token="secret", transport=transport) as source:
        if answers:
            found = await source.quota("persistent://a/b/c-partition-1")
            assert found == BacklogQuota(age_s=7)
        else:
            with pytest.raises(Refused, match="ConnectError"):
                await source.quota("persistent://a/b/c-partition-1")


@pytest.mark.parametrize("headers", [{}, {"location": ""}, {"location": "http://[broken"}])
async def test_a_redirect_to_nowhere_is_told(headers: dict[str, str]) -> None:
    """And the quota of the namespace is not taken for the topic's."""
    transport = httpx.AsyncHTTPTransport()

    async def handle(request: httpx.Request) -> httpx.Response:
        if request.url.host == "broker":
            return httpx.Response(307, headers=headers)
        return await transport.handle_async_request(request)

    async with HttpBacklogSource("http://broker", transport=httpx.MockTransport(handle)) as source:
        with pytest.raises(Refused):
            await source.quota("persistent://a/b/c")
    await transport.aclose()


async def test_what_looks_like_a_partition_and_is_none_has_the_quota_of_its_namespace() -> None:
    """No topic policies can be set for it."""

    def answer(request: httpx.Request) -> httpx.Response:
        if "/namespaces/" in request.url.path:
            return httpx.Response(200, json={"message_age": {"limitTime": 7}})
        return httpx.Response(404)

    transport = httpx.MockTransport(answer)
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        quota = await source.quota("persistent://a/b/c-partition-0")
    assert quota == BacklogQuota(age_s=7)


NO_LIMITS = {"backlogQuotaLimitSize": -1, "backlogQuotaLimitTime": -1}


def subscriptions(**earliest_ms: int) -> dict[str, Any]:
    """As statistics have them; a reader is not durable."""
    return {
        name: {"earliestMsgPublishTimeInBacklog": at_ms, "isDurable": not name.startswith("reader")}
        for name, at_ms in earliest_ms.items()
    }


@pytest.mark.parametrize(
    ("size", "earliest_ms", "behind", "limits", "glance"),
    [
        (9, 5, subscriptions(b=5, a=5, c=7), NO_LIMITS, Glance(9, 5, "a", True)),
        (9, 5, subscriptions(reader=5, b=5), {}, Glance(9, 5, "b", False)),
        (9, 5, subscriptions(c=7), NO_LIMITS, Glance(9, 5, None, True)),
        (9, 5, subscriptions(a=-1), NO_LIMITS | {"backlogQuotaLimitTime": 3}, Glance(9, 5, None, False)),
        (9, -1, subscriptions(a=-1), NO_LIMITS, Glance(0, None, None, True)),
        (0, 0, subscriptions(a=0), NO_LIMITS, Glance(0, None, None, True)),
    ],
)  # fmt: skip
async def test_statistics_are_read_as_a_glance(
    size: int, earliest_ms: int, behind: Any, limits: dict[str, int], glance: Glance
) -> None:
    """Of equal ones by name; readers and who is further on are not the oldest; limits may be missing."""
    body = {"backlogSize": size, "earliestMsgPublishTimeInBacklogs": earliest_ms}
    transport = answering(200, json.dumps(body | {"subscriptions": behind} | limits))
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        assert await source.glance("persistent://a/b/c") == glance


async def test_statistics_without_the_earliest_time_are_no_glance() -> None:
    """An age is not made up; 0 is what a broker says that does not know."""
    body = json.dumps(
        {"backlogSize": 9, "earliestMsgPublishTimeInBacklogs": 0, "subscriptions": {}}
    )
    async with HttpBacklogSource("http://broker", transport=answering(200, body)) as source:
        with pytest.raises(StoreUnreachable, match="no publish time"):
            await source.glance("persistent://a/b/c")


async def test_without_topic_policies_the_namespace_is_asked() -> None:
    """Pulsar answers 405 then."""

    def answer(request: httpx.Request) -> httpx.Response:
        if "/namespaces/" in request.url.path:
            return httpx.Response(200, json={"message_age": {"limitTime": 7}})
        return httpx.Response(405)

    transport = httpx.MockTransport(answer)
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        assert await source.quota("persistent://a/b/c") == BacklogQuota(age_s=7)


def test_summaries_are_walked_topic_by_topic_and_leave_out_what_is_not_stored() -> None:
    """Also with white space, and with empty levels."""
    topic = '{"subscriptions": {}, "backlogSize": -1, "storageSize": 2, "bytesInCount": 3}'
    text = f"""{{ "a/b" : {{"0x0_0x1":{{"non-persistent":{{"non-persistent://a/b/n": {topic}}},
        "persistent" :{{ "persistent://a/b/\\u00fc" : {topic} , "persistent://a/b/d":{topic}}} }} }},
        "c/d":{{}} }}"""
    found = list(each_topic(text))
    assert [summary.topic for summary in found] == ["persistent://a/b/ü", "persistent://a/b/d"]
    assert (found[0].size_bytes, found[0].storage_bytes) == (0, 2)


@pytest.mark.parametrize(
    "text", ["", "[", "[]", "{", '{"a"', '{"a": 1}', '{"a": {"b": {"c": {"d": 1']
)
def test_a_broken_summary_is_told(text: str) -> None:
    """As an error, not as a broker without topics."""
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the text says
        list(each_topic(text))
