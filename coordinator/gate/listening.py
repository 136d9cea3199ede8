"""Where clients come in: a plain port and, if wanted, one with TLS whose certificate can change.

A supervisor may keep the sockets and hand them over (systemd.socket(5)): then clients that connect while
the sidecar is being restarted wait, and are not refused.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from coordinator.gate.tls import HANDSHAKE_TIMEOUT_S, POLL_S, Certificate, TlsError, TlsListener

_BACKLOG: Final = 1024
"""Connections that may wait to be accepted: all clients of a restarted sidecar come back at once."""

_log = structlog.get_logger(__name__)


class Entrance:
    """The listening sockets of a gate.

    Args:
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        tls: listens with TLS as well, if given.
        kept: sockets that listen already, and are used for their ports.
    """

    def __init__(
        self, host: str, port: int, tls: TlsListener | None, kept: Sequence[socket.socket] = ()
    ) -> None:
        self._kept = {_port_of(each): each for each in kept}
        self._host = host
        self._port = port
        self._tls = tls
        self._certificate: Certificate | None = None
        self._server: asyncio.Server | None = None
        self._tls_server: asyncio.Server | None = None
        self._poll: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The plain port that is listened on, or is to be."""
        return _served_port(self._server) or self._port

    @property
    def tls_port(self) -> int | None:
        """The port with TLS; None while there is none."""
        return _served_port(self._tls_server)

    async def open(self, new_connection: Callable[[], asyncio.Protocol]) -> None:
        """Accept clients.

        Raises:
            OSError: a port cannot be had.
            TlsError: the certificate cannot be used.
        """
        if self._tls is not None:
            await self._open_tls(self._tls, new_connection)
        self._server = await self._listen(new_connection, self._host, self._port)
        self._port = self.port
        _log.info("gate listens", host=self._host, port=self._port)

    def close(self) -> None:
        """Accept nobody any more; connections go on."""
        for server in (self._server, self._tls_server):
            if server is not None:
                server.close()
        if self._poll is not None:
            self._poll.cancel()

    def refresh_certificate(self) -> None:
        """Use the certificate that is in the files now for whoever connects from now on."""
        if self._certificate is None:
            return
        try:
            if self._certificate.refresh():
                _log.info("certificate renewed")
        except TlsError as error:
            _log.error("new certificate cannot be used, the old one stays", reason=str(error))

    async def _open_tls(
        self, tls: TlsListener, new_connection: Callable[[], asyncio.Protocol]
    ) -> None:
        self._certificate = Certificate(tls.files)
        self._tls_server = await self._listen(
            new_connection,
            tls.host,
            tls.port,
            ssl=self._certificate.context,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
        )
        self._poll_certificate()
        _log.info("gate listens with TLS", host=tls.host, port=self.tls_port)

    async def _listen(
        self, new_connection: Callable[[], asyncio.Protocol], host: str, port: int, **tls: Any
    ) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        kept = self._kept.pop(port, None)
        if kept is not None:
            return await loop.create_server(new_connection, sock=kept, backlog=_BACKLOG, **tls)
        return await loop.create_server(new_connection, host, port, backlog=_BACKLOG, **tls)

    def _poll_certificate(self) -> None:
        self.refresh_certificate()
        self._poll = asyncio.get_running_loop().call_later(POLL_S, self._poll_certificate)


def _served_port(server: asyncio.Server | None) -> int | None:
    if server is None or not server.sockets:
        return None
    return _port_of(server.sockets[0])


def _port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])
