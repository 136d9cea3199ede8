"""No consumer leaves its limit: each way that was found, on the real cluster.

The group may be sent 50 messages a second; the client's own count is the judge.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from tests.attacks.conftest import BROKER, LIMIT, SLACK_S, Target
from tests.attacks.encodings import BIT_32, BIT_64, number, sub_message, tag
from tests.attacks.raw import ERROR, SUCCESS, RawClient
from tests.attacks.side_by_side import assert_count_held
from tests.gate import peer
from tests.integration.world import World

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("neighbour"), pytest.mark.verify]

SECONDS = 2.0


def deliveries(client: RawClient) -> int:
    """Messages that have come, all of them unbatched."""
    return client.counted(9)


@pytest.fixture
def filled(target: Target, cluster_port: int) -> Target:
    """The target's topic with more messages than the limit lets pass in a test."""
    with RawClient(cluster_port) as client:
        assert client.open_producer(target.topic)
        client.publish(0.5, rate=2000)
        assert client.wait_for({7}) is not None
    return target


@pytest.fixture
def cluster_port(target: Target) -> int:
    """The broker's own port."""
    return target.broker.broker_port


def assert_dispatch_held(client: RawClient, since: int, began_s: float, what: str) -> None:
    """No more was delivered than the limit allows."""
    took_s = time.monotonic() - began_s
    came = deliveries(client) - since
    assert came <= LIMIT * (took_s + SLACK_S), f"{what}: {came / took_s:.0f}/s of {LIMIT}"


def hidden_flows() -> dict[str, bytes]:
    """Permits for consumer 1 that a lenient decoder reads otherwise."""
    body = peer.message((1, 1), (2, 1000))
    return {
        "plain": peer.flow(1, 1000),
        "type twice": peer.frame(number(1, 19) + number(1, 11) + sub_message(11, body)),
        "overlong type": peer.frame(b"\x08\x8b\x00" + sub_message(11, body)),
        "id behind a 33-bit tag": peer.frame(
            number(1, 11) + sub_message(11, number(1, 1, high=True) + number(2, 1000))
        ),
        "two ids": peer.frame(
            number(1, 11) + sub_message(11, peer.message((1, 9), (1, 1), (2, 1000)))
        ),
        "id plus 2^64": peer.frame(
            number(1, 11) + sub_message(11, tag(1) + peer.varint(1 + BIT_64) + number(2, 1000))
        ),
        "2^31 - 1 permits": peer.flow(1, (1 << 31) - 1),
        "2^32 + 1000 permits": peer.flow(1, BIT_32 + 1000),
        "negative, then many": peer.flow(1, (1 << 64) - 5) + peer.flow(1, 1000),
        "none, then many": peer.flow(1, 0) + peer.flow(1, 1000),
        "of another consumer": peer.flow(7, 1000),
    }


def test_no_permit_is_hidden_in_an_encoding(filled: Target) -> None:
    """Permits that the gate might not see deliver no more than the limit, all ways together."""

    def delivered(flow: bytes) -> int:
        with RawClient(filled.port) as client:
            assert client.open_consumer(filled.topic)
            client.send(flow)
            time.sleep(SECONDS)
            return deliveries(client)

    ways = hidden_flows()
    assert_count_held({way: partial(delivered, each) for way, each in ways.items()}, "plain")


@pytest.mark.parametrize("limited_first", [True, False])
def test_one_id_names_one_consumer(filled: Target, free_world: World, limited_first: bool) -> None:
    """Two SUBSCRIBEs with one id, of a limited topic and of another: the broker's choice is limited."""
    topics = [filled.topic, free_world.topic_of[BROKER]]
    if not limited_first:
        topics.reverse()
    with RawClient(filled.port) as client:
        for request_id, topic in enumerate(topics, start=1):
            client.send(
                peer.command(4, (1, topic), (2, "same"), (3, 1), (4, 1), (5, request_id), (13, 1))
            )
        client.wait_for({SUCCESS}, timeout_s=3)
        since, began_s = deliveries(client), time.monotonic()
        client.send(peer.flow(1, 1000))
        time.sleep(SECONDS)
        if limited_first:
            assert_dispatch_held(client, since, began_s, "two consumers of one id")


def test_a_consumer_that_was_closed_too_early_stays_limited(
    filled: Target, free_world: World
) -> None:
    """The same as of a producer: CLOSE_CONSUMER right behind SUBSCRIBE."""

    def subscribe(topic: str, request_id: int) -> bytes:
        return peer.command(4, (1, topic), (2, "early"), (3, 1), (4, 1), (5, request_id), (13, 1))

    with RawClient(filled.port) as client:
        client.send(subscribe(filled.topic, 1) + peer.close_consumer(1, 2))
        time.sleep(1)
        seen = len(client.came)
        client.send(subscribe(free_world.topic_of[BROKER], 3))
        client.wait_for({SUCCESS, ERROR}, seen, timeout_s=2)
        began_s = time.monotonic()
        since = deliveries(client)
        client.send(peer.flow(1, 1000))
        time.sleep(SECONDS)
        if filled.dispatched() > 0 or deliveries(client) > since:
            assert_dispatch_held(client, since, began_s, "closed too early")


def test_a_subscriptions_name_exempts_nobody(filled: Target) -> None:
    """A subscription that is called as a replicator's is limited."""
    request = peer.command(
        4, (1, filled.topic), (2, "pulsar.repl.elsewhere"), (3, 1), (4, 1), (5, 1), (13, 1)
    )
    with RawClient(filled.port) as client:
        client.ask(request, {SUCCESS, ERROR})
        since, began_s = deliveries(client), time.monotonic()
        client.send(peer.flow(1, 1000))
        time.sleep(SECONDS)
        assert_dispatch_held(client, since, began_s, "as a replicator")


def unsubscribing(turn: int) -> bytes:
    """Fails at once: of a consumer that there is not."""
    return peer.unsubscribe(99, 1000 + turn)


def loops() -> dict[str, Callable[[int], bytes]]:
    """Commands that a consumer may repeat to be given more."""
    return {
        "redeliver all": lambda _: peer.command(20, (1, 1)) + peer.flow(1, 10),
        "seek": lambda turn: peer.command(28, (1, 1), (2, 100 + turn), (4, 1)),
        "close and subscribe": lambda turn: peer.close_consumer(1, 100 + 3 * turn),
        "unsubscribe another": lambda turn: unsubscribing(turn) + peer.flow(1, 10),
    }


@pytest.mark.parametrize("way", list(loops()))
def test_no_loop_defeats_the_dispatch_limit(filled: Target, way: str) -> None:
    """Redeliveries, seeks and new subscriptions deliver no more than the limit."""
    with RawClient(filled.port) as client:
        request_id = 10_000
        assert client.open_consumer(filled.topic)
        since, began_s, turn = deliveries(client), time.monotonic(), 0
        client.send(peer.flow(1, 1000))
        while time.monotonic() - began_s < SECONDS and not client.closed:
            turn += 1
            client.send(loops()[way](turn))
            if "seek" in way or "subscribe" in way:
                time.sleep(0.1)
                request_id += 1
                client.ask(
                    peer.command(
                        4, (1, filled.topic), (2, f"loop{turn}"), (3, 1), (4, 1), (5, request_id),
                        (13, 1),
                    ),
                    {SUCCESS, ERROR},
                )  # fmt: skip
                client.send(peer.flow(1, 1000))
            time.sleep(0.05)
        assert_dispatch_held(client, since, began_s, way)
