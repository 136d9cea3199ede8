"""One sidecar process, put together from its configuration.

Start: everything is connected in the background, the admin API answers at once, and the gate opens when
the groups are known for the first time, so that no message passes unlimited because a definition has
not arrived yet. Stop (SIGTERM or SIGINT): leave the membership, drain the gate, close everything, in
the opposite order. A task that fails ends the process with exit code 1; its supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import uvloop

from admin_api.app import create_app
from admin_api.backend import AdminBackend, Backlogs
from admin_api.metrics import gather
from coordinator import __version__, serving
from coordinator.adapters.broker_admin import HttpBrokerAdmin
from coordinator.adapters.broker_backlog import HttpBacklogSource
from coordinator.adapters.broker_relay import HttpBrokerRelay
from coordinator.adapters.clock import MonotonicClock, wall_ms
from coordinator.adapters.pulsar_bus import PulsarBus
from coordinator.adapters.webhook import WebhookReceiver
from coordinator.adapters.zookeeper_ledgers import ZooKeeperLedgers
from coordinator.adapters.zookeeper_membership import ZooKeeperMembership
from coordinator.adapters.zookeeper_operations import ZooKeeperOperations
from coordinator.adapters.zookeeper_session import ZooKeeperSession
from coordinator.adapters.zookeeper_store import ZooKeeperStore
from coordinator.adapters.zookeeper_topic_limits import ZooKeeperTopicLimits
from coordinator.alarming import Alarming
from coordinator.backlog import BacklogWatch
from coordinator.backlog_enforcement import BacklogEnforcement
from coordinator.config import Config, ConfigError, split_address
from coordinator.core.backlog.guard import BacklogGuard
from coordinator.core.backlog.monitor import BacklogMonitor
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.state import CoordinatorState
from coordinator.core.windows import LimitMode
from coordinator.following import Following
from coordinator.gate.group import Modes
from coordinator.gate.proxy import Gate
from coordinator.gate.tls import Certificate, TlsError, TlsFiles, TlsListener
from coordinator.gate.upstream import UpstreamTls
from coordinator.logs import LogLevel, configure_logs
from coordinator.namespace_meter import NamespaceMeter
from coordinator.partition_meter import PartitionMeter
from coordinator.ports import PortError, Recorder
from coordinator.runner import Runner
from coordinator.topic_limits import TopicLimitCourier
from coordinator.wire.seal import Seal

if TYPE_CHECKING:
    from coordinator.adapters.otlp import OtlpPush
    from coordinator.adapters.recorder import ParquetRecorder

log = structlog.get_logger(__name__)

_RETRY_S = 1.0
_SECONDS_PER_DAY = 86_400


def run(config: Config, reload: Callable[[], Config]) -> int:
    """Run a sidecar until it is told to stop; return its exit code.

    Args:
        config: what it is told.
        reload: reads that again, at SIGHUP; raises ConfigError.

    Raises:
        ConfigError: a file or place that the configuration names cannot be used.
    """
    log_level = configure_logs(config.log_level)
    return uvloop.run(_run(config, reload, log_level))


async def _run(config: Config, reload: Callable[[], Config], log_level: LogLevel) -> int:
    access = serving.access(config)
    async with AsyncExitStack() as stack:
        session = ZooKeeperSession(
            config.zookeeper_servers,
            root=config.zookeeper_root,
            session_timeout_s=config.zookeeper_session_timeout_seconds,
            credentials=_credentials(config),
        )
        store = ZooKeeperStore(session)
        ledgers = ZooKeeperLedgers(session)
        topic_limits = ZooKeeperTopicLimits(session)
        membership = ZooKeeperMembership(session, version=__version__)
        bus = _bus(config)
        broker = await stack.enter_async_context(
            HttpBrokerAdmin(
                config.broker_web_url,
                token=_secret("broker_token_file", config.broker_token_file) or None,
            )
        )
        relay = await stack.enter_async_context(HttpBrokerRelay(config.broker_web_url))
        clock = MonotonicClock()
        recorder = _start_recorder(config, stack)
        state = CoordinatorState(config.core_settings())
        runner = Runner(
            state,
            clock=clock,
            store=store,
            membership=membership,
            bus=bus,
            broker=broker,
            api_address=config.admin_listen,
            drain_timeout_s=config.drain_timeout_seconds,
        )
        runner.seal = _seal(config)
        gate = _gate(config, runner, clock)
        stop = _stop_on_signals()
        _limit_broker(gate, config)
        backlogs = await _backlogs(config, stack, gate, clock)
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGHUP, _reload, runner, gate, backlogs, reload
        )
        courier = TopicLimitCourier(gate, broker)
        topic_limits.watch(courier.changed)
        stack.push_async_callback(runner.close)
        stack.push_async_callback(gate.close)
        runner.start(gate, ledgers, recorder)
        _record_namespaces(runner, gate, recorder, clock)
        for part in (session, store, ledgers, topic_limits, membership, bus):
            stack.push_async_callback(part.stop)
            await part.start()
        runner.spawn(_ensure_bus_namespaces(config, broker))
        runner.spawn(courier.run())
        runner.spawn(_open_gate(gate, runner.informed, courier.informed))
        _look_at_backlogs(runner, backlogs, recorder, clock)
        following = Following(state, clock, ZooKeeperOperations(session), recorder)
        runner.spawn(following.run())
        alarming = await _alarming(config, stack, runner, state)
        otlp = _otlp(config)
        backend = AdminBackend(
            store=store,
            topic_limits=topic_limits,
            broker=broker,
            views=runner,
            watching=runner.watch,
            following=following,
            log_level=log_level,
            alarming=alarming,
            otlp=otlp,
            gate=gate,
            bus=bus,
            access=access,
            relay=relay if config.admin_pass_through else None,
            requests_per_second=config.admin_requests_per_second,
            backlogs=backlogs,
            partitions=_meter_partitions(runner, gate, clock),
            cluster_group=config.cluster_group,
            delayed_group=config.delayed_group,
        )
        if otlp is not None:
            runner.spawn((await stack.enter_async_context(otlp)).run(partial(gather, backend)))
        await stack.enter_async_context(serving.serving(config, create_app(backend)))
        # What is loaded by now stays. The collector looks through all of it otherwise, and the gate
        # stands still meanwhile: 200 ms at a time while a large answer is written, 12 ms without.
        gc.collect()
        gc.freeze()
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
    try:
        return Gate(
            listen_host=listen_host,
            listen_port=listen_port,
            upstream_host=upstream_host,
            upstream_port=upstream_port,
            listener=runner,
            clock=clock,
            held_bytes_max=config.held_bytes_max,
            publish_buffer_bytes_max=config.publish_buffer_bytes_max,
            pending_requests_max=config.pending_publish_requests_max or None,
            tls=_gate_tls(config),
            burst_ns=round(config.burst_seconds * NANOS_PER_SECOND),
            upstream_tls=_upstream_tls(config, upstream_host),
            modes=Modes(LimitMode(config.limit_mode), LimitMode(config.topic_limit_mode)),
            cluster_group=config.cluster_group,
            delayed_group=config.delayed_group,
            proxy_protocol=config.gate_upstream_proxy_protocol,
        )
    except TlsError as error:
        raise ConfigError(f"gate_upstream_tls_*_file: cannot be used: {error}") from error


def _upstream_tls(config: Config, host: str) -> UpstreamTls | None:
    if not config.gate_upstream_tls:
        return None
    ca, certificate, key = (
        Path(name) if name else None
        for name in (
            config.gate_upstream_tls_ca_file,
            config.gate_upstream_tls_certificate_file,
            config.gate_upstream_tls_key_file,
        )
    )
    return UpstreamTls(ca, config.gate_upstream_tls_hostname or host, certificate, key)


def _limit_broker(gate: Gate, config: Config) -> None:
    gate.set_broker_limits(config.broker_limits)
    gate.set_partition_limits(config.partition_limits)
    gate.set_subscribe_rate(config.subscribe_rate, period_s=config.subscribe_rate_period_seconds)


async def _backlogs(
    config: Config, stack: AsyncExitStack, gate: Gate, clock: MonotonicClock
) -> Backlogs | None:
    """What looks at backlogs, and acts on exceeded quotas where that is wanted."""
    if not config.backlog_check_seconds:
        return None
    source = await stack.enter_async_context(
        HttpBacklogSource(
            config.broker_web_url,
            token=_secret("broker_token_file", config.broker_token_file) or None,
        )
    )
    watch = BacklogWatch(
        source,
        BacklogMonitor(precise=config.backlog_age == "precise"),
        clock=clock,
        wall_ms=wall_ms,
        interval_s=config.backlog_check_seconds,
        concurrency=config.backlog_concurrency,
        calls_per_second=config.backlog_calls_per_second,
    )
    enforcement = BacklogEnforcement(
        watch,
        BacklogGuard(config.backlog_enforcement),
        source,
        gate,
        wall_ms=wall_ms,
        interval_s=config.backlog_enforcement_seconds,
    )
    return Backlogs(watch, enforcement, by_topic=config.backlog_topic_metrics)


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


def _meter_partitions(runner: Runner, gate: Gate, clock: MonotonicClock) -> PartitionMeter:
    meter = PartitionMeter(gate, clock)
    runner.spawn(meter.run())
    return meter


def _bus(config: Config) -> PulsarBus:
    return PulsarBus(
        config.bus_service_url,
        config.bus_topics,
        listener_name=config.bus_listener_name,
        token=_secret("bus_token_file", config.bus_token_file) or None,
        tls_trust_certs_file=config.bus_tls_ca_file or None,
    )


def _seal(config: Config) -> Seal:
    keys = []
    for path in config.bus_key_files:
        try:
            keys.append(Path(path).read_bytes().strip())
            Seal(keys)
        except OSError as error:
            raise ConfigError(f"bus_key_files: {path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise ConfigError(f"bus_key_files: {path}: {error}") from error
    return Seal(keys, accept_unsealed=config.bus_accept_unsealed)


def _reload(
    runner: Runner, gate: Gate, backlogs: Backlogs | None, reload: Callable[[], Config]
) -> None:
    """Take over what can change without a restart: certificates, keys, the gate's limits, namespaces."""
    gate.refresh_certificate()
    try:
        config = reload()
        runner.seal = _seal(config)
    except ConfigError as error:
        log.warning("configuration cannot be used, the old one stays", reason=str(error))
        return
    _limit_broker(gate, config)
    if backlogs is not None:
        backlogs.enforcement.interval_s = config.backlog_enforcement_seconds
        backlogs.enforcement.set_namespaces(config.backlog_enforcement)
    log.info("configuration read again", broker_limits=asdict(config.broker_limits))


