"""One connection: who is held, what passes, what is answered."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.core.model import MonitoringClass
from coordinator.gate.frames import MalformedFrame
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench

PUBLISH, DISPATCH = MonitoringClass.PUBLISH, MonitoringClass.DISPATCH
OTHER = "persistent://tenant/other/topic"
CHALLENGE, RESPONSE = peer.command(36, (1, "broker")), peer.command(37, (1, "client"))


def test_everything_passes_untouched_without_groups(bench: Bench) -> None:
    """A gate without groups is a wire."""
    client = bench.client()
    frames = [peer.connect(), peer.producer(TOPIC), peer.send(), peer.PING, peer.flow()]

    assert client.sends(*frames) == frames
    assert client.is_sent(peer.connected(), peer.PONG) == [peer.connected(), peer.PONG]


def test_unknown_commands_pass_both_ways(bench: Bench) -> None:
    """Types that no version knows yet belong to the two that speak, not to the gate."""
    client = bench.client()
    unknown = [peer.command(70, (1, b"new")), peer.command(99), peer.command(300, (2, 5))]

    assert client.sends(*unknown) == unknown
    assert client.is_sent(*unknown) == unknown


def test_only_the_throttled_producer_is_held(bench: Bench) -> None:
    """Another producer of the same connection goes on, and so does every other command."""
    bench.attach(ns="limited")
    bench.limit("limited", 1000)
    client = bench.producing()
    client.sends(peer.producer(OTHER, 2, 2))
    free = [peer.send(2, 0), peer.PING, peer.flow(), peer.send(2, 1)]

    assert client.sends(peer.send(1, 0), free[0], peer.send(1, 1), *free[1:]) == free
    assert client.session.held_frames == 2


def test_held_sends_follow_in_order_as_tokens_come(bench: Bench) -> None:
    """Order within a producer is the order of arrival."""
    bench.attach(ns="limited")
    bench.limit("limited", 1000)
    client = bench.producing()
    sends = [peer.send(1, number) for number in range(100)]

    received = client.sends(*sends)
    for _ in range(20):
        bench.wait(5)
        received += client.broker_got()

    assert received == sends


def test_a_send_never_overtakes_a_held_one(bench: Bench) -> None:
    """A small message that could pass waits behind a large one that cannot."""
    bench.attach(ns="limited")
    bench.limit("limited", size=100_000)
    client = bench.producing()
    large, small = peer.send(1, 0, content=b"x" * 50_000), peer.send(1, 1, content=b"")
    bench.wait(10)

    assert client.sends(large, small) == []
    bench.wait(1000)
    assert client.broker_got() == [large, small]


def test_close_producer_stays_behind_held_sends(bench: Bench) -> None:
    """A SEND after its producer's CLOSE_PRODUCER would cost the client its connection."""
    bench.attach(ns="limited")
    bench.limit("limited", 1000)
    client = bench.producing()
    frames = [peer.send(1, 0), peer.send(1, 1), peer.close_producer(1, 9)]

    assert client.sends(*frames, peer.PING) == [peer.PING]
    bench.wait(5)
    assert client.broker_got() == frames
    assert client.session.producers == 1
    client.is_sent(peer.receipt(1, 0), peer.receipt(1, 1), peer.success(9))
    assert client.session.producers == 0


@pytest.mark.parametrize("answer", [peer.close_producer(1, 0), peer.error(1)])
def test_what_is_held_of_a_producer_that_the_broker_ended_is_dropped(
    bench: Bench, answer: bytes
) -> None:
    """The client has no receipt and sends it again; delivered late it would be an error."""
    bench.attach(ns="limited")
    bench.limit("limited", 10)
    client = bench.client()
    client.sends(peer.producer(TOPIC), peer.send(), peer.send())

    assert client.is_sent(answer) == [answer]

    bench.wait(1000)
    assert client.broker_got() == []
    assert (client.session.held_bytes, client.session.producers) == (0, 0)
    assert bench.tally.dropped_frames == 2


