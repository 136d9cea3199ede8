"""Groups that are tried out, over the API."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from coordinator.core.events import TrafficCounted
from coordinator.core.model import MonitoringClass
from coordinator.core.traffic import Traffic
from tests.admin_api.world import World

GROUP_PATH = "/admin/v2/resourcegroups/orders"


async def test_a_group_is_tried_out_and_then_enforced(
    client: httpx.AsyncClient, world: World, orders: str
) -> None:
    """One field; Pulsar's tools see it only where it departs from Pulsar."""
    assert "enforcement" not in (await client.get(GROUP_PATH)).json()
    tried = await client.put(GROUP_PATH, json={"enforcement": "observe"})
    assert tried.status_code == 204
    assert (await client.get(GROUP_PATH)).json()["enforcement"] == "observe"
    assert (await world.store.read_group("orders")).group.limits.publish_messages == 3_000
    listed = (await client.get("/quota/v1/audit")).json()
    assert (listed[0]["before"]["enforcement"], listed[0]["after"]["enforcement"]) == (
        "enforce",
        "observe",
    )

    await client.put(GROUP_PATH, json={"enforcement": "enforce"})

    assert (await client.get("/quota/v1/groups/orders")).json()["enforcement"] == "enforce"


async def test_a_limit_is_tried_on_the_traffic_of_another_group(
    client: httpx.AsyncClient, orders: str
) -> None:
    """An empty name returns it to its own traffic."""
    path = "/admin/v2/resourcegroups/orders-next"
    body = {"publishRateInMsgs": 500, "enforcement": "observe", "observes": "orders"}
    assert (await client.put(path, json=body)).status_code == 204
    assert (await client.get("/quota/v1/groups/orders-next")).json()["observes"] == "orders"

    assert (await client.put(path, json={"observes": ""})).status_code == 204

    assert (await client.get("/quota/v1/groups/orders-next")).json()["observes"] == ""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"enforcement": "maybe"}, "enforcement: must be one of enforce, observe"),
        ({"observes": "bills"}, "observes: needs enforcement observe"),
        ({"enforcement": "observe", "observes": "orders"}, "observes: must name another group"),
        ({"enforcement": "observe", "observes": "a/b"}, "observes: must be a group's name"),
        ({"enforcement": "observe", "observes": 7}, "observes: must be a group's name"),
    ],
)
async def test_observing_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, orders: str, body: dict[str, Any], reason: str
) -> None:
    """Named, nothing is changed, and a preview says the same."""
    for refused in (
        await client.put(GROUP_PATH, json=body),
        await client.post("/quota/v1/preview/orders", json=body),
    ):
        assert refused.status_code == 400
        assert refused.json()["reason"].startswith(reason)
    assert (await client.get("/quota/v1/groups/orders")).json()["enforcement"] == "enforce"


async def test_what_would_have_waited_is_told_and_counted(world: World) -> None:
    """Usage and metrics have it; an enforced group has none."""

    class Views:
        """The world's own core answers."""

        def __init__(self) -> None:
            self.shown = world.views

        def __getattr__(self, name: str) -> Any:
            return getattr(self.shown, name)

        def group_view(self, group: str) -> Any:
            from coordinator.insight.model.explain import group_view  # noqa: PLC0415

            return group_view(world.core, group, world.clock.now_ns())

    async with world.client(views=Views()) as client:
        body = {"publishRateInMsgs": 1_000, "enforcement": "observe"}
        await client.put("/admin/v2/resourcegroups/tried", json=body)
        await client.put("/admin/v2/resourcegroups/firm", json={"publishRateInMsgs": 1_000})
        for _ in range(2):
            world.clock.advance(1_000_000_000)
            traffic = Traffic("tried", MonitoringClass.PUBLISH, messages=500, participants=1)
            world.handle(TrafficCounted((traffic,)))
        usage = {each["group"]: each for each in (await client.get("/quota/v1/usage")).json()}
        metrics = (await client.get("/metrics")).text

    assert usage["tried"]["enforcement"] == "observe"
    waited = usage["tried"]["wouldHold"]["Publish"]["messages"]
    assert waited > 900
    assert (usage["firm"]["enforcement"], usage["firm"]["wouldHold"]) == ("enforce", {})
    labels = 'group="tried",monitoring_class="Publish"'
    assert f"pulsar_quota_would_hold_messages_total{{{labels}}} {waited}.0" in metrics
    assert 'pulsar_quota_observed{group="firm"} 0.0' in metrics
    assert 'would_hold_messages_total{group="firm"' not in metrics
