"""An id belongs to the participant that the broker has, whatever a client asks for."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from coordinator.gate.engine import participants
from coordinator.gate.protocol.frames import FrameFault, MalformedFrame
from coordinator.gate.protocol.own_frames import SERVICE_NOT_READY, TOO_MANY_REQUESTS
from coordinator.gate.protocol.refusals import RefusalReason
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client

FREE = "persistent://tenant/free/topic"
Open = Callable[[str, int, int], bytes]

OPENS: dict[str, Open] = {"PRODUCER": peer.producer, "SUBSCRIBE": peer.subscribe}
CLOSES = {"PRODUCER": peer.close_producer, "SUBSCRIBE": peer.close_consumer}
IN_USE = {
    "PRODUCER": RefusalReason.PRODUCER_IN_USE,
    "SUBSCRIBE": RefusalReason.CONSUMER_IN_USE,
}
NAMES = {"PRODUCER": b"Producer", "SUBSCRIBE": b"Consumer"}
kinds = pytest.mark.parametrize("kind", OPENS)


def count(client: Client) -> int:
    """Producers and consumers."""
    return client.session.producers + client.session.consumers


def refusal(frames: list[bytes], request_id: int) -> int:
    """The error in the one ERROR, which answers this request."""
    (frame,) = frames
    head = b"\x08\x0e\x72"
    assert frame[8:11] == head
    assert frame[12:15] == bytes([0x08, request_id, 0x10])
    return frame[15]


@kinds
def test_an_id_in_use_is_not_taken_for_another_topic(bench: Bench, kind: str) -> None:
    """The broker keeps the first, and so would the traffic of the free topic be the limited one's."""
    bench.attach(ns="limited")
    client = bench.client()
    client.opens(OPENS[kind](TOPIC, 1, 1))

    assert client.sends(OPENS[kind](FREE, 1, 2)) == []

    assert refusal(client.client_got(), 2) == SERVICE_NOT_READY
    assert bench.counters.refusals == {IN_USE[kind]: 1}
    (traffic,) = bench.groups.collect(bench.now_ns)
    assert (traffic.group, traffic.participants) == ("limited", 1)


@kinds
def test_an_id_is_in_use_before_the_broker_has_answered(bench: Bench, kind: str) -> None:
    """Either of two requests under way may be the one that the broker grants."""
    client = bench.client()
    first = OPENS[kind](TOPIC, 1, 1)

    assert client.sends(first, OPENS[kind](FREE, 1, 2)) == [first]
    (told,) = client.client_got()
    assert refusal([told], 2) == SERVICE_NOT_READY
    assert told.endswith(NAMES[kind] + b" is already present on the connection")


@kinds
def test_the_same_participant_may_be_asked_for_again(bench: Bench, kind: str) -> None:
    """Clients do so when an answer is late; an error to the second request ends nothing."""
    client = bench.client()
    client.opens(OPENS[kind](TOPIC, 1, 1))
    again = OPENS[kind](TOPIC, 1, 2)

    assert client.sends(again) == [again]
    client.is_sent(peer.error(2))

    assert count(client) == 1


@kinds
def test_a_request_id_under_way_is_not_used_again(bench: Bench, kind: str) -> None:
    """The broker's error to a failed UNSUBSCRIBE would end a participant that lives."""
    client = bench.client()
    failing, opening = peer.unsubscribe(99, 6), OPENS[kind](TOPIC, 1, 6)

    assert client.ends(failing, opening) is FrameFault.REQUEST_IN_USE


@kinds
def test_an_id_is_free_when_the_broker_refused_it(bench: Bench, kind: str) -> None:
    """For any topic, and as often as it is refused."""
    client = bench.client()
    for request_id in range(1, 50):
        request = OPENS[kind]((TOPIC, FREE)[request_id % 2], 1, request_id)
        assert client.sends(request) == [request]
        client.is_sent(peer.error(request_id))

    assert count(client) == 0


@kinds
def test_an_id_is_free_when_its_close_is_answered(bench: Bench, kind: str) -> None:
    """It is not free before: the broker may still have the participant."""
    client = bench.client()
    client.opens(OPENS[kind](TOPIC, 1, 1))
    client.sends(CLOSES[kind](1, 2))

    assert client.sends(OPENS[kind](FREE, 1, 3)) == []
    client.is_sent(peer.success(2))
    client.opens(OPENS[kind](FREE, 1, 4))

    assert count(client) == 1


@kinds
def test_a_close_that_overtakes_ends_nothing_that_is_under_way(bench: Bench, kind: str) -> None:
    """A broker may answer the close first, and make the participant afterwards."""
    bench.attach(ns="limited")
    client = bench.client()
    client.sends(OPENS[kind](TOPIC, 1, 1), CLOSES[kind](1, 2))

    client.is_sent(peer.success(2))
    assert client.sends(OPENS[kind](FREE, 1, 3)) == []
    client.is_sent(peer.granted(OPENS[kind](TOPIC, 1, 1)))

    (traffic,) = bench.groups.collect(bench.now_ns)
    assert (traffic.group, traffic.participants) == ("limited", 1)


