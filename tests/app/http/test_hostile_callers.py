"""Callers that send slowly, take nothing, or are many: each ends by itself, and others are served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from admin_api.requests.refusals import REASONS
from coordinator.app.http import serving
from coordinator.app.http.protocol import ApiProtocol
from coordinator.config import Config
from tests.admin_api.keys import access
from tests.admin_api.world import World
from tests.app.http.test_serving import PATIENCE_S, app_of, broker, config

LONG_S = 60.0
"""A deadline that no test waits for: on a busy machine a second passes between two calls, too."""

GET = b"GET /quota/v1/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
PUT = b"PUT /admin/v2/resourcegroups/orders HTTP/1.1\r\nHost: localhost\r\n"
PUT_NAMESPACE = b"PUT /admin/v2/namespaces/a/b HTTP/1.1\r\nHost: localhost\r\n"
"""It is relayed."""


@dataclass
class Served:
    """An admin API at a port, and what it has refused."""

    settings: Config
    refused: Counter[str] = field(default_factory=Counter)
    connections: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(
        default_factory=list
    )

    async def connect(
        self, *sent: bytes, tls: ssl.SSLContext | None = None, ahead: int = 2**24
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new connection on which this is sent; it reads this number of bytes ahead."""
        host, port = self.settings.admin_listen.split(":")
        found = await asyncio.open_connection(host, int(port), ssl=tls, limit=ahead)
        self.connections.append(found)
        for part in sent:
            found[1].write(part)
        await found[1].drain()
        return found

    async def ask(self, *sent: bytes) -> tuple[int, str]:
        """Status and reason of what is answered, on a connection that is then closed."""
        reader, _ = await self.connect(*sent)
        return await self.answer(reader)

    async def answer(self, reader: asyncio.StreamReader) -> tuple[int, str]:
        """Status and reason of the one answer that comes before the end."""
        head, _, body = (await self.closes(reader)).partition(b"\r\n\r\n")
        status = int(head.split(b" ")[1]) if head else 0
        with contextlib.suppress(ValueError, KeyError):
            return status, json.loads(body)["reason"]
        return status, ""

    async def closes(self, reader: asyncio.StreamReader) -> bytes:
        """Return the bytes until the other side closes, or resets what is sent too late."""
        found = b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE_S):
                while part := await reader.read(2**24):
                    found += part
        return found


@asynccontextmanager
async def served(world: World, broker_url: str = "", **keys: object) -> AsyncIterator[Served]:
    """An admin API whose callers have a second for everything, unless the test gives them longer."""
    brief = {"admin_request_seconds": 1.0, "admin_idle_seconds": 1.0}
    settings = config(**(brief | keys))
    api = Served(settings)
    changes = {"access": access()} if settings.super_user_roles else {}

    def refused(word: str, host: str, _: str) -> None:
        assert (word in REASONS, host) == (True, "127.0.0.1")
        api.refused[word] += 1

    async with serving.serving(settings, app_of(world, broker_url=broker_url, **changes), refused):
        try:
            yield api
        finally:
            for _, writer in api.connections:
                writer.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ((), 0),
        ((b"GET /quota",), 408),
        ((b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n",), 408),
        ((b"\r\n\r\n",), 408),
    ],
)
async def test_a_head_that_does_not_come_ends_the_connection(
    world: World, sent: tuple[bytes, ...], status: int
) -> None:
    """With a reason where something was said, and counted."""
    async with served(world) as api:
        begun_s = time.monotonic()
        found = await api.ask(*sent)

        assert time.monotonic() - begun_s < PATIENCE_S / 2
        assert found == (status, "The head of the request did not arrive in time" if status else "")
        assert api.refused == {"head deadline": 1}


async def test_a_head_by_drops_is_no_head(world: World) -> None:
    """Each of them in time, on a connection that has been served before."""
    async with served(world, admin_idle_seconds=LONG_S) as api:
        reader, writer = await api.connect(GET)
        await reader.readuntil(b"}")
        ended = asyncio.create_task(reader.read())
        begun_s = time.monotonic()
        while not ended.done():
            assert time.monotonic() - begun_s < PATIENCE_S
            with contextlib.suppress(ConnectionError):
                writer.write(b"\r\n" if writer.transport.get_write_buffer_size() else b"G")
            await asyncio.sleep(0.1)

        assert (await ended).startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 "))


