"""All that a broker stores beside messages counts against the limits of its topic."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from coordinator.core.model import Rates
from coordinator.gate.protocol import contents
from coordinator.gate.protocol.contents import MARKER_BYTES
from coordinator.gate.protocol.frames import FIELDS_MAX, FrameFault, MalformedFrame, each_field
from coordinator.gate.protocol.refusals import RefusalReason
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client

OTHER = "persistent://tenant/ns/other"
ELSEWHERE = "persistent://tenant/free/topic"
RATE = 1000
"""Bytes a second that the group may publish."""


@pytest.fixture
def client(bench: Bench) -> Client:
    """A client whose namespace may publish `RATE` bytes a second, in a bucket that is full."""
    bench.attach(ns="group")
    bench.limit("group", size=RATE)
    bench.wait(1000)
    return bench.client()


def schema(size: int, mark: str = "a") -> bytes:
    """A schema of this size."""
    head = peer.message((1, "s"), (3, b""), (4, 2))
    return peer.message((1, "s"), (3, mark.encode() * (size - len(head) - 1)), (4, 2))


def produces(
    content: bytes, producer_id: int = 1, request_id: int = 1, topic: str = TOPIC
) -> bytes:
    """PRODUCER with a schema."""
    return peer.command(5, (1, topic), (2, producer_id), (3, request_id), (7, content))


def consumes(*fields: peer.Field, request_id: int = 1, subscription: str = "s") -> bytes:
    """SUBSCRIBE with more than its ids."""
    return peer.command(
        4, (1, TOPIC), (2, subscription), (3, 0), (4, request_id), (5, request_id), *fields
    )


def creates(content: bytes, request_id: int = 1, topic: str = TOPIC) -> bytes:
    """GET_OR_CREATE_SCHEMA."""
    return peer.command(39, (1, request_id), (2, topic), (3, content))


def adds(*topics: str, request_id: int = 1) -> bytes:
    """ADD_PARTITION_TO_TXN."""
    return peer.command(52, (1, request_id), (2, 7), (3, 0), *((4, topic) for topic in topics))


def reaches(bench: Bench, client: Client, request: bytes) -> bool:
    """Whether a request reaches the broker within two seconds."""
    client.sends_on(request)
    bench.wait(2_000)
    return client.broker_got() == [request]


def charged(bench: Bench) -> tuple[int, int]:
    """Messages and bytes that groups were charged for since the last look."""
    counts = bench.groups.collect(bench.now_ns)
    return sum(each.messages for each in counts), sum(each.bytes for each in counts)


def test_a_schema_is_paid_for_before_it_passes(bench: Bench, client: Client) -> None:
    """Ten seconds' worth of it takes ten seconds, whichever command brings it."""
    for request in (produces(schema(10 * RATE, "a")), creates(schema(10 * RATE, "b"))):
        assert client.sends(request) == []
        bench.wait(9_800)
        assert client.broker_got() == []
        bench.wait(300)
        assert client.broker_got() == [request]
        client.is_sent(peer.error(1))
        bench.wait(60_000)


def test_what_the_broker_has_accepted_is_not_paid_for_again(bench: Bench, client: Client) -> None:
    """A second producer with the schema passes at once; one with another schema waits."""
    first, again = produces(schema(RATE)), produces(schema(RATE), 2, 2)
    assert reaches(bench, client, first)
    client.is_sent(peer.producer_success(1))
    charged(bench)

    assert client.sends(again) == [again]
    assert charged(bench) == (0, 0)
    assert client.sends(produces(schema(10 * RATE, "b"), 3, 3)) == []


