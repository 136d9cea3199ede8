"""Backlogs over REST and as metrics: PIP-323's names, types, labels and units, and what it lacks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from coordinator.backlog.rules.guard import Enforcement
from coordinator.backlog.rules.model import BacklogQuota, QuotaPolicy
from coordinator.ports import BrokerUnreachable
from tests.admin_api.backlog_world import TOPIC, BacklogWorld
from tests.admin_api.test_metrics import scrape, value_of
from tests.admin_api.world import World

IDLE = "persistent://shop/orders/idle"
OF_TOPIC = {"cluster": "memory", "namespace": "shop/orders", "topic": TOPIC}
OURS = {"exporter": "pulsar-quota"}
LABELS = OF_TOPIC | OURS


@pytest.fixture
def backlog() -> BacklogWorld:
    """10 messages of 1 KiB, one a second, of which two are acknowledged; and a topic without any."""
    world = BacklogWorld({"shop/orders": Enforcement.ENFORCE})
    world.topic().quota = BacklogQuota(
        size_bytes=16 * 1024, age_s=40, size_policy=QuotaPolicy.EVICT
    )
    for _ in range(10):
        world.publish(1)
        world.pass_s(1)
    world.topic().acknowledged["a"] = 2
    world.topic(IDLE)
    return world


@pytest.fixture
async def client(world: World, backlog: BacklogWorld) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a sidecar that has looked once."""
    await backlog.watch.check()
    async with world.client(backlogs=backlog.backlogs()) as client:
        yield client


async def test_the_age_is_a_gauge_by_topic_in_whole_seconds(client: httpx.AsyncClient) -> None:
    """-1 for a topic without backlog, as in Pulsar."""
    family = (await scrape(client))["pulsar_storage_backlog_age_seconds"]
    assert family.type == "gauge"
    assert value_of(family, **LABELS) == 8
    assert value_of(family, **LABELS | {"topic": IDLE}) == -1


async def test_evictions_are_counters_by_topic_and_type_and_by_broker(
    client: httpx.AsyncClient, backlog: BacklogWorld
) -> None:
    """From 0 on, so that the first one is an increase."""
    families = await scrape(client)
    by_topic = families["pulsar_storage_backlog_quota_exceeded_evictions"]
    by_broker = families["pulsar_broker_storage_backlog_quota_exceeded_evictions"]
    assert (by_topic.type, by_broker.type) == ("counter", "counter")
    for quota_type in ("size", "time"):
        assert value_of(by_topic, **LABELS, quota_type=quota_type) == 0
        assert value_of(by_broker, cluster="memory", **OURS, quota_type=quota_type) == 0
    backlog.publish(20)
    await backlog.enforcement.look()
    families = await scrape(client)
    by_topic = families["pulsar_storage_backlog_quota_exceeded_evictions"]
    by_broker = families["pulsar_broker_storage_backlog_quota_exceeded_evictions"]
    assert value_of(by_topic, **LABELS, quota_type="size") == 1
    assert value_of(by_topic, **LABELS, quota_type="time") == 0
    assert value_of(by_broker, cluster="memory", **OURS, quota_type="size") == 1
    names = {sample.name for family in (by_topic, by_broker) for sample in family.samples}
    assert names == {
        "pulsar_storage_backlog_quota_exceeded_evictions_total",
        "pulsar_broker_storage_backlog_quota_exceeded_evictions_total",
    }


async def test_the_duration_of_checks_is_a_histogram_with_pulsars_buckets(
    client: httpx.AsyncClient,
) -> None:
    """One observation per check."""
    family = (await scrape(client))["pulsar_storage_backlog_quota_check_duration_seconds"]
    assert family.type == "histogram"
    bounds = [s.labels["le"] for s in family.samples if s.name.endswith("_bucket")]
    assert bounds == ["5.0", "10.0", "30.0", "60.0", "300.0", "+Inf"]
    counts = [s.value for s in family.samples if s.name.endswith("_count")]
    assert counts == [1]


@pytest.mark.shows("pip-323/no-namespace-age", "pip-323/evictions-namespace")
async def test_without_topic_level_ages_are_left_out_and_evictions_told_by_namespace(
    world: World, backlog: BacklogWorld
) -> None:
    """Ages cannot be added up; evictions can."""
    await backlog.watch.check()
    backlog.publish(20)
    await backlog.enforcement.look()
    async with world.client(backlogs=backlog.backlogs(by_topic=False)) as client:
        families = await scrape(client)
    assert families["pulsar_storage_backlog_age_seconds"].samples == []
    family = families["pulsar_storage_backlog_quota_exceeded_evictions"]
    labels = {"cluster": "memory", "namespace": "shop/orders", "quota_type": "size"} | OURS
    assert value_of(family, **labels) == 1
    assert all("topic" not in sample.labels for sample in family.samples)


