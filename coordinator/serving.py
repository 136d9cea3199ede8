"""The admin API as a part of the sidecar: its access rules and its TLS from files, its port, its thread.

It has a thread with an event loop of its own, so that rounds do not queue behind requests
(`admin_api.home` says what runs where): Python lets one thread in beside the other every 5 ms, a tenth of
a tick. What serves it is loaded in that thread, too: this takes longer than all else of the start, and
the gate may open meanwhile. Files are read and the port is bound before, so that a mistake in the
configuration ends the start.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import uvloop

from admin_api.access import Access, Verifier
from coordinator.config import Config, ConfigError, split_address

if TYPE_CHECKING:
    from fastapi import FastAPI

    from admin_api.tokens import TokenKey
    from coordinator.http_server import ApiServer

log = structlog.get_logger(__name__)

_EVERYWHERE = "0.0.0.0"
_RESOLVED_WITHIN_S = 1.0

Build = Callable[[], AbstractAsyncContextManager["FastAPI"]]
"""Makes the application on the loop that it is to run on, and takes it down there."""


def access(config: Config) -> Access:
    """The access rules of a configuration, with the keys that it names.

    Raises:
        ConfigError: a key cannot be read or used.
    """
    return Access(
        verifier=_verifier(config),
        super_user_roles=config.super_user_roles,
        tenant_admins=config.tenant_admins,
    )


def _verifier(config: Config) -> Verifier | None:
    if not (config.auth_public_key_files or config.auth_secret_key_file):
        return None
    from admin_api.tokens import TokenKey, TokenVerifier  # noqa: PLC0415 - 8 MB, for keys only

    keys = [
        _key("auth_public_key_files", path, TokenKey.public)
        for path in config.auth_public_key_files
    ]
    if config.auth_secret_key_file:
        keys.append(_key("auth_secret_key_file", config.auth_secret_key_file, TokenKey.secret))
    return TokenVerifier(keys, config.auth_role_claim)


def tls(config: Config) -> ssl.SSLContext | None:
    """What the API shows, and asks of its callers; None without a certificate.

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
        self, build: Build, context: ssl.SSLContext | None, listening: socket.socket
    ) -> None:
        self._build = build
        self._tls = context
        self._listening = listening
        self._home = asyncio.get_running_loop()
        self._server: ApiServer | None = None
        self._is_stopping = False
        self._ended: asyncio.Future[None] | None = None
        #: Set when all that it needs is loaded.
        self.loaded = asyncio.Event()

    def start(self, thread: ThreadPoolExecutor) -> None:
        """Load and serve it, in a thread."""
        self._ended = self._home.run_in_executor(thread, self._run)

    async def stop(self) -> None:
        """Stop it; what is under way is answered before, streams are cut off."""
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
        """Until it has ended, which it does when it is stopped, and else by a failure: raises that."""
        assert self._ended is not None
        await asyncio.shield(self._ended)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        from coordinator.http_server import server  # noqa: PLC0415 - loaded in this thread

        async with self._build() as app:
            self._server = server(app, self._tls)
            # What was set is looked at afterwards, as in `stop` the other way round: one of them sees it.
            if self._is_stopping:
                self._server.stop()
            self._home.call_soon_threadsafe(self.loaded.set)
            await self._server.serve(sockets=[self._listening])


async def advertised_address(config: Config) -> str:
    """host:port where others reach the admin API.

    As with Pulsar's advertisedAddress, a machine goes by its full name where nothing else is said; by
    its short one if the resolver does not answer in time, since the start waits for it.
    """
    if config.admin_advertised_address:
        return config.admin_advertised_address
    host, port = split_address("admin_listen", config.admin_listen)
    if host != _EVERYWHERE:
        return config.admin_listen
    try:
        name = await asyncio.wait_for(asyncio.to_thread(socket.getfqdn), _RESOLVED_WITHIN_S)
    except TimeoutError:
        name = socket.gethostname()
    return f"{name}:{port}"


@contextlib.asynccontextmanager
async def serving(config: Config, build: Build) -> AsyncIterator[AdminApi]:
    """Serve the admin API; it answers until the very end, also while the gate drains.

    Raises:
        ConfigError: as `tls`.
    """
    context = tls(config)
    with (
        socket.create_server(split_address("admin_listen", config.admin_listen)) as listening,
        ThreadPoolExecutor(1, "admin-api") as thread,
    ):
        api = AdminApi(build, context, listening)
        api.start(thread)
        try:
            yield api
        finally:
            await api.stop()


def _key(name: str, path: str, build: Callable[[bytes], TokenKey]) -> TokenKey:
    from admin_api.tokens import BadKey  # noqa: PLC0415 - as above

    try:
        return build(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"{name}: {path} cannot be read: {error.strerror}") from error
    except BadKey as error:
        raise ConfigError(f"{name}: {path}: {error}") from error
