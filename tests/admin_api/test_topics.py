"""Limits of single topics, with paths and bodies of Pulsar's topic policies; the gate's own views."""

from __future__ import annotations

import json
from dataclasses import replace

import httpx
import pytest

from admin_api.changes import topic_limits as changing
from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.topics import TopicName
from coordinator.insight.model.gate_views import GateLimits, PartitionRatesView, TopicLimitView
from tests.admin_api.keys import access, token
from tests.admin_api.world import World

TOPIC = "/quota/v1/persistent/shop/eu/orders"
NAME = TopicName("persistent", "shop", "eu", "orders")
PUBLISH = {"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": -1}
DISPATCH = {
    "dispatchThrottlingRateInMsg": -1,
    "dispatchThrottlingRateInByte": 4096,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}


async def test_rates_are_set_read_and_lifted_as_in_pulsar(
    client: httpx.AsyncClient, world: World
) -> None:
    """POST 204, GET the same again, DELETE 204; 204 also when there is nothing to read."""
    assert (await client.get(f"{TOPIC}/publishRate")).status_code == 204
    for path, body in (("publishRate", PUBLISH), ("dispatchRate", DISPATCH)):
        assert (await client.post(f"{TOPIC}/{path}", json=body)).status_code == 204
        assert (await client.get(f"{TOPIC}/{path}")).json() == body
    assert (await world.topic_limits.read(NAME)).limits == Rates(
        publish_messages=100, dispatch_bytes=4096
    )

    assert (await client.delete(f"{TOPIC}/publishRate")).status_code == 204
    assert (await world.topic_limits.read(NAME)).limits == Rates(dispatch_bytes=4096)
    assert (await client.delete(f"{TOPIC}/dispatchRate")).status_code == 204
    assert (await client.delete(f"{TOPIC}/dispatchRate")).status_code == 204
    assert world.topic_limits.known() == {}


async def test_a_body_replaces_both_of_its_rates(client: httpx.AsyncClient) -> None:
    """An absent rate is unlimited, as in Pulsar; "12" is 12."""
    await client.post(f"{TOPIC}/publishRate", json=PUBLISH)
    body = {"publishThrottlingRateInByte": "12"}

    await client.post(f"{TOPIC}/publishRate", json=body)

    assert (await client.get(f"{TOPIC}/publishRate")).json() == {
        "publishThrottlingRateInMsg": -1,
        "publishThrottlingRateInByte": 12,
    }


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("publishRate", {"publishThrottlingRateInMsg": -5}, "publishThrottlingRateInMsg: must be"),
        ("publishRate", {"publishThrottlingRateInByte": 1.5}, "publishThrottlingRateInByte: must"),
        ("dispatchRate", {"dispatchThrottlingRateInMsg": "x"}, "dispatchThrottlingRateInMsg: must"),
        ("dispatchRate", {"ratePeriodInSecond": 2}, "ratePeriodInSecond: must be 1: rates here"),
        ("dispatchRate", {"relativeToPublishRate": True}, "relativeToPublishRate: must be false"),
        ("publishRate", [], "The body is an array"),
    ],
)
async def test_bad_rates_are_refused_by_field(
    client: httpx.AsyncClient, world: World, path: str, body: object, reason: str
) -> None:
    """The limits stay."""
    refused = await client.post(f"{TOPIC}/{path}", content=json.dumps(body))

    assert refused.status_code == 400
    assert refused.json()["reason"].startswith(reason)
    assert world.topic_limits.known() == {}


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("persistent/shop/eu/orders-partition-3", 400, "is one partition: limit persistent://"),
        ("persistent/shop/eu/" + "x" * 300, 400, "is not a topic"),
        ("persistent/shop/eu/%FF", 400, "percent-encoded UTF-8"),
        ("temporary/shop/eu/orders", 400, "domain: must be 'persistent', 'non"),
        ("segment/shop/eu/orders", 400, "domain: must be 'persistent', 'non"),
        ("persistent/sh op/eu/orders", 412, "Tenant name is not valid"),
        ("persistent/shop/e%2Fu/orders", 412, "Namespace name is not valid"),
    ],
)
async def test_what_is_no_topic_is_refused(
    client: httpx.AsyncClient, path: str, status: int, reason: str
) -> None:
    """The reason says what to write instead."""
    for answer in (
        await client.post(f"/quota/v1/{path}/publishRate", json=PUBLISH),
        await client.get(f"/quota/v1/{path}/publishRate"),
    ):
        assert (answer.status_code, reason in answer.json()["reason"]) == (status, True)


