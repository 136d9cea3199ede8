"""The parts of a sidecar, each made as the configuration asks for it; nothing is started.

The files that it names are tried out here, so that a mistake in them is reported at the start.

Raises, all of them: ConfigError: a file or place that the configuration names cannot be used.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from admin_api.backend import Backlogs
from coordinator.adapters.clock import wall_ms
from coordinator.adapters.pulsar.bus import PulsarBus
from coordinator.adapters.zookeeper.access import ZooKeeperAccess
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.backlog.rules.evictions import EvictionCounts
from coordinator.backlog.rules.guard import BacklogGuard
from coordinator.backlog.rules.monitor import BacklogMonitor
from coordinator.backlog.rules.outside import BacklogSource
from coordinator.backlog.shell.checker import BacklogWatch
from coordinator.backlog.shell.enforcer import BacklogEnforcement, BlockingGate
from coordinator.config import Config, ConfigError
from coordinator.ports import Clock
from coordinator.reconciliation.engine.counting import BrokerBook
from coordinator.reconciliation.engine.reconciliation import Reconciliation
from coordinator.reconciliation.shell.reconciler import PassedTotals, ReadCounters, Reconciler
from coordinator.runtime.client_tls import ClientTls
from coordinator.runtime.supervision import TaskSupervisor

if TYPE_CHECKING:
    from coordinator.adapters.recorder.recorder import ParquetRecorder

T = TypeVar("T")

_SECONDS_PER_DAY = 86_400


def session(config: Config, supervisor: TaskSupervisor | None = None) -> ZooKeeperSession:
    """Return the one session with ZooKeeper."""
    return ZooKeeperSession(
        config.zookeeper_servers,
        root=config.zookeeper_root,
        session_timeout_s=config.zookeeper_session_timeout_seconds,
        access=zookeeper_access(config),
        supervisor=supervisor,
    )


def of_broker(make: Callable[..., T], config: Config, **settings: bool) -> T:
    """Return what asks the own broker's web service, with the sidecar's own token."""
    token = secret("broker_token_file", config.broker_token_file) or None
    return make(config.broker_web_url, token=token, **settings)


def bus(config: Config, supervisor: TaskSupervisor | None = None) -> PulsarBus:
    """Return the bus that carries usage reports."""
    return PulsarBus(
        config.bus_service_url,
        config.bus_topics,
        listener_name=config.bus_listener_name,
        token=secret("bus_token_file", config.bus_token_file) or None,
        tls_trust_certs_file=config.bus_tls_ca_file or None,
        compression=config.bus_compression,
        supervisor=supervisor,
    )


def reconciler(
    config: Config,
    counters: ReadCounters,
    passed: PassedTotals,
    clock: Clock,
    recorder: ParquetRecorder | None,
) -> Reconciler:
    """Return the comparison of the broker's counters with the gate's.

    Args:
        config: the configuration.
        counters: reads the broker's.
        passed: the gate's counters.
        clock: monotonic time.
        recorder: keeps what went round the gate; None keeps nothing.
    """
    return Reconciler(
        counters,
        passed,
        BrokerBook(config.reserved_topics),
        Reconciliation(config.broker_id, config.cluster_group),
        clock,
        interval_s=config.reconcile_seconds,
        part=config.reconcile_part,
        record=None if recorder is None else recorder.escaped,
    )


def backlogs(
    config: Config,
    source: BacklogSource,
    gate: BlockingGate,
    clock: Clock,
    supervisor: TaskSupervisor,
) -> Backlogs:
    """Return the backlog monitor, with the enforcement of exceeded quotas where it is configured."""
    evictions = EvictionCounts()
    watch = BacklogWatch(
        source,
        BacklogMonitor(precise=config.backlog_age == "precise"),
        clock=clock,
        wall_ms=wall_ms,
        interval_s=config.backlog_check_seconds,
        evictions=evictions,
        guard=partial(supervisor.guard, "backlog listeners"),
    )
    enforcement = BacklogEnforcement(
        watch,
        BacklogGuard(config.backlog_enforcement, evictions),
        source,
        gate,
        clock=clock,
        wall_ms=wall_ms,
        interval_s=config.backlog_enforcement_seconds,
    )
    return Backlogs(watch, enforcement, by_topic=config.backlog_topic_metrics)


def recorder(config: Config) -> ParquetRecorder | None:
    """Return the configured recorder; Arrow is loaded only for it, as it takes 50 MB."""
    if not config.record_dir:
        return None
    from coordinator.adapters.recorder.files import RecordedFiles, UnusablePlace  # noqa: PLC0415
    from coordinator.adapters.recorder.recorder import ParquetRecorder  # noqa: PLC0415
    from coordinator.adapters.recorder.writer import RecorderBounds  # noqa: PLC0415

    run = uuid.uuid4().hex[:16]
    try:
        files = RecordedFiles(
            config.record_dir,
            broker=config.broker_id,
            run=run,
            retention_s=config.record_retention_days * _SECONDS_PER_DAY,
            bytes_max=config.record_bytes_max,
        )
    except UnusablePlace as error:
        raise ConfigError(f"record_dir {error}") from error
    return ParquetRecorder(
        files,
        cluster=config.record_cluster,
        broker=config.broker_id,
        run=run,
        bounds=RecorderBounds(file_s=config.record_file_seconds),
    )


def zookeeper_access(config: Config) -> ZooKeeperAccess:
    """Return the credentials for ZooKeeper and the trust in its servers."""
    return ZooKeeperAccess(credentials(config), config.zookeeper_sasl, _zookeeper_tls(config))


def _zookeeper_tls(config: Config) -> ClientTls | None:
    if not config.zookeeper_tls:
        return None
    tls = ClientTls.of(
        config.zookeeper_tls_ca_file,
        config.zookeeper_tls_certificate_file,
        config.zookeeper_tls_key_file,
    )
    try:
        tls.context()
    except OSError as error:  # SSLError is one
        raise ConfigError(f"zookeeper_tls_*_file: {tls}: cannot be used: {error}") from error
    return tls


def credentials(config: Config) -> str:
    """Return user:password for ZooKeeper; empty for none."""
    key = "zookeeper_credentials_file"
    found = secret(key, config.zookeeper_credentials_file)
    user, _, password = found.partition(":")
    if found and not (user and password):
        raise ConfigError(f"{key}: {config.zookeeper_credentials_file} must hold user:password")
    if config.zookeeper_sasl and find_spec("puresasl") is None:
        raise ConfigError(
            "zookeeper_sasl: needs one more library: pip install '.[sasl]' in the repository of "
            "pulsar-quota, or 'pulsar-quota[sasl]' where it is installed"
        )
    return found


def secret(key: str, path: str) -> str:
    """Return the content of a file that the configuration names; empty without one."""
    try:
        return Path(path).read_text(encoding="utf-8").strip() if path else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key}: {path} cannot be read: {error}") from error