def test_an_error_after_success_ends_nothing(bench: Bench) -> None:
    """A request is answered once; its number may come again for something else."""
    client = bench.producing()

    client.is_sent(peer.error(1))

    assert client.session.producers == 1


def test_a_producer_that_is_not_ready_can_still_fail(bench: Bench) -> None:
    """PRODUCER_SUCCESS with producer_ready=false is followed by a second answer."""
    client = bench.client()
    client.sends(peer.producer(TOPIC))

    client.is_sent(peer.producer_success(1, ready=False), peer.error(1))

    assert client.session.producers == 0


def test_a_producer_that_begins_anew_drops_what_it_held(bench: Bench) -> None:
    """Its CLOSE_PRODUCER, which waited, still reaches the broker first."""
    bench.attach(ns="limited")
    bench.limit("limited", 10)
    client = bench.producing()
    close, anew = peer.close_producer(1, 5), peer.producer(TOPIC, 1, 6)

    assert client.sends(peer.send(), close, anew) == [close, anew]
    client.is_sent(peer.success(5))

    assert (client.session.producers, client.session.held_frames) == (1, 0)


def test_what_comes_behind_a_reopened_producer_stays_behind_it(bench: Bench) -> None:
    """In one read: the close that was held, the producer that begins anew, and what follows."""
    bench.attach(ns="limited")
    bench.limit("limited", 0)
    client = bench.producing()
    close, again = peer.close_producer(1, 8), peer.producer(TOPIC, 1, 9)
    assert client.sends(peer.send(), close) == []

    assert client.sends(peer.PING, again, peer.PING) == [peer.PING, close, again, peer.PING]
    assert client.session.held_frames == 0


def test_a_send_of_nobody_passes(bench: Bench) -> None:
    """The broker ignores a producer that it has just closed, and objects to others by itself."""
    bench.attach(ns="limited")
    bench.limit("limited", 0)
    client = bench.client()

    assert client.sends(peer.send(7)) == [peer.send(7)]


def test_replication_is_exempt_and_counted_apart(bench: Bench) -> None:
    """A limit must not make clusters drift apart."""
    bench.attach(ns="limited")
    bench.limit("limited", 0)
    client = bench.client()
    client.sends(peer.producer(TOPIC, name="pulsar.repl.west-->east"))

    assert client.sends(peer.send(messages=5)) == [peer.send(messages=5)]
    assert bench.tally.replicated_messages == 5
    assert bench.groups.collect(bench.now_ns) == ()


def test_the_bound_stops_decoding_and_half_of_it_resumes(bench: Bench) -> None:
    """Beyond the bound nothing is decoded, not even what is already in memory."""
    bench.attach(ns="limited")
    bench.limit("limited", 1000)
    size = len(peer.send(1, 0))
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
    """Or it would never pass."""
    bench.attach(ns="limited")
    bench.limit("limited", 1000)
    client = bench.producing(held_bytes_max=100)
    frame = peer.send(content=b"z" * 1000)

    assert client.sends(frame, frame) == []
    assert (client.session.held_frames, client.session.paused) == (1, True)

    bench.wait(5)
    assert client.broker_got() == [frame, frame]


def test_during_a_pause_the_gate_answers_for_the_client(bench: Bench) -> None:
    """The client's PONG is stuck; without an answer the broker closes after a minute."""
    bench.attach(ns="limited")
    bench.limit("limited", 0)
    client = bench.producing(held_bytes_max=100)

    assert client.is_sent(peer.PING) == [peer.PING]
    assert client.broker_got() == []
    client.sends(peer.send(), peer.send())

    assert client.is_sent(peer.PING) == [peer.PING]
    assert client.broker_got() == [peer.PONG]
    client.session.keep_alive()
    assert client.client_got() == [peer.PONG]
    assert bench.tally.keep_alive_replies == 2


def test_a_challenged_client_is_heard_while_its_producer_is_held(bench: Bench) -> None:
    """Only SENDs are held; the answer to AUTH_CHALLENGE overtakes them."""
    bench.attach(ns="limited")
    bench.limit("limited", 0)
    client = bench.producing()
    client.sends(peer.send())

    assert client.is_sent(CHALLENGE) == [CHALLENGE]
    assert client.sends(peer.send(), RESPONSE) == [RESPONSE]
    assert client.session.held_frames == 2


