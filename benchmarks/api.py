"""The admin API under load: how long answers take, and what the gate's traffic feels of it, if anything.

`RATE` requests a second over `WORKERS` connections, each at some moment of its slot, so that none of
the machine's clocks keeps step with them. Latency counts from when a request was due, so a slow answer
does not spare the next one on its connection. Of ten requests four explain, two read usage, two a
group, one the overview, and one changes a group. The sidecar runs in another process (api_process.py)
with 200 groups, its gate in a process beside, and one more publishes through that all the while
(api_traffic.py): what counts there is the time from a publish to its receipt.

Requests cost processor time wherever they are answered, and they come from this process, which costs
some as well: on a machine with few processors traffic waits for that, too. What it waits for since they
are answered by its own sidecar is what is felt beyond that. So there is another sidecar, just the same
but without traffic, and phases of `SECONDS` take turns: without requests, with requests to the other
sidecar, and with the same requests to the one that carries the traffic. What the requests add is the last
against the second, turn by turn, since a machine's speed drifts; the median of all turns is to be no more
than the noise. That is what the machine does by itself: how far the phases without requests differ from
each other.

How late the coordinator's loop comes to what is due is compared in the same way, but without a target:
rounds and urgent reports are as late, and no traffic is.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Self

from benchmarks.api_client import BenchClient, connected
from benchmarks.api_process import GROUPS
from benchmarks.figures import Figure, Measurement
from benchmarks.gate_process import free_port

RATE = 200
TURNS = 6
SECONDS = 5.0
WORKERS = 16
TARGET_MS = 50.0
_SEED = 6


@dataclass(frozen=True, slots=True)
class Answered:
    """One request."""

    millis: float
    status: int
    reads: bool


@dataclass(frozen=True, slots=True)
class Felt:
    """The delays of one phase, in milliseconds: at the coordinator's loop, and of traffic."""

    loop_late_p99: float
    gate_latency_p50: float
    gate_latency_p99: float

    @classmethod
    def since_last(cls, sidecar: subprocess.Popen[str], traffic: subprocess.Popen[str]) -> Self:
        """Since this was asked the last time."""
        return cls(*_ask(sidecar), *_ask(traffic))


@dataclass(frozen=True, slots=True)
class BenchTurn:
    """One phase of each kind.

    Args:
        quiet: no requests.
        elsewhere: requests go to a sidecar without traffic.
        here: they go to the one that carries the traffic.
    """

    quiet: Felt
    elsewhere: Felt
    here: Felt


def latency() -> Iterator[Figure]:
    """p50 and p99 of reading and changing, and what the gate's latency is in every kind of phase."""
    upstream = free_port()
    slots = Random(_SEED)  # noqa: S311 - no secret
    turns: list[BenchTurn] = []
    answered: list[Answered] = []
    with (
        _running("benchmarks.api_process", upstream) as sidecar,
        _running("benchmarks.api_process", free_port()) as other,
    ):
        port, gate = map(int, _line(sidecar).split())
        other_port, _ = map(int, _line(other).split())
        with _running("benchmarks.api_traffic", gate, upstream) as traffic:
            assert _line(traffic)
            for each in (port, other_port):
                asyncio.run(_warm_up(each))
            Felt.since_last(sidecar, traffic)
            for _ in range(TURNS):
                time.sleep(SECONDS)
                quiet = Felt.since_last(sidecar, traffic)
                due_s = list(_due(slots))
                asyncio.run(_load(other_port, due_s))
                elsewhere = Felt.since_last(sidecar, traffic)
                answered += asyncio.run(_load(port, due_s))
                turns.append(BenchTurn(quiet, elsewhere, Felt.since_last(sidecar, traffic)))
    reads = [each.millis for each in answered if each.reads]
    changes = [each.millis for each in answered if not each.reads]
    yield Figure("api/read_p50", statistics.median(reads), "ms", "lower")
    yield Figure("api/read_p99", _p99(reads), "ms", "lower", target=TARGET_MS)
    yield Figure("api/change_p50", statistics.median(changes), "ms", "lower")
    yield Figure("api/change_p99", _p99(changes), "ms", "lower", target=TARGET_MS)
    yield from compared("loop_late_p99", turns)
    for name in ("gate_latency_p50", "gate_latency_p99"):
        yield from compared(name, turns, is_bounded=True)


def compared(
    name: str, turns: Sequence[BenchTurn], *, is_bounded: bool = False
) -> Iterator[Figure]:
    """A time in every kind of phase; and what requests add to it, beside the noise.

    Args:
        name: a field of `Felt`.
        turns: what was felt.
        is_bounded: whether the noise is the most that requests are to add.
    """
    quiet = [getattr(turn.quiet, name) for turn in turns]
    elsewhere = [getattr(turn.elsewhere, name) for turn in turns]
    here = [getattr(turn.here, name) for turn in turns]
    peers = {
        "requests to another sidecar": statistics.median(elsewhere),
        "without requests": statistics.median(quiet),
    }
    yield Figure(f"api/{name}", statistics.median(here), "ms", "lower", peers=peers)
    noise_ms = round(max(quiet) - min(quiet), 2)
    against = {"against no requests": _added(here, quiet), "noise": noise_ms}
    target = noise_ms if is_bounded else None
    yield Figure(f"api/{name}_added", _added(here, elsewhere), "ms", "lower", against, target)


def _added(with_ms: Sequence[float], without_ms: Sequence[float]) -> float:
    pairs = zip(with_ms, without_ms, strict=True)
    return statistics.median([asked - calm for asked, calm in pairs])


async def _warm_up(port: int) -> None:
    async with connected(port) as client:
        for number in range(50):
            await _request(client, number, time.monotonic())


def _due(slots: Random) -> Iterator[float]:
    """When the requests of a phase are to be sent, in seconds since its start."""
    for number in range(int(RATE * SECONDS)):
        yield (number + slots.random()) / RATE


async def _load(port: int, due_s: Sequence[float]) -> list[Answered]:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(port)) for _ in range(WORKERS)]
        started = time.monotonic() + 0.1
        plan = [(number, started + due) for number, due in enumerate(due_s)]
        found = await asyncio.gather(
            *(_work(client, plan[first::WORKERS]) for first, client in enumerate(clients))
        )
    answered = [each for some in found for each in some]
    failed = [each.status for each in answered if each.status >= 400]
    assert not failed, f"refused: {failed[:5]}"
    return answered


async def _work(client: BenchClient, plan: Sequence[tuple[int, float]]) -> list[Answered]:
    """One worker's part of the requests, over a connection of its own."""
    found = []
    for number, due in plan:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        found.append(await _request(client, number, due))
    return found


async def _request(client: BenchClient, number: int, due: float) -> Answered:
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
