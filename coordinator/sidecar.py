"""One sidecar process, put together from its configuration.

Start: everything is connected in the background, the admin API answers at once, and the gate opens when
the groups are known for the first time, so that no message passes unlimited because a definition has
not arrived yet. Stop (SIGTERM or SIGINT): leave the membership, drain the gate, close everything, in
the opposite order. A task that fails ends the process with exit code 1; its supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import structlog
import uvicorn
import uvloop

from admin_api.app import create_app
from admin_api.backend import AdminBackend
from coordinator import __version__
from coordinator.adapters.broker_admin import HttpBrokerAdmin
from coordinator.adapters.clock import MonotonicClock
from coordinator.adapters.pulsar_bus import PulsarBus
from coordinator.adapters.zookeeper_ledgers import ZooKeeperLedgers
from coordinator.adapters.zookeeper_membership import ZooKeeperMembership
from coordinator.adapters.zookeeper_session import ZooKeeperSession
from coordinator.adapters.zookeeper_store import ZooKeeperStore
from coordinator.config import Config, load, split_address
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.state import CoordinatorState
from coordinator.gate.proxy import Gate
from coordinator.logs import configure_logs
from coordinator.ports import PortError
from coordinator.runner import Runner

log = structlog.get_logger(__name__)

_RETRY_S = 1.0


class _ApiServer(uvicorn.Server):
    """uvicorn without its signal handlers: the sidecar decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGTERM and SIGINT to the sidecar."""
        yield


def run(path: Path) -> int:
    """Run a sidecar until it is told to stop; return its exit code.

    Raises:
        ConfigError: the configuration cannot be used.
    """
    config = load(path)
    configure_logs(config.log_level)
    return uvloop.run(_run(config))


async def _run(config: Config) -> int:
    async with AsyncExitStack() as stack:
        session = ZooKeeperSession(
            config.zookeeper_servers,
            root=config.zookeeper_root,
            session_timeout_s=config.zookeeper_session_timeout_seconds,
        )
        store = ZooKeeperStore(session)
        ledgers = ZooKeeperLedgers(session)
        membership = ZooKeeperMembership(session, version=__version__)
        bus = PulsarBus(
            config.bus_service_url, config.bus_topics, listener_name=config.bus_listener_name
        )
        broker = await stack.enter_async_context(HttpBrokerAdmin(config.broker_web_url))
        clock = MonotonicClock()
        runner = Runner(
            CoordinatorState(config.core_settings()),
            clock=clock,
            store=store,
            membership=membership,
            bus=bus,
            broker=broker,
            api_address=config.admin_listen,
            drain_timeout_s=config.drain_timeout_seconds,
        )
        gate = _gate(config, runner, clock)
        stop = _stop_on_signals()
        stack.push_async_callback(runner.close)
        stack.push_async_callback(gate.close)
        runner.start(gate, ledgers)
        for part in (session, store, ledgers, membership, bus):
            stack.push_async_callback(part.stop)
            await part.start()
        runner.spawn(_ensure_bus_namespaces(config, broker))
        runner.spawn(_open_gate(runner, gate))
        await stack.enter_async_context(_serving(config, AdminBackend(store, broker, runner)))
        log.info("sidecar started", broker=config.broker_id, version=__version__)
        await _first(stop, runner.stopped)
        if runner.stopped.is_set():
            return 1  # nobody told it to: a part of it failed
        log.info("draining")
        await runner.drain()
        return 0


def _gate(config: Config, runner: Runner, clock: MonotonicClock) -> Gate:
    listen_host, listen_port = split_address("gate_listen", config.gate_listen)
    upstream_host, upstream_port = split_address("gate_upstream", config.gate_upstream)
    return Gate(
        listen_host=listen_host,
        listen_port=listen_port,
        upstream_host=upstream_host,
        upstream_port=upstream_port,
        listener=runner,
        clock=clock,
        held_bytes_max=config.held_bytes_max,
        burst_ns=round(config.burst_seconds * NANOS_PER_SECOND),
    )


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _open_gate(runner: Runner, gate: Gate) -> None:
    await runner.informed.wait()
    await gate.start()
    log.info("gate open")


async def _ensure_bus_namespaces(config: Config, broker: HttpBrokerAdmin) -> None:
    """Create the tenant and namespace of every bus topic, as soon as the broker lets us."""
    names = {tuple(topic.partition("://")[2].split("/")[:2]) for topic in config.bus_topics}
    for tenant, namespace in sorted(names):
        while True:
            try:
                await broker.ensure_bus_namespace(tenant, namespace)
                break
            except PortError as error:
                log.info("bus namespace not there yet", namespace=namespace, reason=str(error))
                await asyncio.sleep(_RETRY_S)


@contextlib.asynccontextmanager
async def _serving(config: Config, backend: AdminBackend) -> AsyncIterator[None]:
    """Serve the admin API; it answers until the very end, also while the gate drains."""
    host, port = split_address("admin_listen", config.admin_listen)
    listening = socket.create_server((host, port))
    server = _ApiServer(
        uvicorn.Config(
            create_app(backend), access_log=False, log_config=None, lifespan="off", loop="none"
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving
        listening.close()


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
