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
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import structlog
import uvloop

from admin_api.backend import AdminBackend, Backlogs
from admin_api.changes.echo import Echo
from admin_api.coordinator_loop import CoordinatorLoop
from coordinator.adapters.broker.admin import HttpBrokerAdmin
from coordinator.adapters.clock import MonotonicClock, wall_ms
from coordinator.adapters.pulsar.bus import PulsarBus
from coordinator.adapters.zookeeper.escrow import ZooKeeperEscrow
from coordinator.adapters.zookeeper.membership import ZooKeeperMembership
from coordinator.adapters.zookeeper.operations import ZooKeeperOperations
from coordinator.adapters.zookeeper.registrations import ZooKeeperRegistrations
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.adapters.zookeeper.topic_limits import ZooKeeperTopicLimits
from coordinator.app import factories
from coordinator.app.addresses import AddressCourier
from coordinator.app.http import serving
from coordinator.app.operation_tracker import OperationTracker
from coordinator.app.runner import Runner
from coordinator.app.topic_limits import TopicLimitCourier
from coordinator.backlog.rules.outside import BacklogRecorder
from coordinator.config import Config, ConfigError
from coordinator.core.state import CoordinatorState
from coordinator.gate.process.handle import GateProcess
from coordinator.insight.shell.alarming import Alarming
from coordinator.insight.shell.namespace_meter import NamespaceMeter
from coordinator.insight.shell.partition_meter import PartitionMeter
from coordinator.insight.shell.unknown_topics import UnknownTopicsWatch
from coordinator.native.shell.actuator import NativeActuator
from coordinator.native.shell.both import GateAndNative
from coordinator.ports import PortError, Recorder, TrafficGate
from coordinator.reconciliation.engine.outside import EscapeRecorder
from coordinator.reconciliation.shell.charging import ChargedGate
from coordinator.reconciliation.shell.reconciler import Reconciler
from coordinator.runtime.gc_tuning import keep_what_is_loaded, not_collecting
from coordinator.runtime.logs import LogLevel, configure_logs
from coordinator.runtime.release import RELEASE
from coordinator.runtime.supervision import TaskSupervisor

if TYPE_CHECKING:
    from fastapi import FastAPI

    from coordinator.adapters.otlp.push import OtlpPush
    from coordinator.adapters.recorder.recorder import ParquetRecorder
    from coordinator.adapters.recorder.rows import EnforcedBy

log = structlog.get_logger(__name__)

AnyGate = GateProcess | NativeActuator
"""The actuators that also get the settings that only a gate has."""

_RETRY_S = 1.0
_SECONDS_PER_DAY = 86_400


def run(config: Config, reload: Callable[[], Config], gate_end: socket.socket | None) -> int:
    """Run a sidecar until it is told to stop; return its exit code.

    Args:
        config: the configuration.
        reload: reads that again, at SIGHUP; raises ConfigError.
        gate_end: the channel to the gate's process (coordinator.gate.process); None where only the
            broker's own limiter enforces.

    Raises:
        ConfigError: a file or place that the configuration names cannot be used.
    """
    log_level = configure_logs(config.log_level)
    return uvloop.run(_run(config, reload, gate_end, log_level))


@dataclass(frozen=True, slots=True)
class _Kept:
    """The state in ZooKeeper, all of it by one session."""

    session: ZooKeeperSession
    store: ZooKeeperStore
    escrow: ZooKeeperEscrow
    topic_limits: ZooKeeperTopicLimits
    membership: ZooKeeperMembership
    registrations: ZooKeeperRegistrations

    @classmethod
    def of(cls, config: Config, supervisor: TaskSupervisor) -> _Kept:
        session = factories.session(config, supervisor)
        return cls(
            session,
            ZooKeeperStore(session),
            ZooKeeperEscrow(session),
            ZooKeeperTopicLimits(session),
            ZooKeeperMembership(session, version=RELEASE),
            ZooKeeperRegistrations(session, config.zookeeper_brokers_path),
        )