async def test_a_connection_without_a_further_request_ends(world: World) -> None:
    """In time, and that is no refusal."""
    async with served(world, admin_request_seconds=LONG_S) as api:
        reader, _ = await api.connect(GET)
        assert (await api.closes(reader)).startswith(b"HTTP/1.1 200 ")
        assert not api.refused


@pytest.mark.parametrize("put", [PUT, PUT_NAMESPACE])
@pytest.mark.parametrize(
    "body", [b"Content-Length: 60000\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"]
)
@pytest.mark.parametrize("drops", [True, False])
async def test_a_body_that_does_not_come_is_408(
    world: World, put: bytes, body: bytes, drops: bool
) -> None:
    """A body that trickles is one, too; nothing has changed, and no traceback tells of it."""
    async with served(world, "http://127.0.0.1:1") as api:
        reader, writer = await api.connect(put + body)
        answered = asyncio.create_task(api.answer(reader))
        while drops and not answered.done():
            with contextlib.suppress(ConnectionError):
                writer.write(b"1\r\n \r\n" if b"chunked" in body else b" ")
            await asyncio.sleep(0.1)

        assert await answered == (408, "The body did not arrive in time")
        assert api.refused == {"body deadline": 1}
    assert not world.views.shown.groups


async def test_an_endless_body_after_its_answer_is_cut_off(world: World) -> None:
    """However fast it comes: who is refused does not keep the connection by it."""
    # The answer comes before the body is late, on a busy machine too.
    async with served(world, super_user_roles=("admin",), admin_request_seconds=LONG_S) as api:
        reader, writer = await api.connect(PUT + b"Content-Length: 900000000\r\n\r\n")
        refused = await reader.readuntil(b"\r\n\r\n")
        assert refused.startswith(b"HTTP/1.1 401 ")
        begun_s = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(bytes(1000))
                await writer.drain()
                await asyncio.sleep(0.01)
                assert time.monotonic() - begun_s < PATIENCE_S
        assert api.refused == {"body after its answer": 1}


