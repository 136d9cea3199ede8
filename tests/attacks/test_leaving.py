"""No client leaves its limit: each way that was found, on the real cluster.

The group may publish 50 messages a second; the broker's own counter is the judge. An attack may end in a
closed connection, in an error, or in a rate that is within the limit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import pulsar
import pytest

from deploy.clients import quiet_client
from tests.attacks.conftest import BROKER, LIMIT, SLACK_S, Target
from tests.attacks.encodings import BIT_32, BIT_64, number, sub_message, tag
from tests.attacks.raw import ERROR, PRODUCER_SUCCESS, RawClient
from tests.attacks.side_by_side import assert_count_held, assert_none_leaves
from tests.gate import peer
from tests.integration.world import World

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("neighbour"), pytest.mark.verify]

SECONDS = 2.0
RATE = 4 * LIMIT
"""Messages per second of each of many attackers at once."""


def stock_rate(target: Target, connect: Callable[[], pulsar.Client], **options: object) -> None:
    """Publish as fast as a stock client can; raises if that is too fast."""
    client = connect()
    # What is pending when it closes passes at the limit first, in 2 s.
    producer = client.create_producer(target.topic, max_pending_messages=2 * LIMIT, **options)
    target.measure()
    until_s = time.monotonic() + SECONDS
    while time.monotonic() < until_s:
        producer.send_async(b"x" * 100, lambda *_: None)
        time.sleep(0.0005)
    target.assert_held("stock client")


def test_a_producers_name_exempts_nobody(
    target: Target, connect: Callable[[str], pulsar.Client]
) -> None:
    """A stock client that calls its producer as the broker's replicators are called is limited."""
    stock_rate(
        target, lambda: connect(target.world.sidecars.service_url), producer_name="pulsar.repl.x"
    )


def test_a_listeners_name_leads_round_no_gate(target: Target) -> None:
    """A stock client that asks lookups for the internal listener ends at a gate, or is refused."""
    client = quiet_client(
        target.world.sidecars.service_url, listener_name="internal", operation_timeout_seconds=10
    )
    target.measure()
    try:
        stock_rate(target, lambda: client)
    except pulsar.PulsarException:
        target.assert_held("stock client that is refused")
    finally:
        client.close()


def hidden_producers(topic: str) -> dict[str, bytes]:
    """PRODUCERs that a lenient decoder reads otherwise than Pulsar's own."""
    plain = peer.message((1, topic), (2, 1), (3, 1))
    typed = number(1, 5)
    high_tag = peer.message((1, topic)) + number(2, 1, high=True) + number(3, 1)
    both = number(2, 9) + number(2, 1, high=True)
    long_id = peer.message((1, topic)) + tag(2) + peer.varint(1 + BIT_64) + number(3, 1)
    padded = tag(2) + b"\x81\x80\x80\x00"
    return {
        "type twice, PONG first": number(1, 19) + typed + sub_message(5, plain),
        "type twice, PRODUCER first": typed + number(1, 19) + sub_message(5, plain),
        "type twice, both sub-messages": number(1, 19)
        + typed
        + sub_message(19, b"")
        + sub_message(5, plain),
        "overlong type": b"\x08\x85\x00" + sub_message(5, plain),
        "type behind a 33-bit tag": number(1, 5, high=True) + sub_message(5, plain),
        "type after its sub-message": sub_message(5, plain) + typed,
        "sub-message behind a 33-bit tag": typed
        + peer.varint(5 << 3 | 2 | BIT_32)
        + peer.varint(len(plain))
        + plain,
        "sub-message twice": typed
        + sub_message(5, peer.message((1, topic), (2, 9), (3, 1)))
        + sub_message(5, plain),
        "id behind a 33-bit tag": typed + sub_message(5, high_tag),
        "id twice, the second behind a 33-bit tag": typed
        + sub_message(5, peer.message((1, topic)) + both + number(3, 1)),
        "id twice": typed + sub_message(5, peer.message((1, topic), (2, 9), (2, 1), (3, 1))),
        "id plus 2^64": typed + sub_message(5, long_id),
        "overlong id": typed + sub_message(5, peer.message((1, topic)) + padded + number(3, 1)),
        "topic twice": typed
        + sub_message(
            5, peer.message((1, "persistent://public/default/x"), (1, topic), (2, 1), (3, 1))
        ),
        "unknown field of a group's wire type": typed + sub_message(5, plain + b"\xfb\x07\xfc\x07"),
        "bytes after the sub-message": typed + sub_message(5, plain) + b"\x00",
        "name with invalid UTF-8": typed
        + sub_message(5, peer.message((1, topic), (2, 1), (3, 1), (4, b"\xed\xa0\x80"))),
    }


