"""``python -m benchmarks.api_process UPSTREAM``: a sidecar in processes of its own (benchmarks.api).

The product's runner, core and API stand on memory adapters; the gate is in its own process, as always,
and leads to a port where a broker will be. Prints the ports of API and gate once both answer; at each
line on standard input, the p99 of how late the coordinator's event loop was since the last one, in
milliseconds: so late would be a report of usage. Ends with the input.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import uvloop
from fastapi import FastAPI

from admin_api.app import create_app
from admin_api.coordinator_loop import CoordinatorLoop
from benchmarks.gate_process import TENANT, free_port
from benchmarks.memory_sidecar import memory_sidecar
from coordinator.app.http.serving import serving
from coordinator.config import Config
from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.owners import namespace_owner
from coordinator.gate.process.handle import GateProcess
from coordinator.gate.process.spawning import Spawned, spawned
from coordinator.runtime.gc_tuning import keep_what_is_loaded
from coordinator.runtime.logs import configure_logs
from tests.memory.escrow import MemoryEscrow

GROUPS = 200
_LOOK_S = 0.005
_UNREACHED = 1_000_000
"""A limit that is checked and holds nothing."""


class _Lateness:
    """The delay of the loop in running what is due."""

    def __init__(self) -> None:
        self._late_ms: list[float] = []

    async def watch(self) -> None:
        """Measure for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LOOK_S
            await asyncio.sleep(_LOOK_S)
            self._late_ms.append((loop.time() - due) * 1000)

    def take_p99(self) -> float:
        """Since the last time."""
        taken, self._late_ms = self._late_ms, []
        return statistics.quantiles(taken, n=100)[-1] if len(taken) > 1 else 0.0


async def _serve(upstream: int, gate_child: Spawned) -> None:
    sidecar = memory_sidecar(configure_logs("warning"))
    store, runner = sidecar.store, sidecar.runner
    for number in range(GROUPS):
        await store.create_group(ResourceGroup(f"g{number}", Rates(publish_messages=1_000)))
    await store.create_group(ResourceGroup("traffic", Rates(publish_messages=_UNREACHED)))
    await store.attach(namespace_owner(TENANT, "limited"), "traffic")
    loop = CoordinatorLoop(asyncio.get_running_loop())
    port = free_port()
    config = _config(port, upstream)

    @asynccontextmanager
    async def app() -> AsyncIterator[FastAPI]:
        yield create_app(replace(sidecar.backend, gate=gate, coordinator_loop=loop))

    async with GateProcess.over(gate_child, config) as gate:
        gate.listen(runner)
        runner.start(gate, MemoryEscrow(store))
        sidecar.membership.connect()
        runner.spawn(sidecar.following.run(runner.supervisor))
        async with serving(config, app) as api:
            await api.loaded.wait()
            while not runner.views.health().ready:  # noqa: ASYNC110 - no event says so
                await asyncio.sleep(0.01)
            gate_port = await gate.start()
            keep_what_is_loaded()
            lateness = _Lateness()
            watching = asyncio.create_task(lateness.watch())
            print(port, gate_port, flush=True)  # noqa: T201 - its starter reads this
            while await asyncio.to_thread(sys.stdin.readline):
                print(lateness.take_p99(), flush=True)  # noqa: T201
            watching.cancel()
        await gate.close()
        await runner.close()


def _config(port: int, upstream: int) -> Config:
    """Of which the API goes by its own address only, and the gate by the broker's."""
    nowhere = "127.0.0.1:1"
    return Config(
        broker_id="broker-1",
        gate_listen="127.0.0.1:0",
        gate_upstream=f"127.0.0.1:{upstream}",
        admin_listen=f"127.0.0.1:{port}",
        broker_web_url=f"http://{nowhere}",
        bus_service_url=f"pulsar://{nowhere}",
        zookeeper_servers=nowhere,
    )


if __name__ == "__main__":
    with spawned() as gate_child:
        uvloop.run(_serve(int(sys.argv[1]), gate_child))
