"""The admin API's HTTP: uvicorn, with what it lacks for a sidecar.

Requests are read by httptools: what is read in Python takes twice as long for a small one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_STREAMS_END_S = 1
"""How long answers that are under way may take at the end; event streams would take for ever."""

_TICK_S = 1.0
"""How often the date is read that every answer bears; it has seconds, no less."""

MAX_HEAD_BYTES = 64 * 1024
"""Of a request's first line and headers."""


class ApiProtocol(HttpToolsProtocol):
    """HTTP whose heads are bounded, which neither uvicorn nor the parser sees to.

    What counts is what was received since something could last be taken from it. So the sizes of a body's
    chunks, and what may follow the last of them, are bounded alike.
    """

    _pending_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Read on; what has become too long is answered, and read no further."""
        self._pending_bytes += len(data)
        super().data_received(data)
        if self._pending_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The head is larger than {MAX_HEAD_BYTES} bytes")

    def on_headers_complete(self) -> None:
        """A head was taken."""
        self._pending_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body was taken."""
        self._pending_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request was taken to its end."""
        self._pending_bytes = 0
        super().on_message_complete()


class ApiServer(uvicorn.Server):
    """uvicorn as a part of the sidecar, which decides when it stops.

    It has no signal handlers, and does not look ten times a second whether it is to stop: it is told.
    """

    def __init__(self, settings: uvicorn.Config) -> None:
        super().__init__(settings)
        self._loop = asyncio.get_running_loop()
        self._told = asyncio.Event()

    def stop(self) -> None:
        """Stop, as soon as what is under way is answered; may be called on any thread."""
        self.should_exit = True
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile, and so has this
            self._loop.call_soon_threadsafe(self._told.set)

    async def main_loop(self) -> None:
        """Serve until told to stop."""
        whole_second = 0  # of uvicorn's ticks: the ones at which it sets the date
        while not await self.on_tick(whole_second):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._told.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGTERM and SIGINT to the sidecar."""
        yield


def server(app: FastAPI, tls: ssl.SSLContext | None = None) -> ApiServer:
    """The server of the admin API, not started yet; to be called on the loop that it is to run on.

    Args:
        app: answers.
        tls: what the server shows, and asks of its callers; None speaks no TLS.
    """
    settings = uvicorn.Config(
        app,
        http=ApiProtocol,
        access_log=False,
        log_config=None,
        lifespan="off",
        loop="none",
        timeout_graceful_shutdown=_STREAMS_END_S,
        ssl_context_factory=None if tls is None else lambda _, __: tls,
    )
    return ApiServer(settings)