async def _run(
    config: Config,
    reload: Callable[[], Config],
    gate_end: socket.socket | None,
    log_level: LogLevel,
) -> int:
    async with AsyncExitStack() as stack:
        gate: GateProcess | None = None
        if gate_end is not None:
            gate = await stack.enter_async_context(GateProcess.over(gate_end, config))
            log_level.watch(gate.set_log_level)
        runner, stop = await _start(config, reload, gate, log_level, stack)
        log.info("sidecar started", broker=config.broker_id, version=RELEASE)
        await _first(stop, runner.stopped)
        if runner.stopped.is_set():
            return 1  # without an order to stop, a part of it failed
        log.info("draining")
        await runner.drain()
        return 0


async def _start(
    config: Config,
    reload: Callable[[], Config],
    gate_process: GateProcess | None,
    log_level: LogLevel,
    stack: AsyncExitStack,
) -> tuple[Runner, asyncio.Event]:
    """Compose everything and start it; the stack closes it at the end.

    Returns:
        The runner of the core, and an event that is set when the sidecar is told to stop.
    """
    access = serving.access(config)
    serving.tls(config)  # tried out, so that a mistake is reported before anything is connected
    supervisor = TaskSupervisor()
    kept = _Kept.of(config, supervisor)
    bus = factories.bus(config, supervisor)
    broker = await stack.enter_async_context(factories.broker_admin(config))
    clock = MonotonicClock()
    recorder = _start_recorder(config, stack)
    state = CoordinatorState(config.core_settings())
    runner = await _runner(config, state, clock, kept, bus, broker, supervisor)
    native = await _native(config, stack, kept, clock, runner)
    gate = gate_process or native
    assert gate is not None
    gate.listen(runner)
    stop = _stop_on_signals()
    _limit_broker(gate, config)
    backlogs = await _backlogs(config, stack, gate, clock)
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGHUP, _reload, runner, gate, backlogs, reload
    )
    courier = _limit_topics(kept, gate, broker, runner)
    stack.push_async_callback(runner.close)
    stack.push_async_callback(gate.close)
    charged = _charged(config, gate_process, clock)
    reconciler = await _reconciler(
        config, stack, kept, clock, runner, gate_process, charged, recorder
    )
    if recorder is not None:
        recorder.enforced_by = partial(_enforcement, config.enforcement_path, native)
    runner.start(_enforcing(charged or gate_process, native), kept.escrow, recorder)
    runner.spawn(gate.ends())
    _record_namespaces(runner, gate, recorder, clock)
    _watch_unknown_topics(runner, gate_process, config)
    for part in (
        kept.session, kept.store, kept.escrow, kept.topic_limits, kept.membership, bus,
    ):  # fmt: skip
        stack.push_async_callback(part.stop)
        await part.start()
    runner.keep("bus namespaces", partial(_ensure_bus_namespaces, config, broker))
    runner.keep("topic limits", courier.run)
    informed = [runner.informed, courier.informed]
    if gate_process is not None:
        informed.append(await _address(gate_process, config, kept.registrations, stack))
    runner.spawn(_open_gate(gate, *informed))
    _look_at_backlogs(runner, backlogs, recorder, clock)
    following = OperationTracker(state, clock, ZooKeeperOperations(kept.session), recorder)
    runner.keep("operations", following.run)
    alarming = await _alarming(config, stack, runner, state)
    otlp = factories.otlp(config)
    backend = AdminBackend(
        store=kept.store,
        topic_limits=kept.topic_limits,
        groups_seen=Echo(kept.store.watch),
        topics_seen=Echo(kept.topic_limits.watch),
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
        coordinator_loop=CoordinatorLoop(asyncio.get_running_loop()),
        requests_per_second=config.admin_requests_per_second,
        hosts=serving.hosts(config),
        gate_listener=config.gate_listener_name,
        backlogs=backlogs,
        partitions=_meter_partitions(runner, gate, clock),
        cluster_group=config.cluster_group,
        delayed_group=config.delayed_group,
        native=native,
        reconciling=reconciler,
        enforcement_path=config.enforcement_path,
    )
    if otlp is not None:
        await stack.enter_async_context(otlp)
        runner.keep("metrics push", partial(_push_metrics, otlp, backend))
    api = await stack.enter_async_context(
        serving.serving(config, partial(_app, config, backend), backend.refusals.add)
    )
    runner.spawn(api.ends())
    runner.spawn(_keep_what_is_loaded(api))
    return runner, stop


