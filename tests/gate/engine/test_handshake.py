"""The beginning of a connection: what may come before the broker accepts it, and what only once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.gate.engine.session import HANDSHAKE_FRAME_MAX
from coordinator.gate.protocol.frames import FrameFault
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench

CHALLENGE = peer.command(36, (1, "broker"), (2, peer.message((1, "token"))))
RESPONSE = peer.command(37, (1, "client"), (2, peer.message((1, "token"), (2, b"?"))), (3, 19))

REQUESTS = {
    "PRODUCER": peer.producer(TOPIC),
    "SUBSCRIBE": peer.subscribe(TOPIC),
    "SEND": peer.send(),
    "FLOW": peer.flow(),
    "LOOKUP": peer.command(23, (1, TOPIC), (2, 1)),
    "of a later release": peer.command(90),
}

OF_BROKERS = {
    "CONNECTED": peer.connected(),
    "SEND_RECEIPT": peer.receipt(),
    "SEND_ERROR": peer.send_error(),
    "SUCCESS": peer.success(1),
    "ERROR": peer.error(1),
    "PRODUCER_SUCCESS": peer.producer_success(),
    "AUTH_CHALLENGE": CHALLENGE,
    "TOPIC_MIGRATED": peer.command(68, (1, 1)),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("begins", [(), (peer.connect(),)], ids=["no CONNECT", "CONNECT"])
def test_no_request_comes_before_the_broker_accepts_the_connection(
    bench: Bench, name: str, begins: tuple[bytes, ...]
) -> None:
    """Its sender is not known, so no group is charged for it."""
    bench.attach(ns="group")
    client = bench.client(connected=False)

    assert client.ends(*begins, REQUESTS[name]) is FrameFault.NOT_CONNECTED
    assert bench.groups.collect(bench.now_ns) == ()


def test_signs_of_life_come_at_any_time(bench: Bench) -> None:
    """Clients begin with their timer before they are connected."""
    client = bench.client(connected=False)
    client.is_sent(peer.PING)
    said = [peer.PING, peer.connect(), peer.PONG]
    assert client.sends(*said) == said


@pytest.mark.parametrize("connected", [False, True], ids=["before CONNECTED", "after it"])
def test_a_client_connects_once(bench: Bench, connected: bool) -> None:
    """A second CONNECT could change the role that the first one was judged by."""
    client = bench.client(connected=False)
    client.sends(peer.connect())
    if connected:
        client.is_sent(peer.connected())

    assert client.ends(peer.connect()) is FrameFault.CONNECTED_TWICE


@pytest.mark.parametrize("connected", [False, True], ids=["before CONNECTED", "after it"])
@pytest.mark.parametrize("asked", [1, 2])
def test_an_authentication_response_answers_one_challenge(
    bench: Bench, connected: bool, asked: int
) -> None:
    """A broker asks again when a token expires; a further answer could change the role it goes by."""
    client = bench.client(connected=connected)
    if not connected:
        client.sends(peer.connect())
    client.is_sent(*[CHALLENGE] * asked)

    assert client.sends(*[RESPONSE] * asked) == [RESPONSE] * asked
    assert client.ends(RESPONSE) is FrameFault.UNASKED_RESPONSE


@pytest.mark.parametrize("name", OF_BROKERS)
def test_a_client_does_not_speak_for_the_broker(bench: Bench, name: str) -> None:
    """A command that only a broker sends ends the connection."""
    assert bench.client().ends(peer.PING, OF_BROKERS[name]) is FrameFault.WRONG_SIDE


@pytest.mark.parametrize("name", ["CONNECTED", "AUTH_CHALLENGE"])
def test_a_client_does_not_accept_itself(bench: Bench, name: str) -> None:
    """A CONNECTED of its own opens nothing, and a challenge of its own asks for nothing."""
    client = bench.client(connected=False)
    assert client.ends(peer.connect(), OF_BROKERS[name]) is FrameFault.NOT_CONNECTED
    assert not client.session.is_established


@pytest.mark.parametrize(
    "large",
    [
        lambda size: peer.command(2, (1, "test"), (4, 19), (3, b"t" * size)),
        lambda size: peer.command(37, (2, peer.message((1, "token"), (2, b"t" * size)))),
    ],
    ids=["CONNECT", "AUTH_RESPONSE"],
)
def test_frames_are_small_before_the_connection_is_accepted(
    bench: Bench, large: Callable[[int], bytes]
) -> None:
    """The header alone is enough to refuse a larger one."""
    client = bench.client(connected=False)
    assert client.sends(large(HANDSHAKE_FRAME_MAX // 2)[:12]) == []

    fresh = bench.client(connected=False)
    assert fresh.ends(large(HANDSHAKE_FRAME_MAX)[:12]) is FrameFault.FRAME_SIZE