def test_no_producer_is_hidden_in_an_encoding(target: Target) -> None:
    """PRODUCERs that the gate might not see as such publish no more than the limit."""

    def attack(producer: bytes) -> None:
        with RawClient(target.port) as client:
            client.ask(peer.frame(producer), {PRODUCER_SUCCESS, ERROR})
            client.publish(SECONDS, rate=RATE)

    ways = hidden_producers(target.topic)
    assert_none_leaves(target, {way: partial(attack, each) for way, each in ways.items()})


def late(at: int, spelled: bytes, *said: peer.Field) -> bytes:
    """A SEND whose metadata end with these bytes, behind what they say else."""
    metadata = peer.message(*(said or ((1, "p"), (2, at), (3, 1)))) + spelled
    payload = len(metadata).to_bytes(4, "big") + metadata + b"x" * 20
    return peer.frame(peer.message((1, 6), (6, peer.message((1, 1), (2, at)))), payload)


def hidden_sends() -> dict[str, Callable[[int], bytes]]:
    """SENDs of producer 1 that a lenient decoder reads as another command, or of another producer."""

    def payload() -> bytes:
        return peer.payload_of(b"x" * 20, checksum=False)

    def framed(command: Callable[[int], bytes]) -> Callable[[int], bytes]:
        return lambda at: peer.frame(command(at), payload())

    def body(at: int) -> bytes:
        return peer.message((1, 1), (2, at))

    return {
        "type twice": framed(lambda at: number(1, 19) + number(1, 6) + sub_message(6, body(at))),
        "overlong type": framed(lambda at: b"\x08\x86\x00" + sub_message(6, body(at))),
        "id behind a 33-bit tag": framed(
            lambda at: number(1, 6) + sub_message(6, number(1, 1, high=True) + number(2, at))
        ),
        "another id first": framed(
            lambda at: number(1, 6) + sub_message(6, peer.message((1, 7), (1, 1), (2, at)))
        ),
        "id plus 2^64": framed(
            lambda at: (
                number(1, 6) + sub_message(6, tag(1) + peer.varint(1 + BIT_64) + number(2, at))
            )
        ),
        "no messages": framed(
            lambda at: number(1, 6) + sub_message(6, peer.message((1, 1), (2, at), (3, 0)))
        ),
        "fewer than none": framed(
            lambda at: (
                number(1, 6) + sub_message(6, peer.message((1, 1), (2, at), (3, (1 << 64) - 1)))
            )
        ),
        "messages plus 2^32": framed(
            lambda at: number(1, 6) + sub_message(6, peer.message((1, 1), (2, at), (3, BIT_32)))
        ),
        "of a transaction": framed(
            lambda at: number(1, 6) + sub_message(6, peer.message((1, 1), (2, at), (4, 1), (5, 1)))
        ),
        "a marker": framed(
            lambda at: number(1, 6) + sub_message(6, peer.message((1, 1), (2, at), (8, 1)))
        ),
        "a chunk": framed(
            lambda at: number(1, 6) + sub_message(6, peer.message((1, 1), (2, at), (7, 1)))
        ),
        "replicated": lambda at: peer.frame(
            peer.message((1, 6), (6, peer.message((1, 1), (2, at)))),
            b"\x00\x00\x00\x1c"
            + (metadata := peer.message((1, "p"), (2, at % 100), (3, 1), (5, "elsewhere-cluster")))
            + b"x" * (28 - len(metadata))
            + b"content",
        ),
        "behind a broker's entry": lambda at: peer.frame(
            peer.message((1, 6), (6, peer.message((1, 1), (2, at)))),
            b"\x0e\x02\x00\x00\x00\x02\x08\x01" + payload(),
        ),
        "delivered later": lambda at: peer.send(1, at, deliver_at_ms=1, checksum=False),
        "delivered later, behind a 33-bit tag": lambda at: late(at, number(19, 1, high=True)),
        "delivered later, behind an overlong tag": lambda at: late(at, b"\x98\x81\x00\x01"),
        "delivered later, said twice": lambda at: late(at, number(19, 1) * 2),
        "without the name of its producer": lambda at: late(at, b"", *((2, at), (3, 1))),
        "without a time": lambda at: late(at, b"", *((1, "p"), (2, at))),
        "highest sequence id": framed(
            lambda at: number(1, 6) + sub_message(6, peer.message((1, 1), (2, at), (6, at + 10**6)))
        ),
    }


