"""The gate: processor time per frame and per gigabyte, and memory.

Measured between puppets (`gate_load`) as processor time of the gate's own process, beside a bare
pass-through in asyncio that gets the same load by turns: what any proxy of this kind costs at least. All
limits are checked and none is reached. Lines under ``gate/engine`` are the engine without sockets. Beside
the real broker: `gate_broker`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Final

import uvloop

from benchmarks.figures import Figure, Measurement, median_seconds
from benchmarks.gate_load import FrameLoad, Publishing, consume, publish
from benchmarks.gate_process import TENANT, Process, free_port, running
from coordinator.core.model import Attachments, Rates
from coordinator.gate.engine.counters import GateCounters
from coordinator.gate.engine.session import Session
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.counters import NoListener
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.protocol.runs import CAN_FIND_RUNS
from tests.gate import peer

TURNS: Final = 3
LIMITED: Final = f"persistent://{TENANT}/limited/t"
SMALL: Final = FrameLoad(LIMITED, 100, 1, 500_000, window=32)
LARGE: Final = FrameLoad(LIMITED, 64 * 1024, 64, 12_000, window=32)
IDLE_CONNECTIONS: Final = 5_000

_OPENS_WITHIN_S: Final = 10.0
_GIGABYTE: Final = 10**9
_FRAMES_PER_READ: Final = 64
_READS: Final = 200

Play = Callable[[FrameLoad, int, int], Coroutine[None, None, None]]


@contextlib.contextmanager
def _one_processor() -> Iterator[None]:
    """Run everything on one: else a read holds the fewer frames the more processors are idle."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _processor_s(play: Play, load: FrameLoad) -> dict[str, float]:
    """Processor time of a gate and of a bare pass-through for the same load, medians of turns."""
    taken: dict[str, list[float]] = {"gate": [], "bare": []}
    upstream = free_port()
    with (
        _one_processor(),
        running("gate", free_port(), upstream) as gate,
        running("bare", free_port(), upstream) as bare,
    ):
        for _ in range(TURNS):
            for name, process in (("gate", gate), ("bare", bare)):
                before = process.processor_s()
                uvloop.run(play(load, process.port, upstream))
                taken[name].append(process.processor_s() - before)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def _per_frame(name: str, play: Play, load: FrameLoad, frames_each: int) -> Iterator[Figure]:
    seconds = _processor_s(play, load)
    each = {name: taken / load.frames / frames_each * 1e6 for name, taken in seconds.items()}
    yield Figure(f"gate/processor-us-per-frame/{name}", each.pop("gate"), "us", "lower", each, 1.2)


def _per_gigabyte(name: str, play: Play, load: FrameLoad) -> Iterator[Figure]:
    seconds = _processor_s(play, load)
    gigabytes = load.content_bytes * load.frames / _GIGABYTE
    each = {name: taken / gigabytes for name, taken in seconds.items()}
    yield Figure(f"gate/processor-s-per-gb/{name}", each.pop("gate"), "s", "lower", each, 0.4)


def sockets() -> Iterator[Figure]:
    """The gate's process under load; a publish is two frames, itself and its receipt."""
    yield from _per_frame("publish", publish, SMALL, 2)
    yield from _per_frame("consume", consume, SMALL, 1)
    yield from _per_gigabyte("publish", publish, LARGE)
    yield from _per_gigabyte("consume", consume, LARGE)


def idle_connections() -> Iterator[Figure]:
    """Memory of the process with as many connected clients, each with a producer that does nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 4 * IDLE_CONNECTIONS
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(needed, hard)), hard))
    try:
        resident: dict[str, float] = {}
        for kind in ("gate", "bare"):
            upstream = free_port()
            with running(kind, free_port(), upstream) as process:
                resident[kind] = uvloop.run(_hold_idle(process, upstream)) / 10**6
        ours = resident.pop("gate")
        name = f"gate/idle-connections-{IDLE_CONNECTIONS}"
        yield Figure(name, ours, "MB", "lower", resident, 400)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _hold_idle(process: Process, upstream: int) -> int:
    loop = asyncio.get_running_loop()
    opened = asyncio.Semaphore(0)
    send = peer.send()
    pairs = [Publishing(LIMITED, send, lambda _: opened.release()) for _ in range(IDLE_CONNECTIONS)]
    brokers = (pair.broker for pair in pairs)
    clients = (pair.client for pair in pairs)
    async with contextlib.AsyncExitStack() as stack:
        server = await loop.create_server(
            lambda: next(brokers), "127.0.0.1", upstream, backlog=1024
        )
        stack.callback(server.close)
        for _ in pairs:
            await loop.create_connection(lambda: next(clients), "127.0.0.1", process.port)
            async with asyncio.timeout(_OPENS_WITHIN_S):
                await opened.acquire()
        resident = process.resident_bytes()
        for pair in pairs:
            await pair.client.close()
        for pair in pairs:
            await pair.broker.closed.wait()
        return resident


def _session(groups: GroupTable) -> Session:
    session = Session(groups, AdmissionQueue(), GateCounters(), released=lambda: None)
    now_ns = time.monotonic_ns()
    session.receive_from_client(peer.connect(), now_ns)
    session.receive_from_broker(peer.connected(), now_ns)
    session.receive_from_client(peer.producer(LIMITED), now_ns)
    session.receive_from_broker(peer.producer_success(), now_ns)
    session.receive_from_client(peer.subscribe(LIMITED, request_id=2), now_ns)
    session.receive_from_broker(peer.success(2), now_ns)
    session.receive_from_client(peer.flow(), now_ns)
    return session


def _reads(
    session: Session, receive: Callable[[bytes, int], None], frame: bytes
) -> Callable[[], None]:
    data = frame * _FRAMES_PER_READ

    def run() -> None:
        for _ in range(_READS):
            receive(data, time.monotonic_ns())
            session.to_broker.clear()
            session.to_client.clear()

    return run


def _limited_table() -> GroupTable:
    table = GroupTable(NoListener())
    table.attachments = Attachments({}, {f"{TENANT}/limited": "group"})
    table.set_limits("group", Rates(10**9, 10**12, 10**9, 10**12), time.monotonic_ns())
    return table


def engine() -> Iterator[Figure]:
    """Nanoseconds per frame without sockets, with every check, as a read under load brings them."""
    session = _session(_limited_table())
    time.sleep(0.1)  # new buckets start empty
    to_broker, to_client = session.receive_from_client, session.receive_from_broker
    contenders = {
        "publish": _reads(session, to_broker, peer.send()),
        "receipt": _reads(session, to_client, peer.receipt()),
        "consume": _reads(session, to_client, peer.delivery(content=bytes(100))),
    }
    seconds = median_seconds(contenders, 30)
    by = "runs" if CAN_FIND_RUNS else "frames"
    for name, taken in seconds.items():
        each = taken / (_READS * _FRAMES_PER_READ) * 1e9
        yield Figure(f"gate/engine-ns-per-frame-by-{by}/{name}", each, "ns", "lower", target=2000)


MEASUREMENTS: Mapping[str, Measurement] = {
    "gate/engine-ns": engine,
    "gate/processor": sockets,
    "gate/idle": idle_connections,
}
