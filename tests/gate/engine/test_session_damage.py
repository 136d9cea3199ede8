"""One connection on which anything may come: frames that are none, and frames in any order."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.gate.protocol.frames import MalformedFrame
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench

FRAMES = [
    peer.producer(TOPIC, 1, 1), peer.producer(TOPIC, 2, 2), peer.send(1), peer.send(2, messages=3),
    peer.close_producer(1, 3), peer.subscribe(TOPIC, 1, 4), peer.unsubscribe(1, 5), peer.PING,
    peer.close_consumer(1, 6), peer.connect(),
]  # fmt: skip
ANSWERS = [
    *(peer.success(request) for request in range(1, 7)),
    *(peer.error(request) for request in range(1, 7)),
    *(peer.producer_success(request) for request in range(1, 7)),
    peer.receipt(1), peer.receipt(2), peer.send_error(1), peer.close_producer(1, 0), peer.PING,
    peer.close_consumer(1, 0), peer.delivery(1, 3), peer.connected(),
]  # fmt: skip


def test_a_malformed_frame_leaves_what_came_before_intact(bench: Bench) -> None:
    """The frames before it have passed, the books say so, and other connections do not notice."""
    bench.attach(ns="group")
    client, other = bench.producing(), bench.producing()

    with pytest.raises(MalformedFrame):
        client.sends(peer.send(), b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", peer.send())

    assert client.broker_got() == [peer.send()]
    client.session.close(bench.now_ns)
    assert other.sends(peer.send()) == [peer.send()]
    (traffic,) = bench.groups.collect(bench.now_ns)
    assert (traffic.messages, traffic.participants) == (2, 1)


def test_connected_announces_how_large_frames_may_be(bench: Bench) -> None:
    """A broker with another maxMessageSize is believed."""
    client = bench.client()
    client.is_sent(peer.connected(100))

    with pytest.raises(MalformedFrame):
        client.sends(peer.send(content=b"z" * 10_400))


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("client"), st.sampled_from(FRAMES)),
            st.tuples(st.just("broker"), st.sampled_from(ANSWERS)),
            st.tuples(st.just("wait"), st.integers(1, 60)),
            st.tuples(st.just("limit"), st.sampled_from([None, 0, 20, 1000])),
            st.tuples(st.just("attach"), st.sampled_from(["group", "other"])),
        ),
        max_size=40,
    )
)
def test_any_order_of_events_keeps_the_books(steps: list[tuple[str, bytes | int | str]]) -> None:
    """No order of events breaks a bound or raises, and in the end every participant is counted out."""
    bench = Bench()
    bench.attach(ns="group")
    client = bench.client(held_bytes_max=1000)
    for step, value in steps:
        match step, value:
            case "client", bytes():
                try:
                    client.sends(value)
                except MalformedFrame:  # it may not come now: the connection ends
                    break
            case "broker", bytes():
                client.is_sent(value)
            case "wait", int():
                bench.wait(value)
            case "attach", str():
                bench.attach(ns=value)
            case _:
                assert not isinstance(value, bytes | str)
                bench.limit("group", value)
        session = client.session
        assert 0 <= session.held_bytes <= 1000
        assert (session.held_bytes == 0) == (session.held_frames == 0)
        assert bench.queue.waiting == 0 or session.held_frames
        client.broker_got()
    client.session.close(bench.now_ns)
    assert bench.queue.waiting == 0
    assert all(traffic.participants == 0 for traffic in bench.groups.collect(bench.now_ns))
