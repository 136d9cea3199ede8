"""The admin API as a part of the sidecar: its access rules from files, its port, its TLS.

uvicorn runs in the sidecar's own event loop and leaves signals to it. HTTP is read by httptools: the gate
lives on that loop, and what is read in Python takes twice as long for a small request.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from admin_api.access import Access
from admin_api.tokens import BadKey, TokenKey, TokenVerifier
from coordinator.config import Config, ConfigError, split_address

_STREAMS_END_S = 1
"""How long answers that are under way may take at the end; event streams would take for ever."""


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


class _ApiServer(uvicorn.Server):
    """uvicorn without its signal handlers: the sidecar decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGTERM and SIGINT to the sidecar."""
        yield


def access(config: Config) -> Access:
    """The access rules of a configuration, with the keys that it names.

    Raises:
        ConfigError: a key cannot be read or used.
    """
    keys = [
        _key("auth_public_key_files", path, TokenKey.public)
        for path in config.auth_public_key_files
    ]
    if config.auth_secret_key_file:
        keys.append(_key("auth_secret_key_file", config.auth_secret_key_file, TokenKey.secret))
    return Access(
        verifier=TokenVerifier(keys, config.auth_role_claim) if keys else None,
        super_user_roles=config.super_user_roles,
        tenant_admins=config.tenant_admins,
    )


def server(config: Config, app: FastAPI) -> uvicorn.Server:
    """The server of the admin API, not started yet.

    Raises:
        ConfigError: certificate, key or authorities cannot be read or do not fit.
    """
    authorities = config.admin_tls_client_ca_file or None
    settings = uvicorn.Config(
        app,
        http=ApiProtocol,
        access_log=False,
        log_config=None,
        lifespan="off",
        loop="none",
        timeout_graceful_shutdown=_STREAMS_END_S,
        ssl_certfile=config.admin_tls_certificate_file or None,
        ssl_keyfile=config.admin_tls_key_file or None,
        ssl_ca_certs=authorities,
        ssl_cert_reqs=ssl.CERT_REQUIRED if authorities else ssl.CERT_NONE,
    )
    try:
        settings.load()
    except (OSError, ssl.SSLError) as error:
        keys = ["admin_tls_certificate_file", "admin_tls_key_file"]
        if authorities:
            keys.append("admin_tls_client_ca_file")
        raise ConfigError(f"{', '.join(keys)}: cannot be used: {error}") from error
    return _ApiServer(settings)


@contextlib.asynccontextmanager
async def serving(config: Config, app: FastAPI) -> AsyncIterator[None]:
    """Serve the admin API; it answers until the very end, also while the gate drains.

    Raises:
        ConfigError: as `server`.
    """
    running = server(config, app)
    listening = socket.create_server(split_address("admin_listen", config.admin_listen))
    task = asyncio.create_task(running.serve(sockets=[listening]))
    try:
        yield
    finally:
        running.should_exit = True
        await task
        listening.close()


def _key(name: str, path: str, build: Callable[[bytes], TokenKey]) -> TokenKey:
    try:
        return build(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"{name}: {path} cannot be read: {error.strerror}") from error
    except BadKey as error:
        raise ConfigError(f"{name}: {path}: {error}") from error
