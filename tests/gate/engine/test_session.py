"""One connection: who is held, what passes, what is answered."""

from __future__ import annotations

import pytest

from coordinator.core.model import MonitoringClass
from coordinator.gate.protocol.frames import FrameFault
from coordinator.gate.protocol.refusals import RefusalReason
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench

PUBLISH, DISPATCH = MonitoringClass.PUBLISH, MonitoringClass.DISPATCH
OTHER = "persistent://tenant/other/topic"


def test_everything_passes_untouched_without_groups(bench: Bench) -> None:
    """A gate without groups is a wire."""
    client = bench.producing()
    client.opens(peer.subscribe(TOPIC, request_id=2))
    frames = [peer.send(), peer.PING, peer.flow(), peer.send(1, 1)]

    assert client.sends(*frames) == frames
    assert client.is_sent(peer.delivery(), peer.PONG) == [peer.delivery(), peer.PONG]


def test_unknown_commands_pass_both_ways(bench: Bench) -> None:
    """Types that no version knows yet belong to the two that speak; they are counted."""
    client = bench.client()
    unknown = [peer.command(90, (1, b"new")), peer.command(99), peer.command(300, (2, 5))]

    assert client.sends(*unknown) == unknown
    assert client.is_sent(*unknown) == unknown
    assert bench.counters.unknown_commands == {90: 1, 99: 1, 300: 1}


def test_only_the_throttled_producer_is_held(bench: Bench) -> None:
    """Another producer of the same connection goes on, and so does every other command."""
    bench.limited(1000)
    client = bench.producing()
    client.opens(peer.producer(OTHER, 2, 2), peer.subscribe(OTHER, 1, 3))
    free = [peer.send(2, 0), peer.PING, peer.flow(), peer.send(2, 1)]

    assert client.sends(peer.send(1, 0), free[0], peer.send(1, 1), *free[1:]) == free
    assert client.session.held_frames == 2


def test_a_send_never_overtakes_a_held_one(bench: Bench) -> None:
    """A small message that could pass waits behind a large one that cannot."""
    bench.limited(size=100_000)
    client = bench.producing()
    large, small = peer.send(1, 0, content=b"x" * 50_000), peer.send(1, 1, content=b"")
    bench.wait(10)

    assert client.sends(large, small) == []
    bench.wait(1000)
    assert client.broker_got() == [large, small]


def test_a_close_passes_at_once_and_what_is_held_never_does(bench: Bench) -> None:
    """The client fails what has no receipt when it closes, so nothing of that may be published later."""
    bench.limited(1000)
    client = bench.producing()
    close = peer.close_producer(1, 9)

    assert client.sends(peer.send(1, 0), peer.send(1, 1), close, peer.PING) == [close, peer.PING]
    client.is_sent(peer.success(9))
    bench.wait(1000)
    assert client.broker_got() == []
    assert (client.session.held_bytes, client.session.producers) == (0, 0)
    assert bench.counters.dropped_frames == 2
    assert bench.queue.waiting == 0


def test_what_was_paid_of_a_held_message_is_given_back_when_its_producer_closes(
    bench: Bench,
) -> None:
    """Others of the group have the whole limit from then on."""
    bench.limited(10)
    client = bench.producing()
    client.sends(peer.send(1, 0, 200))
    bench.wait(5_000)
    client.sends(peer.close_producer(1, 9))
    assert sum(each.messages for each in bench.groups.collect(bench.now_ns)) == 0


def test_what_is_held_of_a_producer_that_the_broker_ended_is_dropped(bench: Bench) -> None:
    """The client has no receipt and sends it again; delivered late it would be an error."""
    bench.limited(10)
    client, answer = bench.producing(), peer.close_producer(1, 0)
    client.sends(peer.send(), peer.send())

    assert client.is_sent(answer) == [answer]

    bench.wait(1000)
    assert client.broker_got() == []
    assert (client.session.held_bytes, client.session.producers) == (0, 0)
    assert bench.counters.dropped_frames == 2


def test_an_error_after_success_ends_nothing(bench: Bench) -> None:
    """A request is answered once; its number may come again for something else."""
    client = bench.producing()

    client.is_sent(peer.error(1))

    assert client.session.producers == 1


def test_a_producer_that_is_not_ready_can_still_fail(bench: Bench) -> None:
    """PRODUCER_SUCCESS with producer_ready=false is followed by a second answer."""
    client = bench.client()
    client.sends(peer.producer(TOPIC))

    client.is_sent(peer.producer_success(1, ready=False))
    assert client.session.producers == 0
    client.is_sent(peer.error(1))
    assert client.session.producers == 0
    client.opens(peer.producer(OTHER))  # its id is free again


