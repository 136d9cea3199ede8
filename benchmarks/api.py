"""The admin API under load: how long answers take, and what the gate's traffic feels of it.

`RATE` requests a second over `WORKERS` connections. Latency counts from when a request was due, so a slow
answer does not spare the next one on its connection. Of ten requests four explain, two read usage, two a
group, one the overview, and one changes a group. The sidecar runs in another process (api_process.py)
with 200 groups, and a third one publishes through its gate all the while (api_traffic.py): what counts
there is the time from a publish to its receipt.

Phases with and without requests take turns, `PAIRS` of them at `SECONDS` each, since a machine's speed
drifts. How far those without differ from each other is what the machine does by itself, its noise; what
requests add to the gate's latency is to be no more than that. The requests come from this process, so the
figures hold what the client's own processing takes, too.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks.api_client import Client, connected
from benchmarks.api_process import GROUPS
from benchmarks.figures import Figure, Measurement
from benchmarks.gate_process import free_port

RATE = 200
PAIRS = 4
SECONDS = 5.0
WORKERS = 16
TARGET_MS = 50.0


@dataclass(frozen=True, slots=True)
class Answered:
    """One request."""

    millis: float
    status: int
    reads: bool


@dataclass(frozen=True, slots=True)
class _Felt:
    """What was felt of one phase, in milliseconds."""

    loop_late_p99: float
    gate_latency_p50: float
    gate_latency_p99: float

    @classmethod
    def since_last(cls, sidecar: subprocess.Popen[str], traffic: subprocess.Popen[str]) -> Self:
        """Since this was asked the last time."""
        return cls(*_ask(sidecar), *_ask(traffic))


def latency() -> Iterator[Figure]:
    """p50 and p99 of reading and changing, and what the gate's latency is with requests and without."""
    upstream = free_port()
    quiet: list[_Felt] = []
    busy: list[_Felt] = []
    answered: list[Answered] = []
    with _running("benchmarks.api_process", upstream) as sidecar:
        port, gate = map(int, _line(sidecar).split())
        with _running("benchmarks.api_traffic", gate, upstream) as traffic:
            assert _line(traffic)
            asyncio.run(_warm_up(port))
            _Felt.since_last(sidecar, traffic)
            for _ in range(PAIRS):
                time.sleep(SECONDS)
                quiet.append(_Felt.since_last(sidecar, traffic))
                answered += asyncio.run(_load(port))
                busy.append(_Felt.since_last(sidecar, traffic))
    failed = [each.status for each in answered if each.status >= 400]
    assert not failed, f"refused: {failed[:5]}"
    reads = [each.millis for each in answered if each.reads]
    changes = [each.millis for each in answered if not each.reads]
    yield Figure("api/read_p50", statistics.median(reads), "ms", "lower")
    yield Figure("api/read_p99", _p99(reads), "ms", "lower", target=TARGET_MS)
    yield Figure("api/change_p50", statistics.median(changes), "ms", "lower")
    yield Figure("api/change_p99", _p99(changes), "ms", "lower", target=TARGET_MS)
    for name in ("loop_late_p99", "gate_latency_p50", "gate_latency_p99"):
        yield from _compared(
            name, *([getattr(each, name) for each in felt] for felt in (busy, quiet))
        )


def _compared(name: str, busy: list[float], quiet: list[float]) -> Iterator[Figure]:
    """A time with requests beside that without; and what they add, to be no more than the noise."""
    with_ms, without_ms = statistics.median(busy), statistics.median(quiet)
    peers = {"without requests": without_ms}
    yield Figure(f"api/{name}", with_ms, "ms", "lower", peers=peers)
    noise_ms = round(max(quiet) - min(quiet), 2)
    yield Figure(f"api/{name}_added", with_ms - without_ms, "ms", "lower", target=noise_ms)


async def _warm_up(port: int) -> None:
    async with connected(port) as client:
        for number in range(50):
            await _request(client, number, time.monotonic())


async def _load(port: int) -> list[Answered]:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(port)) for _ in range(WORKERS)]
        started = time.monotonic() + 0.1
        found = await asyncio.gather(
            *(_work(client, first, started) for first, client in enumerate(clients))
        )
    return [answered for each in found for answered in each]


async def _work(client: Client, first: int, started: float) -> list[Answered]:
    """Every so many-th request, over a connection of its own."""
    found = []
    for number in range(first, int(RATE * SECONDS), WORKERS):
        due = started + number / RATE
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        found.append(await _request(client, number, due))
    return found


async def _request(client: Client, number: int, due: float) -> Answered:
    group = f"g{number * 7 % GROUPS}"
    kind = number % 10
    if kind == 0:
        path, body = f"/admin/v2/resourcegroups/{group}", {"publishRateInMsgs": 1_000 + number}
        status = await client.request("PUT", path, body)
    elif kind < 5:
        status = await client.request("GET", f"/quota/v1/explain/{group}")
    elif kind < 7:
        status = await client.request("GET", f"/quota/v1/usage/{group}")
    elif kind < 9:
        status = await client.request("GET", f"/admin/v2/resourcegroups/{group}")
    else:
        status = await client.request("GET", "/quota/v1/overview?limit=50")
    return Answered((time.monotonic() - due) * 1000, status, kind > 0)


@contextmanager
def _running(module: str, *arguments: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(  # noqa: S603 - modules of this package
        [sys.executable, "-m", module, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ask(process: subprocess.Popen[str]) -> list[float]:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return [float(word) for word in _line(process).split()]


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "a process has ended"
    return line


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[-1]


MEASUREMENTS: Mapping[str, Measurement] = {"api/": latency}
