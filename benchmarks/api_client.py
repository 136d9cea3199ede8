"""The least HTTP client that the bench of the API needs: a request, and its answer read whole.

It shares the machine with the sidecar that it asks, and whatever it takes of the processors is missing
from the gate's traffic. A full client takes more than the sidecar takes to answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\ncontent-length: "


class BenchClient:
    """One connection that stays open; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def request(self, method: str, path: str, body: Mapping[str, int] | None = None) -> int:
        """Send a request and read its answer; returns the status."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: sidecar\r\nContent-Length: {len(content)}"
        self._writer.write(head.encode() + _END + content)
        answer = (await self._reader.readuntil(_END)).lower()
        _, found, rest = answer.partition(_LENGTH)
        if found:
            await self._reader.readexactly(int(rest[: rest.index(b"\r")]))
        return int(answer.split(b" ", 2)[1])


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[BenchClient]:
    """A connection to a port of this host."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield BenchClient(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()
