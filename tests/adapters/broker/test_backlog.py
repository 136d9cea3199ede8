"""The adapter reads a broker's answers about backlogs: refusals, absurd values, redirects.

What every source promises is in the contract (tests/contract/test_backlog_source_contract.py).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from coordinator.adapters.broker.backlog import HttpBacklogSource
from coordinator.backlog.rules.model import BacklogQuota, Glance, Position, QuotaPolicy
from coordinator.ports import BrokerUnreachable, NotFound, PortError, Refused, Unreadable


def answering(status: int, body: str = "", headers: dict[str, str] | None = None) -> Any:
    """A broker that answers everything with this."""
    return httpx.MockTransport(lambda _: httpx.Response(status, text=body, headers=headers))


def with_namespace(status: int) -> Any:
    """A broker that says the quota of a namespace, no default, and to all other questions this."""

    def answer(request: httpx.Request) -> httpx.Response:
        if "/namespaces/" in request.url.path:
            return httpx.Response(200, json={"message_age": {"limitTime": 7}})
        if request.url.path.endswith("/configuration/runtime"):
            return httpx.Response(200, json={})
        return httpx.Response(status)

    return httpx.MockTransport(answer)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (307, NotFound),
        (404, NotFound),
        (401, Refused),
        (403, Refused),
        (405, Refused),
        (414, Refused),
        (429, BrokerUnreachable),
        (500, BrokerUnreachable),
        (503, BrokerUnreachable),
    ],
)
async def test_a_status_says_what_kind_of_no_it_is(status: int, error: type[Exception]) -> None:
    """Another owner's topic is not here; what is forbidden stays forbidden; the rest may pass."""
    async with HttpBacklogSource("http://broker", transport=answering(status)) as source:
        with pytest.raises(error, match=str(status)):
            await source.storage("persistent://a/b/c")


@pytest.mark.parametrize(
    "body",
    [
        *("", "{", "[]", "null", '{"ledgers": 1}', '{"cursors": {}}'),
        pytest.param("[" * 100_000, id="brackets"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_no_answer(body: str) -> None:
    """It is named, and nothing else fails by it."""
    async with HttpBacklogSource("http://broker", transport=answering(200, body)) as source:
        with pytest.raises(BrokerUnreachable):
            await source.storage("persistent://a/b/c")
        with pytest.raises(BrokerUnreachable):
            await source.glance("persistent://a/b/c")
        with pytest.raises(BrokerUnreachable):
            await source.closed_ms("persistent://a/b/c")
    async with HttpBacklogSource("http://broker", transport=answering(200, body)) as source:
        if body not in ("{", ""):
            return
        with pytest.raises(BrokerUnreachable):
            await source.summaries()


async def test_a_topic_whose_name_fits_into_no_request_is_refused() -> None:
    """A client can name one so: the broker would be left alone after ten of them otherwise."""
    async with HttpBacklogSource("http://broker", transport=answering(200)) as source:
        with pytest.raises(Refused, match=r"GET .*/admin/v2/persistent/a/b/xxx") as caught:
            await source.glance(f"persistent://a/b/{'x' * 70_000}")
    assert len(str(caught.value)) < 500


async def test_a_timeout_is_unreachable() -> None:
    """It does not mean that the topic is gone."""

    def hang(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow")

    transport = httpx.MockTransport(hang)
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        with pytest.raises(BrokerUnreachable, match="ReadTimeout"):
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


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({}, BrokerUnreachable),
        ({"X-Pulsar-publish-time": "yesterday"}, Unreadable),
        ({"X-Pulsar-publish-time": "292278994-08-17T07:12:55.807Z"}, Unreadable),
    ],
)
async def test_an_entry_without_a_publish_time_is_told(
    headers: dict[str, str], error: type[PortError]
) -> None:
    """No age is made up; a producer that chose an absurd one is no fault of the broker."""
    async with HttpBacklogSource("http://b", transport=answering(200, "", headers)) as source:
        with pytest.raises(error, match="publish time"):
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
        with pytest.raises(BrokerUnreachable, match="explode"):
            await source.quota("persistent://a/b/c")


def with_quotas(
    topic: object, namespace: object, configuration: object, asked: list[str]
) -> httpx.MockTransport:
    """A broker that answers with these, and notes what it is asked."""
    answers = {
        "/persistent/a/b/c/backlogQuotaMap": topic,
        "/namespaces/a/b/backlogQuotaMap": namespace,
        "/brokers/configuration/runtime": configuration,
        "/broker-stats/topics": {},
    }

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url).removeprefix("http://broker/admin/v2"))
        return httpx.Response(200, json=answers[asked[-1]])

    return httpx.MockTransport(answer)


