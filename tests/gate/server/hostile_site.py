"""A gate whose time the test makes, between a broker and clients that the test leads."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from coordinator.gate.server.connection import WRITE_BUFFER_HIGH, Connection
from coordinator.gate.server.proxy import Gate
from coordinator.gate.server.supervisor import Patience
from tests.gate import peer
from tests.gate.conftest import TOPIC
from tests.gate.gates import gate_to
from tests.gate.server.test_proxy import Client, FakeBroker, until

READ = 256 * 1024
PATIENCE = Patience(connect_s=10, stalled_s=60)
DELIVERY = peer.delivery(content=b"y" * 50_000)

DELIVERIES = 400
"""20 MB: more than sockets hold."""


class Visit(Client):
    """A client's socket that the gate may close, and of which nothing may be read."""

    async def is_closed(self) -> bool:
        """Whether the gate closes it, or has done so."""
        async with asyncio.timeout(120):
            with contextlib.suppress(ConnectionError):
                while await self.reader.read(READ):
                    pass
            return True

    def read_no_more(self) -> None:
        """Take nothing but what is under way."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]


class Site:
    """A gate between clients and a broker."""

    def __init__(self, gate: Gate, broker: FakeBroker) -> None:
        self.gate, self.broker = gate, broker
        self.visits: list[Visit] = []

    async def is_turned_away(self) -> bool:
        """Whether the gate closes a new connection at once, perhaps before the client knows of it."""
        try:
            return await (await self.visit()).is_closed()
        except ConnectionResetError:
            return True

    async def visit(self) -> Visit:
        """Connect, and say nothing. The system holds little for it, so that it shows what it reads."""
        connected = socket.socket()
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ)
        connected.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(connected, ("127.0.0.1", self.gate.port))
        except OSError:
            connected.close()
            raise
        visit = Visit(*await asyncio.open_connection(sock=connected))
        self.visits.append(visit)
        return visit

    async def client(self, *, consumes: bool = False) -> Visit:
        """Connect, and open producer 1 or consumer 1."""
        client = await self.visit()
        assert await client.asks(peer.connect()) == peer.connected()
        request = peer.subscribe(TOPIC) + peer.flow() if consumes else peer.producer(TOPIC)
        assert await client.asks(request) in (peer.success(1), peer.producer_success(1))
        return client

    async def deaf_consumer(self) -> Visit:
        """Connect a consumer that reads no more, and fill the way to it."""
        client = await self.client(consumes=True)
        client.read_no_more()
        await fill(self, self.broker.writers[0])
        return client

    async def publisher_to_deaf_broker(self) -> tuple[Visit, Connection]:
        """Connect a producer, and fill the way to a broker that reads no more."""
        client = await self.client()
        self.broker.reads = False
        frame = peer.send(content=b"x" * 100_000)
        for _ in range(300):
            client.writer.write(frame)
        (connection,) = self.gate._connections
        await until(lambda: not connection._broker_writable)
        return client, connection

    def pass_time(self, seconds: float) -> None:
        """Sweep as often as a gate does in this time."""
        for _ in range(int(seconds)):
            self.gate._connections.supervisor.sweep()

    @property
    def closes(self) -> dict[str, int]:
        """Return the number of connections that the gate closed, by reason."""
        return dict(self.gate.figures().closes)

    @property
    def unread(self) -> list[int]:
        """Return the bytes that each client has not taken."""
        return [connection.unread_bytes for connection in self.gate._connections]


@asynccontextmanager
async def site(broker: FakeBroker | None = None, **settings: Any) -> AsyncIterator[Site]:
    """A gate whose time the test makes."""
    async with broker or FakeBroker() as upstream:
        gate = gate_to(upstream.port, **({"patience": PATIENCE} | settings))
        await gate.start()
        gate._connections.supervisor.stop()
        here = Site(gate, upstream)
        try:
            yield here
        finally:
            upstream.stop()
            for writer in (*(visit.writer for visit in here.visits), *upstream.writers):
                writer.transport.abort()
            await gate.close()
    await until(lambda: gate._connections.bounds.count == 0)
    assert not any(
        gate._connections.deadlines.waiting(awaited)
        for awaited in gate._connections.deadlines._since
    )


LOW_WATER = WRITE_BUFFER_HIGH // 4
"""Above this nothing more is read for a client that once had too much: a transport's own choice.

The system takes a little of it late, so a client that reads nothing may stay between the two marks.
"""


async def fill(here: Site, writer: asyncio.StreamWriter) -> None:
    """Let the broker send until nothing more goes through to a client."""
    for _ in range(DELIVERIES):
        writer.write(DELIVERY)
    await until(lambda: max(here.unread) > LOW_WATER)
    await settled(lambda: max(here.unread))


async def settled(figure: Callable[[], int]) -> None:
    """Wait until a figure stays what it is."""
    before = -1
    while before != (before := figure()):
        await asyncio.sleep(0.2)
