"""``python -m benchmarks.api_traffic GATE UPSTREAM``: a steady load through a gate, and its latency.

A client and a broker of no work of their own (gate_load.py): `RATE` publishes a second, each when it is
due, whatever became of those before. Its latency is the time from then to its receipt. Prints a line once
the first receipt has come, and at each line on standard input the median and the p99 since the last one,
in milliseconds. Ends with the input.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections import deque
from typing import Final

import uvloop

from benchmarks.gate_load import Publishing
from benchmarks.gate_process import TENANT
from tests.gate import peer

RATE: Final = 1_000
_SLICE_S: Final = 0.001
_CONTENT_BYTES: Final = 1_024
_TOPIC: Final = f"persistent://{TENANT}/limited/t"


class _Paced:
    """A producer that sends in time."""

    def __init__(self) -> None:
        self._due_s: deque[float] = deque()
        self._receipts = 0
        self._millis: list[float] = []
        self.is_answered = asyncio.Event()
        self.line = Publishing(_TOPIC, peer.send(content=bytes(_CONTENT_BYTES)), self._answered)

    async def run(self) -> None:
        """Send for ever."""
        started, sent = time.monotonic(), 0
        while True:
            await asyncio.sleep(_SLICE_S)
            count = int((time.monotonic() - started) * RATE) - sent
            self._due_s.extend(started + number / RATE for number in range(sent, sent + count))
            self.line.publish(count)
            sent += count

    def take(self) -> list[float]:
        """The latencies since the last time."""
        taken, self._millis = self._millis, []
        return taken

    def _answered(self, receipts: int) -> None:
        now_s = time.monotonic()
        for _ in range(receipts - self._receipts):
            self._millis.append((now_s - self._due_s.popleft()) * 1000)
        self._receipts = receipts
        if receipts:
            self.is_answered.set()


async def _serve(gate: int, upstream: int) -> None:
    play, loop = _Paced(), asyncio.get_running_loop()
    await loop.create_server(lambda: play.line.broker, "127.0.0.1", upstream)
    await loop.create_connection(lambda: play.line.client, "127.0.0.1", gate)
    sending = asyncio.create_task(play.run())
    await play.is_answered.wait()
    print("flows", flush=True)  # noqa: T201 - its starter reads this
    while await asyncio.to_thread(sys.stdin.readline):
        taken = play.take()
        p99 = statistics.quantiles(taken, n=100)[-1]
        print(statistics.median(taken), p99, flush=True)  # noqa: T201
    sending.cancel()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
