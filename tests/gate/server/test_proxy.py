"""The gate with real sockets, between a test's client and a broker of a few lines."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Self

import pytest
import structlog

from coordinator.core.model import NANOS_PER_SECOND, Attachments, MonitoringClass, Rates
from coordinator.core.topics import TopicName
from coordinator.gate.server.proxy import Gate
from coordinator.gate.server.tls import TlsFiles
from tests.gate import peer
from tests.gate.conftest import MILLISECOND_NS, TOPIC, Story
from tests.gate.gates import gate_to

GROUP = Attachments({}, {"tenant/ns": "group"})


def topic_name(name: str) -> TopicName:
    """A topic's name, taken apart."""
    topic = TopicName.parse(name)
    assert topic is not None
    return topic


class FakeBroker:
    """Answers PRODUCER and SEND as a broker does, and remembers what it received."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.received: list[bytes] = []
        #: Its connections in the order in which they came.
        self.writers: list[asyncio.StreamWriter] = []
        #: Whether CONNECTs are accepted, SENDs get their receipts, and anything is read.
        self.accepts = self.answers = self.reads = True
        self._host = host
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def addresses(self) -> set[tuple[str, int]]:
        """The addresses from which it was connected to."""
        names = (writer.get_extra_info("peername") for writer in self.writers)
        return {(name[0], name[1]) for name in names}

    def stop(self) -> None:
        """Close the port and every connection."""
        assert self._server is not None
        self._server.close()
        for writer in self.writers:
            writer.close()

    def sends(self) -> list[bytes]:
        """The SENDs among what was received."""
        return [frame for frame in self.received if peer.kind_of(frame) == 6]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        while self.reads and (frame := await read_frame(reader)):
            self.received.append(frame)
            if peer.kind_of(frame) == 2 and self.accepts:
                writer.write(peer.connected())
            elif peer.kind_of(frame) in (4, 5):
                writer.write(peer.granted(frame))
            elif peer.kind_of(frame) == 6 and self.answers:
                writer.write(peer.receipt(frame[13], frame[15]))
            elif peer.kind_of(frame) == 18:
                writer.write(peer.PONG)
        if self.reads:
            writer.close()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next frame; nothing at the end of the stream."""
    try:
        head = await reader.readexactly(4)
        return head + await reader.readexactly(int.from_bytes(head, "big"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


class Client:
    """A client's socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def asks(self, request: bytes) -> bytes:
        """Send a frame and wait for the next one to come."""
        self.writer.write(request)
        return await self.next()

    async def opens(self, *requests: bytes) -> None:
        """Connect to the broker and open these producers and consumers."""
        assert await self.asks(peer.connect()) == peer.connected()
        for request in requests:
            assert await self.asks(request) == peer.granted(request)

    async def next(self) -> bytes:
        """The next frame; nothing when the connection is closed."""
        async with asyncio.timeout(120):
            return await read_frame(self.reader)


class Site:
    """A gate in front of a fake broker."""

    def __init__(self, gate: Gate, broker: FakeBroker, story: Story) -> None:
        self.gate, self.broker, self.story = gate, broker, story
        self.clients: list[Client] = []

    async def client(self, producer: bool = True) -> Client:
        """Connect, and open producer 1."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.gate.port))
        self.clients.append(client)
        if producer:
            await client.opens(peer.producer(TOPIC))
        return client


@asynccontextmanager
async def site(
    upstream: int | None = None, held_bytes_max: int = 1_000_000, tls: TlsFiles | None = None
) -> AsyncIterator[Site]:
    """A gate that is closed when the test is over."""
    async with FakeBroker() as broker:
        story = Story()
        port = broker.port if upstream is None else upstream
        gate = gate_to(port, listener=story, held_bytes_max=held_bytes_max, entrance=tls)
        await gate.start()
        here = Site(gate, broker, story)
        try:
            yield here
        finally:
            for client in here.clients:
                client.writer.close()
            await gate.close()
            assert gate.figures().connections == 0


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until something is so."""
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.001)


async def test_frames_and_receipts_pass() -> None:
    """From the client to the broker and back; megabytes whole, through every buffer in between."""
    large = peer.send(1, 6, content=bytes(range(256)) * 20_000)
    async with site() as here:
        client = await here.client()

        assert await client.asks(peer.send(1, 5)) == peer.receipt(1, 5)
        assert await client.asks(peer.PING) == peer.PONG
        assert await client.asks(large) == peer.receipt(1, 6)
        assert here.broker.received[1:] == [peer.producer(TOPIC), peer.send(1, 5), peer.PING, large]


async def test_a_slow_reader_stops_the_other_side() -> None:
    """Megabytes for a client that does not read stay at the broker, and arrive when it does."""
    async with site() as here:
        client = await here.client(producer=False)
        await client.opens(peer.subscribe(TOPIC))
        frame = peer.delivery(content=b"y" * 1_000_000)
        here.broker.writers[0].writelines([frame] * 40)
        await asyncio.sleep(0.05)

        transport = here.broker.writers[0].transport
        assert transport.get_write_buffer_size() > 10_000_000
        for _ in range(40):
            assert await client.next() == frame


async def test_a_limit_holds_and_its_end_releases() -> None:
    """Held messages wait for tokens, and not for the timer when the limit is lifted."""
    async with site() as here:
        here.gate.set_attachments(GROUP)
        here.gate.set_limits("group", Rates(publish_messages=0))
        client = await here.client()
        client.writer.write(peer.send(1, 1) + peer.send(1, 2))
        assert await client.asks(peer.PING) == peer.PONG
        held = here.gate.figures()

        here.gate.remove_limits("group")

        assert [await client.next(), await client.next()] == [
            peer.receipt(1, 1),
            peer.receipt(1, 2),
        ]
        assert (held.held_frames, held.producers, held.waiting_producers) == (2, 1, 1)
        assert here.gate.figures().held_frames == 0


async def test_the_timer_releases_what_may_pass() -> None:
    """Thirty messages at 200/s, three times what can be saved up, need no further stimulus."""
    async with site() as here:
        here.gate.set_attachments(GROUP)
        here.gate.set_limits("group", Rates(publish_messages=200))
        client = await here.client()
        client.writer.writelines(peer.send(1, number) for number in range(30))

        assert [await client.next() for _ in range(30)] == [peer.receipt(1, n) for n in range(30)]
        (traffic,) = here.gate.collect()
        assert (traffic.messages, traffic.participants, traffic.topics) == (30, 1, 1)
        assert traffic.messages_held_ns > 10_000_000


async def test_a_client_beyond_its_bound_is_not_read() -> None:
    """Bytes beyond the bound stay in the client's socket until there is room."""
    async with site(held_bytes_max=100_000) as here:
        here.gate.set_attachments(GROUP)
        here.gate.set_limits("group", Rates(publish_messages=0))
        client = await here.client()
        frame = peer.send(1, 1, content=b"z" * 50_000)
        client.writer.writelines([frame] * 400)
        await until(lambda: here.gate.figures().pauses == 1)
        here.broker.writers[0].write(peer.PING)
        await until(lambda: peer.PONG in here.broker.received)
        stuck = here.gate.figures()

        here.gate.remove_limits("group")
        await until(lambda: len(here.broker.sends()) == 400)

        assert stuck.held_bytes <= 100_000
        assert stuck.keep_alive_replies == 1
        assert await client.next() == peer.PING


async def test_each_release_is_on_its_own() -> None:
    """apache/pulsar#23930: an error on one connection delays no other one in the queue."""
    async with site(held_bytes_max=1000) as here:
        here.gate.set_attachments(GROUP)
        here.gate.set_limits("group", Rates(publish_messages=0))
        clients = [await here.client() for _ in range(3)]
        garbage = b"\xff" * 20
        for client, behind in zip(clients, (b"", garbage, b""), strict=True):
            client.writer.write(peer.send(1, 1) + peer.send(1, 2, content=b"x" * 1000) + behind)
        await until(lambda: here.gate.figures().pauses == 3)

        here.gate.remove_limits("group")

        for client in (clients[0], clients[2]):
            assert [await client.next(), await client.next()] == [
                peer.receipt(1, 1),
                peer.receipt(1, 2),
            ]
        await until(lambda: here.gate.figures().connections == 2)
        assert here.gate.figures().malformed_closes == {"frame size out of bounds": 1}


async def test_a_pause_beyond_a_send_timeout_is_shown() -> None:
    """The gate reports the age of the oldest held message, and the length of the pause afterwards."""
    async with site() as here:
        here.gate.set_attachments(GROUP)
        here.gate.set_limits("group", Rates(publish_messages=0))
        client = await here.client()
        assert here.gate.figures().longest_hold_ns == 0
        client.writer.write(peer.send(1, 1))
        await until(lambda: here.gate.figures().held_frames == 1)
        time_of, here.gate._now_ns = here.gate._now_ns, lambda: time_of() + 31 * NANOS_PER_SECOND

        assert here.gate.figures().longest_hold_ns > 31 * NANOS_PER_SECOND
        here.gate.remove_limits("group")
        assert await client.next() == peer.receipt(1, 1)
        (held,) = here.gate.holds()
        assert held.counts[-1] == 1


async def test_a_changed_attachment_takes_effect_on_open_connections() -> None:
    """A producer that was free is held from now on."""
    async with site() as here:
        here.gate.set_limits("group", Rates(publish_messages=0))
        client = await here.client()
        assert await client.asks(peer.send(1, 1)) == peer.receipt(1, 1)

        here.gate.set_attachments(GROUP)

        client.writer.write(peer.send(1, 2))
        await until(lambda: here.gate.figures().held_frames == 1)
        here.gate.set_attachments(Attachments())
        assert await client.next() == peer.receipt(1, 2)


async def test_a_malformed_frame_closes_that_connection_only() -> None:
    """The log and the figures have the reason."""
    async with site() as here:
        good, bad = await here.client(), await here.client()
        with structlog.testing.capture_logs() as logs:
            assert await bad.asks(b"GET / HTTP/1.1\r\n\r\n") == b""
            await until(lambda: here.gate.figures().connections == 1)

        assert await good.asks(peer.send()) == peer.receipt()
        assert here.gate.figures().malformed_closes == {"frame size out of bounds": 1}
        assert [(log["log_level"], log["side"]) for log in logs] == [("warning", "client")]


async def test_a_broker_out_of_reach_turns_clients_away() -> None:
    """Each one is counted, the log says it once a minute."""
    with socket.socket() as kept:  # so that no other listens there, this gate included
        kept.bind(("127.0.0.1", 0))
        async with site(upstream=kept.getsockname()[1]) as here:
            with structlog.testing.capture_logs() as logs:
                for _ in range(3):
                    client = await here.client(producer=False)
                    assert await client.asks(peer.connect()) == b""

            assert here.gate.figures().upstream_failures == 3
            assert [log["log_level"] for log in logs] == ["warning"]


async def test_the_end_of_either_side_ends_the_other() -> None:
    """Its held frames are dropped."""
    async with site() as here:
        here.gate.set_attachments(GROUP)
        here.gate.set_limits("group", Rates(publish_messages=0))
        leaver, left = await here.client(), await here.client()
        leaver.writer.write(peer.send())
        await until(lambda: here.gate.figures().held_frames == 1)

        leaver.writer.close()
        await until(lambda: here.gate.figures().connections == 1)
        here.broker.writers[1].close()

        assert await left.next() == b""
        assert here.gate.figures().held_bytes == 0
        assert here.story.participants[-1] == ("group", MonitoringClass.PUBLISH, 0)


async def test_a_drain_answers_what_was_forwarded_and_discards_what_was_held() -> None:
    """The client sends again exactly the messages that the broker does not have."""
    async with site() as here:
        here.gate.set_attachments(GROUP)
        here.broker.answers = False
        client = await here.client()
        client.writer.write(peer.send(1, 1) + peer.send(1, 2))
        await until(lambda: len(here.broker.sends()) == 2)
        here.gate.set_limits("group", Rates(publish_messages=0))
        client.writer.write(peer.send(1, 3))
        await until(lambda: here.gate.figures().held_frames == 1)

        drain = asyncio.create_task(here.gate.drain(5))
        await asyncio.sleep(0.01)
        client.writer.write(peer.send(1, 4))
        here.broker.writers[0].write(peer.receipt(1, 1) + peer.receipt(1, 2))
        heard = [await client.next() for _ in range(3)]
        here.broker.writers[0].write(peer.delivery())  # too late: the consumer is gone
        await asyncio.sleep(0.01)
        client.writer.close()
        await drain

        assert heard == [peer.receipt(1, 1), peer.receipt(1, 2), b""]
        assert len(here.broker.sends()) == 2
        with pytest.raises(OSError, match=r"refused|failed|Connect"):
            await asyncio.open_connection("127.0.0.1", here.gate.port)


async def test_a_drain_ends_although_a_broker_never_answers() -> None:
    """Its timeout bounds it, and the log says that it ran out."""
    async with site() as here:
        here.broker.answers = False
        client = await here.client()
        client.writer.write(peer.send())
        await until(lambda: len(here.broker.sends()) == 1)

        with structlog.testing.capture_logs() as logs:
            await here.gate.drain(0.05)

        assert [log["connections"] for log in logs] == [1]
        assert await client.next() == b""


async def test_a_client_that_asks_for_another_broker_is_refused() -> None:
    """Like a proxy that may not lead anywhere: it is told why, and the broker hears nothing."""
    async with site() as here:
        client = await here.client(producer=False)
        foreign = peer.command(2, (1, "test"), (4, 19), (6, "10.0.0.1:6650"))

        answer = await client.asks(foreign)

        assert peer.kind_of(answer) == 14
        assert b"not 10.0.0.1:6650: this gate leads to 127.0.0.1:" in answer
        assert await client.next() == b""
        assert here.broker.received == []
        assert here.gate.figures().malformed_closes == {"asks for a broker that is not ours": 1}


async def test_a_client_that_asks_for_our_broker_passes() -> None:
    """Untouched; brokers do not look at it."""
    async with site() as here:
        client = await here.client(producer=False)
        ours = peer.command(2, (1, "test"), (4, 19), (6, f"127.0.0.1:{here.broker.port}"))
        client.writer.write(ours)

        await until(lambda: here.broker.received == [ours])


async def test_limits_of_topic_and_broker_are_set_and_lifted_at_once() -> None:
    """Beside those of groups; each connection tells what held it back."""
    async with site() as here:
        client = await here.client()
        setters: list[tuple[Callable[[Rates], None], str]] = [
            (here.gate.set_broker_limits, "broker limit"),
            (partial(here.gate.set_topic_limits, topic_name(TOPIC)), "topic limit"),
        ]
        for number, (limit, reason) in enumerate(setters):
            limit(Rates(publish_messages=0))
            client.writer.write(peer.send(1, number))
            await until(lambda: here.gate.figures().held_frames == 1)
            (figures,) = here.gate.connection_figures()
            limit(Rates())

            assert await client.next() == peer.receipt(1, number)
            assert (figures.producers, figures.throttles[reason]) == (1, 1)
        assert here.gate.figures().throttles == {"broker limit": 1, "topic limit": 1}


async def test_a_dispatch_limit_withholds_permits_and_its_end_releases_them() -> None:
    """From both sides of the sockets: the broker gets its FLOW when there are tokens."""
    async with site() as here:
        here.gate.set_attachments(GROUP)
        here.gate.set_limits("group", Rates(dispatch_messages=1000))
        client = await here.client(producer=False)
        await client.opens(peer.subscribe(TOPIC))
        client.writer.write(peer.flow(1, 100))
        await until(lambda: peer.flow(1, 1) in here.broker.received)
        limited = here.gate.figures()

        here.gate.remove_limits("group")

        await until(lambda: peer.flow(1, 99) in here.broker.received)
        assert limited.withheld_permits == 99
        assert here.gate.figures().withheld_permits == 0


async def test_a_limit_of_no_partition_is_refused() -> None:
    """The message says what to write instead; the limits stay."""
    async with site() as here:
        with pytest.raises(ValueError, match="partitions is 0: use 1"):
            here.gate.set_topic_limits(topic_name(TOPIC), Rates(publish_messages=0), partitions=0)
        assert here.gate.limits().topics == ()


async def test_the_gate_tells_its_own_limits_and_what_they_held() -> None:
    """Each partition's part as it is used; hold times by scope and class."""
    async with site() as here:
        here.gate.set_broker_limits(Rates(publish_bytes=10**6))
        here.gate.set_subscribe_rate(5, period_s=30)
        topic = topic_name(TOPIC)
        here.gate.set_topic_limits(topic, Rates(publish_messages=7), partitions=4)
        client = await here.client(producer=False)
        await client.opens(peer.producer(f"{TOPIC}-partition-1"))
        client.writer.write(peer.send(1, 0))
        await until(lambda: len(here.broker.sends()) == 1)

        limits = here.gate.limits()
        (held,) = here.gate.holds()

        assert limits.broker == Rates(publish_bytes=10**6)
        assert (limits.subscribe_rate_per_consumer, limits.subscribe_rate_period_s) == (5, 30)
        (of_topic,) = limits.topics
        assert (of_topic.topic, of_topic.partitions) == (TOPIC, 4)
        assert of_topic.rates == Rates(publish_messages=7)
        assert {part.partition: part.rates for part in of_topic.parts} == {
            1: Rates(publish_messages=2)
        }
        assert (held.scope, held.name, sum(held.counts)) == ("topic limit", TOPIC, 1)
        assert held.held_ns > 100 * MILLISECOND_NS