async def _native(
    config: Config, stack: AsyncExitStack, kept: _Kept, clock: MonotonicClock, runner: Runner
) -> NativeActuator | None:
    if not config.is_native:
        return None
    topic = factories.native_topic(config)
    admin = await stack.enter_async_context(factories.native_admin(config))
    counters = await stack.enter_async_context(factories.broker_counters(config))
    native = factories.native(config, topic, admin, counters, clock)
    kept.store.watch(native.catalogue_changed)
    kept.membership.watch_members(native.members_changed)
    stack.push_async_callback(topic.stop)
    await topic.start()
    runner.watch.also_seen.append(native.sightings)
    runner.spawn(native.run())
    return native


def _charged(config: Config, gate: GateProcess | None, clock: MonotonicClock) -> ChargedGate | None:
    if gate is None or not config.charge_escaped:
        return None
    return ChargedGate(gate, clock)


async def _reconciler(
    config: Config,
    stack: AsyncExitStack,
    kept: _Kept,
    clock: MonotonicClock,
    runner: Runner,
    gate: GateProcess | None,
    charged: ChargedGate | None,
    recorder: EscapeRecorder | None,
) -> Reconciler | None:
    if gate is None or not config.reconciles:
        return None
    counters = await stack.enter_async_context(
        factories.broker_counters(config, published_only=True)
    )
    publishers = await stack.enter_async_context(factories.publisher_lists(config))
    charge = None if charged is None else charged.charge
    reconciler = factories.reconciler(config, counters, publishers, gate, clock, charge, recorder)
    kept.store.watch(reconciler.catalogue_changed)
    runner.watch.also_seen.append(reconciler.sightings)
    runner.keep("reconciliation", reconciler.run)
    return reconciler


def _enforcing(gate: TrafficGate | None, native: NativeActuator | None) -> TrafficGate:
    if gate is None or native is None:
        only = gate or native
        assert only is not None
        return only
    return GateAndNative(gate, native)


@asynccontextmanager
async def _app(config: Config, backend: AdminBackend) -> AsyncIterator[FastAPI]:
    """Make the admin API, and the parts that live with it on its loop; loaded where it runs."""
    with not_collecting():
        from admin_api.app import create_app  # noqa: PLC0415
        from coordinator.adapters.broker.relay import HttpBrokerRelay  # noqa: PLC0415

    async with HttpBrokerRelay(config.broker_web_url) as relay:
        yield create_app(replace(backend, relay=relay if config.admin_pass_through else None))


async def _keep_what_is_loaded(api: serving.AdminApi) -> None:
    await api.loaded.wait()
    keep_what_is_loaded()


async def _push_metrics(otlp: OtlpPush, backend: AdminBackend) -> None:
    from admin_api.metrics.scrape import gather  # noqa: PLC0415 - the start does not wait for it

    await otlp.run(partial(gather, backend))


async def _runner(
    config: Config,
    state: CoordinatorState,
    clock: MonotonicClock,
    kept: _Kept,
    bus: PulsarBus,
    broker: HttpBrokerAdmin,
    supervisor: TaskSupervisor,
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
        supervisor=supervisor,
        checks_invariants=config.check_invariants,
    )
    runner.reception.senders.topics = len(set(config.bus_topics))
    _set_trust(runner, config)
    return runner


def _set_trust(runner: Runner, config: Config) -> None:
    """Set the keys and senders whose reports are believed."""
    runner.reception.seal = factories.seal(config)
    runner.reception.senders.accept_unsigned = config.bus_accept_unsigned


async def _backlogs(
    config: Config, stack: AsyncExitStack, gate: AnyGate, clock: MonotonicClock
) -> Backlogs | None:
    if not config.backlog_check_seconds:
        return None
    source = await stack.enter_async_context(factories.backlog_source(config))
    return factories.backlogs(config, source, gate, clock)


def _limit_broker(gate: AnyGate, config: Config) -> None:
    gate.set_broker_limits(config.broker_limits)
    gate.set_partition_limits(config.partition_limits)
    gate.set_subscribe_rate(config.subscribe_rate, period_s=config.subscribe_rate_period_seconds)


