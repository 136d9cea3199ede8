"""PING and PONG: both sides are told apart from the dead, and neither is flooded."""

from __future__ import annotations

import pytest

from coordinator.gate.engine.keepalive import PINGS_MAX
from coordinator.gate.protocol.frames import FrameFault, MalformedFrame
from tests.gate import peer
from tests.gate.conftest import Bench


@pytest.mark.parametrize("connected", [True, False])
def test_a_client_may_not_ask_without_end(bench: Bench, connected: bool) -> None:
    """Before and after the broker's acceptance; those that passed are forwarded all the same."""
    client = bench.client(connected=connected)
    asked = [peer.PING] * PINGS_MAX

    assert client.sends(*asked) == asked
    assert client.ends(peer.PING) is FrameFault.REQUESTS


def test_who_waits_for_the_answers_may_go_on_asking(bench: Bench) -> None:
    """Each PONG makes room for a PING, and one that no PING asked for makes none beyond that."""
    client = bench.client()
    assert client.is_sent(peer.PONG) == [peer.PONG]
    for _ in range(3):
        asked = [peer.PING] * PINGS_MAX
        assert client.sends(*asked) == asked
        assert len(client.is_sent(*[peer.PONG] * PINGS_MAX)) == PINGS_MAX
    with pytest.raises(MalformedFrame):
        client.sends(*[peer.PING] * (PINGS_MAX + 1))


def test_a_client_answers_each_question_of_the_broker_once(bench: Bench) -> None:
    """More PONGs do not reach the broker."""
    client = bench.client()
    assert client.sends(peer.PONG) == []

    client.is_sent(peer.PING, peer.PING)

    assert client.sends(*[peer.PONG] * 1000) == [peer.PONG, peer.PONG]


def test_while_a_client_is_not_read_the_gate_answers_for_it(bench: Bench) -> None:
    """The client is asked all the same, and its own answer passes when it is read again.

    Without an answer the broker closes after a minute; a client that is read answers for itself.
    """
    bench.limited(1)
    client = bench.producing(held_bytes_max=1)
    assert client.is_sent(peer.PING) == [peer.PING]
    assert client.broker_got() == []
    client.sends(peer.send(1, 0), peer.send(1, 1), peer.send(1, 2))
    assert client.session.paused

    assert client.is_sent(peer.PING) == [peer.PING]

    assert client.broker_got() == [peer.PONG]
    client.session.keep_alive()
    assert client.client_got() == [peer.PONG]
    assert bench.counters.keep_alive_replies == 2
    bench.wait(5_000)
    assert client.sends(peer.PONG)[-1] == peer.PONG
