"""A broker is ready, or not, whatever it answers beside its status."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.adapters.broker.readiness import BrokerReadiness

LARGE = 100_000_000


@pytest.mark.parametrize("size", [0, 2, 64 * 1024, 64 * 1024 + 1, LARGE])
async def test_an_answer_of_any_size_is_a_yes_and_a_large_one_is_not_read(size: int) -> None:
    """A connection with a small one is kept for the next question."""
    connections, sent = set[asyncio.Task[None] | None](), 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        connections.add(asyncio.current_task())
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
                for start in range(0, size, 1_000_000):
                    writer.write(bytes(min(1_000_000, size - start)))
                    await writer.drain()
                    sent += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        readiness = BrokerReadiness(f"http://{host}:{port}", {})
        assert [await readiness.ask() for _ in range(3)] == [True] * 3
        readiness.close()
        await asyncio.wait([each for each in connections if each is not None])
    assert len(connections) == (1 if size <= 64 * 1024 else 3)
    assert sent < 100