async def test_an_answer_that_is_not_taken_is_cut_off(world: World) -> None:
    """The memory of its waiting bytes is free again."""
    body = bytes(16 * 1024 * 1024)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with broker(answer) as (url, _), served(world, url) as api:
        host, port = api.settings.admin_listen.split(":")
        with socket.create_connection((host, int(port))) as deaf:
            deaf.sendall(b"GET /admin/v2/clusters HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(PATIENCE_S):
                while not api.refused["answer not taken"]:
                    await asyncio.sleep(0.1)


async def test_a_slow_reader_gets_all_of_a_large_answer(world: World) -> None:
    """As long as it goes on taking, here for longer than the deadline."""
    body = bytes(16 * 1024 * 1024)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with (
        broker(answer) as (url, _),
        served(world, url, admin_request_seconds=2.0) as api,
    ):
        reader, _ = await api.connect(
            b"GET /admin/v2/clusters HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            ahead=200_000,
        )
        taken = 0
        while piece := await reader.read(400_000):
            taken += len(piece)
            await asyncio.sleep(0.1)
        assert taken > len(body)
        assert not api.refused


async def test_silent_connections_delay_no_other_caller(world: World) -> None:
    """Many more than there may be, from one host: each that asks is answered at once."""
    bounds: dict[str, Any] = {"admin_connections_per_host": 4, "admin_connections_max": 8}
    patient: dict[str, Any] = {"admin_request_seconds": 300.0, "admin_idle_seconds": LONG_S}
    async with served(world, **patient, **bounds) as api:
        silent = [await api.connect() for _ in range(40)]
        for _ in range(10):
            reader, _ = await api.connect(GET)
            async with asyncio.timeout(PATIENCE_S):
                assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
        closed = 0
        for reader, _ in silent:
            closed += await api.closes(reader) == b""
        assert closed == 40
        assert api.refused["idle connection for a new one"] >= 40


async def test_a_connection_that_cannot_be_checked_ends_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are served on, and the server lives."""
    look, broken = ApiProtocol.look, asyncio.Event()

    def fail_once(connection: ApiProtocol) -> None:
        if broken.is_set():
            look(connection)
            return
        broken.set()
        raise RuntimeError("broken")

    async with served(world, admin_request_seconds=LONG_S) as api:
        reader, _ = await api.connect(b"GET /")
        monkeypatch.setattr(ApiProtocol, "look", fail_once)
        assert await api.closes(reader) == b""
        assert (await api.ask(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))[0] == 200


async def test_who_has_a_request_under_way_keeps_his_seat(world: World) -> None:
    """Where every seat is taken by such, the next one is told so, and gets in when one is free."""
    bounds: dict[str, Any] = {"admin_connections_per_host": 4, "admin_connections_max": 8}
    events = b"GET /quota/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with served(world, admin_request_seconds=LONG_S, **bounds) as api:
        streams = [await api.connect(events) for _ in range(4)]
        for reader, _ in streams:
            await reader.readuntil(b"retry: ")
        status, reason = await api.ask(GET)
        assert status == 503
        assert reason == "4 connections of 127.0.0.1 have requests under way; try again"
        assert api.refused == {"connections": 1}

        streams[0][1].close()
        async with asyncio.timeout(PATIENCE_S):
            while (await api.ask(GET[:-2] + b"Connection: close\r\n\r\n"))[0] != 200:
                await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "The request must name"),
        (b"CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", "The request must name"),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", "The request must name"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "Invalid HTTP request received."),
        (b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", "Invalid HTTP request received."),
        (b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", "Invalid HTTP request received."),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", "Invalid HTTP request received."),
        (
            b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "Invalid HTTP request received.",
        ),
        (
            b"PUT / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "Invalid HTTP request received.",
        ),
        (
            b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n",
            "Invalid HTTP request received.",
        ),
    ],
)
async def test_what_is_no_request_is_told_so(world: World, sent: bytes, reason: str) -> None:
    """In the one shape of every error, and the connection ends."""
    async with served(world, admin_request_seconds=LONG_S) as api:
        status, found = await api.ask(sent)

        assert status == 400
        assert found.startswith(reason)
        assert api.refused == {"malformed": 1}


LONG_LINE = b"X-A: " + b"a" * 66_000


@pytest.mark.parametrize(
    "head",
    [
        GET[:-2] + LONG_LINE + b"\r\n\r\n",
        GET[:-2] + b"X: \r\n" * 15_000 + b"\r\n",
        GET[:-2] + LONG_LINE,
        b"GET /" + b"x" * 66_000,
    ],
    ids=["one line", "many lines", "a line without an end", "a path without an end"],
)
async def test_a_head_beyond_its_bound_is_refused(world: World, head: bytes) -> None:
    """One that has arrived in full is refused, too; one just below the bound passes."""
    async with served(world, admin_request_seconds=LONG_S) as api:
        below = GET[:-2] + b"Connection: close\r\nX-A: " + b"a" * 65_000
        assert (await api.ask(below + b"\r\n\r\n"))[0] == 200
        found = await api.ask(head)

        assert found == (400, "The head is larger than 65536 bytes")
        assert api.refused == {"malformed": 1}


async def test_many_requests_ahead_of_their_answers_are_bounded(world: World) -> None:
    """A few are answered in order; thousands in one packet end the connection."""
    async with served(world, admin_request_seconds=LONG_S) as api:
        reader, _ = await api.connect(GET * 10)
        assert (await api.closes(reader)).count(b"HTTP/1.1 200 ") == 10
        reader, _ = await api.connect(GET * 2_000)
        assert (await api.closes(reader)).count(b"HTTP/1.1 200 ") < 100
        assert api.refused["malformed"] == 1


async def test_half_a_tls_handshake_is_no_connection(
    world: World, certificate: tuple[str, str]
) -> None:
    """It ends in time, takes no caller's seat, and a caller that speaks TLS is served meanwhile."""
    chain, key = certificate
    files = {"admin_tls_certificate_file": chain, "admin_tls_key_file": key}
    bounds = {"admin_connections_per_host": 4, "admin_connections_max": 8}
    trusted = ssl.create_default_context(cafile=chain)
    # All halves come before the first is late, on a busy machine too, and so does the caller.
    keys: dict[str, Any] = files | bounds | {"admin_request_seconds": 5.0}
    async with served(world, **keys) as api:
        halves = [await api.connect(b"\x16\x03\x01\x02") for _ in range(20)]
        reader, _ = await api.connect(GET, tls=trusted)
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
        for half, _ in halves:
            assert await api.closes(half) == b""
        assert api.refused["idle connection for a new one"] >= 16
        async with asyncio.timeout(PATIENCE_S):
            while not api.refused["handshake"]:
                await asyncio.sleep(0.01)


async def test_a_web_socket_is_not_opened(world: World) -> None:
    """It would be outside of every bound."""
    async with served(world, admin_request_seconds=LONG_S) as api:
        upgrade = (
            b"GET /quota/v1/ready HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert (await api.ask(upgrade))[0] == 200
