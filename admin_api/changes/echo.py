"""A writer reads its own change: the answer to a change waits for the watch that brings it back.

Lists, limits in force and explanations are read from this sidecar's copy of the store, which its watch
keeps up to date. Listeners of a watch are called one after the other, so the core and the gate have been
told when an echo is heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

T = TypeVar("T")

ECHO_WITHIN_S = 1.0

_log = structlog.get_logger("admin_api")


class Echo(Generic[T]):
    """Wait for copies of a store.

    Args:
        watch: the store's watch; calls its listener with every new copy, on the coordinator's loop.
    """

    def __init__(self, watch: Callable[[Callable[[T], None]], None]) -> None:
        self._copy: T | None = None
        self._arrived = asyncio.Event()
        watch(self._arrive)

    async def heard(self, shows: Callable[[T], bool], change: str) -> None:
        """Wait until the newest copy shows a change that the store has made.

        After `ECHO_WITHIN_S` the change is answered for all the same, since it is made: only this sidecar
        is late, and the log says so.

        Args:
            shows: whether a copy shows it.
            change: names it in the log.
        """
        try:
            async with asyncio.timeout(ECHO_WITHIN_S):
                while self._copy is None or not shows(self._copy):
                    await self._arrived.wait()
        except TimeoutError:
            _log.warning("change made but not seen yet", change=change, after_s=ECHO_WITHIN_S)

    def _arrive(self, copy: T) -> None:
        self._copy = copy
        self._arrived.set()
        self._arrived = asyncio.Event()