@pytest.mark.shows("pip-323/usage-time")
async def test_the_used_part_of_a_quota_is_told_by_type(client: httpx.AsyncClient) -> None:
    """Only where there is a quota."""
    family = (await scrape(client))["pulsar_quota_backlog_used_ratio"]
    assert value_of(family, **OF_TOPIC, quota_type="size") == 0.5
    assert value_of(family, **OF_TOPIC, quota_type="time") == 0.2
    assert all(sample.labels["topic"] == TOPIC for sample in family.samples)


async def test_a_sidecar_that_does_not_look_has_no_such_metrics(world: World) -> None:
    """The API says how to change that."""
    async with world.client() as client:
        assert not [name for name in await scrape(client) if "backlog" in name]
        answer = await client.get("/quota/v1/backlog")
    assert answer.status_code == 404
    assert "backlog_check_seconds" in answer.json()["reason"]


async def test_topics_are_listed_by_the_used_part_of_their_quota(
    client: httpx.AsyncClient, backlog: BacklogWorld
) -> None:
    """Topics without a backlog only count."""
    other = "persistent://shop/orders/other"
    backlog.publish(3, other)
    await backlog.watch.check()
    body = (await client.get("/quota/v1/backlog")).json()
    assert [row["topic"] for row in body["rows"]] == [TOPIC, other]
    assert (body["topics"], body["withBacklog"], body["exceeded"]) == (3, 2, 0)
    row = body["rows"][0]
    assert row["used"] == 0.5
    assert row["backlogQuotaPolicy"]["size"] == "consumer_backlog_eviction"
    assert row["enforcement"] == "enforce"
    one = (await client.get("/quota/v1/backlog?limit=1&order=topic")).json()
    assert len(one["rows"]) == 1


async def test_a_topic_in_full_tells_every_subscription_and_the_history(
    client: httpx.AsyncClient, backlog: BacklogWorld
) -> None:
    """The four fields of PIP-323, and what it lacks."""
    backlog.topic().acknowledged["b"] = 5
    backlog.pass_s(50)
    await backlog.watch.check()
    path = "/quota/v1/persistent/shop/orders/incoming/backlog"
    body = (await client.get(path)).json()
    assert body["backlogQuotaLimitSize"] == 16 * 1024
    assert body["backlogQuotaLimitTime"] == 40
    assert body["oldestBacklogMessageAgeSeconds"] == 58
    assert body["oldestBacklogMessageSubscriptionName"] == "a"
    assert body["exceeded"] == "time"
    assert [(s["subscription"], s["ageSeconds"]) for s in body["subscriptions"]] == [
        ("a", 58.0),
        ("b", 55.0),
    ]
    (exceedance,) = body["history"]
    assert (exceedance["quotaType"], exceedance["peak"]) == ("time", 58)
    assert exceedance["endedAtMs"] is None


async def test_a_topic_of_another_broker_is_not_found_with_advice(
    client: httpx.AsyncClient,
) -> None:
    """Its owner's sidecar knows it."""
    answer = await client.get("/quota/v1/persistent/shop/orders/elsewhere/backlog")
    assert answer.status_code == 404
    assert "owner" in answer.json()["reason"]


async def test_a_topic_that_is_gone_since_the_check_is_not_found(
    client: httpx.AsyncClient, backlog: BacklogWorld
) -> None:
    """It is asked for at this moment."""
    del backlog.source.topics[TOPIC]
    answer = await client.get("/quota/v1/persistent/shop/orders/incoming/backlog")
    assert answer.status_code == 404


async def test_a_broker_that_does_not_answer_is_a_503(
    client: httpx.AsyncClient, backlog: BacklogWorld
) -> None:
    """The answer has the reason."""
    backlog.source.trouble["storage"] = BrokerUnreachable("timed out")
    answer = await client.get("/quota/v1/persistent/shop/orders/incoming/backlog")
    assert answer.status_code == 503
    assert "timed out" in answer.json()["reason"]


async def test_what_was_done_is_listed_the_latest_first(
    client: httpx.AsyncClient, backlog: BacklogWorld
) -> None:
    """An entry has the state before and the result."""
    backlog.publish(20)
    await backlog.enforcement.look()
    (action,) = (await client.get("/quota/v1/backlog/actions")).json()
    assert (action["deed"], action["quotaType"], action["dryRun"]) == ("evict", "size", False)
    assert action["value"] == 28 * 1024
