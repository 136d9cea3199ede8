"""The admin API's HTTP server: uvicorn, with the additions that a sidecar needs.

Requests are read by httptools: reading a small one in Python takes twice as long. Connections are
accepted here and not by the event loop, so that their number is bounded from the first byte of a TLS
handshake on (`seats`): strangers could otherwise use up the descriptors that the bus and ZooKeeper need.
One look a second ends overdue requests (`protocol`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog
import uvicorn
from fastapi import FastAPI

from coordinator.app.http.deadlines import LINGER_S
from coordinator.app.http.protocol import ApiProtocol, ConnectionWatcher, refusal
from coordinator.app.http.seats import Full, Seats
from coordinator.app.http.serving import Refused

_STREAMS_END_S = 1
"""The time that answers under way may take at the end; event streams would take for ever."""

_TICK_S = 1.0
"""The interval at which connections are checked, and the date is read that every answer bears."""

_ACCEPT_AGAIN_S: Final = 0.5
"""The pause after a failure that concerns no single connection, such as no descriptor left."""

_REFUSALS_MAX: Final = 32
"""The most connections that are turned away with an answer at once; more are closed without one."""

_log = structlog.get_logger("admin_api")


@dataclass(frozen=True, slots=True)
class CallerBounds:
    """The bounds on callers; the configuration's keys ``admin_...`` explain each."""

    connections_max: int = 512
    connections_per_host: int = 128
    request_s: float = 10.0
    idle_s: float = 5.0


class _Visitor:
    """A connection from its acceptance on, at whatever stage it ends."""

    def __init__(self, connection: socket.socket, host: str) -> None:
        self.connection = connection
        self.host = host
        self.task: asyncio.Task[None] | None = None
        self.protocol: ApiProtocol | None = None

    def hang_up(self) -> None:
        """Close it without an answer."""
        if self.protocol is not None and self.protocol.transport is not None:
            self.protocol.transport.abort()
        elif self.task is not None:
            self.task.cancel()


def _look(connection: ApiProtocol) -> None:
    """End an overdue request; a connection that cannot be looked at is ended, and no other."""
    try:
        connection.look()
    except Exception:  # noqa: BLE001 - whatever it is, other callers are served
        _log.exception("connection cannot be checked")
        connection.transport.abort()


class ApiServer(uvicorn.Server):
    """uvicorn as a part of the sidecar, which decides when it stops.

    It has no signal handlers, and does not check ten times a second whether to stop: it is told.

    Args:
        settings: uvicorn's.
        bounds: of its connections.
        refused: told of each connection that is turned away or ended: the reason in a word or two,
            the host, and the text of the answer.
    """

    def __init__(self, settings: uvicorn.Config, bounds: CallerBounds, refused: Refused) -> None:
        super().__init__(settings)
        self._loop = asyncio.get_running_loop()
        self._told = asyncio.Event()
        self._bounds = bounds
        self._refused = refused
        self._seats: Seats[_Visitor] = Seats(bounds.connections_max, bounds.connections_per_host)
        #: Connections turned away with an answer, and not closed yet.
        self._turned_away: set[socket.socket] = set()
        self._accepting: list[asyncio.Task[None]] = []

    def stop(self) -> None:
        """Stop, as soon as requests under way are answered; may be called on any thread."""
        self.should_exit = True
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile, and so has this
            self._loop.call_soon_threadsafe(self._told.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        await self.lifespan.startup()
        self.servers = []
        for listening in sockets or []:
            listening.setblocking(False)
            listening.listen(self.config.backlog)
            self._accepting.append(self._loop.create_task(self._accept(listening)))
        self.started = True

    async def main_loop(self) -> None:
        """Serve until told to stop."""
        whole_second = 0  # of uvicorn's ticks: the ones at which it sets the date
        while not await self.on_tick(whole_second):
            for connection in list(self.server_state.connections):
                assert isinstance(connection, ApiProtocol)
                _look(connection)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and end the present connections."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        while self._turned_away:
            self._turned_away.pop().close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGTERM and SIGINT to the sidecar."""
        yield

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, address = await self._loop.sock_accept(listening)
            except OSError as error:
                _log.warning("connections cannot be accepted", reason=str(error))
                await asyncio.sleep(_ACCEPT_AGAIN_S)
            else:
                self._admit(_Visitor(connection, str(address[0])))

    def _admit(self, visitor: _Visitor) -> None:
        try:
            leaves = self._seats.take(visitor, visitor.host)
        except Full as full:
            self._refuse(visitor, str(full))
            return
        if leaves is not None:
            self._refused("idle connection for a new one", leaves.host, "")
            leaves.hang_up()
        visitor.task = self._loop.create_task(self._serve_visitor(visitor))

    async def _serve_visitor(self, visitor: _Visitor) -> None:
        tls = self.config.ssl
        try:
            await self._loop.connect_accepted_socket(
                partial(self._protocol_for, visitor),
                visitor.connection,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else self._bounds.request_s,
                ssl_shutdown_timeout=None if tls is None else LINGER_S,
            )
        except (OSError, asyncio.CancelledError) as error:  # a timeout and SSLError are OSErrors
            visitor.connection.close()
            self._seats.leave(visitor)
            if isinstance(error, asyncio.CancelledError):
                return
            self._refused("handshake", visitor.host, str(error))

    def _protocol_for(self, visitor: _Visitor) -> ApiProtocol:
        watcher = ConnectionWatcher(
            self._bounds.request_s,
            asks=partial(self._seats.asks, visitor),
            waits=partial(self._seats.waits, visitor),
            left=partial(self._seats.leave, visitor),
            refused=self._refused,
        )
        visitor.protocol = ApiProtocol(
            self.config, self.server_state, self.lifespan.state, self._loop, watcher=watcher
        )
        return visitor.protocol

    def _refuse(self, visitor: _Visitor, why: str) -> None:
        self._refused("connections", visitor.host, why)
        connection = visitor.connection
        if len(self._turned_away) >= _REFUSALS_MAX or self.config.ssl is not None:
            connection.close()
            return
        headers = [*self.server_state.default_headers, (b"retry-after", b"1")]
        with contextlib.suppress(OSError):
            connection.send(refusal(503, f"{why}; try again", headers))
            connection.shutdown(socket.SHUT_WR)
        # Bytes sent meanwhile are unread, and closing at once would take the answer back.
        self._turned_away.add(connection)
        self._loop.call_later(LINGER_S, self._close, connection)

    def _close(self, connection: socket.socket) -> None:
        self._turned_away.discard(connection)
        connection.close()


def server(
    app: FastAPI,
    tls: ssl.SSLContext | None = None,
    bounds: CallerBounds | None = None,
    refused: Refused = lambda *_: None,
) -> ApiServer:
    """Return the server of the admin API, not started yet; to be called on the loop that runs it.

    Args:
        app: the application.
        tls: the server's certificate, and the demands on its callers'; None speaks no TLS.
        bounds: of its connections.
        refused: as `ApiServer`.
    """
    bounds = bounds or CallerBounds()
    settings = uvicorn.Config(
        app,
        # A WebSocket's protocol would know none of the bounds, and there is none.
        ws="none",
        access_log=False,
        log_config=None,
        # `protocol` reports data that is no request.
        log_level="error",
        lifespan="off",
        loop="none",
        timeout_keep_alive=bounds.idle_s,  # type: ignore[arg-type]  # a delay of the loop's
        timeout_graceful_shutdown=_STREAMS_END_S,
        ssl_context_factory=None if tls is None else lambda _, __: tls,
    )
    return ApiServer(settings, bounds, refused)
