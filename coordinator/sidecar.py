"""One sidecar, put together from its configuration; its gate is in another process (gate_process).

Start: everything is connected in the background, the admin API is loaded beside, and the gate opens when
the groups are known for the first time, so that no message passes unlimited because a definition has
not arrived yet. Stop (SIGTERM or SIGINT): leave the membership, drain the gate, close everything, in
the opposite order. A task that fails ends the process with exit code 1; its supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import structlog
import uvloop

from admin_api.backend import AdminBackend, Backlogs
from admin_api.home import Home
from coordinator import parts, serving
from coordinator.adapters.broker_admin import HttpBrokerAdmin
from coordinator.adapters.clock import MonotonicClock, wall_ms
from coordinator.adapters.pulsar_bus import PulsarBus
from coordinator.adapters.zookeeper_ledgers import ZooKeeperLedgers
from coordinator.adapters.zookeeper_membership import ZooKeeperMembership
from coordinator.adapters.zookeeper_operations import ZooKeeperOperations
from coordinator.adapters.zookeeper_session import ZooKeeperSession
from coordinator.adapters.zookeeper_store import ZooKeeperStore
from coordinator.adapters.zookeeper_topic_limits import ZooKeeperTopicLimits
from coordinator.alarming import Alarming
from coordinator.collector import keep_what_is_loaded, not_collecting
from coordinator.config import Config, ConfigError
from coordinator.core.state import CoordinatorState
from coordinator.following import Following
from coordinator.gate_process.handle import GateProcess
from coordinator.logs import LogLevel, configure_logs
from coordinator.namespace_meter import NamespaceMeter
from coordinator.partition_meter import PartitionMeter
from coordinator.ports import PortError, Recorder
from coordinator.release import RELEASE
from coordinator.runner import Runner
from coordinator.topic_limits import TopicLimitCourier

if TYPE_CHECKING:
    from fastapi import FastAPI

    from coordinator.adapters.otlp import OtlpPush
    from coordinator.adapters.recorder import ParquetRecorder

log = structlog.get_logger(__name__)

_RETRY_S = 1.0
_SECONDS_PER_DAY = 86_400


def run(config: Config, reload: Callable[[], Config], gate_end: socket.socket) -> int:
    """Run a sidecar until it is told to stop; return its exit code.

    Args:
        config: what it is told.
        reload: reads that again, at SIGHUP; raises ConfigError.
        gate_end: the channel to a process that is to be the gate (coordinator.gate_process).

    Raises:
        ConfigError: a file or place that the configuration names cannot be used.
    """
    log_level = configure_logs(config.log_level)
    return uvloop.run(_run(config, reload, gate_end, log_level))


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept in ZooKeeper, all of it by one session."""

    session: ZooKeeperSession
    store: ZooKeeperStore
    ledgers: ZooKeeperLedgers
    topic_limits: ZooKeeperTopicLimits
    membership: ZooKeeperMembership

    @classmethod
    def of(cls, config: Config) -> _Kept:
        session = parts.session(config)
        return cls(
            session,
            ZooKeeperStore(session),
            ZooKeeperLedgers(session),
            ZooKeeperTopicLimits(session),
            ZooKeeperMembership(session, version=RELEASE),
        )


async def _run(
    config: Config, reload: Callable[[], Config], gate_end: socket.socket, log_level: LogLevel
) -> int:
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(GateProcess.over(gate_end, config))
        log_level.watch(gate.set_log_level)
        runner, stop = await _start(config, reload, gate, log_level, stack)
        log.info("sidecar started", broker=config.broker_id, version=RELEASE)
        await _first(stop, runner.stopped)
        if runner.stopped.is_set():
            return 1  # nobody told it to: a part of it failed
        log.info("draining")
        await runner.drain()
        return 0


async def _start(
    config: Config,
    reload: Callable[[], Config],
    gate: GateProcess,
    log_level: LogLevel,
    stack: AsyncExitStack,
) -> tuple[Runner, asyncio.Event]:
    """Put everything together and start it; what is to be closed at the end is on the stack.

    Returns:
        What runs the core, and an event that is set when somebody tells the sidecar to stop.
    """
    access = serving.access(config)
    serving.tls(config)  # tried out, so that a mistake is said before anything is connected
    kept = _Kept.of(config)
    bus = parts.bus(config)
    broker = await stack.enter_async_context(parts.broker_admin(config))
    clock = MonotonicClock()
    recorder = _start_recorder(config, stack)
    state = CoordinatorState(config.core_settings())
    runner = await _runner(config, state, clock, kept, bus, broker)
    gate.listen(runner)
    stop = _stop_on_signals()
    _limit_broker(gate, config)
    backlogs = await _backlogs(config, stack, gate, clock)
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGHUP, _reload, runner, gate, backlogs, reload
    )
    courier = TopicLimitCourier(gate, broker)
    kept.topic_limits.watch(courier.changed)
    stack.push_async_callback(runner.close)
    stack.push_async_callback(gate.close)
    runner.start(gate, kept.ledgers, recorder)
    runner.spawn(gate.ends())
    _record_namespaces(runner, gate, recorder, clock)
    for part in (
        kept.session, kept.store, kept.ledgers, kept.topic_limits, kept.membership, bus,
    ):  # fmt: skip
        stack.push_async_callback(part.stop)
        await part.start()
    runner.spawn(_ensure_bus_namespaces(config, broker))
    runner.spawn(courier.run())
    runner.spawn(_open_gate(gate, runner.informed, courier.informed))
    _look_at_backlogs(runner, backlogs, recorder, clock)
    following = Following(state, clock, ZooKeeperOperations(kept.session), recorder)
    runner.spawn(following.run())
    alarming = await _alarming(config, stack, runner, state)
    otlp = parts.otlp(config)
    backend = AdminBackend(
        store=kept.store,
        topic_limits=kept.topic_limits,
        broker=broker,
        views=runner.views,
        watching=runner.watch,
        following=following,
        log_level=log_level,
        alarming=alarming,
        otlp=otlp,
        gate=gate,
        bus=bus,
        access=access,
        home=Home(asyncio.get_running_loop()),
        requests_per_second=config.admin_requests_per_second,
        backlogs=backlogs,
        partitions=_meter_partitions(runner, gate, clock),
        cluster_group=config.cluster_group,
        delayed_group=config.delayed_group,
    )
    if otlp is not None:
        runner.spawn(_push_metrics(await stack.enter_async_context(otlp), backend))
    api = await stack.enter_async_context(serving.serving(config, partial(_app, config, backend)))
    runner.spawn(api.ends())
    runner.spawn(_keep_what_is_loaded(api))
    return runner, stop


