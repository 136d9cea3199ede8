"""No client stops another, fills the gate's memory or stays behind its closed connection."""

from __future__ import annotations

import contextlib
import re
import threading
import time

import pytest

from deploy.local import processes
from tests.attacks.conftest import BROKER, LIMIT, STOPPED_S, Neighbour, Target
from tests.attacks.raw import CONNECT, ERROR, PRODUCER_SUCCESS, RawClient
from tests.gate import peer
from tests.integration.world import World, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("neighbour")]

MEBIBYTE = 1 << 20
HUGE = (1 << 31) - 1


def assert_still_served(target: Target, what: str) -> None:
    """An honest client of the attacked group gets most of what the limit allows."""
    with RawClient(target.port) as client:
        assert client.open_producer(target.topic)
        target.measure()
        client.publish(3.0, rate=200)
        _, rate = target.passed()
        assert rate > LIMIT / 2, f"{what}: {rate:.1f}/s of {LIMIT} are left"
        target.assert_held(what)


@pytest.mark.verify
@pytest.mark.parametrize("connects", ["nothing", "CONNECT", "PRODUCER"])
def test_publishes_before_a_producer_is_accepted_are_charged_to_no_group(
    target: Target, connects: str
) -> None:
    """SENDs of 2^31-1 messages before the connection, or the producer, is accepted cost nothing."""
    begins = {
        "nothing": b"",
        "CONNECT": CONNECT,
        "PRODUCER": CONNECT + peer.producer(target.topic),
    }
    head = peer.producer(target.topic) if connects != "PRODUCER" else b""
    for _ in range(3):
        with RawClient(target.port, connect=b"") as client:
            client.send(begins[connects] + head + peer.send(1, 0, HUGE, b"", checksum=False))
            client.ends(timeout_s=0.5)
    assert_still_served(target, connects)


@pytest.mark.verify
@pytest.mark.parametrize("where", ["command", "metadata", "both"])
def test_a_claimed_number_of_messages_costs_what_the_content_can_hold(
    target: Target, where: str
) -> None:
    """A SEND that claims 2^31-1 messages in a few bytes stops its group for moments, not for days."""
    in_command = ((3, HUGE),) if where != "metadata" else ()
    in_metadata = ((11, HUGE),) if where != "command" else ()
    metadata = peer.message((1, "p"), (2, 0), (3, 1), *in_metadata)
    frame = peer.frame(
        peer.message((1, 6), (6, peer.message((1, 1), (2, 0), *in_command))),
        len(metadata).to_bytes(4, "big") + metadata + b"x" * 20,
    )
    with RawClient(target.port) as client:
        assert client.open_producer(target.topic)
        client.send(frame)
        client.ends(timeout_s=1.0)
    # The broker counts what the command claims, so its counter says nothing here.
    with RawClient(target.port) as client:
        assert client.open_producer(target.topic, 1, 5)
        began_s, received = time.monotonic(), client.counted(7)
        client.publish(3.0, rate=200)
        rate = (client.counted(7) - received) / (time.monotonic() - began_s)
        assert rate > LIMIT / 2, f"{where}: {rate:.1f}/s of {LIMIT} are left"


def gate_bytes(target: Target) -> int:
    """The own memory of the gate's process."""
    return processes.own_bytes(target.world.sidecars.gate(BROKER).pid)


class Growth:
    """Looks at the gate's memory again and again, and keeps the most that was added."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._before = gate_bytes(target)
        self.most = 0

    def watch(self, seconds: float) -> None:
        """Look for a while."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.most = max(self.most, gate_bytes(self._target) - self._before)
            time.sleep(0.1)


def pour(client: RawClient, data: bytes, seconds: float) -> None:
    """Send the same bytes again and again, for as long as they are taken."""

    def work() -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and client.send(data):
            pass

    threading.Thread(target=work, daemon=True).start()


HELD_BYTES_MAX = 8 * MEBIBYTE
"""The most that one connection may hold by default."""


