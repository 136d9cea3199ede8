"""Peers that are slow, silent or many, on either side of the gate: what they get, and what others feel.

The gate's sweeps are made by the test, so that minutes pass at once.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path

import pytest
import structlog

from coordinator.core.model import Attachments, Rates
from coordinator.gate.engine.connection_limits import ConnectionLimits
from coordinator.gate.server import listening, supervisor
from coordinator.gate.server.connection import CLIENT_FULL, WRITE_BUFFER_HIGH
from coordinator.gate.server.sockets import taken
from coordinator.gate.server.supervisor import END_S, SIGN_OF_LIFE_S
from coordinator.gate.server.tls import TlsFiles
from tests.gate import peer
from tests.gate.conftest import TOPIC
from tests.gate.server.hostile_site import (
    DELIVERIES,
    DELIVERY,
    LOW_WATER,
    READ,
    fill,
    settled,
    site,
)
from tests.gate.server.test_proxy import FakeBroker, read_frame, until
from tests.gate.server.test_tls import make_certificate

# Before the broker knows the client


async def test_a_client_that_says_nothing_is_closed_and_costs_the_broker_nothing() -> None:
    """Each is told once, and those that came later have as long."""
    async with site() as here:
        first = await here.visit()
        await until(lambda: here.gate.figures().connections == 1)
        here.pass_time(6)
        second = await here.visit()
        await until(lambda: here.gate.figures().connections == 2)
        with structlog.testing.capture_logs() as lines:
            here.pass_time(5)
            assert await first.is_closed()
            await until(lambda: here.gate.figures().connections == 1)
            here.pass_time(6)
            assert await second.is_closed()

        assert here.closes == {"client did not say CONNECT in time": 2}
        assert [line["event"] for line in lines] == [
            "client did not say CONNECT in time, connection closed"
        ] * 2
        assert here.broker.writers == []


@pytest.mark.parametrize("said", [peer.PING, peer.connect()[:-1]], ids=["PING", "half a CONNECT"])
async def test_a_client_that_never_completes_its_connect_is_closed(said: bytes) -> None:
    """However often it says something: the time for CONNECT is one."""
    async with site() as here:
        slow = await here.visit()
        await until(lambda: here.gate.figures().connections == 1)
        for byte in said:
            slow.writer.write(bytes([byte]))
            await slow.writer.drain()
        for _ in range(11):
            await asyncio.sleep(0.01)
            here.pass_time(1)

        assert await slow.is_closed()
        assert here.closes == {"client did not say CONNECT in time": 1}


async def test_a_stranger_fills_no_memory() -> None:
    """A CONNECT of megabytes is refused by its size, before it is there."""
    async with site() as here:
        stranger = await here.visit()
        stranger.writer.write(
            (5_000_000).to_bytes(4) + (4_999_990).to_bytes(4) + b"\x08\x02\x12\x80\x80"
        )

        assert await stranger.is_closed()
        assert here.gate.figures().malformed_closes == {"frame size out of bounds": 1}
        assert here.broker.writers == []


async def test_a_client_that_sends_a_malformed_frame_is_closed_later() -> None:
    """The broker is rid of it at once, and the gate reads nothing more of it."""
    async with site() as here:
        client = await here.client()
        client.writer.write(b"\xff" * 100)
        await until(lambda: bool(here.gate.figures().malformed_closes))
        await until(here.broker.writers[0].transport.is_closing)
        assert here.gate.figures().connections == 0
        assert here.gate._connections.bounds.count == 1
        client.writer.write(peer.PING)

        assert await client.is_closed()
        await until(lambda: here.gate._connections.bounds.count == 0)
        assert here.closes == {"malformed frame": 1}


async def test_a_client_that_leaves_after_a_malformed_frame_leaves_nothing() -> None:
    """Its seat is free once its time is over, and the gate may stop before that."""
    async with site() as here:
        client = await here.client()
        client.writer.write(b"\xff" * 100)
        await until(lambda: bool(here.gate.figures().malformed_closes))
        client.writer.transport.abort()
        await here.gate.drain(10.0)


async def test_what_a_malformed_frame_took_to_read_counts_as_well() -> None:
    """A client sends sixty kilobytes of fields, and the last one makes no sense."""
    async with site() as here:
        client = await here.client()
        (connection,) = here.gate._connections
        connection.data_received(peer.command(23, (1, "x" * 60_000), (1, "y")))

        assert connection._turns.are_over
        assert await client.is_closed()


async def test_nothing_is_decided_behind_a_frame_of_the_broker_that_makes_no_sense() -> None:
    """Where the next one begins is not known: bytes of a message could look like an answer."""
    async with site() as here:
        client = await here.visit()
        assert await client.asks(peer.connect()) == peer.connected()
        (connection,) = here.gate._connections
        connection.session.receive_from_client(peer.producer(TOPIC), here.gate._now_ns())
        for frame in (b"\xff" * 12, peer.producer_success(1), b"\xff" * 12):
            connection.broker_data_received(frame)

        assert connection.session.producers == 0
        assert here.gate.figures().malformed_closes == {"frame size out of bounds": 1}
        assert await client.is_closed()


async def test_a_fault_of_the_gate_ends_the_connection_where_it_shows_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A change of attachments reaches all the others, and its caller does not fail."""
    async with site() as here:
        clients = [await here.client() for _ in range(3)]
        broken, *others = sorted(here.gate._connections, key=lambda each: each.peer)
        monkeypatch.setattr(broken.session, "reattach", lambda _: clients[3])
        with structlog.testing.capture_logs() as lines:
            here.gate.set_attachments(Attachments({"tenant": "group"}))
            await until(broken.ended.is_set)

        assert here.closes == {"fault of the gate itself": 1}
        assert [(line["peer"], line["exc_info"]) for line in lines] == [(broken.peer, True)]
        assert sum(traffic.participants for traffic in here.gate.collect()) == len(others)
        for client in clients:
            if client.writer.get_extra_info("sockname")[1] != int(broken.peer.rpartition(":")[2]):
                assert await client.asks(peer.PING) == peer.PONG


