"""One connection of which no more is read: what is held at most, and what keeps it alive meanwhile."""

from __future__ import annotations

from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench

CHALLENGE, RESPONSE = peer.command(36, (1, "broker")), peer.command(37, (1, "client"))


def test_the_bound_stops_decoding_and_half_of_it_resumes(bench: Bench) -> None:
    """Beyond the bound nothing is decoded, not even what is already in memory."""
    bench.limited(1000)
    size = len(peer.send(1, 0)) + HELD_FRAME_OVERHEAD
    client = bench.producing(held_bytes_max=10 * size)
    sends = [peer.send(1, number % 100) for number in range(30)]

    assert client.sends(*sends, peer.PING) == []

    assert (client.session.held_frames, client.session.paused) == (10, True)
    received: list[bytes] = []
    while client.session.paused:
        bench.wait(5)
        received += client.broker_got()
        assert client.session.held_bytes <= 10 * size
    bench.wait(100)
    received += client.broker_got()
    received.remove(peer.PING)  # overtakes what is held, once it is read
    assert received == sends


def test_a_frame_larger_than_the_bound_is_held_alone(bench: Bench) -> None:
    """Otherwise it would never pass."""
    bench.limited(1000)
    client = bench.producing(held_bytes_max=100)
    frame = peer.send(content=b"z" * 1000)

    assert client.sends(frame, frame) == []
    assert (client.session.held_frames, client.session.paused) == (1, True)

    bench.wait(5)
    assert client.broker_got() == [frame, frame]


def test_a_challenged_client_is_read_although_no_more_could_be_held(bench: Bench) -> None:
    """The broker ends a connection that does not answer; so twice as much is held until it does."""
    bench.limited(0)
    size = len(peer.send()) + HELD_FRAME_OVERHEAD
    client = bench.producing(held_bytes_max=4 * size)
    client.sends(*[peer.send()] * 6, RESPONSE, *[peer.send()] * 5)
    assert (client.session.held_frames, client.session.paused) == (4, True)

    client.is_sent(CHALLENGE)

    assert client.broker_got() == [RESPONSE]
    assert (client.session.held_frames, client.session.paused) == (6, True)


def test_a_sign_of_life_waits_for_the_frame_under_way(bench: Bench) -> None:
    """Bytes between two halves of a frame would end the connection that they are to keep alive."""
    client = bench.client()
    client.opens(peer.subscribe(TOPIC))
    frame = peer.delivery()
    client.session.receive_from_broker(frame[:-20], bench.now_ns)

    client.session.keep_alive()

    assert client.is_sent(frame[-20:]) == [frame, peer.PONG]
