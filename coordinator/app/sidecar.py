"""One sidecar, composed from its configuration; its gate is in another process (gate.process).

Start: everything is connected in the background, the admin API is loaded beside it, and the gate opens
when the groups and the brokers' addresses are known for the first time, so that no message passes
unlimited because a definition has not arrived yet, and no client is led round the gates. Stop (SIGTERM or
SIGINT): leave the membership, drain the gate, close everything, in the opposite order. Tasks that follow
a source go on when they fail (coordinator.runtime.supervision); without its gate or its API the process
ends with exit code 1, and its own supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import structlog
import uvloop

from admin_api.backend import Backlogs
from coordinator.adapters.broker.admin import HttpBrokerAdmin
from coordinator.app import admin, enforcing, onlookers
from coordinator.app.http import serving
from coordinator.app.parts import SidecarParts, make_parts, set_trust
from coordinator.app.runner import Runner
from coordinator.config import Config, ConfigError
from coordinator.gate.process.handle import GateProcess
from coordinator.gate.process.spawning import Spawned
from coordinator.ports import PortError
from coordinator.runtime.logs import LogLevel, configure_logs
from coordinator.runtime.release import RELEASE

if TYPE_CHECKING:
    from coordinator.native.shell.actuator import NativeActuator

log = structlog.get_logger(__name__)

_RETRY_S = 1.0


def run(config: Config, reload: Callable[[], Config], gate_child: Spawned | None) -> int:
    """Run a sidecar until it is told to stop; return its exit code.

    Args:
        config: the configuration.
        reload: reads that again, at SIGHUP; raises ConfigError.
        gate_child: the gate's process (coordinator.gate.process); None where only the broker's own
            limiter enforces.

    Raises:
        ConfigError: a file, place or address that the configuration names cannot be used.
    """
    log_level = configure_logs(config.log_level)
    return uvloop.run(_run(config, reload, gate_child, log_level))


async def _run(
    config: Config,
    reload: Callable[[], Config],
    gate_child: Spawned | None,
    log_level: LogLevel,
) -> int:
    async with AsyncExitStack() as stack:
        gate: GateProcess | None = None
        if gate_child is not None:
            gate = await stack.enter_async_context(GateProcess.over(gate_child, config))
            log_level.watch(gate.set_log_level)
        runner, stop = await _start(config, reload, gate, log_level, stack)
        log.info("sidecar started", broker=config.broker_id, version=RELEASE)
        await _first(stop, runner.stopped)
        if runner.mistake is not None:
            raise runner.mistake
        if runner.stopped.is_set():
            return 1  # without an order to stop, a part of it failed
        log.info("draining")
        return 0 if await runner.drain() else 1


async def _start(
    config: Config,
    reload: Callable[[], Config],
    gate_process: GateProcess | None,
    log_level: LogLevel,
    stack: AsyncExitStack,
) -> tuple[Runner, asyncio.Event]:
    """Make all parts and start them; the stack closes them at the end.

    Returns:
        The runner of the core, and an event that is set when the sidecar is told to stop.
    """
    access = serving.access(config)
    # Tried out, so that a mistake is reported before anything is connected.
    serving.tls(config)
    serving.try_address(config)
    parts = await make_parts(config, gate_process, stack)
    runner, gate = parts.runner, parts.gate
    gate.listen(runner)
    stop = _stop_on_signals(parts.native)
    enforcing.limit_broker(gate, config)
    backlogs = await onlookers.backlogs(parts, stack)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, _reload, parts, backlogs, reload)
    courier = enforcing.limit_topics(parts)
    stack.push_async_callback(runner.close)
    stack.push_async_callback(gate.close)
    reconciler = await enforcing.reconciler(parts, stack)
    runner.start(enforcing.enforcing(parts), parts.kept.escrow, parts.recorder)
    runner.spawn(gate.ends())
    onlookers.record(parts)
    onlookers.watch_unknown_topics(parts)
    await onlookers.watch_inventory(parts, stack)
    await _connect(parts, stack)
    runner.keep("topic limits", courier.run)
    informed = [runner.informed, courier.informed]
    if gate_process is not None:
        informed.append(await enforcing.follow_addresses(parts, gate_process, stack))
    runner.spawn(enforcing.open_gate(gate, *informed))
    onlookers.look_at_backlogs(parts, backlogs)
    await admin.serve(
        parts,
        access=access,
        log_level=log_level,
        backlogs=backlogs,
        reconciler=reconciler,
        stack=stack,
    )
    return runner, stop


async def _connect(parts: SidecarParts, stack: AsyncExitStack) -> None:
    """Begin to connect to ZooKeeper and the bus."""
    kept = parts.kept
    for part in (
        kept.session, kept.store, kept.escrow, kept.topic_limits, kept.membership, parts.bus,
    ):  # fmt: skip
        stack.push_async_callback(part.stop)
        await part.start()
    parts.runner.keep("bus namespaces", partial(_ensure_bus_namespaces, parts.config, parts.broker))


def _reload(parts: SidecarParts, backlogs: Backlogs | None, reload: Callable[[], Config]) -> None:
    """Take over the settings that need no restart: certificates, keys, gate limits, namespaces."""
    parts.gate.refresh_certificate()
    try:
        config = reload()
        set_trust(parts.runner, config)
    except ConfigError as error:
        log.warning("configuration cannot be used, the old one stays", reason=str(error))
        return
    enforcing.limit_broker(parts.gate, config)
    if backlogs is not None:
        backlogs.enforcement.interval_s = config.backlog_enforcement_seconds
        backlogs.enforcement.guard.namespaces = config.backlog_enforcement
    log.info("configuration read again", broker_limits=asdict(config.broker_limits))


def _stop_on_signals(native: NativeActuator | None) -> asyncio.Event:
    stop = asyncio.Event()

    def told_to_stop() -> None:
        stop.set()
        if native is not None:
            native.stop_writing()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop)
    return stop


async def _ensure_bus_namespaces(config: Config, broker: HttpBrokerAdmin) -> None:
    """Create the tenant and namespace of every bus topic, as soon as the broker allows it."""
    names = {tuple(topic.partition("://")[2].split("/")[:2]) for topic in config.bus_topics}
    for tenant, namespace in sorted(names):
        while True:
            try:
                await broker.ensure_bus_namespace(tenant, namespace)
                break
            except PortError as error:
                log.info("bus namespace not there yet", namespace=namespace, reason=str(error))
                await asyncio.sleep(_RETRY_S)


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
