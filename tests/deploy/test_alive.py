"""The image's health check accepts any answer of HTTP from the API, and no other one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from deploy.local.ports import free_block

ALIVE = Path(__file__).parents[2] / "deploy" / "docker" / "pulsar-quota-alive"
#: On a machine that may stand still.
PATIENCE_S = 60.0

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def lives(port: int) -> bool:
    """Return the script's verdict on the admin API at this port."""
    process = await asyncio.create_subprocess_exec(
        ALIVE, str(port), stderr=asyncio.subprocess.DEVNULL
    )
    return await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


async def not_ready(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of HTTP that the sidecar is not ready."""
    asked = await reader.readuntil(b"\r\n\r\n")
    assert asked.startswith(b"GET /quota/v1/ready HTTP/1.1\r\nHost: 127.0.0.1:")
    writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")


async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """As an API with TLS does."""
    await reader.readuntil(b"\r\n\r\n")


async def stand_still(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Say nothing for as long as the other one waits."""
    await reader.read()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize(
    ("answer", "alive"), [(not_ready, True), (hang_up, True), (stand_still, False)]
)
async def test_who_answers_or_hangs_up_lives_and_who_stands_still_does_not(
    host: str, answer: Answer, alive: bool
) -> None:
    """Ready or not, with TLS or without, on either loopback address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
            await writer.drain()
        finally:
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(serve, host, 0) as server:
        assert await lives(server.sockets[0].getsockname()[1]) is alive


async def test_a_sidecar_that_has_ended_is_not_alive() -> None:
    """A sidecar that has ended."""
    assert not await lives(free_block()[0])
