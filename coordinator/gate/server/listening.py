"""The gate's listening sockets: a plain port and, if wanted, a TLS port whose certificate can change.

A supervisor may keep the sockets and hand them over (systemd.socket(5)): then clients that connect while
the sidecar restarts wait, and are not refused.

This module accepts clients itself, without asyncio's servers, for two reasons. It decides whether there
is room for a client before it spends anything on it. And a TLS handshake counts as a connection from its
start; a server of asyncio has any number of handshakes under way and does not report them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Sequence
from typing import Final

import structlog

from coordinator.config import address_told
from coordinator.gate.engine.close_reason import CloseReason
from coordinator.gate.server.connections import Connections
from coordinator.gate.server.tls import (
    HANDSHAKE_TIMEOUT_S,
    POLL_S,
    ServerCertificate,
    TlsError,
    TlsListener,
)
from coordinator.gate.server.upstream import Address

_BACKLOG: Final = 1024
"""Connections that may wait to be accepted: all clients of a restarted sidecar come back at once."""

_AT_ONCE: Final = 64
"""Connections that are accepted in one turn of the event loop."""

_REST_S: Final = 1.0
"""The pause in accepting after the system refused a file descriptor."""

_EVERYWHERE: Final = "::"

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: closing resets the connection, and nothing of it stays in the system."""

_log = structlog.get_logger(__name__)


class Entrance:
    """The listening sockets of a gate.

    Args:
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        tls: listens with TLS as well, if given.
        kept: sockets that listen already, used for their ports.
    """

    def __init__(
        self, host: str, port: int, tls: TlsListener | None, kept: Sequence[socket.socket] = ()
    ) -> None:
        self._kept = {_port_of(each): each for each in kept}
        self._host = host
        self._port = port
        self._tls = tls
        self._certificate: ServerCertificate | None = None
        self._plain_door: _Door | None = None
        self._tls_door: _Door | None = None
        self._poll: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The plain port that the gate listens on, or will listen on."""
        return self._port

    @property
    def tls_port(self) -> int | None:
        """The port with TLS; None while there is none."""
        return None if self._tls_door is None else self._tls_door.port

    async def open(self, connections: Connections) -> None:
        """Accept clients.

        Raises:
            ConfigError: an address is in use.
            OSError: a port cannot be had.
            TlsError: the certificate cannot be used.
        """
        if self._tls is not None:
            await self._open_tls(self._tls, connections)
        listening = await self._listen("gate_listen", self._host, self._port)
        self._plain_door = _Door(listening, connections, None)
        self._port = self._plain_door.port
        _log.info("gate listens", host=self._host, port=self._port)

    def close(self) -> None:
        """Accept no more clients; connections go on, handshakes end."""
        for door in (self._plain_door, self._tls_door):
            if door is not None:
                door.close()
        if self._poll is not None:
            self._poll.cancel()

    def refresh_certificate(self) -> None:
        """Use the certificate that is in the files now for new connections."""
        if self._certificate is None:
            return
        try:
            if self._certificate.refresh():
                _log.info("certificate renewed")
        except TlsError as error:
            _log.error("new certificate cannot be used, the old one stays", reason=str(error))

    async def _open_tls(self, tls: TlsListener, connections: Connections) -> None:
        self._certificate = ServerCertificate(tls.files)
        listening = await self._listen("gate_tls_listen", tls.host, tls.port)
        self._tls_door = _Door(listening, connections, self._certificate.context)
        self._poll_certificate()
        _log.info("gate listens with TLS", host=tls.host, port=self.tls_port)

    async def _listen(self, key: str, host: str, port: int) -> Sequence[socket.socket]:
        kept = self._kept.pop(port, None)
        if kept is not None:
            return (kept,)
        with address_told(key, host, port):
            return await _bound(host, port)

    def _poll_certificate(self) -> None:
        self.refresh_certificate()
        self._poll = asyncio.get_running_loop().call_later(POLL_S, self._poll_certificate)


class _Door:
    """Accepts the clients of one port.

    Args:
        listening: its sockets, one of each address of the host.
        connections: decides which clients are accepted.
        context: the TLS context; None is plain.
    """

    def __init__(
        self,
        listening: Sequence[socket.socket],
        connections: Connections,
        context: ssl.SSLContext | None,
    ) -> None:
        self._listening = listening
        self._connections = connections
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
        self._rests: dict[socket.socket, asyncio.TimerHandle] = {}
        self.port = _port_of(listening[0])
        for each in listening:
            each.setblocking(False)
            each.listen(_BACKLOG)
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Accept no more clients."""
        for rest in self._rests.values():
            rest.cancel()
        for task in self._arriving:
            task.cancel()
        for each in self._listening:
            if each.fileno() >= 0:
                self._loop.remove_reader(each)
                each.close()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, name = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptor or no memory for one
                self._rest(listening, error)
                return
            address = (str(name[0]), int(name[1]))
            reason = self._connections.admits(address)
            if reason is not None:
                _reset(accepted)
                self._connections.turned_away(reason, address)
                continue
            accepted.setblocking(False)
            task = self._loop.create_task(self._let_in(accepted, address))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        self._connections.turned_away(CloseReason.NO_DESCRIPTORS, None, str(error))
        self._loop.remove_reader(listening)
        self._rests[listening] = self._loop.call_later(_REST_S, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        del self._rests[listening]
        self._loop.add_reader(listening, self._accept, listening)

    async def _let_in(self, accepted: socket.socket, address: Address) -> None:
        connection = self._connections.accept(address)
        failed: OSError | None = None
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else HANDSHAKE_TIMEOUT_S,
            )
        except OSError as error:  # SSLError, TimeoutError and a reset are some
            failed = error
        finally:
            if not connection.is_made:
                _reset(accepted)
                self._connections.handshake_failed(address, failed)


async def _bound(host: str, port: int) -> Sequence[socket.socket]:
    """Bind sockets of a port at all addresses of a host; ``::`` is all addresses, those of IPv4 too.

    Raises:
        OSError: one of them cannot be bound; all are closed then.
    """
    found = await asyncio.get_running_loop().getaddrinfo(
        None if host in ("", _EVERYWHERE) else host,
        port,
        type=socket.SOCK_STREAM,
        flags=socket.AI_PASSIVE,
    )
    bound: list[socket.socket] = []
    for family, kind, protocol, _, address in dict.fromkeys(found):
        try:
            each = socket.socket(family, kind, protocol)
            bound.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind(address)
        except OSError as error:
            for opened in bound:
                opened.close()
            raise OSError(
                error.errno,
                f"error while attempting to bind on address {address}: {error.strerror}",
            ) from error
    return bound


def _reset(accepted: socket.socket) -> None:
    """Reset a connection that has no transport, as if it had never been accepted."""
    if accepted.fileno() >= 0:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        accepted.close()


def _port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])
