"""The admin API as a part of the sidecar: its access rules and its TLS from files, its port, its thread.

It has a thread with an event loop of its own, so that rounds do not queue behind requests
(`admin_api.coordinator_loop` says which code runs where): Python switches between two busy threads
every 5 ms, a tenth of a tick. The application is loaded in that thread, too: this takes longer than all
else of the start, and the gate may open meanwhile. Files are read and the port is bound before, so that a
mistake in the configuration ends the start.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import structlog
import uvloop

from admin_api.requests.access import Access
from coordinator.config import Config, ConfigError, address_told, split_address
from coordinator.ports import Verifier

if TYPE_CHECKING:
    from fastapi import FastAPI

    from coordinator.app.http.server import ApiServer

log = structlog.get_logger(__name__)

_EVERYWHERE = ("0.0.0.0", "::")
_RESOLVED_WITHIN_S = 1.0

Build = Callable[[], AbstractAsyncContextManager["FastAPI"]]
"""A function that makes the application on the loop that runs it, and takes it down there."""

Refused = Callable[[str, str, str], None]
"""A function that is told of a refusal: the reason in a word or two, the host, and the answer's text."""


def access(config: Config) -> Access:
    """Return the access rules of a configuration, with the keys that it names.

    Raises:
        ConfigError: a key cannot be read or used.
    """
    return Access(
        verifier=_verifier(config),
        super_user_roles=config.super_user_roles,
        tenant_admins=config.tenant_admins,
    )


def hosts(config: Config) -> tuple[str, ...]:
    """Return the host names of the API, beside loopback: configured, or advertised as its address."""
    advertised = config.admin_advertised_address
    if not advertised:
        return config.admin_hosts
    host, _ = split_address("admin_advertised_address", advertised)
    return (*config.admin_hosts, f"[{host}]" if ":" in host else host)


def _verifier(config: Config) -> Verifier | None:
    if not config.has_token_keys:
        return None
    from coordinator.adapters.tokens import verifier_of  # noqa: PLC0415 - 8 MB, for keys only

    return verifier_of(config)


def tls(config: Config) -> ssl.SSLContext | None:
    """Return the API's TLS: its certificate, and the demands on its callers'; None without one.

    Raises:
        ConfigError: certificate, key or authorities cannot be read or do not fit.
    """
    if not config.admin_tls_certificate_file:
        return None
    authorities = config.admin_tls_client_ca_file
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(
            config.admin_tls_certificate_file, config.admin_tls_key_file or None
        )
        if authorities:
            context.load_verify_locations(authorities)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:  # SSLError is one
        keys = ["admin_tls_certificate_file", "admin_tls_key_file"]
        if authorities:
            keys.append("admin_tls_client_ca_file")
        raise ConfigError(f"{', '.join(keys)}: cannot be used: {error}") from error
    return context


class AdminApi:
    """The admin API in its thread, as the sidecar's loop sees it."""

    def __init__(
        self,
        config: Config,
        build: Build,
        context: ssl.SSLContext | None,
        listening: socket.socket,
        refused: Refused,
    ) -> None:
        self._config = config
        self._build = build
        self._tls = context
        self._listening = listening
        self._refused = refused
        self._home = asyncio.get_running_loop()
        self._server: ApiServer | None = None
        self._is_stopping = False
        self._ended: asyncio.Future[None] | None = None
        #: Set when the application is loaded.
        self.loaded = asyncio.Event()

    def start(self, thread: ThreadPoolExecutor) -> None:
        """Load and serve it, in a thread."""
        self._ended = self._home.run_in_executor(thread, self._run)

    async def stop(self) -> None:
        """Stop it; requests under way are answered before, streams are cut off."""
        assert self._ended is not None
        if self._ended.done():
            return  # a failure, which `ends` tells
        self._is_stopping = True
        if self._server is not None:
            self._server.stop()
        await asyncio.wait([self._ended])
        if (error := self._ended.exception()) is not None:
            log.error("the admin API did not end well", exc_info=error)

    async def ends(self) -> None:
        """Wait until it has ended: after `stop`, or by a failure, which it raises."""
        assert self._ended is not None
        await asyncio.shield(self._ended)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        from coordinator.app.http.server import CallerBounds, server  # noqa: PLC0415 - loaded in this thread

        bounds = CallerBounds(
            connections_max=self._config.admin_connections_max,
            connections_per_host=self._config.admin_connections_per_host,
            request_s=self._config.admin_request_seconds,
            idle_s=self._config.admin_idle_seconds,
        )
        async with self._build() as app:
            self._server = server(app, self._tls, bounds, self._refused)
            # Set first, then read; `stop` does it the other way round, so one of them sees the other.
            if self._is_stopping:
                self._server.stop()
            self._home.call_soon_threadsafe(self.loaded.set)
            await self._server.serve(sockets=[self._listening])


async def advertised_address(config: Config) -> str:
    """Return the host:port where others reach the admin API.

    As with Pulsar's advertisedAddress, the default is the machine's full name; its short one if the
    resolver does not answer in time, since the start waits for it.
    """
    if config.admin_advertised_address:
        return config.admin_advertised_address
    host, port = split_address("admin_listen", config.admin_listen)
    if host not in _EVERYWHERE:
        return config.admin_listen
    try:
        name = await asyncio.wait_for(asyncio.to_thread(socket.getfqdn), _RESOLVED_WITHIN_S)
    except TimeoutError:
        name = socket.gethostname()
    return f"{name}:{port}"


def _listening(host: str, port: int) -> socket.socket:
    """Listen at an address; ``::`` is all addresses, those of IPv4 too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    with address_told("admin_listen", host, port):
        return socket.create_server((host, port), family=family, dualstack_ipv6=both)


def try_address(config: Config) -> None:
    """Listen at the API's address for a moment, before this sidecar joins the others.

    What listens there is as a rule this broker's sidecar, which this one would replace in the membership.

    Raises:
        ConfigError: the address is in use.
    """
    _listening(*split_address("admin_listen", config.admin_listen)).close()


@contextlib.asynccontextmanager
async def serving(
    config: Config, build: Build, refused: Refused = lambda *_: None
) -> AsyncIterator[AdminApi]:
    """Serve the admin API; it answers until the very end, also while the gate drains.

    Args:
        config: the address and the bounds.
        build: makes the application.
        refused: told, in the API's thread, of each connection that is turned away or ended.

    Raises:
        ConfigError: as `tls`, or the address is in use.
    """
    context = tls(config)
    with (
        _listening(*split_address("admin_listen", config.admin_listen)) as listening,
        ThreadPoolExecutor(1, "admin-api") as thread,
    ):
        api = AdminApi(config, build, context, listening, refused)
        api.start(thread)
        try:
            yield api
        finally:
            await api.stop()