def _gate_tls(config: Config) -> TlsListener | None:
    """Where the gate listens with TLS; the files are tried out, so that a mistake is said at once."""
    if not config.gate_tls_listen:
        return None
    host, port = split_address("gate_tls_listen", config.gate_tls_listen)
    client_ca = config.gate_tls_client_ca_file
    files = TlsFiles(
        Path(config.gate_tls_certificate_file),
        Path(config.gate_tls_key_file),
        Path(client_ca) if client_ca else None,
    )
    try:
        Certificate(files)
    except TlsError as error:
        raise ConfigError(f"gate_tls_*_file: cannot be used: {error}") from error
    return TlsListener(host, port, files)


def _start_recorder(config: Config, stack: AsyncExitStack) -> ParquetRecorder | None:
    recorder = _recorder(config)
    if recorder is not None:
        stack.callback(recorder.close)
        recorder.start()
    return recorder


def _record_namespaces(
    runner: Runner, gate: Gate, recorder: Recorder | None, clock: MonotonicClock
) -> None:
    if recorder is not None:
        runner.spawn(NamespaceMeter(gate, recorder, clock).run())


def _recorder(config: Config) -> ParquetRecorder | None:
    """What the configuration asks to record; Arrow is loaded only then, for its 50 MB."""
    if not config.record_dir:
        return None
    from coordinator.adapters import recorder, recorder_files  # noqa: PLC0415

    run = uuid.uuid4().hex[:16]
    try:
        files = recorder_files.RecordedFiles(
            config.record_dir,
            cluster=config.record_cluster,
            broker=config.broker_id,
            run=run,
            retention_s=config.record_retention_days * _SECONDS_PER_DAY,
            bytes_max=config.record_bytes_max,
        )
    except recorder_files.UnusablePlace as error:
        raise ConfigError(f"record_dir {error}") from error
    return recorder.ParquetRecorder(
        files,
        cluster=config.record_cluster,
        broker=config.broker_id,
        run=run,
        bounds=recorder.RecorderBounds(
            file_rows=config.record_file_rows,
            file_s=config.record_file_seconds,
            buffer_rows=config.record_buffer_rows,
        ),
    )