async def test_a_client_that_has_left_opens_nothing_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer of the broker waits for its turn: its producer would count for the group for ever."""
    async with site() as here:
        client = await here.visit()
        assert await client.asks(peer.connect()) == peer.connected()
        (connection,) = here.gate._connections
        connection.session.receive_from_client(peer.producer(TOPIC), here.gate._now_ns())
        with monkeypatch.context() as no_turns:
            no_turns.setattr(connection._turns, "serves_now", lambda *_: False)
            no_turns.setattr(connection._turns, "ask", lambda _: None)
            connection.broker_data_received(peer.producer_success(1))
            client.writer.transport.abort()
            await until(connection.ended.is_set)
        assert connection.session.broker_waits

        connection.broker_writable(writable=True)
        for _ in range(3):
            await asyncio.sleep(0)

        assert connection.session.producers == 0


async def test_a_broker_that_does_not_answer_connect_is_not_waited_for() -> None:
    """The client is closed, and tries again; the broker has as long as the client had."""
    broker = FakeBroker()
    broker.accepts = False
    async with site(broker) as here:
        client = await here.visit()
        client.writer.write(peer.connect())
        await until(lambda: len(broker.received) == 1)
        here.pass_time(21)
        assert here.closes == {}
        here.pass_time(1)

        assert await client.is_closed()
        assert here.closes == {"broker did not answer CONNECT in time": 1}


async def test_a_client_that_does_not_answer_the_brokers_challenge_is_not_waited_for() -> None:
    """The broker has answered, and is not told to be silent."""
    broker = FakeBroker()
    broker.accepts = False
    challenge = peer.command(36, (1, "test"))
    async with site(broker) as here:
        client = await here.visit()
        client.writer.write(peer.connect())
        await until(lambda: len(broker.received) == 1)
        broker.writers[0].write(challenge)
        assert await client.reader.readexactly(len(challenge)) == challenge
        here.pass_time(22)

        assert await client.is_closed()
        assert here.closes == {"client did not answer the broker's challenge in time": 1}


async def test_a_client_that_is_connected_may_be_silent() -> None:
    """Its broker alone decides about it."""
    async with site() as here:
        client = await here.client()
        here.pass_time(1000)

        assert await client.asks(peer.PING) == peer.PONG
        assert here.closes == {}


@pytest.mark.slow
async def test_a_tls_handshake_that_does_not_end_is_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its start, and no longer than it may take."""
    # The one that is turned away comes before its end, on a busy machine too.
    monkeypatch.setattr(listening, "HANDSHAKE_TIMEOUT_S", 3.0)
    files: TlsFiles = make_certificate(tmp_path / "gate", "gate")
    limits = ConnectionLimits(total=1)
    async with site(entrance=files, connections=limits) as here:
        assert here.gate.tls_port is not None
        _, silent = await asyncio.open_connection("127.0.0.1", here.gate.tls_port)
        await until(lambda: limits.count == 1)
        assert await here.is_turned_away()

        await until(lambda: limits.count == 0)
        assert await (await here.visit()).asks(peer.connect()) == peer.connected()
        silent.close()
        assert here.closes == {
            "TLS handshake failed or took too long": 1,
            "too many connections": 1,
        }


# Clients and brokers that take nothing


async def test_a_client_that_takes_nothing_is_closed_and_others_feel_nothing() -> None:
    """Its waiting bytes are bounded, and it is closed after once or twice the time."""
    async with site() as here:
        deaf, other = await here.client(consumes=True), await here.client()
        deaf.read_no_more()
        await fill(here, here.broker.writers[0])
        assert max(here.unread) <= WRITE_BUFFER_HIGH + READ

        for _ in range(12):
            here.pass_time(10)
            assert await other.asks(peer.PING) == peer.PONG
        here.pass_time(3)
        await until(lambda: here.gate.figures().connections == 1)

        assert here.closes == {"client took nothing of what was sent to it": 1}
        assert await other.asks(peer.send()) == peer.receipt(1, 0)
        await until(lambda: here.gate.figures().consumers == 0)


async def test_a_client_that_reads_slowly_goes_on() -> None:
    """Some of it in each of many minutes, and all of it in the end; what it says is heard meanwhile."""
    async with site() as here:
        slow = await here.deaf_consumer()
        (connection,) = here.gate._connections

        read = 0
        for _ in range(10):
            before = taken(connection._client)
            slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
            while not taken(connection._client).is_beyond(before):
                assert await slow.next() == DELIVERY
                read += 1
                await asyncio.sleep(0.001)
            slow.read_no_more()
            slow.writer.write(peer.PING)
            here.pass_time(59)
        await until(lambda: here.broker.received.count(peer.PING) == 10)
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(DELIVERIES - read):
            assert await slow.next() == DELIVERY

        assert here.closes == {}


async def test_while_memory_is_scarce_a_client_has_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is on all of them together."""
    async with site() as here:
        for _ in range(2):
            deaf = await here.client(consumes=True)
            deaf.read_no_more()
        for writer in here.broker.writers:
            await fill(here, writer)
        await until(lambda: min(here.unread) > LOW_WATER)
        await settled(lambda: sum(here.unread))
        monkeypatch.setattr(supervisor, "UNREAD_BYTES_MAX", max(here.unread))

        here.pass_time(14)

        await until(lambda: here.gate.figures().connections == 0)
        assert here.closes == {"client took nothing of what was sent to it": 2}


async def test_answers_of_the_gate_are_bounded_too() -> None:
    """A client that is refused without end, and reads nothing of it, is not read."""
    async with site() as here:
        client = await here.client()
        client.read_no_more()
        refused = peer.producer("persistent://no/such", 2, 2) * 1000
        for _ in range(3000):
            client.writer.write(refused)
        await until(lambda: max(here.unread) > CLIENT_FULL)
        await settled(client.writer.transport.get_write_buffer_size)

        (connection,) = here.gate._connections
        assert not connection._client_read
        assert client.writer.transport.get_write_buffer_size() > 10_000_000
        assert max(here.unread) <= CLIENT_FULL + 4 * READ


async def test_answers_that_wait_for_the_end_of_a_frame_are_bounded_as_well() -> None:
    """The rest of a delivery is long in coming, and the client is refused without end meanwhile."""
    async with site() as here:
        client = await here.client(consumes=True)
        (broker,) = here.broker.writers
        broker.write(DELIVERY[:1_000])
        assert await client.reader.readexactly(1_000) == DELIVERY[:1_000]
        refused = peer.producer("persistent://no/such", 2, 2) * 1000
        for _ in range(600):
            client.writer.write(refused)
        (connection,) = here.gate._connections
        await until(lambda: connection.session.unsent_answers > CLIENT_FULL)
        await settled(client.writer.transport.get_write_buffer_size)

        assert not connection._client_read
        assert client.writer.transport.get_write_buffer_size() > 5_000_000
        assert connection.session.unsent_answers <= CLIENT_FULL + 4 * READ
        broker.write(DELIVERY[1_000:])
        assert await client.reader.readexactly(len(DELIVERY) - 1_000) == DELIVERY[1_000:]
        assert peer.kind_of(await read_frame(client.reader)) == 14


async def test_a_broker_that_takes_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client is not read meanwhile, and then closed; it may try again."""
    async with site() as here:
        client, connection = await here.publisher_to_deaf_broker()
        await settled(client.writer.transport.get_write_buffer_size)
        assert not connection._client_read
        assert client.writer.transport.get_write_buffer_size() > 10_000_000

        here.pass_time(130)

        await until(lambda: here.gate.figures().connections == 0)
        assert here.closes == {"broker took nothing of what was sent to it": 1}


@pytest.mark.parametrize("half", [True, False], ids=["half-closed", "closed"])
async def test_a_client_that_does_not_take_the_rest_is_closed(*, half: bool) -> None:
    """The broker has closed its side; the gate does not wait for ever."""
    async with site() as here:
        deaf = await here.deaf_consumer()
        here.broker.writers[0].write_eof() if half else here.broker.writers[0].close()
        deaf.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await deaf.next() == DELIVERY
        deaf.read_no_more()
        await asyncio.sleep(0.1)
        here.broker.writers[0].transport.abort()
        await asyncio.sleep(0.1)

        async with asyncio.timeout(30):
            while here.gate.figures().connections:  # the system may take some of it late
                here.pass_time(END_S + 60)
                await asyncio.sleep(0.1)
        assert sum(here.closes.values()) == 1


async def test_a_client_that_leaves_behind_what_the_broker_does_not_take_is_forgotten() -> None:
    """It counts as a connection as long as the broker has not got it."""
    async with site() as here:
        client, _ = await here.publisher_to_deaf_broker()
        client.writer.transport.abort()
        while here.gate.figures().connections:  # it is noticed when something is to be sent to it
            here.broker.writers[0].write(peer.PING)
            await asyncio.sleep(0.02)
        assert here.gate._connections.bounds.count == 1

        here.pass_time(END_S + 2)

        await until(lambda: here.gate._connections.bounds.count == 0)
        assert here.closes == {"rest of a closed connection was not taken in time": 1}