SIZE = {"destination_storage": {"limitSize": 5, "policy": "producer_exception"}}
NO_SIZE = {"destination_storage": {"limitSize": -1}}
AGE = {"message_age": {"limitTime": 7}}
DEFAULTS = {
    "backlogQuotaDefaultLimitGB": "-1.0",
    "backlogQuotaDefaultLimitBytes": "50",
    "backlogQuotaDefaultLimitSecond": "70",
    "backlogQuotaDefaultRetentionPolicy": "consumer_backlog_eviction",
}
EVICTS = {"size_policy": QuotaPolicy.EVICT, "age_policy": QuotaPolicy.EVICT}


@pytest.mark.parametrize(
    ("topic", "namespace", "configuration", "quota", "questions"),
    [
        (SIZE | AGE, {}, {}, BacklogQuota(5, 7, QuotaPolicy.REFUSE), 1),
        (AGE, SIZE, DEFAULTS, BacklogQuota(5, 7, QuotaPolicy.REFUSE), 2),
        (NO_SIZE, SIZE | AGE, DEFAULTS, BacklogQuota(None, 7), 2),
        ({}, AGE, DEFAULTS, BacklogQuota(50, 7, QuotaPolicy.EVICT), 3),
        ({}, {}, DEFAULTS, BacklogQuota(50, 70, **EVICTS), 3),
        ({}, {}, DEFAULTS | {"backlogQuotaDefaultLimitGB": "1.5"},
         BacklogQuota(3 << 29, 70, **EVICTS), 3),
        ({}, {}, {"backlogQuotaDefaultLimitBytes": "-1"}, BacklogQuota(), 3),
    ],
)  # fmt: skip
async def test_each_type_is_the_topics_or_else_the_namespaces_or_else_the_default(
    topic: object, namespace: object, configuration: object, quota: BacklogQuota, questions: int
) -> None:
    """The broker is not asked to combine them: it would wait on the thread of its metadata store."""
    asked: list[str] = []
    transport = with_quotas(topic, namespace, configuration, asked)
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        assert await source.quota("persistent://a/b/c") == quota
    assert len(asked) == questions
    assert not any("applied" in each for each in asked)


async def test_the_brokers_defaults_are_asked_for_once_in_a_check() -> None:
    """They change with a restart."""
    asked: list[str] = []
    configuration: dict[str, str] = dict(DEFAULTS)
    transport = with_quotas({}, {}, configuration, asked)
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        topics = ["persistent://a/b/c"] * 5
        await asyncio.gather(*map(source.quota, topics))
        assert asked.count("/brokers/configuration/runtime") == 1
        configuration["backlogQuotaDefaultLimitSecond"] = "71"
        await source.summaries()
        assert (await source.quota(topics[0])).age_s == 71


@pytest.mark.parametrize(
    "configuration",
    [
        {"backlogQuotaDefaultLimitBytes": "many"},
        {"backlogQuotaDefaultLimitSecond": None},
        {"backlogQuotaDefaultLimitGB": "inf"},
        {"backlogQuotaDefaultRetentionPolicy": "explode"},
    ],
)
async def test_defaults_that_make_no_sense_are_told(configuration: dict[str, Any]) -> None:
    """No quota is made up."""
    transport = with_quotas({}, {}, configuration, [])
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        with pytest.raises(BrokerUnreachable, match="configuration/runtime"):
            await source.quota("persistent://a/b/c")


async def test_a_partition_has_the_quota_of_its_topic() -> None:
    """Pulsar answers 412 to who asks for a partition's."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("persistent/a/b/c/backlogQuotaMap"):
            return httpx.Response(200, json={"message_age": {"limitTime": 7}})
        return httpx.Response(412 if "/persistent/" in request.url.path else 200, json={})

    transport = httpx.MockTransport(answer)
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        for name in ("c", "c-partition-12"):
            assert await source.quota(f"persistent://a/b/{name}") == BacklogQuota(age_s=7)


@pytest.mark.parametrize("answers", [True, False])
async def test_another_broker_is_asked_for_a_quota_that_is_its_to_say(answers: bool) -> None:
    """The owner of the first partition; when it is out of reach, the own broker is not."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "broker":
            if "/persistent/" not in request.url.path:
                return httpx.Response(200, json={})
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
    """The namespace's quota does not replace the topic's."""
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
    transport = with_namespace(404)
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        quota = await source.quota("persistent://a/b/c-partition-0")
    assert quota == BacklogQuota(age_s=7)


async def test_without_topic_policies_the_namespace_is_asked() -> None:
    """Pulsar answers 405 then."""
    transport = with_namespace(405)
    async with HttpBacklogSource("http://broker", transport=transport) as source:
        assert await source.quota("persistent://a/b/c") == BacklogQuota(age_s=7)


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
    """An age is not made up; 0 is what a broker says that does not know, or what a producer chose."""
    body = json.dumps(
        {"backlogSize": 9, "earliestMsgPublishTimeInBacklogs": 0, "subscriptions": {}}
    )
    async with HttpBacklogSource("http://broker", transport=answering(200, body)) as source:
        with pytest.raises(Unreadable, match="no publish time"):
            await source.glance("persistent://a/b/c")
