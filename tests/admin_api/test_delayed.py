"""Delayed messages over REST and in the metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from coordinator.insight.model.delayed import DelayedTopic, DelayedView
from tests.admin_api.test_metrics import scrape, value_of
from tests.admin_api.world import World, usage_row

SPECIFICATION = "/quota/v1/cluster/specification"
TOPIC = "persistent://shop/orders/later"
COUNTED = DelayedView(
    1_200, 300, (DelayedTopic(f"{TOPIC}-fine", 893, 0), DelayedTopic(TOPIC, 300, 300, ("audit",)),
                 DelayedTopic(f"non-{TOPIC}", 7, 0))
)  # fmt: skip


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a sidecar that counts delayed messages apart."""
    world.gate.counted_apart = COUNTED
    groups = {"cluster_group": "cluster", "delayed_group": "late"}
    async with world.client(**groups) as client:
        yield client


async def test_the_rate_of_delayed_messages_is_part_of_the_specification(
    client: httpx.AsyncClient, world: World
) -> None:
    """It becomes the limit of their group, and above four fifths more is advised."""
    body = {"rateInMsgs": 40_000, "delayedRateInMsgs": 500}
    assert (await client.put(SPECIFICATION, json=body)).status_code == 204
    group = (await client.get("/admin/v2/resourcegroups/late")).json()
    assert (group["publishRateInMsgs"], group["dispatchRateInMsgs"]) == (500, -1)
    world.views.rows = (usage_row("broker-1", admitted=450, limit=500, throttled_permille=0),)
    found = (await client.get(SPECIFICATION)).json()
    assert (found["delayedRateInMsgs"], found["delayedUsed"]) == (500, 450)
    assert "Delayed messages use 90 % of their 500 messages/s" in found["delayedAdvice"]


async def test_a_specification_that_does_not_name_it_leaves_it_as_it_was(
    client: httpx.AsyncClient,
) -> None:
    """Unlimited at first; -1 ends a limit."""
    await client.put(SPECIFICATION, json={"rateInMsgs": 10})
    assert (await client.get(SPECIFICATION)).json()["delayedRateInMsgs"] == -1
    await client.put(SPECIFICATION, json={"rateInMsgs": 10, "delayedRateInMsgs": 0})
    await client.put(SPECIFICATION, json={"rateInMsgs": 20})
    assert (await client.get(SPECIFICATION)).json()["delayedRateInMsgs"] == 0
    await client.put(SPECIFICATION, json={"rateInMsgs": 20, "delayedRateInMsgs": -1})
    assert (await client.get(SPECIFICATION)).json()["delayedRateInMsgs"] == -1


@pytest.mark.parametrize("rate", [-2, 0.5, "many", 2**63])
async def test_a_rate_that_is_none_is_refused_by_name_and_changes_nothing(
    client: httpx.AsyncClient, rate: object
) -> None:
    """The API creates neither of the two groups."""
    answer = await client.put(SPECIFICATION, json={"rateInMsgs": 10, "delayedRateInMsgs": rate})
    assert answer.status_code == 400
    assert "delayedRateInMsgs" in answer.json()["reason"]
    for name in ("cluster", "late"):
        assert (await client.get(f"/admin/v2/resourcegroups/{name}")).status_code == 404


async def test_where_they_are_not_counted_apart_it_says_how_to_have_it(world: World) -> None:
    """The answer names a key of the configuration; nothing changes, and no metric appears."""
    async with world.client(cluster_group="cluster") as client:
        body = {"rateInMsgs": 10, "delayedRateInMsgs": 5}
        refused = await client.put(SPECIFICATION, json=body)
        missing = await client.get("/quota/v1/gate/delayed")
        assert (refused.status_code, missing.status_code) == (400, 404)
        for answer in (refused, missing):
            assert "set delayed_group" in answer.json()["reason"]
        assert (await client.get("/admin/v2/resourcegroups/cluster")).status_code == 404
        assert not [name for name in await scrape(client) if "delayed" in name]


async def test_topics_with_a_time_of_delivery_in_vain_come_first(client: httpx.AsyncClient) -> None:
    """The answer says in words what is wrong with each."""
    found = (await client.get("/quota/v1/gate/delayed?limit=2")).json()
    assert (found["group"], found["messages"], found["due"]) == ("late", 1_200, 300)
    first, second = found["topics"]
    assert (first["topic"], first["due"], first["hastySubscriptions"]) == (TOPIC, 300, ["audit"])
    assert len(first["warnings"]) == 2
    assert "is not persistent" in second["warnings"][0]
    assert found["leftOut"] == 893


async def test_explain_says_what_counts_against_the_limit(
    client: httpx.AsyncClient, world: World
) -> None:
    """For the own broker and the group of delayed messages, and for no other."""
    world.throttle_orders()
    for name in ("late", "orders"):
        await client.put(f"/admin/v2/resourcegroups/{name}", json={"publishRateInMsgs": 5})
    for (_, dimension, broker), view in list(world.views.explanations.items()):
        world.views.explanations["late", dimension, broker] = replace(view, group="late")

    async def told(path: str) -> list[str]:
        return list((await client.get(f"/quota/v1/explain/{path}")).json()["delayed"])

    counted, *warnings = await told("late")
    assert "Messages with deliver_at_time count here, whatever its value: 1,200" in counted
    assert len(warnings) == 3
    assert await told("orders") == await told("late?broker=broker-2") == []


async def test_the_metrics_tell_how_many_there_were_and_how_many_in_vain(
    client: httpx.AsyncClient,
) -> None:
    """Admitted and held messages, and the limit, are the group's."""
    families = await scrape(client)
    assert value_of(families["pulsar_quota_gate_delayed_messages"]) == 1_200
    vain = families["pulsar_quota_gate_delayed_without_effect"]
    assert value_of(vain, reason="due") == 300
    assert value_of(vain, reason="topic not persistent") == 7
    assert value_of(families["pulsar_quota_gate_delayed_hasty_subscriptions"]) == 1
