"""The admin API under load: how long answers take, and what the gate's traffic feels of it.

`RATE` requests a second for `SECONDS`, over `WORKERS` connections. Latency counts from when a request was
due, so a slow answer does not spare the next one on its connection. Of ten requests four
explain, two read usage, two a group, one the overview, and one changes a group. The sidecar runs in
another process (api_process.py) with 200 groups, and a third one publishes through its gate all the while
(api_traffic.py): the time from a publish to its receipt stands beside that without requests. The requests
come from this process, so the figures hold what the client's own processing takes, too.
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

import httpx

from benchmarks.api_process import GROUPS
from benchmarks.figures import Figure, Measurement
from benchmarks.gate_process import free_port

RATE = 200
SECONDS = 10.0
WORKERS = 16
TARGET_MS = 50.0
_IDLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Answered:
    """One request."""

    millis: float
    status: int
    reads: bool


def latency() -> Iterator[Figure]:
    """p50 and p99 of reading and changing, and the gate's latency meanwhile, beside that without."""
    upstream = free_port()
    with _running("benchmarks.api_process", upstream) as sidecar:
        port, gate = map(int, _line(sidecar).split())
        with _running("benchmarks.api_traffic", gate, upstream) as traffic:
            assert _line(traffic)
            asyncio.run(_warm_up(port))
            _ask(sidecar), _ask(traffic)
            time.sleep(_IDLE_S)
            idle_ms, (idle_p50, idle_p99) = _ask(sidecar)[0], _ask(traffic)
            answered = asyncio.run(_load(port))
            busy_ms, (busy_p50, busy_p99) = _ask(sidecar)[0], _ask(traffic)
    failed = [each.status for each in answered if each.status >= 400]
    assert not failed, f"refused: {failed[:5]}"
    reads = [each.millis for each in answered if each.reads]
    changes = [each.millis for each in answered if not each.reads]
    yield Figure("api/read_p50", statistics.median(reads), "ms", "lower")
    yield Figure("api/read_p99", _p99(reads), "ms", "lower", target=TARGET_MS)
    yield Figure("api/change_p50", statistics.median(changes), "ms", "lower")
    yield Figure("api/change_p99", _p99(changes), "ms", "lower", target=TARGET_MS)
    for name, busy, idle in (
        ("loop_late_p99", busy_ms, idle_ms),
        ("gate_latency_p50", busy_p50, idle_p50),
        ("gate_latency_p99", busy_p99, idle_p99),
    ):
        yield Figure(f"api/{name}", busy, "ms", "lower", peers={"without requests": idle})


async def _warm_up(port: int) -> None:
    async with _client(port) as client:
        for number in range(50):
            await _request(client, number, time.monotonic())


async def _load(port: int) -> list[Answered]:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(_client(port)) for _ in range(WORKERS)]
        started = time.monotonic() + 0.1
        found = await asyncio.gather(
            *(_work(client, first, started) for first, client in enumerate(clients))
        )
    return [answered for each in found for answered in each]


async def _work(client: httpx.AsyncClient, first: int, started: float) -> list[Answered]:
    """Every so many-th request, over a connection of its own."""
    found = []
    for number in range(first, int(RATE * SECONDS), WORKERS):
        due = started + number / RATE
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        found.append(await _request(client, number, due))
    return found


async def _request(client: httpx.AsyncClient, number: int, due: float) -> Answered:
    group = f"g{number * 7 % GROUPS}"
    kind = number % 10
    if kind == 0:
        path, body = f"/admin/v2/resourcegroups/{group}", {"publishRateInMsgs": 1_000 + number}
        answer = await client.put(path, json=body)
    elif kind < 5:
        answer = await client.get(f"/quota/v1/explain/{group}")
    elif kind < 7:
        answer = await client.get(f"/quota/v1/usage/{group}")
    elif kind < 9:
        answer = await client.get(f"/admin/v2/resourcegroups/{group}")
    else:
        answer = await client.get("/quota/v1/overview?limit=50")
    return Answered((time.monotonic() - due) * 1000, answer.status_code, kind > 0)


def _client(port: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30.0)


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