async def _alarming(
    config: Config, stack: AsyncExitStack, runner: Runner, state: CoordinatorState
) -> Alarming | None:
    if not config.alarm_webhook_url:
        return None
    receiver = await stack.enter_async_context(_webhook(config))
    alarming = Alarming(state, runner.watch, receiver)
    runner.spawn(alarming.run())
    return alarming


def _webhook(config: Config) -> WebhookReceiver:
    token = _secret("alarm_webhook_token_file", config.alarm_webhook_token_file)
    return WebhookReceiver(config.alarm_webhook_url, cluster=config.record_cluster, token=token)


def _otlp(config: Config) -> OtlpPush | None:
    """What pushes metrics, if the configuration asks for it; its libraries are an extra."""
    if not config.otlp_metrics_url:
        return None
    try:
        from coordinator.adapters import otlp  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"otlp_metrics_url: needs more libraries: pip install 'pulsar-quota[otlp]' ({error})"
        ) from error
    return otlp.OtlpPush(
        config.otlp_metrics_url,
        interval_s=config.otlp_interval_seconds,
        resource={
            "service.name": "pulsar-quota",
            "service.namespace": config.record_cluster,
            "service.instance.id": config.broker_id,
            "service.version": __version__,
        },
        token=_secret("otlp_token_file", config.otlp_token_file),
    )


def _credentials(config: Config) -> str:
    key = "zookeeper_credentials_file"
    found = _secret(key, config.zookeeper_credentials_file)
    user, _, password = found.partition(":")
    if found and not (user and password):
        raise ConfigError(f"{key}: {config.zookeeper_credentials_file} must hold user:password")
    return found


def _secret(key: str, path: str) -> str:
    """What stands in a file that the configuration names; empty without one."""
    try:
        return Path(path).read_text(encoding="utf-8").strip() if path else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key}: {path} cannot be read: {error}") from error


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _open_gate(gate: Gate, *informed: asyncio.Event) -> None:
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