def _limit_topics(
    kept: _Kept, gate: AnyGate, broker: HttpBrokerAdmin, runner: Runner
) -> TopicLimitCourier:
    """Bring the limits of topics to the gate and, of scalable ones, to the core."""
    courier = TopicLimitCourier(gate, broker)
    kept.topic_limits.watch(courier.changed)
    if isinstance(gate, GateProcess):
        kept.topic_limits.watch(runner.topic_limits_changed)
    return courier


async def _address(
    gate: GateProcess,
    config: Config,
    registrations: ZooKeeperRegistrations,
    stack: AsyncExitStack,
) -> asyncio.Event:
    """Let the gate know the cluster's addresses; return the event that is set when it first does."""
    courier = AddressCourier(gate, config.gate_listener_name)
    registrations.watch(courier.changed)
    stack.push_async_callback(registrations.stop)
    await registrations.start()
    return courier.informed


def _look_at_backlogs(
    runner: Runner,
    backlogs: Backlogs | None,
    recorder: BacklogRecorder | None,
    clock: MonotonicClock,
) -> None:
    if backlogs is None:
        return
    backlogs.watch.watch(runner.watch.backlogs_checked)
    if recorder is not None:
        recorded = recorder
        backlogs.watch.watch(
            lambda views: recorded.backlogs_checked(views, wall_ms(), clock.now_ns())
        )
    runner.keep("backlog checks", backlogs.watch.run)
    runner.keep("backlog quotas", backlogs.enforcement.run)


def _meter_partitions(runner: Runner, gate: AnyGate, clock: MonotonicClock) -> PartitionMeter:
    meter = PartitionMeter(gate, clock)
    runner.keep("partition counts", meter.run)
    runner.watch.also_seen.append(meter.conditions)
    return meter


def _reload(
    runner: Runner, gate: AnyGate, backlogs: Backlogs | None, reload: Callable[[], Config]
) -> None:
    """Take over the settings that need no restart: certificates, keys, gate limits, namespaces."""
    gate.refresh_certificate()
    try:
        config = reload()
        _set_trust(runner, config)
    except ConfigError as error:
        log.warning("configuration cannot be used, the old one stays", reason=str(error))
        return
    _limit_broker(gate, config)
    if backlogs is not None:
        backlogs.enforcement.interval_s = config.backlog_enforcement_seconds
        backlogs.enforcement.set_namespaces(config.backlog_enforcement)
    log.info("configuration read again", broker_limits=asdict(config.broker_limits))


def _start_recorder(config: Config, stack: AsyncExitStack) -> ParquetRecorder | None:
    recorder = factories.recorder(config)
    if recorder is not None:
        stack.callback(recorder.close)
        recorder.start()
    return recorder


def _enforcement(path: str, native: NativeActuator | None) -> EnforcedBy:
    from coordinator.adapters.recorder.rows import EnforcedBy  # noqa: PLC0415 - only to record it

    return EnforcedBy(path, native.known_interval_s if native is not None else None)


def _record_namespaces(
    runner: Runner, gate: AnyGate, recorder: Recorder | None, clock: MonotonicClock
) -> None:
    if recorder is not None:
        runner.keep("namespace counts", NamespaceMeter(gate, recorder, clock).run)


def _watch_unknown_topics(runner: Runner, gate: GateProcess | None, config: Config) -> None:
    if gate is not None and config.unknown_topics == "alarm":
        watch = UnknownTopicsWatch(gate, config.broker_id)
        runner.watch.also_seen.append(watch.sightings)
        runner.keep("unknown topics", watch.run)


async def _alarming(
    config: Config, stack: AsyncExitStack, runner: Runner, state: CoordinatorState
) -> Alarming | None:
    if not config.alarm_webhook_url:
        return None
    receiver = await stack.enter_async_context(factories.webhook(config))
    alarming = Alarming(state, runner.watch, receiver)
    runner.keep("alarms", alarming.run)
    return alarming


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _open_gate(gate: AnyGate, *informed: asyncio.Event) -> None:
    for event in informed:
        await event.wait()
    await gate.start()
    log.info("gate open")


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
