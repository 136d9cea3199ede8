"""Alarms over the API, in the metrics and on the page's banner."""

from __future__ import annotations

import httpx

from coordinator.core.events import ConnectionChanged, ConnectionState, MembersChanged
from coordinator.core.model import Member
from tests.admin_api.world import World


async def lose_a_peer(world: World, seconds: int) -> None:
    """Remove broker-2 and let time pass."""
    own = Member("broker-1", 1)
    world.handle(ConnectionChanged(ConnectionState.CONNECTED))
    world.handle(MembersChanged((own, Member("broker-2", 1))))
    world.handle(MembersChanged((own,)))
    for _ in range(seconds + 1):
        await world.watch.look()
        world.clock.advance(1_000_000_000)


async def test_alarms_say_what_how_long_and_what_to_do(
    client: httpx.AsyncClient, world: World
) -> None:
    """Pending first."""
    await lose_a_peer(world, 5)
    (pending,) = (await client.get("/quota/v1/alarms")).json()
    assert (pending["alarm"], pending["state"], pending["ageMillis"]) == (
        "PeerLost",
        "pending",
        6_000,
    )

    await lose_a_peer(world, 10)
    (firing,) = (await client.get("/quota/v1/alarms")).json()

    assert (firing["state"], firing["severity"], firing["subject"]) == (
        "firing",
        "warning",
        "broker-2",
    )
    assert firing["text"] == "broker-2 is gone without saying so"
    assert firing["action"].startswith("Look at that broker")


async def test_a_firing_alarm_is_counted_and_needs_a_person(
    client: httpx.AsyncClient, world: World
) -> None:
    """The metrics name its kind, the overview its words, the journal when it began."""
    await lose_a_peer(world, 12)

    metrics = (await client.get("/metrics")).text
    assert 'pulsar_quota_alarms_firing{alarm="PeerLost"} 1.0' in metrics
    assert 'pulsar_quota_alarms_firing{alarm="BusSilent"} 0.0' in metrics
    attention = (await client.get("/quota/v1/overview")).json()["attention"]
    assert "broker-2 is gone without saying so" in attention
    assert world.watch.journal.notes()[-1].text.startswith("PeerLost: broker-2")


async def test_deliveries_are_counted(world: World) -> None:
    """Without a receiver there are none."""

    class Telling:
        delivered, failed = 3, 2

    async with world.client(alarming=Telling()) as client:
        told = (await client.get("/metrics")).text
    async with world.client() as client:
        silent = (await client.get("/metrics")).text

    assert "pulsar_quota_alarm_messages_delivered_total 3.0" in told
    assert "pulsar_quota_alarm_messages_failed_total 2.0" in told
    assert "pulsar_quota_alarm_messages_delivered_total 0.0" in silent