def test_what_the_broker_refuses_is_given_back(bench: Bench, client: Client) -> None:
    """A client that may not write to a topic takes nothing of its limit."""
    published = bench.groups.group("group").publish
    for answer in (
        peer.error(1),
        peer.command(40, (1, 1), (2, 3), (3, "no")),
    ):
        request = creates(schema(RATE // 2))
        assert reaches(bench, client, request)
        before = published.bytes
        assert client.is_sent(answer) == [answer]
        assert published.bytes == before - RATE // 2
        bench.wait(1_000)


def test_what_is_given_back_is_taken_off_later_counts(bench: Bench, client: Client) -> None:
    """No count is ever below zero, though the request was counted before the broker refused it."""
    assert reaches(bench, client, creates(schema(RATE // 2)))
    assert charged(bench) == (1, RATE // 2)

    client.is_sent(peer.error(1))

    assert charged(bench) == (0, 0)


def test_an_error_to_a_lookup_of_the_same_id_gives_nothing_back(
    bench: Bench, client: Client
) -> None:
    """Lookups are numbered apart: the schema was stored, so it stays paid for."""
    request = creates(schema(40))
    assert client.sends(request, peer.command(34, (1, 1), (2, TOPIC)))[0] == request
    charged(bench)
    client.is_sent(peer.error(1))
    client.is_sent(peer.command(40, (1, 1), (4, b"\0")))
    assert charged(bench) == (0, 0)


def test_a_marker_in_each_partition_is_an_entry_of_its_group(bench: Bench) -> None:
    """A partition that is named twice has one; a topic of no group is free."""
    bench.attach(ns="group")
    bench.limit("group", 2)
    bench.wait(1000)
    client = bench.client()

    assert client.sends(adds(ELSEWHERE)) == [adds(ELSEWHERE)]
    three = adds(TOPIC, OTHER, TOPIC, ELSEWHERE, f"{TOPIC}-partition-1", request_id=2)
    assert client.sends(three) == []
    bench.wait(900)
    assert client.broker_got() == []
    bench.wait(200)
    assert client.broker_got() == [three]
    assert charged(bench) == (3, 3 * MARKER_BYTES)


def test_a_subscription_of_a_transaction_has_a_marker(bench: Bench, client: Client) -> None:
    """It is an entry in the subscription's log."""
    of_two = [peer.message((1, TOPIC), (2, name)) for name in ("s", "t")]
    request = peer.command(54, (1, 1), (2, 7), (3, 0), *((4, each) for each in of_two))
    assert reaches(bench, client, request)
    assert charged(bench) == (2, 2 * MARKER_BYTES)


def test_properties_are_paid_for_once_for_each_subscription(bench: Bench, client: Client) -> None:
    """They are bytes and no entry."""
    large = (18, peer.message((1, "key"), (2, "v" * 30)))
    for number, name in enumerate(("s", "t"), start=1):
        request = consumes(large, request_id=number, subscription=name)
        assert client.sends(request) == [request]
        assert charged(bench) == (0, len(large[1]))
        client.is_sent(peer.success(number))
        bench.wait(1_000)
    again = consumes(large, request_id=3)
    assert client.sends(again) == [again]
    assert charged(bench) == (0, 0)


def test_an_empty_schema_is_free(bench: Bench, client: Client) -> None:
    """As clients send it whose messages are bytes."""
    empty = produces(peer.message((1, ""), (3, b""), (4, 0)))
    assert client.sends(empty) == [empty]
    assert charged(bench) == (0, 0)


def test_requests_that_are_paid_for_at_once_keep_their_order(bench: Bench, client: Client) -> None:
    """One read brings them all."""
    frames = [produces(schema(40)), peer.close_producer(1, 2), peer.PING]
    assert client.sends(*frames) == frames


def test_a_close_waits_behind_the_request_that_opens(bench: Bench, client: Client) -> None:
    """The broker gets both in the order in which the client sent them."""
    opening, closing = produces(schema(10 * RATE)), peer.close_producer(1, 2)
    assert client.sends(opening, closing) == []
    bench.wait(11_000)
    assert client.broker_got() == [opening, closing]


def test_messages_do_not_wait_behind_a_schema(bench: Bench, client: Client) -> None:
    """A later request for a producer does, as all openings stay in order."""
    client.opens(peer.producer(ELSEWHERE, 5, 5))
    assert client.sends(produces(schema(30 * RATE))) == []
    assert client.sends(peer.send(5, 0)) == [peer.send(5, 0)]
    assert client.sends(peer.producer(ELSEWHERE, 6, 6)) == []


def test_a_schema_waits_its_turn_among_producers(bench: Bench, client: Client) -> None:
    """Another client's messages have half of the limit while it is paid for in instalments."""
    client.sends(produces(schema(60 * RATE)))
    honest = bench.producing(OTHER)
    content = b"x" * 20
    size, passed = peer.size_of(peer.send(1, 0, 1, content)), 0
    for _ in range(2_000):
        for _ in range(3 - honest.session.held_frames):
            honest.sends_on(peer.send(1, 0, 1, content))
        bench.wait(5)
        passed += len(honest.broker_got()) * size
    assert 4.5 * RATE <= passed <= 5.8 * RATE


def test_a_client_that_leaves_pays_for_nothing_that_the_broker_never_had(
    bench: Bench, client: Client
) -> None:
    """The part of its schema that was paid is given back, and no byte stays held."""
    client.sends(produces(schema(30 * RATE)))
    bench.wait(5_000)
    client.session.close(bench.now_ns)
    assert charged(bench)[1] == 0
    assert (client.session.held_bytes, bench.queue.waiting) == (0, 0)


def test_a_new_limit_is_the_one_that_it_waits_for(bench: Bench, client: Client) -> None:
    """A namespace that is detached lets what waits pass at once."""
    request = produces(schema(30 * RATE))
    client.sends(request)
    bench.attach()
    assert client.broker_got() == [request]


def test_held_commands_are_bounded_like_held_messages(bench: Bench, client: Client) -> None:
    """The client is read no further, and goes on once half of the bound is free."""
    large = schema(900_000)
    bench.limit("group", size=0)
    for number in range(1, 30):
        client.sends(produces(large, number, number))
    assert client.session.paused
    assert client.session.held_bytes < 17 * 1024 * 1024

    bench.limit("group")
    client.session.advance(bench.now_ns)
    assert len(client.broker_got()) == 29


@pytest.mark.parametrize(
    ("error", "given_back"),
    [(4, True), (6, True), (18, True), (0, False), (5, False), (16, False), (22, False)],
)
def test_an_error_that_may_come_after_the_schema_is_stored_gives_nothing_back(
    bench: Bench, client: Client, error: int, given_back: bool
) -> None:
    """ProducerBusy says that another one has the name: a broker looks at that with the schema stored."""
    assert reaches(bench, client, produces(schema(RATE // 2)))
    published = bench.groups.group("group").publish
    before = published.bytes

    client.is_sent(peer.command(14, (1, 1), (2, error), (3, "no")))

    assert published.bytes == before - (RATE // 2 if given_back else 0)


@pytest.mark.parametrize("error", [0, 4, 20, 22])
def test_a_marker_is_given_back_with_any_error(bench: Bench, client: Client, error: int) -> None:
    """A broker without transactions says NotAllowed, and its client need not be allowed to publish."""
    assert reaches(bench, client, adds(TOPIC))
    published = bench.groups.group("group").publish
    assert published.messages == 1

    client.is_sent(peer.command(14, (1, 1), (2, error), (3, "Transactions are not enabled.")))

    assert (published.messages, published.bytes) == (0, 0)


OF_COORDINATORS = {
    59: peer.command(58, (1, 1), (2, 7), (3, 0), (4, TOPIC), (5, 0)),
    61: peer.command(60, (1, 1), (2, 7), (3, 0), (4, peer.message((1, TOPIC), (2, "s"))), (5, 0)),
}
"""The commands that have a broker write one marker, by the type of the answer."""


@pytest.mark.parametrize("answer", OF_COORDINATORS)
def test_a_marker_is_an_entry_whoever_asks_for_it(
    bench: Bench, client: Client, answer: int
) -> None:
    """Coordinators alone ask in this way, but a broker without authorization obeys any client."""
    bench.limit("group", 0)
    request = OF_COORDINATORS[answer]
    assert client.sends(request) == []
    bench.limit("group", 1)
    bench.wait(1_100)
    assert client.broker_got() == [request]
    assert charged(bench) == (1, MARKER_BYTES)

    client.is_sent(peer.command(answer, (1, 1), (2, 7), (3, 0)))

    assert bench.groups.group("group").publish.messages == 1


@pytest.mark.parametrize("answer", OF_COORDINATORS)
def test_a_marker_that_a_broker_refuses_is_given_back(
    bench: Bench, client: Client, answer: int
) -> None:
    """A client that is no super-user takes nothing of the limit."""
    assert reaches(bench, client, OF_COORDINATORS[answer])

    client.is_sent(peer.command(answer, (1, 1), (2, 7), (3, 0), (4, 22), (5, "no super-user")))

    assert bench.groups.group("group").publish.messages == 0


def test_what_the_broker_has_is_not_kept(bench: Bench) -> None:
    """Its answer may be long in coming, and a client may have thousands of requests under way."""
    bench.attach(ns="group")
    client = bench.client()
    large = [creates(schema(100_000, chr(97 + at)), at) for at in range(20)]
    tracemalloc.start()
    try:
        for request in large:
            client.sends(request, peer.PING)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken < 200_000


def test_a_limiter_is_forgotten_when_its_request_is_paid_for(bench: Bench) -> None:
    """Each partition has its own, and one connection may name any number of them."""
    partitions = bench.groups.scopes.partitions
    partitions.set_rates(Rates(publish_messages=10), bench.now_ns)
    client = bench.client()
    for number in range(20):
        assert reaches(bench, client, adds(f"{TOPIC}-{number}", request_id=number))

    assert len(client.session._holding._storing.served_until_ns) == 0


@pytest.mark.parametrize("naming", [lambda topic: creates(schema(40), topic=topic), adds])
def test_a_topics_name_is_bounded_wherever_the_gate_keeps_it(
    bench: Bench, naming: Callable[[str], bytes]
) -> None:
    """A limit of partitions keeps it; producers and consumers are told that theirs is too long."""
    longest, longer = ("persistent://tenant/ns/".ljust(size, "x") for size in (1024, 1025))
    client = bench.client()
    assert client.sends(naming(longest)) == [naming(longest)]
    assert client.ends(naming(longer)) is FrameFault.OUT_OF_RANGE

    client = bench.client()
    assert client.sends(produces(schema(40), topic=longer)) == []
    assert [reason for reason, _ in client.refusals] == [RefusalReason.NAME_TOO_LONG]


UNKNOWN = peer.message(*[(900, 1)] * 20_000)
"""As many fields of no known release."""


@pytest.mark.parametrize(
    "request_",
    [
        peer.command(5, (1, TOPIC), (2, 1), (3, 1), *[(900, 1)] * 20_000),
        peer.command(5, (1, TOPIC), (2, 1), (3, 1), (7, UNKNOWN)),
        peer.command(4, (1, TOPIC), (2, "s"), (3, 0), (4, 1), (5, 1), (12, UNKNOWN)),
        peer.command(39, (1, 1), (2, TOPIC), (3, UNKNOWN)),
        peer.command(52, (1, 1), (2, 7), (3, 0), *[(900, 1)] * 20_000),
        peer.command(54, (1, 1), (2, 7), (3, 0), (4, UNKNOWN)),
    ],
)
def test_a_request_is_read_as_far_as_any_command(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, request_: bytes
) -> None:
    """A megabyte of fields would take the gate the better part of a second before it is refused."""
    read = 0

    def counting(data: bytes, pos: int, end: int) -> Iterator[tuple[int, int | bytes]]:
        nonlocal read
        for each in each_field(data, pos, end):
            read += 1
            yield each

    monkeypatch.setattr(contents, "each_field", counting)
    with pytest.raises(MalformedFrame):
        bench.client().sends(request_)

    assert read <= FIELDS_MAX + 1