@pytest.mark.verify
@pytest.mark.parametrize("size", [0, 14, 1000])
def test_what_is_held_takes_as_much_memory_as_it_counts(target: Target, size: int) -> None:
    """However small the frames that a connection has the gate hold, its bound is one of memory."""
    sends = b"".join(peer.send(1, at, content=b"x" * size, checksum=False) for at in range(2000))
    with RawClient(target.port) as client:
        assert client.open_producer(target.topic)
        growth = Growth(target)
        pour(client, sends, 5.0)
        growth.watch(5.0)
    limit = 1.2 * HELD_BYTES_MAX + 4 * MEBIBYTE
    assert growth.most < limit, f"{growth.most / MEBIBYTE:.1f} MiB for {size} bytes a message"


def unread_requests(topic: str) -> dict[str, bytes]:
    """Requests whose answers a client need not read."""
    nowhere = "persistent://nowhere/nowhere/t"
    return {
        "refused PRODUCERs": b"".join(peer.producer("x//", 1, at) for at in range(2000)),
        "PRODUCERs of a namespace that is not": b"".join(
            peer.producer(nowhere, at, at) for at in range(2000)
        ),
        "LOOKUPs": b"".join(peer.command(23, (1, topic), (2, at)) for at in range(2000)),
        "PINGs": peer.PING * 2000,
        "PONGs": peer.PONG * 2000,
        "PRODUCERs with one request id": b"".join(
            peer.producer(nowhere, at, 6) for at in range(5000)
        ),
        "SUBSCRIBEs with one consumer id": b"".join(
            peer.subscribe(topic, 1, at) for at in range(5000)
        ),
        "names of 5 MiB": peer.producer("persistent://t/n/" + "x" * (5 * MEBIBYTE - 500), 1, 1),
    }


@pytest.mark.verify
@pytest.mark.parametrize("way", list(unread_requests("")))
@pytest.mark.parametrize("reads", [True, False])
def test_requests_fill_no_memory(target: Target, way: str, reads: bool) -> None:
    """A client that asks without end, and reads no answer, is held up or let go."""
    client = RawClient(target.port, reads=reads, connect=b"")
    with client:
        growth = Growth(target)
        client.send(CONNECT)
        time.sleep(0.3)
        pour(client, unread_requests(target.topic)[way], 3.0)
        growth.watch(3.0)
    assert growth.most < 24 * MEBIBYTE, f"{way}: {growth.most / MEBIBYTE:.1f} MiB"


@pytest.mark.verify
@pytest.mark.parametrize(
    "frame",
    [
        peer.flow(1, 1),
        peer.command(6, (1, 1), (2, 0), (3, peer.message((1, 1), (2, 0)))),
        peer.command(20, (1, 1)),
    ],
    ids=["FLOW", "ACK", "REDELIVER"],
)
def test_commands_without_an_answer_stop_no_neighbour(target: Target, frame: bytes) -> None:
    """As fast as the gate takes them; the neighbour of the same gate and broker goes on."""
    with RawClient(target.port) as client:
        assert client.open_consumer(target.topic)
        growth = Growth(target)
        pour(client, frame * 2000, 3.0)
        growth.watch(3.0)
    assert growth.most < 24 * MEBIBYTE, f"{growth.most / MEBIBYTE:.1f} MiB"


@pytest.mark.verify
def test_a_flood_of_small_frames_costs_a_neighbour_no_more_than_its_turns(
    target: Target, neighbours: list[Neighbour]
) -> None:
    """Four clients send FLOWs that the gate withholds; another client's messages pass meanwhile.

    Before there were turns each flood took the gate for some seconds, again and again.
    """
    [neighbour] = neighbours
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(target.port)) for _ in range(4)]
        for client in clients:
            assert client.open_consumer(target.topic)
            pour(client, peer.flow(1, 1) * 2000, 4.0)
        time.sleep(1.0)
        began_s = time.monotonic()
        neighbour.exchange()
        assert time.monotonic() - began_s < STOPPED_S


@pytest.mark.verify
def test_deliveries_that_are_not_read_fill_no_memory(target: Target, free_world: World) -> None:
    """A consumer that reads nothing of what it asked for costs the gate no more than some buffers."""
    topic = free_world.topic_of[BROKER]
    with RawClient(target.port) as producer:
        assert producer.open_producer(topic)
        producer.publish(
            3.0, lambda at: peer.send(1, at, content=b"x" * 100_000, checksum=False), 200
        )
    client = RawClient(target.port, reads=False, connect=b"")
    with client:
        growth = Growth(target)
        request = peer.command(
            4, (1, topic), (2, f"u{time.monotonic_ns()}"), (3, 1), (4, 1), (5, 1), (13, 1)
        )
        client.send(CONNECT)
        time.sleep(0.3)
        client.send(request)
        time.sleep(0.3)
        client.send(peer.flow(1, 100_000))
        growth.watch(4.0)
    assert growth.most < 24 * MEBIBYTE, f"{growth.most / MEBIBYTE:.1f} MiB"


