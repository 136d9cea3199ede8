"""The asyncio shell of one connection: two sockets around a ``Session``.

The session decides, this module moves bytes: received bytes go in, bytes that the session put out are
written, and each side is read only while the other side takes the result (and, for the client, while the
session can hold more). Bytes that the session releases outside of a read are written in a callback of
their own, so a failure of one connection never reaches the next one in line.

The broker is dialled when the first command of the client is complete: a client that sends nothing, or
speaks another protocol, costs the broker nothing.

**Back-pressure.** While a side has more than ``WRITE_BUFFER_HIGH`` bytes to take, the other one is not
read. A client that does not take the broker's bytes is still read itself: it may be slow, and its ACKs
and PINGs keep its connection alive. Only the gate's own answers can grow without the broker, so above
``CLIENT_FULL`` the client is not read either, whether they are unwritten or wait for the end of a frame
of the broker, which may be long in coming. At most these bytes are kept for one client, and the result
of one read.

A client that goes away while it is not read is noticed when a sign of life cannot be delivered: a socket
that is not read does not report its end.

A connection ends in one of four ways. One side closes: the other is closed once the bytes under way were
sent to it. A malformed frame: both are closed, and the gate is told why; a fault of the gate itself ends
that connection alone, too. A drain: see ``drain``. Or a deadline passes; see ``supervisor``.

A client that sent a malformed frame leaves the broker at once, and its socket is closed later; see
``letting_go``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from coordinator.gate.engine.deadlines import Awaited
from coordinator.gate.protocol.connect_policy import Client
from coordinator.gate.protocol.frames import MalformedFrame
from coordinator.gate.protocol.stream import Buffer
from coordinator.gate.server import sockets
from coordinator.gate.server.auditing import ClientAudit
from coordinator.gate.server.tls import common_name
from coordinator.gate.server.upstream import Address

if TYPE_CHECKING:
    from coordinator.gate.server.connections import Connections

GOODBYE_S = 1.0
"""The time in which a drained client may close its side."""

WRITE_BUFFER_HIGH = 64 * 1024
"""Above this many unwritten bytes the other side is not read; the result of one read may be added,
which is 256 KiB at most."""

CLIENT_FULL = 512 * 1024
"""Above this many unwritten bytes a client itself is not read; the broker alone never gets there."""


class Connection(asyncio.Protocol):
    """A client's connection; the protocol of its client side.

    Args:
        host: all connections of the gate.
        address: the client's host and port.
    """

    def __init__(self, host: Connections, address: Address) -> None:
        self._host = host
        self._deadlines = host.deadlines
        self._turns = host.turns
        self.served = 0
        self._loop = asyncio.get_running_loop()
        self.address = address[0]
        self.peer = f"{address[0]}:{address[1]}"
        self.session = host.new_session(self._flush_soon, ClientAudit(host.log, self.peer))
        self._client: asyncio.Transport | None = None
        self._broker: asyncio.Transport | None = None
        self._client_writable = True
        self._broker_writable = True
        #: The last orders to the transports, so that only changes are ordered.
        self._client_read = True
        self._broker_read = True
        #: Whether the client has more to take than its answers may be.
        self._client_full = False
        self._flush_planned = False
        self._dialled = self._dialling = False
        self._was_paused = False
        #: The number of the client's large frame that must be completed in time; 0 is none.
        self._awaited_frame = 0
        #: How far each side had come with taking its bytes, at the last look.
        self._client_taken = self._broker_taken = sockets.NOTHING_TAKEN
        self._draining = False
        self._said_goodbye = False
        #: Whether the client sent a malformed frame: it is not served any more.
        self._refused = False
        #: Whether the client is gone or refused, or the broker is not understood: nothing that comes is
        #: decided any more.
        self._left = False
        #: Set when both sides are closed.
        self.ended = asyncio.Event()
        #: Whether the client's transport exists: a TLS handshake may fail.
        self.is_made = False

    # The client side, as asyncio calls it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with a new client."""
        # A cast, because uvloop's transports do not inherit from asyncio's.
        transport = cast("asyncio.Transport", transport)
        self._client = transport
        self.is_made = True
        principal = common_name(transport.get_extra_info("peercert"))
        self.session.connected(Client(self.address, principal))
        sockets.prepare(transport, WRITE_BUFFER_HIGH, self._host.silent_s)
        self._deadlines.begin(Awaited.CONNECT, self)
        self._host.opened(self)

    def data_received(self, data: bytes) -> None:
        """Pass the client's bytes to the session, to be decided in this pass or a later one."""
        self.session.keep_from_client(data)
        if self._turns.serves_now(self, len(data)):
            self._serve(self.session.serve_client)
        else:
            self._steer_reading()

    def pause_writing(self) -> None:
        """Stop reading the broker, because the client is slow."""
        self._client_writable = False
        if self._client is not None:
            self._client_taken = sockets.taken(self._client)
        self._deadlines.begin(Awaited.CLIENT_READS, self)
        self._steer_reading()

    def resume_writing(self) -> None:
        """Read the broker again, because the client has caught up."""
        self._client_writable = True
        self._client_full = False
        self._deadlines.end(Awaited.CLIENT_READS, self)
        self._steer_reading()

    def eof_received(self) -> None:
        """Take the client's end of stream; its transport closes once it has taken the rest."""
        self._deadlines.begin(Awaited.END, self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Close the broker's side, because the client is gone."""
        self._client = None
        self._leave()
        if self._broker is None and not self._dialling:
            self._end()

    # The broker side

    def broker_connected(self, transport: asyncio.Transport) -> None:
        """Begin to use the connection to the broker."""
        self._dialling = False
        self._broker = transport
        if self._client is None or self._refused:
            transport.abort()
            return
        sockets.prepare(transport, WRITE_BUFFER_HIGH, self._host.silent_s)
        names = (self._client.get_extra_info(name) for name in ("peername", "sockname"))
        header = self._host.upstream_header(
            *((name[0], name[1]) if name else None for name in names)
        )
        if header:
            transport.write(header)
        self.flush()

    def broker_data_received(self, data: bytes) -> None:
        """Pass the broker's bytes to the session, to be decided in this pass or a later one."""
        self.session.keep_from_broker(data)
        if self._turns.serves_now(self, len(data)):
            self._serve(self.session.serve_broker)
        else:
            self._steer_reading()

    def broker_writable(self, *, writable: bool) -> None:
        """Take the news that the broker became slow, or caught up."""
        self._broker_writable = writable
        if writable:
            self._deadlines.end(Awaited.BROKER_READS, self)
        elif self._broker is not None:
            self._broker_taken = sockets.taken(self._broker)
            self._deadlines.begin(Awaited.BROKER_READS, self)
        self._steer_reading()

    def broker_ended(self) -> None:
        """Take the broker's end of stream; its transport closes once it has taken the rest."""
        self._deadlines.begin(Awaited.END, self)

    def broker_lost(self) -> None:
        """End the connection: the broker closed it, or could not be reached."""
        self._broker = None
        self._dialling = False
        if self._client is None:
            self._end()
        elif not self._refused:
            self.close()

    # Orders of the gate

    @property
    def waiting_bytes(self) -> int:
        """See `TurnTaker`."""
        return self.session.waiting_bytes

    def take_turn(self) -> None:
        """See `TurnTaker`."""
        session = self.session
        if session.paused:
            self.advance()
        elif session.client_waits and self._client is not None and not self._client.is_closing():
            self._serve(session.serve_client)
        if session.broker_waits and self._client_writable:
            self._serve(session.serve_broker)

    def flush(self) -> None:
        """Write the session's output, and read as much as it can take."""
        session = self.session
        if session.to_broker:
            if self._broker is not None:
                self._write(self._broker, session.to_broker)
            elif not self._dialled and self._client is not None:
                self._dialled = self._dialling = True
                self._host.dial_broker(self)
        if session.to_client and self._client is not None:
            if self._said_goodbye or self._client.is_closing():
                session.to_client.clear()  # no byte may follow the end of the stream
            else:
                self._write(self._client, session.to_client)
                if not self._client_writable:
                    self._client_full = self._client.get_write_buffer_size() > CLIENT_FULL
        self._steer_reading()
        if self._draining and not session.unanswered:
            self._say_goodbye()

    def advance(self) -> None:
        """Read the client again if nothing is against it any more."""
        if self._client is not None:
            self._serve(self.session.advance)

    def look_again(self) -> None:
        """Have a turn for a client that is not read: its allowance may have grown."""
        self._turns.ask(self)

    def reattach(self) -> None:
        """Resolve the groups of all participants again, because attachments changed."""
        self._serve(self.session.reattach)

    def drain(self) -> None:
        """End the connection as soon as every forwarded SEND was answered.

        Then the client gets the end of the stream and is expected to close. Until it does, its bytes are
        still read: closing a socket with unread bytes resets the connection, and the client would lose
        the very receipts that the drain waited for.
        """
        self._draining = True
        self._serve(self.session.drain)

    def close(self) -> None:
        """Close the connection once the bytes under way were sent to the client."""
        self.flush()
        if self._client is not None:
            self._client.close()
            self._deadlines.begin(Awaited.END, self)

    def abort(self) -> None:
        """Close the connection at once."""
        for transport in (self._client, self._broker):
            if transport is not None:
                transport.abort()

    # Questions of the supervisor

    @property
    def unread_bytes(self) -> int:
        """The bytes that the client has not taken yet."""
        return 0 if self._client is None else self._client.get_write_buffer_size()

    def client_took_some(self) -> bool:
        """Return whether the client took bytes since it was slow, or since the last call."""
        before, self._client_taken = self._client_taken, sockets.taken(self._client)
        return self._client_taken.is_beyond(before)

    def broker_took_some(self) -> bool:
        """Return whether the broker took bytes since it was slow, or since the last call."""
        before, self._broker_taken = self._broker_taken, sockets.taken(self._broker)
        return self._broker_taken.is_beyond(before)

    def keep_alive(self) -> None:
        """Give a sign of life to a client that is paused; see ``Session.keep_alive``."""
        self.session.keep_alive(to_broker=not self._client_writable)
        self.flush()

    def _end(self) -> None:
        if not self.ended.is_set():
            self._deadlines.forget(self)
            self._host.ended(self)
            self.ended.set()

    def _serve(self, step: Callable[[int], None]) -> None:
        """Let the session decide bytes that came, and write its output."""
        if self._left:
            return
        failed: MalformedFrame | None = None
        try:
            step(self._host.now_ns())
        except MalformedFrame as error:
            failed = error
        except Exception:  # noqa: BLE001 - other connections, and the caller, must not feel it
            self._host.failed(self.peer)
            self.abort()
            return
        self._turns.spend(self, self.session.take_decided())
        if failed is not None:
            self._fail(failed)
        else:
            self.flush()
            self._host.handled()

    def _flush_soon(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush_released)

    def _flush_released(self) -> None:
        self._flush_planned = False
        self.advance()

    def _fail(self, error: MalformedFrame) -> None:
        side = "client" if self.session.client_failed else "broker"
        self._host.malformed(side, self.peer, error)
        if side == "client" and self._client is not None:
            self._refuse()
        else:
            self._leave()
            self.close()

    def _refuse(self) -> None:
        """Serve the client no more; its side is closed later."""
        self._refused = True
        self.flush()  # which reads no more of it
        self._leave()
        self._host.refused_clients.add(self.close)

    def _leave(self) -> None:
        """Close the broker's side once it has taken the bytes under way; the client has no more."""
        if self._left:
            return
        self._left = True
        self._deadlines.forget(self)
        self._turns.leave(self)
        self.session.close(self._host.now_ns())
        self._host.closed(self)
        if self._broker is not None:
            self._write(self._broker, self.session.to_broker)
            self._broker.close()
            self._deadlines.begin(Awaited.END, self)

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
        """Read each side while the other takes the result, and nothing that was read waits."""
        session = self.session
        paused = session.paused
        serves_client = (
            (self._broker is not None or not self._dialled)
            and self._broker_writable
            and not paused
            and not self._client_full
            and session.unsent_answers <= CLIENT_FULL
            and not self._refused
        )
        client_waits, broker_waits = session.client_waits, session.broker_waits
        if (client_waits and serves_client) or (broker_waits and self._client_writable):
            self._turns.ask(self)
        read = serves_client and not client_waits
        read_broker = self._client_writable and not broker_waits
        if read != self._client_read and self._client is not None:
            self._client_read = read
            _steer(self._client, read=read)
        if read_broker != self._broker_read and self._broker is not None:
            self._broker_read = read_broker
            _steer(self._broker, read=read_broker)
        is_read = read and self._client is not None
        awaited_frame = session.awaited_frame if is_read else 0
        if awaited_frame != self._awaited_frame:
            self._awaited_frame = awaited_frame
            self._deadlines.begin_or_end(Awaited.FRAME, self, waits=awaited_frame > 0)
        if paused != self._was_paused:
            self._was_paused = paused
            self._deadlines.begin_or_end(Awaited.SIGN_OF_LIFE, self, waits=paused)
            self._deadlines.begin_or_end(Awaited.ALLOWANCE, self, waits=paused)

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
        """Begin to use the connection to the broker."""
        self._connection.broker_connected(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        """Pass on the broker's bytes."""
        self._connection.broker_data_received(data)

    def pause_writing(self) -> None:
        """Report that the broker is slow."""
        self._connection.broker_writable(writable=False)

    def resume_writing(self) -> None:
        """Report that the broker has caught up."""
        self._connection.broker_writable(writable=True)

    def eof_received(self) -> None:
        """Report the broker's end of stream."""
        self._connection.broker_ended()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Report that the broker is gone."""
        self._connection.broker_lost()


def _steer(transport: asyncio.Transport, *, read: bool) -> None:
    if transport.is_closing():
        return
    if read:
        transport.resume_reading()
    else:
        transport.pause_reading()
