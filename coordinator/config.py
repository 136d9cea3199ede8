"""The configuration of a sidecar: one frozen value, read from a TOML file and checked as a whole.

Each field has a unit, a default and a reason. Anything unknown, of a wrong type or out of range is
refused at start with the key's name and the fix; nothing is guessed. Only ``load`` reads files.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.settings import CoreSettings

_BROKER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_ADDRESS = re.compile(r"(?P<host>[^:\s]+):(?P<port>\d{1,5})")


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the key, the reason and the fix."""


@dataclass(frozen=True, slots=True)
class Config:
    """Everything a sidecar is told.

    Args:
        broker_id: this broker's name among the sidecars; unique in the cluster.
        gate_listen: host:port where clients connect: the broker's advertised external listener.
        gate_upstream: host:port of the broker's own bind address for that listener.
        admin_listen: host:port of the admin API.
        broker_web_url: the broker's admin REST, to see that it lives and which namespaces exist.
        bus_service_url: pulsar:// URL for the report bus; the broker's internal listener, so that
            reports do not pass a gate.
        bus_listener_name: advertised listener to ask lookups for; the internal one.
        bus_topics: reports are sent on each of them and duplicates dropped. Two topics with different
            owners survive the death of a broker without a gap.
        zookeeper_servers: host:port[,host:port...] of the ensemble.
        zookeeper_root: where our nodes live.
        zookeeper_session_timeout_seconds: how soon a dead sidecar's share is free. Shorter than a pause
            of the process (garbage collection, suspended machine) costs needless re-joins.
        report_interval_seconds: length of a round; see CoreSettings.round_ns.
        burst_seconds: how much of a local limit may be saved up. Small, since the bursts of all brokers
            add up.
        held_bytes_max: per client connection, bytes of held messages; at the bound the connection is
            not read any more until half of it is free.
        hold_seconds: how long limits are held when the bus is silent; longer than the gap of about
            12 s when a bus topic's owner dies.
        drain_timeout_seconds: how long a stopping gate waits for outstanding receipts.
        log_level: debug, info, warning or error.
    """

    broker_id: str
    gate_listen: str
    gate_upstream: str
    broker_web_url: str
    bus_service_url: str
    zookeeper_servers: str
    admin_listen: str = "127.0.0.1:8087"
    bus_listener_name: str = "internal"
    bus_topics: tuple[str, ...] = field(
        default=("non-persistent://pulsar/system/quota-usage",),
    )
    zookeeper_root: str = "/pulsar-quota"
    zookeeper_session_timeout_seconds: float = 4.0
    report_interval_seconds: float = 1.0
    burst_seconds: float = 0.05
    held_bytes_max: int = 8 * 1024 * 1024
    hold_seconds: float = 30.0
    drain_timeout_seconds: float = 10.0
    log_level: str = "info"

    def validate(self) -> None:
        """Check every rule.

        Raises:
            ConfigError: one is broken.
        """
        if not _BROKER_ID.fullmatch(self.broker_id):
            raise ConfigError(
                f"broker_id {self.broker_id!r}: use letters, digits and . _ : - (at most 128)"
            )
        for key in ("gate_listen", "gate_upstream", "admin_listen"):
            split_address(key, getattr(self, key))
        _check_prefix("broker_web_url", self.broker_web_url, ("http://", "https://"))
        _check_prefix("bus_service_url", self.bus_service_url, ("pulsar://", "pulsar+ssl://"))
        if not self.bus_topics:
            raise ConfigError("bus_topics: name at least one topic")
        for topic in self.bus_topics:
            _check_prefix("bus_topics", topic, ("non-persistent://", "persistent://"))
        _check_prefix("zookeeper_root", self.zookeeper_root, ("/",))
        for server in self.zookeeper_servers.split(","):
            split_address("zookeeper_servers", server)
        _check_range(
            "zookeeper_session_timeout_seconds", self.zookeeper_session_timeout_seconds, 1.0, 40.0
        )
        _check_range("report_interval_seconds", self.report_interval_seconds, 0.1, 300.0)
        _check_range("burst_seconds", self.burst_seconds, 0.001, 10.0)
        _check_range("held_bytes_max", self.held_bytes_max, 6 * 1024 * 1024, 2**31)
        _check_range("hold_seconds", self.hold_seconds, 1.0, 3600.0)
        _check_range("drain_timeout_seconds", self.drain_timeout_seconds, 0.0, 300.0)
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise ConfigError(
                f"log_level {self.log_level!r}: use one of debug, info, warning, error"
            )

    def core_settings(self) -> CoreSettings:
        """The part that the core needs, in its units."""
        return CoreSettings(
            broker=self.broker_id,
            round_ns=_nanos(self.report_interval_seconds),
            hold_ns=_nanos(self.hold_seconds),
            session_timeout_ns=_nanos(self.zookeeper_session_timeout_seconds),
        )


def load(path: Path) -> Config:
    """Read and check a configuration file.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or says something unusable.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from error
    return from_mapping(document)


def from_mapping(document: Mapping[str, Any]) -> Config:
    """Build a checked Config from keys and values.

    Raises:
        ConfigError: a key is unknown or missing, or a value has the wrong type or is out of range.
    """
    known = {item.name: item for item in fields(Config)}
    for key in document:
        if key not in known:
            raise ConfigError(f"{key}: unknown key; known are {', '.join(known)}")
    for name, item in known.items():
        if item.default is MISSING and name not in document:
            raise ConfigError(f"{name}: missing; it has no default")
    hints = get_type_hints(Config)
    config = Config(**{key: _typed(key, value, hints[key]) for key, value in document.items()})
    config.validate()
    return config


def split_address(key: str, address: str) -> tuple[str, int]:
    """Host and port of an address.

    Raises:
        ConfigError: it is not host:port.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(f"{key} {address!r}: write host:port, for example 127.0.0.1:6650")
    return match["host"], int(match["port"])


def _typed(key: str, value: Any, hint: Any) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint == tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise ConfigError(f"{key}: write a list of strings, got {value!r}")
    if not isinstance(value, hint) or isinstance(value, bool):
        raise ConfigError(f"{key}: write a {hint.__name__}, got {value!r}")
    return value


def _check_prefix(key: str, value: str, prefixes: tuple[str, ...]) -> None:
    if not value.startswith(prefixes):
        raise ConfigError(f"{key} {value!r}: it must start with {' or '.join(prefixes)}")


def _check_range(key: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{key} is {value}: use {low} to {high}")


def _nanos(seconds: float) -> int:
    return round(seconds * NANOS_PER_SECOND)