@asynccontextmanager
async def _app(config: Config, backend: AdminBackend) -> AsyncIterator[FastAPI]:
    """The admin API, and what lives with it on its loop; loaded where it runs."""
    with not_collecting():
        from admin_api.app import create_app  # noqa: PLC0415
        from coordinator.adapters.broker_relay import HttpBrokerRelay  # noqa: PLC0415

    async with HttpBrokerRelay(config.broker_web_url) as relay:
        yield create_app(replace(backend, relay=relay if config.admin_pass_through else None))


async def _keep_what_is_loaded(api: serving.AdminApi) -> None:
    await api.loaded.wait()
    keep_what_is_loaded()


async def _push_metrics(otlp: OtlpPush, backend: AdminBackend) -> None:
    from admin_api.metrics import gather  # noqa: PLC0415 - the start does not wait for it

    await otlp.run(partial(gather, backend))


async def _runner(
    config: Config,
    state: CoordinatorState,
    clock: MonotonicClock,
    kept: _Kept,
    bus: PulsarBus,
    broker: HttpBrokerAdmin,
) -> Runner:
    runner = Runner(
        state,
        clock=clock,
        store=kept.store,
        membership=kept.membership,
        bus=bus,
        broker=broker,
        api_address=await serving.advertised_address(config),
        drain_timeout_s=config.drain_timeout_seconds,
    )
    runner.seal = parts.seal(config)
    return runner


async def _backlogs(
    config: Config, stack: AsyncExitStack, gate: GateProcess, clock: MonotonicClock
) -> Backlogs | None:
    if not config.backlog_check_seconds:
        return None
    source = await stack.enter_async_context(parts.backlog_source(config))
    return parts.backlogs(config, source, gate, clock)


def _limit_broker(gate: GateProcess, config: Config) -> None:
    gate.set_broker_limits(config.broker_limits)
    gate.set_partition_limits(config.partition_limits)
    gate.set_subscribe_rate(config.subscribe_rate, period_s=config.subscribe_rate_period_seconds)


def _look_at_backlogs(
    runner: Runner, backlogs: Backlogs | None, recorder: Recorder | None, clock: MonotonicClock
) -> None:
    if backlogs is None:
        return
    backlogs.watch.watch(runner.watch.backlogs_checked)
    if recorder is not None:
        recorded = recorder
        backlogs.watch.watch(
            lambda views: recorded.backlogs_checked(views, wall_ms(), clock.now_ns())
        )
    runner.spawn(backlogs.watch.run())
    runner.spawn(backlogs.enforcement.run())


def _meter_partitions(runner: Runner, gate: GateProcess, clock: MonotonicClock) -> PartitionMeter:
    meter = PartitionMeter(gate, clock)
    runner.spawn(meter.run())
    return meter


def _reload(
    runner: Runner, gate: GateProcess, backlogs: Backlogs | None, reload: Callable[[], Config]
) -> None:
    """Take over what can change without a restart: certificates, keys, the gate's limits, namespaces."""
    gate.refresh_certificate()
    try:
        config = reload()
        runner.seal = parts.seal(config)
    except ConfigError as error:
        log.warning("configuration cannot be used, the old one stays", reason=str(error))
        return
    _limit_broker(gate, config)
    if backlogs is not None:
        backlogs.enforcement.interval_s = config.backlog_enforcement_seconds
        backlogs.enforcement.set_namespaces(config.backlog_enforcement)
    log.info("configuration read again", broker_limits=asdict(config.broker_limits))


def _start_recorder(config: Config, stack: AsyncExitStack) -> ParquetRecorder | None:
    recorder = parts.recorder(config)
    if recorder is not None:
        stack.callback(recorder.close)
        recorder.start()
    return recorder


def _record_namespaces(
    runner: Runner, gate: GateProcess, recorder: Recorder | None, clock: MonotonicClock
) -> None:
    if recorder is not None:
        runner.spawn(NamespaceMeter(gate, recorder, clock).run())


async def _alarming(
    config: Config, stack: AsyncExitStack, runner: Runner, state: CoordinatorState
) -> Alarming | None:
    if not config.alarm_webhook_url:
        return None
    receiver = await stack.enter_async_context(parts.webhook(config))
    alarming = Alarming(state, runner.watch, receiver)
    runner.spawn(alarming.run())
    return alarming


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _open_gate(gate: GateProcess, *informed: asyncio.Event) -> None:
    for event in informed:
        await event.wait()
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


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
