"""Listeners that remember, and waiting for what they hear: on conditions, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

DEADLINE_S = 60.0
"""Far more than anything takes, so that only a real fault reaches it."""

_POLL_S = 0.01

T = TypeVar("T")


class Heard(Generic[T]):
    """A listener that keeps what it was told, in order."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._news = asyncio.Event()

    def __call__(self, value: T) -> None:
        """Remember; checks the ports' promise that this is the loop's own thread."""
        asyncio.get_running_loop()  # raises on any other thread
        self.values.append(value)
        self._news.set()

    @property
    def last(self) -> T:
        """The newest value."""
        return self.values[-1]

    async def until(self, condition: Callable[[T], bool], deadline_s: float = DEADLINE_S) -> T:
        """Wait until the newest value fulfils the condition, and return it."""
        try:
            async with asyncio.timeout(deadline_s):
                while not (self.values and condition(self.values[-1])):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not heard in {deadline_s} s; heard {self.values[-5:]}") from None
        return self.values[-1]


async def eventually(
    condition: Callable[[], bool], what: str = "this", deadline_s: float = DEADLINE_S
) -> None:
    """Wait until the condition holds; the failure says in words what never did."""
    try:
        async with asyncio.timeout(deadline_s):
            while not condition():  # the condition may be anything
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise AssertionError(f"not in {deadline_s} s: {what}") from None