def test_no_message_is_hidden_in_an_encoding(target: Target) -> None:
    """SENDs that the gate might not see as the limited producer's count as such, or are refused."""

    def attack(send: Callable[[int], bytes]) -> None:
        with RawClient(target.port) as client:
            assert client.open_producer(target.topic)
            client.publish(SECONDS, send, RATE)

    assert_none_leaves(target, {way: partial(attack, each) for way, each in hidden_sends().items()})


def failing_requests(request_id: int) -> dict[str, bytes]:
    """Requests that the broker answers by an error with this id."""
    nowhere = "persistent://nowhere/nowhere/t"
    return {
        "UNSUBSCRIBE": peer.unsubscribe(99, request_id),
        "CLOSE_CONSUMER": peer.close_consumer(99, request_id),
        "CLOSE_PRODUCER": peer.close_producer(99, request_id),
        "SEEK": peer.command(28, (1, 99), (2, request_id), (4, 1)),
        "GET_LAST_MESSAGE_ID": peer.command(29, (1, 99), (2, request_id)),
        "CONSUMER_STATS": peer.command(25, (1, request_id), (4, 99)),
        "GET_TOPICS_OF_NAMESPACE": peer.command(32, (1, request_id), (2, "nowhere/nowhere")),
        "GET_SCHEMA": peer.command(34, (1, request_id), (2, nowhere)),
        "PARTITIONED_METADATA": peer.command(21, (1, nowhere), (2, request_id)),
        "LOOKUP": peer.command(23, (1, nowhere), (2, request_id)),
        "SUBSCRIBE": peer.subscribe(nowhere, 5, request_id),
        "PRODUCER": peer.producer(nowhere, 5, request_id),
        "NEW_TXN": peer.command(50, (1, request_id), (2, 1000)),
        "WATCH_TOPIC_LIST": peer.command(
            64, (1, request_id), (2, 0), (3, "nowhere/nowhere"), (4, ".*")
        ),
        "ACK": peer.command(
            10, (1, 99), (2, 0), (3, peer.message((1, 1), (2, 1))), (8, request_id)
        ),
    }


def test_an_error_to_another_request_removes_no_producer(target: Target) -> None:
    """A request with the id of the PRODUCER's own, which fails, leaves the producer limited."""

    def attack(requests: bytes) -> None:
        with RawClient(target.port) as client:
            client.send(requests)
            client.wait_for({PRODUCER_SUCCESS}, timeout_s=2)
            client.publish(SECONDS, rate=RATE)

    producer, others = peer.producer(target.topic, 1, 6), failing_requests(6)
    first = {f"{way} before": partial(attack, other + producer) for way, other in others.items()}
    second = {f"{way} after": partial(attack, producer + other) for way, other in others.items()}
    assert_none_leaves(target, first | second)


