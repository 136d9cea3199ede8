"""Asks brokers that nothing is heard of whether they are there: one that refuses a connection is gone.

A broker without traffic, or with traffic that does not change, reports once in five intervals. So its
silence tells late that it died, and its part would be withheld from the others. Only a refusal counts: of
a machine that does not answer nothing is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import structlog

from coordinator.native.engine.steering import Steering
from coordinator.ports import Clock

_EVERY_S: Final = 0.25
_TIMEOUT_S: Final = 1.0
_AT_ONCE: Final = 16
_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651}

log = structlog.get_logger(__name__)


class Asking:
    """Asks the brokers that the steering doubts.

    Args:
        steering: names them, and takes the answers.
        clock: monotonic time.
        found: called when one of them is gone.
    """

    def __init__(self, steering: Steering, clock: Clock, found: Callable[[], None]) -> None:
        self._steering = steering
        self._clock = clock
        self._found = found

    async def run(self) -> None:
        """Run for ever."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.ask()

    async def ask(self) -> None:
        """Ask once all brokers that are doubted, up to a bound."""
        brokers = self._steering.doubted(self._clock.now_ns())[:_AT_ONCE]
        refusals = await asyncio.gather(*map(_refuses, brokers))
        for broker, refuses in zip(brokers, refusals, strict=True):
            if refuses:
                log.info("broker refuses connections", broker=broker)
                self._steering.table.refuse(broker, self._clock.now_ns())
                self._found()


async def _refuses(broker: str) -> bool:
    """Return whether nothing listens at a broker's service URL."""
    try:
        url = urlsplit(broker)
        host, port = url.hostname, url.port or _PORTS.get(url.scheme)
    except ValueError:
        return False
    if not host or port is None:
        return False
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError):  # the latter of a host that no name server could be asked for
        return False
    writer.close()
    return False