async def test_topics_are_listed_in_pages(client: httpx.AsyncClient) -> None:
    """The list is sorted by name and links to the next page."""
    for topic in ("c", "a", "b"):
        path = f"/quota/v1/non-persistent/shop/eu/{topic}/dispatchRate"
        await client.post(path, json=DISPATCH)

    first = await client.get("/quota/v1/topics", params={"limit": 2})
    link = first.headers["link"].partition(";")[0].strip("<>")
    rest = await client.get(link)

    names = [row["topic"] for row in (*first.json(), *rest.json())]
    assert names == [f"non-persistent://shop/eu/{topic}" for topic in "abc"]
    assert rest.json()[0]["dispatchRateInBytes"] == 4096
    assert "link" not in rest.headers


async def test_only_admins_of_the_tenant_change_limits(world: World) -> None:
    """Pulsar's own topic policies have the same rule; every holder of a token may read."""
    path = "/quota/v1/persistent/public/default/orders/publishRate"
    for role, status in (("somebody", 403), ("alice", 204), ("admin", 204)):
        async with world.client(token(role), access=access()) as client:
            answer = await client.post(path, json=PUBLISH)
            assert answer.status_code == status
            assert (await client.get("/quota/v1/topics")).status_code == 200


async def test_too_many_topics_are_refused(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has limits can still be changed."""
    monkeypatch.setattr(changing, "TOPIC_LIMITS_MAX", 1)
    await client.post(f"{TOPIC}/publishRate", json=PUBLISH)

    refused = await client.post(f"{TOPIC}2/publishRate", json=PUBLISH)

    assert refused.status_code == 409
    assert refused.json()["reason"].startswith("1 topics have limits already; remove one")
    assert (await client.post(f"{TOPIC}/dispatchRate", json=DISPATCH)).status_code == 204


async def test_a_change_is_rolled_back(client: httpx.AsyncClient, world: World) -> None:
    """Set, changed, removed: each is undone once nothing came later."""
    await client.post(f"{TOPIC}/publishRate", json=PUBLISH)
    await client.post(f"{TOPIC}/publishRate", json={"publishThrottlingRateInMsg": 5})
    await client.delete(f"{TOPIC}/publishRate")
    trail = (await client.get("/quota/v1/audit")).json()
    assert trail[0]["subject"] == "topics/persistent://shop/eu/orders"
    assert (trail[0]["before"]["publishRateInMsgs"], trail[0]["after"]) == (5, None)

    early = await client.post("/quota/v1/audit/0/rollback")
    assert early.status_code == 409
    for entry, expected in ((2, Rates(publish_messages=5)), (1, Rates(publish_messages=100))):
        assert (await client.post(f"/quota/v1/audit/{entry}/rollback")).status_code == 204
        assert (await world.topic_limits.read(NAME)).limits == expected
    assert (await client.post("/quota/v1/audit/0/rollback")).status_code == 204
    assert world.topic_limits.known() == {}


async def test_the_gate_tells_its_limits(client: httpx.AsyncClient, world: World) -> None:
    """It tells those of the broker, of subscriptions, and of each partition in use here."""
    parts = tuple(
        PartitionRatesView.limits(Rates(publish_messages=4 - index), partition=index)
        for index in range(2)
    )
    view = TopicLimitView.limits(
        Rates(publish_messages=7), topic="persistent://shop/eu/orders", partitions=2, parts=parts
    )
    world.gate.own_limits = GateLimits(Rates(dispatch_bytes=9), 5, 30, (view,))

    shown = (await client.get("/quota/v1/gate/limits")).json()

    assert shown["broker"]["dispatchRateInBytes"] == 9
    assert (shown["subscribeRatePerConsumer"], shown["subscribeRatePeriodSeconds"]) == (5, 30)
    (topic,) = shown["topics"]
    assert (topic["topic"], topic["partitions"], topic["publishRateInMsgs"]) == (view.topic, 2, 7)
    told = [(part["partition"], part["publishRateInMsgs"]) for part in topic["parts"]]
    assert told == [(0, 4), (1, 3)]
    assert shown["topicsLeftOut"] == 0


async def test_a_scalable_topic_is_limited_as_a_whole(
    client: httpx.AsyncClient, world: World
) -> None:
    """The limit is of topic://; no path leads to a segment's own."""
    path = "/quota/v1/topic/shop/eu/orders/publishRate"
    assert (await client.post(path, json=PUBLISH)).status_code == 204
    name = TopicName("topic", "shop", "eu", "orders")
    assert (await world.topic_limits.read(name)).limits == Rates(publish_messages=100)

    segment = "/quota/v1/segment/shop/eu/orders%2F0000-7fff-0/publishRate"
    answer = await client.post(segment, json=PUBLISH)

    assert answer.status_code >= 400
    assert list(world.topic_limits.known()) == ["topic://shop/eu/orders"]


SCALABLE = "topic:%2F%2Fshop%2Feu%2Forders"


async def test_a_scalable_topics_limit_is_told_like_a_groups(
    client: httpx.AsyncClient, world: World
) -> None:
    """Its usage, local limits and certificate stand by its name, in the lists as well."""
    world.views.topic_groups = (ResourceGroup("topic://shop/eu/orders", Rates(100)),)

    one = await client.get(f"/quota/v1/usage/{SCALABLE}")
    listed = (await client.get("/quota/v1/limits")).json()

    assert one.json()["group"] == "topic://shop/eu/orders"
    assert [each["group"] for each in listed] == ["topic://shop/eu/orders"]
    assert (await client.get(f"/quota/v1/history/{SCALABLE}")).status_code == 200


async def test_a_scalable_topics_group_is_told_in_full(
    client: httpx.AsyncClient, world: World
) -> None:
    """It has the settings of a new group and the version of its limit."""
    await client.post("/quota/v1/topic/shop/eu/orders/publishRate", json=PUBLISH)
    assert (await client.get(f"/quota/v1/groups/{SCALABLE}")).status_code == 404
    world.views.topic_groups = (ResourceGroup("topic://shop/eu/orders", Rates(100)),)

    told = (await client.get(f"/quota/v1/groups/{SCALABLE}")).json()

    limit = world.topic_limits.known()["topic://shop/eu/orders"]
    assert (told["publishRateInMsgs"], told["law"]) == (100, "max-min")
    assert told["configurationVersion"] == limit.version


@pytest.mark.parametrize(
    ("name", "status"),
    [
        (SCALABLE, 404),  # without a limit it is no group
        ("topic:%2F%2Fshop%2Feu", 400),
        ("topic:%2F%2Fshop%2Feu%2F", 400),
        ("segment:%2F%2Fshop%2Feu%2Forders%2F0000-ffff-0", 400),
        ("persistent:%2F%2Fshop%2Feu%2Forders", 400),
    ],
)
async def test_no_other_topic_is_told_as_a_group(
    client: httpx.AsyncClient, name: str, status: int
) -> None:
    """The answer names what is wrong with the name, or that there is no such group."""
    for path in ("usage", "explain", "history", "decisions"):
        answer = await client.get(f"/quota/v1/{path}/{name}")
        assert answer.status_code == status, path
        assert "ResourceGroup" in answer.json()["reason"]


async def test_connections_are_told_on_demand(client: httpx.AsyncClient, world: World) -> None:
    """Those that hold most come first, and no more than the caller asks for."""
    (connection,) = world.gate.connected
    world.gate.connected = (connection, replace(connection, peer="10.1.2.3:4568"))

    (row,) = (await client.get("/quota/v1/gate/connections", params={"limit": 1})).json()

    assert row == {
        "peer": "10.1.2.3:4567",
        "role": "alice",
        "producers": 1,
        "consumers": 2,
        "heldFrames": 3,
        "heldBytes": 4,
        "unanswered": 5,
        "withheldPermits": 6,
        "throttles": {"topic limit": 7},
        "pausedFor": ["held bytes"],
    }