def test_a_producer_that_begins_anew_drops_what_it_held(bench: Bench) -> None:
    """With a close before or without: the client sends again what has no receipt."""
    for close in ((peer.close_producer(1, 5),), ()):
        bench.limited(0)
        client, anew = bench.producing(), peer.producer(TOPIC, 1, 6)

        assert client.sends(peer.send(), *close, anew, peer.PING) == [*close, anew, peer.PING]
        client.is_sent(*(peer.success(5) for _ in close), peer.producer_success(6))

        assert (client.session.producers, client.session.held_frames) == (1, 0)


@pytest.mark.parametrize("asked", [(), (peer.producer(TOPIC),)], ids=["unknown", "under way"])
def test_a_publish_of_a_producer_that_the_broker_has_not_accepted_ends_the_connection(
    bench: Bench, asked: tuple[bytes, ...]
) -> None:
    """The broker does the same, and nothing is charged for it."""
    bench.attach(ns="group")
    client = bench.client()
    client.sends(*asked)

    assert client.ends(peer.send()) is FrameFault.UNKNOWN_PRODUCER
    assert bench.groups.collect(bench.now_ns) == ()


def test_a_publish_that_crosses_with_the_brokers_close_is_dropped(bench: Bench) -> None:
    """The broker does the same: the client learns of the close a little later, and sends again then."""
    client = bench.producing()
    client.is_sent(peer.close_producer(1, 2**64 - 1))

    assert client.sends(peer.send(), peer.PING) == [peer.PING]
    assert bench.counters.refusals == {RefusalReason.CLOSED_PRODUCER: 1}
    assert client.refusals == []  # nothing that its client is to blame for


def test_replication_is_exempt_and_counted_apart(bench: Bench) -> None:
    """A limit must not make clusters drift apart."""
    bench.limited(0)
    client = bench.replicating()

    assert client.sends(peer.send(messages=5)) == [peer.send(messages=5)]
    client.sends(peer.send(messages=2))
    assert client.exemptions == ["pulsar.repl.west-->east"]
    assert bench.counters.replicated_messages == 7
    assert bench.groups.collect(bench.now_ns) == ()
    assert bench.groups.namespaces.collect(bench.now_ns) == ()


def test_replication_is_among_what_passed_of_its_namespace(bench: Bench) -> None:
    """For the broker counts it, too, and the difference is what went round the gate."""
    bench.attach(ns="limited")
    bench.replicating().sends(peer.send(messages=5))
    bench.producing().sends(peer.send(messages=2))

    ((messages, _),) = bench.groups.passed_totals().values()

    assert messages == 7


def test_released_frames_wait_for_the_frame_under_way(bench: Bench) -> None:
    """A large frame of another producer streams through while held ones become due."""
    bench.limited(1000)
    client = bench.producing()
    client.opens(peer.producer(OTHER, 2, 2))
    client.sends(peer.send(1, 5))
    frame = peer.send(2, content=b"z" * 10_000)
    client.session.receive_from_client(frame[:5000], bench.now_ns)
    bench.wait(100)

    assert client.sends(frame[5000:]) == [frame, peer.send(1, 5)]


def test_forwarded_sends_are_counted_until_answered(bench: Bench) -> None:
    """A receipt, an error, or the end of their producer answers them."""
    client = bench.producing()
    client.opens(peer.producer(OTHER, 2, 2))
    client.sends(*(peer.send(1, number) for number in range(4)))
    client.sends(peer.send(2))

    client.is_sent(peer.receipt(1, 0), peer.send_error(1, 1))
    assert client.session.unanswered == 3
    client.is_sent(peer.close_producer(1, 0))
    assert client.session.unanswered == 1


def test_what_was_held_is_counted_from_its_turn_on(bench: Bench) -> None:
    """Its producer knows the number, so that what ends with it is answered."""
    bench.limited(0)
    client = bench.producing()
    client.opens(peer.producer(OTHER, 2, 2))
    client.sends(peer.send(1, 0), peer.send(1, 1), peer.send(2))
    assert client.session.unanswered == 1
    bench.limit("limited", None)
    bench.wait(5)

    client.is_sent(peer.receipt(1, 0))
    assert client.session.unanswered == 2
    client.is_sent(peer.close_producer(1, 0))
    assert client.session.unanswered == 1


def test_a_drain_lets_no_send_through_and_everything_else(bench: Bench) -> None:
    """The client sends held and later messages again elsewhere; acks are not lost."""
    bench.limited(1000)
    client = bench.producing(held_bytes_max=300)
    client.opens(peer.producer(OTHER, 2, 2), peer.subscribe(OTHER, 1, 3))
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
    client.opens(peer.subscribe(TOPIC))
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
    client.opens(peer.subscribe(TOPIC, 1, 1))
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
    """A producer that waits for the old group waits for the new one, and its wait goes on."""
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
