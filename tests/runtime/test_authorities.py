"""Without a configured authority, requests over https trust those of the machine."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from coordinator.adapters.broker.admin import HttpBrokerAdmin
from coordinator.adapters.broker.backlog import HttpBacklogSource
from coordinator.adapters.broker.relay import HttpBrokerRelay
from coordinator.backlog.rules.model import BacklogQuota
from coordinator.gate.server.tls import ServerCertificate, TlsFiles
from coordinator.ports import RelayedRequest
from coordinator.runtime import client_tls
from coordinator.runtime.client_tls import machine_trust
from tests.gate.server.test_tls import make_certificate

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"


@asynccontextmanager
async def answering(files: TlsFiles) -> AsyncIterator[str]:
    """Answer every request with an empty object; yield the URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        await reader.readexactly(int(length[1]) if length else 0)
        writer.write(ANSWER)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    context = ServerCertificate(files).context
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def by_admin(url: str) -> None:
    """A question of the broker's admin REST."""
    async with HttpBrokerAdmin(url) as admin:
        assert await admin.namespace_exists("shop", "orders")


async def by_backlogs(url: str) -> None:
    """A question about a backlog."""
    async with HttpBacklogSource(url) as source:
        assert await source.quota("persistent://shop/orders/incoming") == BacklogQuota()


async def by_relay(url: str) -> None:
    """A request that is passed on."""
    async with HttpBrokerRelay(url) as relay:
        answer = await relay.relay(RelayedRequest("GET", b"/admin/v2/clusters", []))
        assert answer.status == 200
        await answer.close()


@pytest.fixture(autouse=True)
def read_anew() -> Iterator[None]:
    """Read the machine's authorities again in each test."""
    client_tls._machine_trust.cache_clear()
    yield
    client_tls._machine_trust.cache_clear()


@pytest.mark.parametrize("ask", [by_admin, by_backlogs, by_relay])
async def test_authorities_of_the_machine_are_trusted(
    ask: Callable[[str], Awaitable[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An organisation's own too, and not only those that come with a library."""
    files = make_certificate(tmp_path / "broker", "broker")
    monkeypatch.setenv("SSL_CERT_FILE", str(files.certificate))
    async with answering(files) as url, asyncio.timeout(60):
        await ask(url)


def test_nobody_is_trusted_over_http_and_nothing_is_read_for_it() -> None:
    """A sidecar beside a broker without TLS need not read a hundred certificates as it starts."""
    context = machine_trust("http://127.0.0.1:8080")
    assert context.cert_store_stats()["x509"] == 0
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert client_tls._machine_trust.cache_info().misses == 0
    assert machine_trust("HTTPS://broker:8443") is machine_trust("https://broker:8443")
