"""A loop of native enforcement: steps for ever, each of which may fail and is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from coordinator.ports import PortError

log = structlog.get_logger(__name__)


async def rounds(
    step: Callable[[], Awaitable[None]],
    wanted: asyncio.Event,
    every_s: Callable[[], float],
    note: Callable[[str], None],
    trouble: str,
) -> None:
    """Take steps for ever.

    Args:
        step: takes one.
        wanted: set when one is to be taken before its time; news of the time of a step is not lost.
        every_s: the longest time between two, in seconds, asked after each.
        note: takes the reason why the last one failed; empty if it did not.
        trouble: logged once for each such reason.
    """
    last = ""
    while True:
        wanted.clear()
        reason = ""
        try:
            await step()
        except (PortError, ValueError) as error:
            reason = str(error)
            if reason != last:
                log.warning(trouble, reason=reason)
        last = reason
        note(reason)
        with suppress(TimeoutError):
            async with asyncio.timeout(every_s()):
                await wanted.wait()
