"""The asyncio shell of one connection: two sockets around a ``Session``.

The session decides, this module moves bytes: what was read goes in, what the session put out is
written, and each side is read only as long as the other side takes what comes of it (and, for the
client, as long as the session can hold more). Whatever the session releases outside of a read is
written in a callback of its own, so trouble with one connection never reaches the next one in line.

A client that goes away while it is not read is noticed when a sign of life cannot be delivered: a
socket that nobody reads does not report its end.

A connection ends in one of three ways. One side closes: the other is closed once it was sent what is
under way, for which a broker has ``LEAVING_S``. A malformed frame: both are closed, and the gate is told
why. A drain: see ``drain``.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol, cast

from coordinator.gate.frames import MalformedFrame
from coordinator.gate.introduction import Client
from coordinator.gate.session import Session
from coordinator.gate.stream import Buffer
from coordinator.gate.tls import common_name
from coordinator.gate.upstream import Address

KEEP_ALIVE_S = 10.0
"""A paused client gets a sign of life this often; clients give up after twice 30 s of silence."""

GOODBYE_S = 1.0
"""How long a drained client may take to close its side."""

LEAVING_S = 30.0
"""How long the broker may take to read what a client that is gone left behind."""

WRITE_BUFFER_HIGH = 1024 * 1024
"""Above this many unwritten bytes the other side is not read; two reads of the largest size."""


class Host(Protocol):
    """The gate, as a connection sees it."""

    @property
    def now_ns(self) -> Callable[[], int]:
        """Tells the time."""
        ...

    def new_session(self, released: Callable[[], None]) -> Session:
        """The engine of a new connection."""
        ...

    def upstream_header(self, client: Address | None, gate: Address | None) -> bytes:
        """What the broker is told before a client's own bytes."""
        ...

    def opened(self, connection: Connection) -> None:
        """A client connected; the broker is to be dialled."""
        ...

    def closed(self, connection: Connection) -> None:
        """The client is gone; the broker may still have to be sent what it left behind."""
        ...

    def ended(self, connection: Connection) -> None:
        """Nothing of the connection is left."""
        ...

    def malformed(self, side: str, peer: str, error: MalformedFrame) -> None:
        """One side sent what is no frame."""
        ...

    def handled(self) -> None:
        """What came was handled: something may have passed, producers or consumers may have lined up."""
        ...


