"""Where a request is answered: its HTTP on the API's own loop, and what it asks of the sidecar at home.

The admin API has a thread and a loop of its own. Sockets, TLS, HTTP, routing, tokens, validation and the
writing of JSON cost ten times what it costs to read the state: many requests at once, or a large answer,
would delay rounds and urgent reports. But the state has no locks: it belongs to the coordinator's loop
(coordinator.runner), its *home*, and nowhere else is anything of it read or changed. There is one rule,
which one class keeps:

    Whoever is given the backend runs at home.

A handler with the parameter ``backend`` is such a one: its route (`admin_api.routes.common.HomeRoute`)
sends it there, waits, and brings back what it returns or raises. It goes once per request. The request
and the answer are its own while it is there; only the request's body is out of its reach, because that
arrives on the API's loop: bodies are read by dependencies, and these run there, as do the few handlers
that are not given the backend. Both know of it what never changes, the rules of access above all, and
send home (`Home.run`, `Home.stream`) whatever else they want. tests/admin_api/test_home.py names them.

A caller who is gone before his answer cancels what runs at home for him. Where the API is served on the
loop that it asks, as in most tests, it is at home everywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Home:
    """The loop that the sidecar's state belongs to.

    Args:
        loop: runs as long as anybody asks; None is the loop of whoever asks.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work at home: return or raise what it does, and cancel it when cancelled."""
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def stream(self, pieces: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """What a generator makes at home, which is closed there however this ends."""
        try:
            while True:
                try:
                    piece = await self.run(_next(pieces))
                except StopAsyncIteration:
                    return
                yield piece
        finally:
            await self._close(pieces)

    async def _close(self, pieces: AsyncGenerator[Any, None]) -> None:
        if self._loop is None or self._loop is asyncio.get_running_loop():
            await pieces.aclose()
        else:
            # Not waited for: whoever ends a stream may be cancelled himself, and wait for nothing more.
            # Where that has cancelled the generator too, it ends by itself, and this comes too late.
            asyncio.run_coroutine_threadsafe(pieces.aclose(), self._loop)


async def _next(pieces: AsyncGenerator[T, None]) -> T:
    return await anext(pieces)