@pytest.mark.parametrize("pipelined", [True, False])
@pytest.mark.parametrize("limited_first", [True, False])
def test_one_id_names_one_producer(
    target: Target, free_world: World, limited_first: bool, pipelined: bool
) -> None:
    """Two PRODUCERs with one id, of a limited topic and of another: the broker's choice is limited."""
    topics = [target.topic, free_world.topic_of[BROKER]]
    if not limited_first:
        topics.reverse()
    with RawClient(target.port) as client:
        for request_id, topic in enumerate(topics):
            if pipelined:
                client.send(peer.producer(topic, 1, request_id))
            else:
                client.ask(peer.producer(topic, 1, request_id), {PRODUCER_SUCCESS, ERROR})
        client.wait_for({PRODUCER_SUCCESS}, timeout_s=2)
        target.measure()
        client.publish(SECONDS)
        target.assert_held("two producers of one id")


def test_a_producer_that_is_being_closed_stays_limited(target: Target) -> None:
    """SENDs around CLOSE_PRODUCERs, whether they are answered or not, count."""
    with RawClient(target.port) as client:
        assert client.open_producer(target.topic)
        target.measure()
        until_s = time.monotonic() + SECONDS
        turn = 0
        while time.monotonic() < until_s and not client.closed:
            turn += 1
            sends = b"".join(peer.send(1, at, checksum=False) for at in range(50))
            again = peer.producer(target.topic, 1, turn * 2 + 1)
            if not client.send(sends + peer.close_producer(1, turn * 2) + again + sends):
                break
            time.sleep(0.05)
        target.assert_held("around closes")


def test_a_producer_that_was_closed_too_early_stays_limited(
    target: Target, free_world: World
) -> None:
    """CLOSE_PRODUCER right behind PRODUCER is answered before it: the producer comes to be all the same.

    Brokers of 4.2 register a producer a moment after they have read its PRODUCER, and say of a close in
    between that there is no such producer. A second PRODUCER of the id is then told that it has one.
    """
    with RawClient(target.port) as client:
        client.send(peer.producer(target.topic, 1, 1) + peer.close_producer(1, 2))
        client.wait_for({PRODUCER_SUCCESS}, timeout_s=2)
        seen = len(client.came)
        client.send(peer.producer(free_world.topic_of[BROKER], 1, 3))
        client.wait_for({PRODUCER_SUCCESS, ERROR}, seen, timeout_s=2)
        target.measure()
        client.publish(SECONDS)
        target.assert_held("closed too early")


def test_a_batch_counts_as_what_it_holds(target: Target) -> None:
    """A batch of 1,000 whose command says that it is a single message takes 1,000 tokens."""
    batch = b"".join(
        len(one).to_bytes(4, "big") + one + b"x" for one in [peer.message((3, 1))] * 1000
    )

    def frame(at: int) -> bytes:
        command = peer.message((1, 6), (6, peer.message((1, 1), (2, at))))
        return peer.frame(command, peer.payload_of(batch, 1000, checksum=False))

    with RawClient(target.port) as client:
        assert client.open_producer(target.topic)
        target.measure()
        client.publish(SECONDS, frame, rate=40)
        batches, _ = target.passed()
        assert batches <= 1 + LIMIT * (SECONDS + SLACK_S) / 1000, f"{batches} batches of 1,000"