@kinds
@pytest.mark.parametrize("closes", ["client", "broker"])
def test_a_repeat_that_is_granted_after_the_close_ends_the_connection(
    bench: Bench, kind: str, closes: str
) -> None:
    """The broker may have found the first participant, or have made another."""
    client = bench.client()
    client.opens(OPENS[kind](TOPIC, 1, 1))
    repeat = OPENS[kind](TOPIC, 1, 2)
    client.sends(repeat)
    if closes == "client":
        client.sends(CLOSES[kind](1, 3))
        client.is_sent(peer.success(3))
    else:
        client.is_sent(CLOSES[kind](1, 0))

    with pytest.raises(MalformedFrame) as raised:
        client.is_sent(peer.granted(repeat))

    assert raised.value.fault is FrameFault.DOUBTFUL_ANSWER


@kinds
def test_a_repeat_after_the_close_opens_the_id_again(bench: Bench, kind: str) -> None:
    """The broker takes requests in order, so it answers the close before it makes another."""
    client = bench.client()
    client.opens(OPENS[kind](TOPIC, 1, 1))
    repeat = OPENS[kind](TOPIC, 1, 3)
    client.sends(CLOSES[kind](1, 2), repeat)
    client.is_sent(peer.success(2))
    client.is_sent(peer.granted(repeat))

    assert count(client) == 1


@kinds
def test_requests_under_way_take_memory_by_their_number_alone(bench: Bench, kind: str) -> None:
    """A thousand requests to open an id, and a thousand to close it; the broker has answered none."""
    client = bench.client()
    opens = [OPENS[kind](TOPIC, 1, number) for number in range(1_000)]
    closes = [CLOSES[kind](1, 1_000 + number) for number in range(1_000)]
    tracemalloc.start()
    try:
        client.sends(*opens, *closes)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken < 2_000_000


def test_ids_of_producers_and_of_consumers_are_apart(bench: Bench) -> None:
    """The broker keeps them apart, too."""
    client = bench.client()
    client.opens(peer.producer(TOPIC, 1, 1), peer.subscribe(FREE, 1, 2))

    client.sends(peer.close_consumer(1, 3))
    client.is_sent(peer.success(3))

    assert (client.session.producers, client.session.consumers) == (1, 0)


@kinds
def test_a_connection_has_a_bounded_number_of_participants(bench: Bench, kind: str) -> None:
    """Participants under way count; one more may come when one has gone."""
    client = bench.client(participants_max=2)
    client.opens(OPENS[kind](TOPIC, 1, 1))
    client.sends(OPENS[kind](TOPIC, 2, 2))

    assert client.sends(OPENS[kind](TOPIC, 3, 3)) == []
    assert refusal(client.client_got(), 3) == TOO_MANY_REQUESTS
    assert bench.counters.refusals == {RefusalReason.PARTICIPANTS: 1}

    client.is_sent(peer.error(2))
    client.opens(OPENS[kind](TOPIC, 3, 4))
    assert count(client) == 2


def test_permits_of_a_consumer_under_way_are_given_when_it_is_there(bench: Bench) -> None:
    """The broker would drop them, and a limit would not know of them."""
    client = bench.client()
    request = peer.subscribe(TOPIC, 1, 1)
    assert client.sends(request, peer.flow(1, 60), peer.flow(1, 40)) == [request]

    client.is_sent(peer.success(1))

    assert client.broker_got() == [peer.flow(1, 100)]


def test_permits_of_a_consumer_that_is_refused_are_gone(bench: Bench) -> None:
    """The next one with its id begins with none."""
    client = bench.client()
    client.sends(peer.subscribe(TOPIC, 1, 1), peer.flow(1, 60))
    client.is_sent(peer.error(1))

    client.opens(peer.subscribe(FREE, 1, 2))

    assert client.broker_got() == []
    assert client.session.withheld_permits == 0


@pytest.mark.parametrize(
    "frame",
    [peer.flow(7, 10), peer.command(10, (1, 7), (2, 0)), peer.command(20, (1, 7))],
    ids=["FLOW", "ACK", "REDELIVER"],
)
def test_what_is_said_of_no_consumer_is_dropped(bench: Bench, frame: bytes) -> None:
    """The broker does the same; the client is to blame unless the consumer has just been closed."""
    client = bench.client()
    assert client.sends(frame, peer.PING) == [peer.PING]
    assert bench.counters.refusals == {RefusalReason.UNKNOWN_CONSUMER: 1}

    client.opens(peer.subscribe(TOPIC, 7, 1))
    client.is_sent(peer.close_consumer(7, 2**64 - 1))
    assert client.sends(frame, peer.PING) == [peer.PING]

    assert bench.counters.refusals[RefusalReason.CLOSED_CONSUMER] == 1
    assert client.refusals == [(RefusalReason.UNKNOWN_CONSUMER, "consumer 7")]


def test_an_id_that_was_closed_again_is_remembered_as_the_latest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers close a producer whenever its topic moves, and its client opens it again by its id."""
    monkeypatch.setattr(participants, "_CLOSED_MAX", 3)
    client = bench.client()
    for request_id, producer_id in enumerate((1, 2, 3, 1, 4), start=1):
        client.opens(peer.producer(TOPIC, producer_id, request_id))
        client.is_sent(peer.close_producer(producer_id, 2**64 - 1))

    assert client.sends(peer.send(1), peer.PING) == [peer.PING]
    assert client.ends(peer.send(2)) is FrameFault.UNKNOWN_PRODUCER
