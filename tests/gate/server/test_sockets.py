"""The progress of a peer can be asked for at any moment of a connection."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.gate.server.sockets import NOTHING_TAKEN, taken

SENT = 100
ENDS = 2
"""A connection's begin and end count as a byte each."""


@pytest.mark.parametrize("end", ["close", "abort"])
async def test_a_connection_that_is_ended_has_a_progress(end: str) -> None:
    """Before and after its end; a socket that is closed has no descriptor to ask."""
    ended = asyncio.Event()

    class Side(asyncio.Protocol):
        def connection_lost(self, _: Exception | None) -> None:
            ended.set()

    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        transport, _ = await loop.create_connection(Side, "127.0.0.1", port)
        transport.write(b"x" * SENT)
        before = taken(transport)
        getattr(transport, end)()
        assert taken(transport).acknowledged <= SENT + ENDS
        await ended.wait()
        for _ in range(3):
            assert taken(transport).acknowledged <= SENT + ENDS
            await asyncio.sleep(0)
    assert before >= NOTHING_TAKEN