def participants(target: Target) -> tuple[int | None, int | None]:
    """Producers and consumers that the gate believes in; None while it is too slow to say."""
    world = target.world
    text = world.http.get(f"{world.sidecars.admin_url(BROKER)}/metrics").text

    def gauge(name: str) -> int | None:
        found = re.search(rf"^\w*gate_{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return int(float(found[1])) if found else None

    return gauge("producers"), gauge("consumers")


def ghosts(topic: str) -> dict[str, bytes]:
    """Requests by which the gate could believe in more participants than the broker has."""
    nowhere = "persistent://nowhere/nowhere/t"
    return {
        "one request id": b"".join(peer.producer(nowhere, at, 6) for at in range(5000)),
        "refused": b"".join(peer.producer(nowhere, at, at) for at in range(2000)),
        "refused consumers": b"".join(peer.subscribe(nowhere, at, at) for at in range(2000)),
        "created and closed": b"".join(
            peer.producer(topic, at, 2 * at) + peer.close_producer(at, 2 * at + 1)
            for at in range(200)
        ),
    }


@pytest.mark.parametrize("way", list(ghosts("")))
def test_no_ghost_stays(target: Target, way: str) -> None:
    """The gate believes in the producers that the broker has, with the connection open or closed.

    A broker that is still looking up a producer's permission says yes to its close, and opens it then.
    """
    neighbour = 1

    def agree() -> bool:
        at_broker = len(target.world.topics.publishers(target.topic))
        return participants(target) == (neighbour + at_broker, neighbour)

    eventually(agree, "earlier clients are gone")
    with RawClient(target.port) as client:
        client.send(ghosts(target.topic)[way])
        eventually(agree, "no ghost", timeout_s=60)
    eventually(lambda: participants(target) == (neighbour, neighbour), "all are gone")


def broken_frames() -> dict[str, bytes]:
    """Frames that end the connection that sends them, and no other."""
    return {
        "total size 0": bytes(16),
        "total size 2^32 - 1": b"\xff" * 4 + bytes(8),
        "command larger than the frame": b"\x00\x00\x00\x08\x00\x00\xff\xff" + bytes(4),
        "only zeros": bytes(1000),
        "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
        "a broker's word": peer.producer_success(1),
        "CONNECT again": CONNECT,
        "PING with content": peer.command(18, (1, "x")),
        "PONG with content": peer.command(19, (1, "x")),
        "CONNECTED": peer.connected(),
        "AUTH_RESPONSE unasked": peer.command(
            37, (1, "x"), (2, peer.message((1, "token"), (2, "y")))
        ),
    }


def test_a_broken_frame_ends_one_connection(target: Target) -> None:
    """The sender is let go, at the latest with its next words; its neighbour notices nothing."""
    with contextlib.ExitStack() as open_at_once:  # each is let go a moment after the one before
        clients = {
            way: open_at_once.enter_context(RawClient(target.port)) for way in broken_frames()
        }
        for way, frame in broken_frames().items():
            clients[way].send(frame)
        for way, client in clients.items():
            assert client.ends(timeout_s=30), f"{way}: it may go on"


@pytest.mark.verify
def test_a_gate_that_holds_much_goes_on_for_others(target: Target) -> None:
    """While twenty producers of the group have full buffers, a refused one is answered at once."""
    sends = b"".join(peer.send(1, at, content=b"x" * 1000, checksum=False) for at in range(3000))
    clients = [RawClient(target.port) for _ in range(20)]
    for client in clients:
        assert client.open_producer(target.topic)
        client.send(sends[: 64 * 1024])
    with RawClient(target.port) as late:
        began_s = time.monotonic()
        answer = late.ask(
            peer.producer("persistent://nowhere/nowhere/t"), {ERROR, PRODUCER_SUCCESS}
        )
        assert answer is None or answer.kind == ERROR
        assert time.monotonic() - began_s < 2
    for client in clients:
        client.close()