class Connection(asyncio.Protocol):
    """A client's connection; the protocol of its client side.

    Args:
        host: the gate.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self.session = host.new_session(self._flush_soon)
        self._client: asyncio.Transport | None = None
        self._broker: asyncio.Transport | None = None
        self._client_writable = True
        self._broker_writable = True
        #: What was last asked of the transports, so that they are asked only for changes.
        self._client_read = True
        self._broker_read = True
        self._flush_planned = False
        self._keep_alive: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._draining = False
        self._said_goodbye = False
        #: Set when nothing of this connection is left.
        self.ended = asyncio.Event()
        self.peer = "unknown"

    # The client side, as asyncio calls it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        # A cast, because uvloop's transports do not inherit from asyncio's.
        transport = cast("asyncio.Transport", transport)
        self._client = transport
        host_and_port = transport.get_extra_info("peername")
        if host_and_port:
            self.peer = f"{host_and_port[0]}:{host_and_port[1]}"
            principal = common_name(transport.get_extra_info("peercert"))
            self.session.connected(Client(host_and_port[0], principal))
        _prepare(transport)
        self._steer_reading()
        self._host.opened(self)

    def data_received(self, data: bytes) -> None:
        """The client sent something."""
        try:
            self.session.receive_from_client(data, self._host.now_ns())
        except MalformedFrame as error:
            self._fail("client", error)
        else:
            self.flush()
            self._host.handled()

    def pause_writing(self) -> None:
        """The client is slow: read no more from the broker."""
        self._client_writable = False
        self._steer_reading()

    def resume_writing(self) -> None:
        """The client caught up."""
        self._client_writable = True
        self._steer_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """The client is gone."""
        self._client = None
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        self.session.close(self._host.now_ns())
        self._host.closed(self)
        if self._broker is None:
            self._end()
        else:
            self._write(self._broker, self.session.to_broker)
            self._broker.close()
            self._leaving = self._loop.call_later(LEAVING_S, self.abort)

    # The broker side

    def broker_connected(self, transport: asyncio.Transport) -> None:
        """The broker was reached."""
        if self._client is None:
            transport.abort()
            return
        self._broker = transport
        _prepare(transport)
        names = (self._client.get_extra_info(name) for name in ("peername", "sockname"))
        header = self._host.upstream_header(
            *((name[0], name[1]) if name else None for name in names)
        )
        if header:
            transport.write(header)
        self.flush()

    def broker_data_received(self, data: bytes) -> None:
        """The broker sent something."""
        try:
            self.session.receive_from_broker(data, self._host.now_ns())
        except MalformedFrame as error:
            self._fail("broker", error)
        else:
            self.flush()
            self._host.handled()

    def broker_writable(self, *, writable: bool) -> None:
        """The broker became slow, or caught up."""
        self._broker_writable = writable
        self._steer_reading()

    def broker_lost(self) -> None:
        """The broker closed the connection, or could not be reached."""
        self._broker = None
        if self._client is None:
            self._end()
        else:
            self.close()

    # What the gate asks for

    def flush(self) -> None:
        """Write what the session put out, and read as much as it can take in."""
        session = self.session
        if session.to_broker and self._broker is not None:
            self._write(self._broker, session.to_broker)
        if session.to_client and self._client is not None:
            if self._said_goodbye or self._client.is_closing():
                session.to_client.clear()  # nothing may follow the end of the stream
            else:
                self._write(self._client, session.to_client)
        self._steer_reading()
        if self._draining and not session.unanswered:
            self._say_goodbye()

    def reattach(self) -> None:
        """Attachments changed."""
        self._advance(self.session.reattach)

    def drain(self) -> None:
        """End the connection as soon as every forwarded SEND was answered.

        Then the client is sent the end of the stream and is expected to close. Until it does, what it
        sends is still read: closing a socket with unread bytes resets the connection, and the client
        would lose the very receipts that this is all about.
        """
        self._draining = True
        self._advance(self.session.drain)

    def close(self) -> None:
        """Close the connection once the client was sent what is under way."""
        self.flush()
        if self._client is not None:
            self._client.close()

    def abort(self) -> None:
        """Close the connection at once."""
        for transport in (self._client, self._broker):
            if transport is not None:
                transport.abort()

    def _end(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        self._host.ended(self)
        self.ended.set()

    def _advance(self, step: Callable[[int], None]) -> None:
        try:
            step(self._host.now_ns())
        except MalformedFrame as error:
            self._fail("client", error)
        else:
            self.flush()
            self._host.handled()

    def _flush_soon(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush_released)

    def _flush_released(self) -> None:
        self._flush_planned = False
        if self._client is not None:
            self._advance(self.session.advance)

    def _fail(self, side: str, error: MalformedFrame) -> None:
        self._host.malformed(side, self.peer, error)
        self.close()

    def _say_goodbye(self) -> None:
        if self._said_goodbye:
            return
        self._said_goodbye = True
        if self._client is None or self._client.is_closing():
            return
        if self._client.can_write_eof():
            self._client.write_eof()
            self._loop.call_later(GOODBYE_S, self.close)
        else:  # TLS says goodbye by itself, and goes on reading until the client does, too
            self._client.close()

    def _steer_reading(self) -> None:
        """Read from each side if the other takes what comes of it."""
        paused = self.session.paused
        read = self._broker is not None and self._broker_writable and not paused
        if read != self._client_read and self._client is not None:
            self._client_read = read
            _steer(self._client, read=read)
        if self._client_writable != self._broker_read and self._broker is not None:
            self._broker_read = self._client_writable
            _steer(self._broker, read=self._client_writable)
        if paused and self._keep_alive is None and self._client is not None:
            self._keep_alive = self._loop.call_later(KEEP_ALIVE_S, self._send_keep_alive)
        elif not paused and self._keep_alive is not None:
            self._keep_alive.cancel()
            self._keep_alive = None

    def _send_keep_alive(self) -> None:
        self._keep_alive = None
        self.session.keep_alive()
        self.flush()

    @staticmethod
    def _write(transport: asyncio.Transport, buffers: list[Buffer]) -> None:
        if len(buffers) == 1:
            transport.write(buffers[0])
        else:  # many small ones when held frames are released: one call to the system for all
            transport.writelines(buffers)
        buffers.clear()


class BrokerSide(asyncio.Protocol):
    """The protocol of a connection's broker side: hands everything on."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The broker was reached."""
        self._connection.broker_connected(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        """The broker sent something."""
        self._connection.broker_data_received(data)

    def pause_writing(self) -> None:
        """The broker is slow."""
        self._connection.broker_writable(writable=False)

    def resume_writing(self) -> None:
        """The broker caught up."""
        self._connection.broker_writable(writable=True)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """The broker is gone."""
        self._connection.broker_lost()


def _prepare(transport: asyncio.Transport) -> None:
    transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)
    transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _steer(transport: asyncio.Transport, *, read: bool) -> None:
    if transport.is_closing():
        return
    if read:
        transport.resume_reading()
    else:
        transport.pause_reading()