async def test_a_paused_client_that_reads_slowly_keeps_its_broker() -> None:
    """The gate reads neither side and gives both a sign of life, or the broker drops the client."""
    async with site(held_bytes_max=100_000) as here:
        here.gate.set_attachments(Attachments({}, {"tenant/ns": "group"}))
        here.gate.set_limits("group", Rates(publish_messages=0))
        client = await here.client()
        assert await client.asks(peer.subscribe(TOPIC)) == peer.success(1)
        client.read_no_more()
        await fill(here, here.broker.writers[0])
        client.writer.writelines([peer.send(content=b"z" * 50_000)] * 5)
        await until(lambda: here.gate.figures().pauses == 1)

        here.pass_time(2 * SIGN_OF_LIFE_S + 2)

        await until(lambda: here.broker.received.count(peer.PONG) == 2)
        assert here.gate.figures().keep_alive_replies == 2
        assert here.closes == {}


# Too many


async def test_one_client_too_many_is_closed_at_once() -> None:
    """The others go on; when one leaves, there is room again."""
    async with site(connections=ConnectionLimits(total=2)) as here:
        first, second = await here.client(), await here.client()
        assert await here.is_turned_away()
        assert await second.asks(peer.PING) == peer.PONG
        first.writer.close()
        await until(lambda: here.gate._connections.bounds.count == 1)

        third = await here.client()
        assert await third.asks(peer.PING) == peer.PONG
        assert here.closes == {"too many connections": 1}


async def test_a_flood_from_one_host_is_turned_away_and_told_in_a_few_lines() -> None:
    """A thousand connections: those that were there go on, and the log stays readable."""
    async with site(connections=ConnectionLimits(total=100, per_host=10)) as here:
        client = [await here.client() for _ in range(10)][-1]
        with structlog.testing.capture_logs() as lines:
            for _ in range(10):
                await asyncio.gather(*(here.is_turned_away() for _ in range(100)))
                assert await client.asks(peer.PING) == peer.PONG
            await until(lambda: sum(here.closes.values()) == 1000)
            here.pass_time(10)

        assert here.closes == {"too many connections of one host": 1000}
        assert len(lines) == 6
        assert here.gate.figures().connections == 10


async def test_a_gate_without_descriptors_rests_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does not spin, clients wait in the queue of the system, and the log says why."""
    monkeypatch.setattr(listening, "_REST_S", 60.0)
    async with site() as here:
        client = await here.client()
        door = here.gate._entrance._plain_door
        assert door is not None

        class Exhausted:
            def __init__(self, real: socket.socket) -> None:
                self.fileno = real.fileno

            def accept(self) -> None:
                raise OSError(errno.EMFILE, "Too many open files")

        (real,) = door._listening
        with structlog.testing.capture_logs() as lines:
            door._accept(Exhausted(real))  # type: ignore[arg-type]
        assert [line["reason"] for line in lines] == ["[Errno 24] Too many open files"]
        later = asyncio.create_task(here.client())
        await asyncio.sleep(0.01)
        assert await client.asks(peer.PING) == peer.PONG
        handle = next(iter(door._rests.values()))
        handle.cancel()
        door._rests.clear()
        door._loop.add_reader(real, door._accept, real)

        await later
        assert here.closes == {"no file descriptors left": 1}


async def test_a_drain_is_not_held_up_by_those_who_take_nothing() -> None:
    """Its time is bounded, and those who take their receipts get them."""
    async with site() as here:
        deaf, silent, good = (
            await here.client(consumes=True),
            await here.visit(),
            await here.client(),
        )
        deaf.read_no_more()
        await fill(here, here.broker.writers[0])
        assert await good.asks(peer.send()) == peer.receipt(1, 0)

        async with asyncio.timeout(60):
            await here.gate.drain(1.5)

        assert await good.is_closed()
        assert await silent.is_closed()
        assert here.gate.figures().connections == 0


async def test_sockets_notice_peers_that_vanish() -> None:
    """On both sides: probes on silent connections, and a bound on what is not acknowledged."""
    async with site() as here:
        await here.client()
        (connection,) = here.gate._connections
        for transport in (connection._client, connection._broker):
            assert transport is not None
            option = transport.get_extra_info("socket").getsockopt
            assert option(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert option(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            assert option(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 150_000
            assert taken(transport).acknowledged > 0
