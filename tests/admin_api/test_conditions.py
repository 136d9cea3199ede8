"""Conditions over the API, in the metrics and on the page's banner."""

from __future__ import annotations

import httpx

from coordinator.core.events import ConnectionChanged, ConnectionState, MembersChanged
from coordinator.core.model import Member
from coordinator.insight.model.conditions import MAX_PER_KIND, Condition, ConditionKind, Conditions
from tests.admin_api.world import World


async def lose_a_peer(world: World) -> None:
    """Remove broker-2, and look."""
    own = Member("broker-1", 1)
    world.handle(ConnectionChanged(ConnectionState.CONNECTED))
    world.handle(MembersChanged((own, Member("broker-2", 1))))
    world.handle(MembersChanged((own,)))
    await world.watch.look()


async def test_conditions_say_what_holds_and_what_to_do(
    client: httpx.AsyncClient, world: World
) -> None:
    """Until it holds no more."""
    await lose_a_peer(world)
    (found,) = (await client.get("/quota/v1/conditions")).json()
    assert found == {
        "condition": "PeerLost",
        "subject": "broker-2",
        "severity": "warning",
        "sentence": "broker-2 is gone without saying so",
        "remedy": "Look at that broker and its sidecar; the others have its share.",
    }

    world.handle(MembersChanged((Member("broker-1", 1), Member("broker-2", 2))))
    await world.watch.look()
    assert (await client.get("/quota/v1/conditions")).json() == []


async def test_a_condition_is_counted_and_needs_a_person(
    client: httpx.AsyncClient, world: World
) -> None:
    """The metric names its kind, the overview its sentence."""
    await lose_a_peer(world)

    metrics = (await client.get("/metrics")).text
    assert 'pulsar_quota_condition{condition="PeerLost"} 1.0' in metrics
    assert 'pulsar_quota_condition{condition="BusSilent"} 0.0' in metrics
    attention = (await client.get("/quota/v1/overview")).json()["attention"]
    assert "broker-2 is gone without saying so" in attention


async def test_the_effects_of_limits_need_no_person(
    client: httpx.AsyncClient, world: World
) -> None:
    """They are in the list alone; the banner tells a silent bus by the state of the sidecar."""
    world.watch.conditions = Conditions.of(
        [
            Condition(ConditionKind.THROTTLED, "orders", "clients of orders wait"),
            Condition(ConditionKind.BUS_SILENT, "broker-1", "it hears nothing"),
            Condition(ConditionKind.NATIVE_INEXACT, "broker-1 clock", "clocks are apart"),
        ]
    )
    attention = (await client.get("/quota/v1/overview")).json()["attention"]

    assert "clocks are apart" in attention
    assert not {"clients of orders wait", "it hears nothing"} & set(attention)


async def test_the_metric_counts_more_than_are_listed(
    client: httpx.AsyncClient, world: World
) -> None:
    """The list is bounded, the number is not."""
    world.watch.conditions = Conditions.of(
        Condition(ConditionKind.THROTTLED, f"g{number}", "waits")
        for number in range(MAX_PER_KIND + 1)
    )

    assert len((await client.get("/quota/v1/conditions")).json()) == MAX_PER_KIND
    metrics = (await client.get("/metrics")).text
    assert f'pulsar_quota_condition{{condition="Throttled"}} {MAX_PER_KIND + 1}.0' in metrics