def test_a_challenged_client_is_read_although_no_more_could_be_held(bench: Bench) -> None:
    """The broker ends a connection that does not answer; so twice as much is held until it does."""
    bench.attach(ns="limited")
    bench.limit("limited", 0)
    size = len(peer.send())
    client = bench.producing(held_bytes_max=4 * size)
    client.sends(*[peer.send()] * 6, RESPONSE, *[peer.send()] * 5)
    assert (client.session.held_frames, client.session.paused) == (4, True)

    client.is_sent(CHALLENGE)

    assert client.broker_got() == [RESPONSE]
    assert (client.session.held_frames, client.session.paused) == (6, True)


def test_a_sign_of_life_waits_for_the_frame_under_way(bench: Bench) -> None:
    """Bytes between two halves of a frame would end the connection that they are to keep alive."""
    client = bench.client()
    frame = peer.delivery()
    client.session.receive_from_broker(frame[:60], bench.now_ns)

    client.session.keep_alive()

    assert client.is_sent(frame[60:]) == [frame, peer.PONG]


def test_released_frames_wait_for_the_frame_under_way(bench: Bench) -> None:
    """A large frame of another producer streams through while held ones become due."""
    bench.attach(ns="limited")
    bench.limit("limited", 1000)
    client = bench.producing()
    client.sends(peer.producer(OTHER, 2, 2), peer.send(1, 5))
    frame = peer.send(2, content=b"z" * 10_000)
    client.session.receive_from_client(frame[:5000], bench.now_ns)
    bench.wait(100)

    assert client.sends(frame[5000:]) == [frame, peer.send(1, 5)]


def test_forwarded_sends_are_counted_until_answered(bench: Bench) -> None:
    """By a receipt, by an error, or by the end of their producer."""
    client = bench.producing()
    client.sends(*(peer.send(1, number) for number in range(4)), peer.producer(OTHER, 2, 2))
    client.sends(peer.send(2))

    client.is_sent(peer.receipt(1, 0), peer.send_error(1, 1))
    assert client.session.unanswered == 3
    client.is_sent(peer.close_producer(1, 0))
    assert client.session.unanswered == 1


def test_a_drain_lets_no_send_through_and_everything_else(bench: Bench) -> None:
    """What was held and what still comes is the client's to send again; acks are not lost."""
    bench.attach(ns="limited")
    bench.limit("limited", 1000)
    client = bench.producing(held_bytes_max=300)
    client.sends(peer.producer(OTHER, 2, 2))
    client.sends(*(peer.send(1, number) for number in range(5)), peer.flow())
    assert client.session.paused

    client.session.drain(bench.now_ns)

    assert client.broker_got() == [peer.flow()]
    assert client.sends(peer.send(2), peer.PING) == [peer.PING]
    bench.wait(1000)
    assert client.broker_got() == []


def test_a_drain_lets_the_frame_under_way_end(bench: Bench) -> None:
    """Its beginning is at the broker already."""
    client = bench.producing()
    frame = peer.send(content=b"z" * 1000)
    client.session.receive_from_client(frame[:500], bench.now_ns)

    client.session.drain(bench.now_ns)

    assert client.sends(frame[500:], peer.send()) == [frame]
    assert client.session.unanswered == 1


def test_dispatch_is_counted_in_messages_and_bytes(bench: Bench) -> None:
    """A batch counts as its messages, its size as Pulsar counts it."""
    bench.attach(ns="group")
    client = bench.client()
    client.sends(peer.subscribe(TOPIC))
    frame = peer.delivery(1, 7, b"y" * 500, broker_entry=b"\x08\x01")

    assert client.is_sent(frame, frame) == [frame, frame]

    (traffic,) = bench.groups.collect(bench.now_ns)
    payload = len(frame) - 8 - int.from_bytes(frame[4:8], "big")
    assert (traffic.monitoring_class, traffic.messages, traffic.bytes) == (
        DISPATCH,
        14,
        2 * payload,
    )
    assert (traffic.participants, traffic.topics) == (1, 1)