def test_many_connections_share_one_limit(target: Target) -> None:
    """Twenty connections with five producers each publish no more than one."""
    clients = [RawClient(target.port) for _ in range(20)]
    for client in clients:
        for producer_id in range(1, 6):
            assert client.open_producer(target.topic, producer_id, producer_id)
    target.measure()

    def publish(client: RawClient) -> None:
        client.publish(SECONDS, lambda at: peer.send(1 + at % 5, at, checksum=False), rate=200)

    threads = [threading.Thread(target=publish, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    target.assert_held("twenty connections")
    for client in clients:
        client.close()


def names_of(topic: str) -> dict[str, str]:
    """Other spellings of a topic's name, and names beside it, some of which no broker accepts."""
    path = topic.partition("://")[2]
    tenant, namespace, local = path.split("/")
    return {
        "short": path,
        "capital domain": f"Persistent://{path}",
        "upper-case domain": f"PERSISTENT://{path}",
        "three slashes": f"persistent:///{path}",
        "empty tenant": f"persistent:////{namespace}/{local}",
        "double slash": f"persistent://{tenant}//{namespace}/{local}",
        "trailing slash": f"{topic}/",
        "trailing space": f"{topic} ",
        "leading space": f" {topic}",
        "trailing tab": f"{topic}\t",
        "trailing zero": f"{topic}\0",
        "escaped": f"persistent://{tenant}/{namespace}/{local.replace('-', '%2D')}",
        "escaped slash": f"persistent://{tenant}%2F{namespace}/{local}",
        "escaped name in the namespace": f"persistent://{tenant}/{namespace}/a%2Fb",
        "slash in the local name": f"persistent://{tenant}/{namespace}/a/b",
        "with a cluster": f"persistent://{tenant}/local/{namespace}/{local}",
        "with the global cluster": f"persistent://{tenant}/global/{namespace}/{local}",
        "dots": f"persistent://{tenant}/./{namespace}/{local}",
        "partition": f"{topic}-partition-0",
        "partition of a partition": f"{topic}-partition-0-partition-1",
        "negative partition": f"{topic}-partition--1",
        "non-persistent": f"non-persistent://{path}",
        "capital tenant": f"persistent://{tenant.upper()}/{namespace}/{local}",
        "scalable": f"topic://{path}",
        "segment": f"segment://{path}/0000-ffff-0",
        "full-width letters": f"persistent://{tenant}/{namespace}/\uff54\uff50",
        "combining accent": f"persistent://{tenant}/{namespace}/e\u0301",
        "no namespace": f"persistent://{tenant}/{local}",
        "no domain, two parts": f"{namespace}/{local}",
        "backslashes": topic.replace("/", "\\"),
        "query": f"{topic}?x=y",
        "system topic of the namespace": f"persistent://{tenant}/{namespace}/__change_events",
        "leading slash": f"/{path}",
        "long": f"{topic}{'x' * 2000}",
        "nothing": "",
    }


def test_every_spelling_of_a_name_is_limited(target: Target) -> None:
    """A name is refused, or what is published by it counts for the broker's namespace.

    Some of them name topics beside the target's, so the broker's receipts are counted.
    """

    def receipts(name: str) -> int:
        with RawClient(target.port) as client:
            answer = client.ask(peer.producer(name, 1, 1), {PRODUCER_SUCCESS, ERROR})
            if answer is None or answer.kind == ERROR:
                return 0
            client.publish(SECONDS, rate=RATE)
            return client.counted(7)

    names = names_of(target.topic)
    assert_count_held({way: partial(receipts, each) for way, each in names.items()}, "short")


def test_what_is_sent_for_unknown_producers_goes_nowhere(target: Target) -> None:
    """SENDs of ids that were never opened end the connection, or are dropped."""
    with RawClient(target.port) as client:
        client.send(peer.send(77, 0, checksum=False))
        assert client.ends() or not client.counted(7)


def test_what_is_sent_too_early_is_limited(target: Target) -> None:
    """SENDs right behind PRODUCER, before it is answered, are dropped, refused or limited."""
    with RawClient(target.port) as client:
        target.measure()
        sends = b"".join(peer.send(1, at, checksum=False) for at in range(2000))
        client.send(peer.producer(target.topic) + sends)
        time.sleep(SECONDS)
        target.assert_held("right behind PRODUCER")
