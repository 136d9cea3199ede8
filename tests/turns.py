"""Count how often work lets the event loop's other work have its turn: a bound on its wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def turns_of(work: Coroutine[Any, Any, object]) -> int:
    """Turns of the loop from beginning to end of the work, which waits for nothing but its turn."""
    task = asyncio.ensure_future(work)
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns
