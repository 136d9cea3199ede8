"""Clients that look a topic up again and again, and never open it."""

from __future__ import annotations

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.gate.engine.lookup_trails import LOOKUPS_MIN, TRAILS_MAX, LookupTrails
from coordinator.gate.protocol.connect_policy import Client
from coordinator.insight.model.gate_views import StrandedClient
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench

HOST = "10.0.0.9"


def lookup(topic: str = TOPIC) -> bytes:
    """LOOKUP."""
    return peer.command(23, (1, topic), (2, 1), (3, 0))


@pytest.mark.parametrize("opened", [peer.producer(TOPIC), peer.subscribe(TOPIC)])
def test_a_trail_ends_when_a_client_of_its_host_opens_the_topic(
    bench: Bench, opened: bytes
) -> None:
    """On another connection, as stock clients do it."""
    asking, opening = bench.client(), bench.client()
    for client in (asking, opening):
        client.session.connected(Client(HOST))
    for _ in range(LOOKUPS_MIN):
        asking.sends(lookup())
    trails = bench.counters.trails
    assert trails.stranded(bench.now_ns) == (StrandedClient(HOST, TOPIC, LOOKUPS_MIN),)

    opening.opens(opened)
    assert trails.stranded(bench.now_ns) == ()


def test_a_client_that_asks_less_often_or_gave_up_is_not_stranded() -> None:
    """A lookup fails now and then, and an old trail says nothing of now."""
    trails = LookupTrails()
    for _ in range(LOOKUPS_MIN - 1):
        trails.looked_up(HOST, TOPIC, 0)
    assert trails.stranded(0) == ()
    trails.looked_up(HOST, TOPIC, 0)
    assert trails.stranded(0)
    assert trails.stranded(120 * NANOS_PER_SECOND) == ()


def test_names_of_any_kind_and_number_take_a_bounded_room() -> None:
    """The trail that was followed longest ago is forgotten; no broker serves the odd names."""
    trails = LookupTrails()
    for topic in ("", "persistent://", "a" * 5_000, f"persistent://t/n/{'a' * 2_000}", "\0"):
        for _ in range(LOOKUPS_MIN):
            trails.looked_up(HOST, topic, 0)
            trails.looked_up("", TOPIC, 0)
    for number in range(3 * TRAILS_MAX):
        for _ in range(LOOKUPS_MIN):
            trails.looked_up(HOST, f"persistent://t/n/t-{number}", 0)
    found = trails.stranded(0)
    assert len(found) == TRAILS_MAX
    assert {each.topic for each in found} == {
        f"persistent://t/n/t-{number}" for number in range(2 * TRAILS_MAX, 3 * TRAILS_MAX)
    }


def test_a_lookup_of_bytes_that_are_no_text_passes_as_before(bench: Bench) -> None:
    """The broker judges the name; the trail takes it as it can be read."""
    client = bench.client()
    client.session.connected(Client(HOST))
    odd = peer.command(23, (1, b"\xff\xfe"), (2, 1), (3, 0))
    assert client.sends(*[odd] * LOOKUPS_MIN) == [odd] * LOOKUPS_MIN


def test_the_longest_trail_comes_first() -> None:
    """The doctor shows a few."""
    trails = LookupTrails()
    for times, topic in ((LOOKUPS_MIN, "persistent://t/n/a"), (9, "persistent://t/n/b")):
        for _ in range(times):
            trails.looked_up(HOST, topic, 0)
    assert [each.lookups for each in trails.stranded(0)] == [9, LOOKUPS_MIN]