@pytest.mark.parametrize(
    ("request_", "answer", "left"),
    [
        (peer.close_consumer(1, 2), peer.success(2), 0),
        (peer.close_consumer(1, 2), peer.error(2), 0),
        (peer.unsubscribe(1, 2), peer.success(2), 0),
        (peer.unsubscribe(1, 2), peer.error(2), 1),
        (peer.PING, peer.close_consumer(1, 0), 0),
    ],
)
def test_a_consumer_ends_as_the_broker_sees_it(
    bench: Bench, request_: bytes, answer: bytes, left: int
) -> None:
    """A failed UNSUBSCRIBE leaves the consumer where it is."""
    client = bench.client()
    client.sends(peer.subscribe(TOPIC, 1, 1))
    client.is_sent(peer.success(1))

    client.sends(request_)
    client.is_sent(answer)

    assert client.session.consumers == left


def test_participants_are_reported_when_they_begin_and_end(bench: Bench) -> None:
    """Only the first one and the last one are news."""
    bench.attach(ns="group")
    first, second = bench.producing(), bench.producing()
    first.session.close(bench.now_ns)
    second.session.close(bench.now_ns)

    assert bench.story.participants == [("group", PUBLISH, 1), ("group", PUBLISH, 0)]


def test_a_change_of_attachments_moves_producers_at_once(bench: Bench) -> None:
    """Who waits for the old group waits for the new one, and nobody appears to have left in between."""
    bench.attach(ns="slow")
    bench.limit("slow", 0)
    bench.limit("quick", 1000)
    client = bench.producing()
    client.sends(peer.send())

    bench.attach(ns="quick")
    bench.wait(5)
    assert client.broker_got() == [peer.send()]

    bench.attach(ns="slow")
    client.sends(peer.send())
    bench.attach()
    assert client.broker_got() == [peer.send()]
    assert bench.story.participants == [
        ("slow", PUBLISH, 1), ("quick", PUBLISH, 1), ("slow", PUBLISH, 0),
        ("slow", PUBLISH, 1), ("quick", PUBLISH, 0), ("slow", PUBLISH, 0),
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


@given(
    frames=st.lists(st.sampled_from(FRAMES + ANSWERS), min_size=1, max_size=6),
    damage=st.tuples(st.integers(0, 10_000), st.binary(min_size=1, max_size=6)),
    side=st.sampled_from(["client", "broker"]),
)
def test_damaged_frames_raise_one_error_only(
    frames: list[bytes], damage: tuple[int, bytes], side: str
) -> None:
    """Nearly right streams from either side pass or are malformed, and the books can be closed."""
    bench = Bench()
    bench.attach(ns="group")
    bench.limit("group", 1000)
    client = bench.producing()
    stream = bytearray(b"".join(frames))
    position = damage[0] % len(stream)
    stream[position : position + len(damage[1])] = damage[1]
    receive = client.session.receive_from_client
    if side == "broker":
        receive = client.session.receive_from_broker
    with suppress(MalformedFrame):
        receive(bytes(stream), bench.now_ns)

    client.session.close(bench.now_ns)

    assert (bench.queue.waiting, client.session.held_bytes) == (0, 0)


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
    """Whoever says what when: nothing fails, bounds hold, and in the end everybody is counted out."""
    bench = Bench()
    bench.attach(ns="group")
    client = bench.client(held_bytes_max=500)
    for step, value in steps:
        match step, value:
            case "client", bytes():
                client.sends(value)
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
        assert 0 <= session.held_bytes <= 500
        assert (session.held_bytes == 0) == (session.held_frames == 0)
        assert bench.queue.waiting == 0 or session.held_frames
        client.broker_got()
    client.session.close(bench.now_ns)
    assert bench.queue.waiting == 0
    assert all(traffic.participants == 0 for traffic in bench.groups.collect(bench.now_ns))
