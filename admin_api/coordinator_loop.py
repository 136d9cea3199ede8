"""The coordinator's loop, as the admin API calls it: HTTP runs on the API's loop, work on the state here.

The admin API has a thread and a loop of its own. Sockets, TLS, HTTP, routing, tokens, validation and the
writing of JSON cost ten times as much as reading the state: many requests at once, or a large answer,
would delay rounds and urgent reports. But the state has no locks: it belongs to the coordinator's loop
(coordinator.app.runner), and only code on that loop may read or change it. One class keeps the one rule:

    A handler that is given the backend runs on the coordinator's loop.

Such a handler has the parameter ``backend``: its route (`routes.common.CoordinatorRoute`) runs it there,
waits, and returns or raises its result, once per request. There the handler may use the request and the
answer, except the request's body, which arrives on the API's loop: dependencies read bodies, and they run
on the API's loop, as do the few handlers without the backend. Both know only the constant parts of the
state, above all the rules of access, and send all other questions to the coordinator's loop
(`CoordinatorLoop.run`, `CoordinatorLoop.stream`). tests/admin_api/test_coordinator_loop.py lists them.

A caller who leaves before the answer cancels his work there. In most tests the API runs on the
coordinator's loop itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class CoordinatorLoop:
    """The loop that the sidecar's state belongs to.

    Args:
        loop: runs as long as requests come; None is the loop of each caller.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work on this loop: return or raise its result, and cancel it when cancelled."""
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def stream(self, pieces: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Yield the pieces of a generator that runs on this loop, and close it here in every case."""
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
            # Not awaited: the task that ends a stream may be cancelled itself.
            # If that has cancelled the generator too, it ends by itself, and this call comes too late.
            asyncio.run_coroutine_threadsafe(pieces.aclose(), self._loop)


async def _next(pieces: AsyncGenerator[T, None]) -> T:
    return await anext(pieces)
