"""Load through a gate between two puppets: a client and a broker that send what was made before.

Closed loops, as real clients are: a fixed number of publishes is under way and a receipt makes room for
the next one; a consumer gives permits again as its messages come. The puppets' own work is next to
nothing per frame, and the measured figure is the processor time of the process between them, so foreign
load disturbs little.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from coordinator.gate.protocol.commands import read_flow
from coordinator.gate.protocol.frames import CONNECT, FLOW, read_head, read_sizes
from tests.gate import peer

_PERMITS: Final = 1000
_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class FrameLoad:
    """Frames of one kind.

    Args:
        topic: whose.
        content_bytes: content of a frame.
        messages: in one frame.
        frames: how many pass in all.
        window: how many publishes are under way.
    """

    topic: str
    content_bytes: int
    messages: int
    frames: int
    window: int = 1000


class Puppet(asyncio.Protocol):
    """One end of a connection.

    Args:
        received: called with what was read.
        connected: called when there is a connection.
    """

    def __init__(
        self, received: Callable[[bytes], None], connected: Callable[[], None] = lambda: None
    ) -> None:
        self._received = received
        self._connected = connected
        self.transport: asyncio.Transport | None = None
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)
        self._connected()

    def data_received(self, data: bytes) -> None:
        """Hand on."""
        self._received(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """It is over."""
        self.closed.set()

    async def close(self) -> None:
        """Close, and wait until that is done."""
        assert self.transport is not None
        self.transport.close()
        await self.closed.wait()

    def write(self, data: bytes) -> None:
        """Send."""
        assert self.transport is not None
        self.transport.write(data)


class Publishing:
    """A producer, and a broker that answers every publish.

    Args:
        topic: where it publishes.
        send: its publish.
        answered: told how many receipts have come in all, first when the producer is open.
    """

    def __init__(self, topic: str, send: bytes, answered: Callable[[int], None]) -> None:
        self._introduction, self._send = peer.producer(topic), send
        self._receipt = peer.receipt()
        self._is_answered = answered
        #: Bytes of SENDs that have arrived, and of receipts; below 0 while the connection is opened.
        self._at_broker = -len(peer.connect()) - len(self._introduction)
        self._at_client = -len(peer.connected()) - len(peer.producer_success())
        self._receipts = 0
        self.broker = Puppet(self._broker_received)
        self.client = Puppet(self._client_received, self._begin)

    def publish(self, count: int) -> None:
        """Send frames, this number of them."""
        self.client.write(self._send * count)

    def _begin(self) -> None:
        self.client.write(peer.connect())

    def _broker_received(self, data: bytes) -> None:
        before, self._at_broker = self._at_broker, self._at_broker + len(data)
        if before < -len(self._introduction) <= self._at_broker:
            self.broker.write(peer.connected())
        if self._at_broker < 0:
            return
        if before < 0:
            self.broker.write(peer.producer_success())
        arrived = self._at_broker // len(self._send)
        self.broker.write(self._receipt * (arrived - self._receipts))
        self._receipts = arrived

    def _client_received(self, data: bytes) -> None:
        before, self._at_client = self._at_client, self._at_client + len(data)
        if before < -len(peer.producer_success()) <= self._at_client:
            self.client.write(self._introduction)
        if self._at_client >= 0:
            self._is_answered(self._at_client // len(self._receipt))


class _ClosedLoop:
    """Publishes with a fixed number under way, until all have been answered."""

    def __init__(self, load: FrameLoad, done: asyncio.Future[None]) -> None:
        self._load, self.done = load, done
        self._sent = 0
        send = peer.send(content=bytes(load.content_bytes), messages=load.messages)
        self._publishing = Publishing(load.topic, send, self._answered)
        self.broker, self.client = self._publishing.broker, self._publishing.client

    def _answered(self, receipts: int) -> None:
        if receipts == self._load.frames:
            self.done.set_result(None)
            return
        room = min(self._load.window - (self._sent - receipts), self._load.frames - self._sent)
        self._publishing.publish(room)
        self._sent += room


class _Consuming:
    """A consumer that gives permits again, and a broker that has a backlog."""

    def __init__(self, load: FrameLoad, done: asyncio.Future[None]) -> None:
        self._load, self.done = load, done
        self._delivery = peer.delivery(content=bytes(load.content_bytes), messages=load.messages)
        self._from_client = b""
        self._sent = 0
        self._received = -len(peer.connected()) - len(peer.success(1))
        self._given_for = 0
        self.broker = Puppet(self._broker_received)
        self.client = Puppet(self._client_received, self._begin)

    def _begin(self) -> None:
        self.client.write(peer.connect())

    def _broker_received(self, data: bytes) -> None:
        stream = self._from_client + data
        while len(stream) >= 8 and len(stream) >= 4 + read_sizes(stream, 0)[0]:
            total, command = read_sizes(stream, 0)
            if stream[9] == CONNECT:
                self.broker.write(peer.connected())
            elif stream[9] == FLOW:
                _, body = read_head(stream, 8, 8 + command)
                self._deliver(read_flow(stream, body, 8 + command)[1])
            else:
                self.broker.write(peer.success(1))
            stream = stream[4 + total :]
        self._from_client = stream

    def _deliver(self, permits: int) -> None:
        frames = min(permits, self._load.frames - self._sent)
        self.broker.write(self._delivery * frames)
        self._sent += frames

    def _client_received(self, data: bytes) -> None:
        before, self._received = self._received, self._received + len(data)
        if before < -len(peer.success(1)) <= self._received:
            self.client.write(peer.subscribe(self._load.topic) + peer.flow(permits=_PERMITS))
        frames = max(0, self._received) // len(self._delivery)
        if frames == self._load.frames and not self.done.done():
            self.done.set_result(None)
        elif frames - self._given_for >= _PERMITS // 2:
            self.client.write(peer.flow(permits=frames - self._given_for))
            self._given_for = frames


async def publish(load: FrameLoad, listen: int, upstream: int) -> None:
    """Publish a load through what listens on a port and leads to another one."""
    await _run(_ClosedLoop(load, asyncio.get_running_loop().create_future()), listen, upstream)


async def consume(load: FrameLoad, listen: int, upstream: int) -> None:
    """Consume a load in the same way."""
    await _run(_Consuming(load, asyncio.get_running_loop().create_future()), listen, upstream)


async def _run(play: _ClosedLoop | _Consuming, listen: int, upstream: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: play.broker, "127.0.0.1", upstream)
    await loop.create_connection(lambda: play.client, "127.0.0.1", listen)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await play.done
            await play.client.close()
            await play.broker.closed.wait()  # by the process between; a loop must not end before
    finally:
        server.close()
