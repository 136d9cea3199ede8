"""The rules of a configuration, key by key and between keys.

Whatever breaks a rule is refused at start with the key's name and the fix; nothing is guessed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields

from coordinator.config.model import (
    BROKER_RATES,
    ENFORCEMENT_PATHS,
    PARTITION_RATES,
    UNLIMITED,
    Config,
)
from coordinator.core.model import NANOS_PER_SECOND

_BROKER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_GROUP = re.compile(r"[-=:.\w]{1,255}", re.ASCII)
_NAMESPACE = re.compile(r"[-=:.\w]+(/[-=:.\w]+){1,2}", re.ASCII)
_ADDRESS = re.compile(
    r"(\[(?P<six>[^\]\s]+)\]|(?P<host>\w([-.\w]*\w)?\.?))(:(?P<port>[0-9]{1,5}))?"
)
_LISTENER = re.compile(r"[-.\w]{0,128}", re.ASCII)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_]([-.\w]*\w)?)(:\d{1,5})?", re.ASCII)
_OF_THIS_MACHINE: Mapping[str, frozenset[str]] = {
    "0.0.0.0": frozenset({"0.0.0.0", "127.0.0.1"}),
    "::": frozenset({"0.0.0.0", "127.0.0.1", "::", "::1"}),  # a gate listens to both families there
    "localhost": frozenset({"127.0.0.1", "::1"}),
}
_PORT_MAX = 65_535
_MAX_RATE = 2**63 - 1
"""Pulsar keeps rates in a Java long."""

_RANGES: Mapping[str, tuple[float, float]] = {
    "gate_upstream_proxy_protocol": (0, 2),
    "gate_connections_max": (1, 1_000_000),
    "gate_connections_per_host_max": (1, 1_000_000),
    "admin_requests_per_second": (1, 100_000),
    "admin_connections_max": (8, 65_536),
    "admin_connections_per_host": (4, 65_536),
    "admin_request_seconds": (1.0, 300.0),
    "admin_idle_seconds": (1.0, 3600.0),
    "native_margin": (-1.0, 1.0),
    "native_headroom": (0.0, 10.0),
    "zookeeper_session_timeout_seconds": (1.0, 40.0),
    "report_interval_seconds": (0.1, 300.0),
    "bus_message_age_max_seconds": (0.0, 3600.0),
    "complete_report_rounds": (1, 100_000),
    "report_change_ratio": (0.0, 1.0),
    "burst_seconds": (0.001, 10.0),
    "topic_limit_check_seconds": (0.005, 1.0),
    "held_bytes_max": (6 * 1024 * 1024, 2**31),
    "pending_publish_requests_max": (0, 1_000_000),
    "subscribe_rate_per_consumer": (UNLIMITED, 1_000_000),
    "subscribe_rate_period_seconds": (1, 86_400),
    "hold_seconds": (1.0, 3600.0),
    "drain_timeout_seconds": (0.0, 300.0),
    "record_file_seconds": (0.5, 3600.0),
    "record_retention_days": (0.01, 3650.0),
    "record_bytes_max": (1024**2, 2**50),
    "condition_backlog_age_seconds": (0.0, 10.0**9),
    "backlog_enforcement_seconds": (1.0, 3600.0),
    "reconcile_seconds": (0.0, 60.0),
    "reconcile_part": (0.001, 1.0),
    "inventory_seconds": (0.0, 86_400.0),
    **dict.fromkeys((*BROKER_RATES.values(), *PARTITION_RATES.values()), (UNLIMITED, _MAX_RATE)),
}

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "enforcement_path": ENFORCEMENT_PATHS,
    "limit_mode": ("bucket", "window"),
    "topic_limit_mode": ("bucket", "window", "soft"),
    "unknown_topics": ("refuse", "pass"),
    "backlog_age": ("precise", "estimated"),
    "log_level": ("debug", "info", "warning", "error"),
}


_OF_NATIVE = ("native_margin", "native_headroom", "native_service_url")
_NATIVE_ALONE = "enforcement_path = native: only a gate can"
_ONLY_GATES = (
    *BROKER_RATES.values(),
    *PARTITION_RATES.values(),
    "subscribe_rate_per_consumer",
    "delayed_group",
    "unknown_topics",
    "reconcile_part",
)
_DEFAULTS = Config("", "", "", "", "", "")


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the key, the reason and the fix."""


def check(config: Config) -> None:
    """Check every rule.

    Raises:
        ConfigError: one is broken.
    """
    if not _BROKER_ID.fullmatch(config.broker_id):
        raise ConfigError(
            f"broker_id {config.broker_id!r}: use letters, digits and . _ : - (at most 128)"
        )
    for key, (low, high) in _RANGES.items():
        _check_range(key, getattr(config, key), low, high)
    for key, choices in _CHOICES.items():
        _check_choice(key, getattr(config, key), choices)
    for key in ("gate_listen", "gate_upstream", "admin_listen")[0 if config.has_gate else 2 :]:
        split_address(key, getattr(config, key))
    _check_enforcement(config)
    if config.has_gate:
        _check_upstream(config)
    if config.admin_advertised_address:
        split_address("admin_advertised_address", config.admin_advertised_address)
    _check_access(config)
    _check_admin_bounds(config)
    if not _LISTENER.fullmatch(config.gate_listener_name):
        raise ConfigError(
            f"gate_listener_name {config.gate_listener_name!r}: use letters, digits and . _ -, as in "
            "the broker's advertisedListeners"
        )
    _check_gate_tls(config)
    _check_replication(config)
    _check_url("broker_web_url", config.broker_web_url, ("http://", "https://"))
    _check_bus(config)
    _check_zookeeper(config)
    _check_range(
        "publish_buffer_bytes_max", config.publish_buffer_bytes_max, config.held_bytes_max, 2**40
    )
    _check_hold(config)
    if config.topic_limit_mode != "soft":
        _check_unset(config, ("topic_limit_check_seconds",), "topic_limit_mode other than soft")
    _check_own_limits(config)
    if not config.record_cluster:
        raise ConfigError("record_cluster: name the cluster; it must not be empty")
    _check_conditions(config)
    _check_backlog(config)
    _check_comparisons(config)


def _check_replication(config: Config) -> None:
    for address in config.replication_peer_addresses:
        try:
            ipaddress.ip_network(address)
        except ValueError as error:
            raise ConfigError(
                f"replication_peer_addresses: {address!r}: {error}; use 10.1.2.3 or 10.1.2.0/24"
            ) from None
    if config.replication_peer_roles and not config.gate_tls_client_ca_file:
        raise ConfigError(
            "replication_peer_roles: means nothing without gate_tls_client_ca_file: a role is the common "
            "name of a certificate that the gate has checked"
        )
    if not all(config.gate_proxy_roles):
        raise ConfigError("gate_proxy_roles: a role must not be empty")
    if not all(config.replication_peer_roles):
        raise ConfigError("replication_peer_roles: a role must not be empty")
    if not config.replication_producer_prefix:
        raise ConfigError(
            "replication_producer_prefix: must not be empty; use the brokers' replicatorPrefix"
        )


def _check_enforcement(config: Config) -> None:
    if not config.is_native:
        _check_unset(config, _OF_NATIVE, "enforcement_path = gate")
        return
    if -1 < config.native_margin < 0:
        raise ConfigError(f"native_margin is {config.native_margin}: use 0.0 to 1.0, or -1")
    if config.native_service_url:
        _check_url("native_service_url", config.native_service_url, ("pulsar://",))
    if not config.has_gate:
        of_gate = [item.name for item in fields(Config) if item.name.startswith("gate_")]
        _check_unset(config, (*of_gate, *_ONLY_GATES), _NATIVE_ALONE)


def _check_unset(config: Config, keys: Sequence[str], where: str) -> None:
    for key in keys:
        if getattr(config, key) != getattr(_DEFAULTS, key):
            raise ConfigError(f"{key}: means nothing with {where}; remove it")


def _check_hold(config: Config) -> None:
    settings = config.core_settings()
    if settings.hold_ns < settings.least_hold_ns:
        least = settings.least_hold_ns / NANOS_PER_SECOND
        raise ConfigError(
            f"hold_seconds is {config.hold_seconds}: with report_interval_seconds = "
            f"{config.report_interval_seconds} a silent peer is noticed after up to {least:g} s; "
            f"hold for {least:g} or more, or report more often"
        )


def _check_bus(config: Config) -> None:
    _check_prefix("bus_service_url", config.bus_service_url, ("pulsar://", "pulsar+ssl://"))
    for address in config.bus_service_url.partition("://")[2].split(","):
        if address.count(":") > 1:
            raise ConfigError(
                f"bus_service_url: {address!r}: Pulsar's client takes no IPv6 address in a service URL; "
                "write a name that has it, such as localhost or the broker's own"
            )
    if not config.bus_topics:
        raise ConfigError("bus_topics: name at least one topic")
    for topic in config.bus_topics:
        if topic.startswith("persistent://"):
            raise ConfigError(
                f"bus_topics {topic!r}: reports need no storage, and a stored one is old; use "
                f"'non-{topic}'"
            )
        _check_prefix("bus_topics", topic, ("non-persistent://",))
    if config.bus_tls_ca_file and not config.bus_service_url.startswith("pulsar+ssl://"):
        raise ConfigError("bus_tls_ca_file: means nothing unless bus_service_url is pulsar+ssl://")


def _check_zookeeper(config: Config) -> None:
    _check_prefix("zookeeper_root", config.zookeeper_root, ("/",))
    path = config.zookeeper_brokers_path
    if not path.startswith("/") or path.endswith("/") or "//" in path:
        raise ConfigError(
            f"zookeeper_brokers_path {path!r}: it must look like /loadbalance/brokers"
        )
    if config.zookeeper_sasl and not config.zookeeper_credentials_file:
        raise ConfigError("zookeeper_sasl: means nothing without zookeeper_credentials_file")
    for server in config.zookeeper_servers.split(","):
        if "/" in server:
            raise ConfigError(
                f"zookeeper_servers {server!r}: write no path here; it goes before those of "
                "zookeeper_root and zookeeper_brokers_path"
            )
        split_address("zookeeper_servers", server)
    _check_client_tls(config, "zookeeper_tls")


def _check_conditions(config: Config) -> None:
    if config.condition_backlog_age_seconds and not config.backlog_check_seconds:
        text = "condition_backlog_age_seconds: means nothing with backlog_check_seconds = 0"
        raise ConfigError(text)


def _check_backlog(config: Config) -> None:
    if config.backlog_check_seconds:
        _check_range("backlog_check_seconds", config.backlog_check_seconds, 1.0, 86_400.0)
    for key in ("backlog_enforced_namespaces", "backlog_dry_run_namespaces"):
        namespaces = getattr(config, key)
        for namespace in namespaces:
            if not _NAMESPACE.fullmatch(namespace):
                raise ConfigError(f"{key} {namespace!r}: write tenant/namespace")
        if namespaces and not config.backlog_check_seconds:
            raise ConfigError(f"{key}: means nothing with backlog_check_seconds = 0")
    both = set(config.backlog_enforced_namespaces) & set(config.backlog_dry_run_namespaces)
    if both:
        raise ConfigError(
            f"backlog_dry_run_namespaces: {min(both)} is enforced, too; name it in one of the two"
        )


def _check_comparisons(config: Config) -> None:
    if config.reconcile_seconds and not config.has_gate:
        _check_unset(config, ("reconcile_seconds",), _NATIVE_ALONE)
    if config.reconcile_seconds:
        _check_range("reconcile_seconds", config.reconcile_seconds, 0.5, 60.0)
    if config.inventory_seconds:
        _check_range("inventory_seconds", config.inventory_seconds, 1.0, 86_400.0)


def _check_own_limits(config: Config) -> None:
    for key in ("cluster_group", "delayed_group"):
        group = getattr(config, key)
        if group and not _GROUP.fullmatch(group):
            raise ConfigError(f"{key} {group!r}: use letters, digits and -=:._")
    if config.delayed_group and config.delayed_group == config.cluster_group:
        raise ConfigError("delayed_group: is cluster_group, too; name another group")


def _check_upstream(config: Config) -> None:
    """The gate is not its own broker: it would answer each client with one more client, for ever."""
    host, port = split_address("gate_upstream", config.gate_upstream)
    for key in ("gate_listen", "gate_tls_listen"):
        listens = getattr(config, key)
        if not listens:
            continue
        own_host, own_port = split_address(key, listens)
        if port and port == own_port and not _hosts(host).isdisjoint(_hosts(own_host)):
            raise ConfigError(
                f"gate_upstream {config.gate_upstream!r}: the gate itself listens there ({key} "
                f"{listens!r}); name the address that the broker binds for the gate, which is in its "
                "bindAddresses"
            )


def _check_gate_tls(config: Config) -> None:
    names = ("gate_tls_listen", "gate_tls_certificate_file", "gate_tls_key_file")
    missing = [name for name in names if not getattr(config, name)]
    if 0 < len(missing) < len(names):
        raise ConfigError(f"{', '.join(missing)}: missing; TLS at the gate needs all of {names}")
    if missing and config.gate_tls_client_ca_file:
        raise ConfigError(f"gate_tls_client_ca_file: means nothing without {', '.join(names)}")
    if config.gate_tls_listen:
        split_address("gate_tls_listen", config.gate_tls_listen)
    _check_client_tls(config, "gate_upstream_tls", "gate_upstream_tls_hostname")


def _check_client_tls(config: Config, switch: str, *others: str) -> None:
    """The files of TLS to a server, whose keys begin with that of the switch."""
    own = (f"{switch}_certificate_file", f"{switch}_key_file")
    for name in (f"{switch}_ca_file", *others, *own):
        if getattr(config, name) and not getattr(config, switch):
            raise ConfigError(f"{name}: means nothing without {switch} = true")
    if bool(getattr(config, own[0])) != bool(getattr(config, own[1])):
        raise ConfigError(f"{', '.join(own)}: name both, or neither to show no certificate")


def _check_access(config: Config) -> None:
    has_keys = config.has_token_keys
    if not has_keys and not _is_loopback(split_address("admin_listen", config.admin_listen)[0]):
        raise ConfigError(
            f"admin_listen {config.admin_listen!r}: others can reach it, so it needs access control: "
            "name auth_secret_key_file or auth_public_key_files, or listen on 127.0.0.1"
        )
    if has_keys and not config.super_user_roles:
        raise ConfigError(
            "super_user_roles: name at least one role; without one no caller can change a group"
        )
    if not has_keys and (config.super_user_roles or config.tenant_admins):
        raise ConfigError(
            "super_user_roles, tenant_admins: roles mean nothing without auth_secret_key_file or "
            "auth_public_key_files"
        )
    if not config.auth_role_claim:
        raise ConfigError("auth_role_claim: name a claim, such as sub")
    if bool(config.admin_tls_certificate_file) != bool(config.admin_tls_key_file):
        raise ConfigError(
            "admin_tls_certificate_file, admin_tls_key_file: name both, or neither for plain HTTP"
        )
    if config.admin_tls_client_ca_file and not config.admin_tls_certificate_file:
        raise ConfigError(
            "admin_tls_client_ca_file: means nothing without admin_tls_certificate_file"
        )


def _check_admin_bounds(config: Config) -> None:
    for host in config.admin_hosts:
        if not _HOST.fullmatch(host) or ".." in host:
            raise ConfigError(
                f"admin_hosts {host!r}: write a name or an address, with a port or without, for example "
                "broker-1.example or [fd00::7]:8087"
            )
    if config.admin_connections_per_host > config.admin_connections_max:
        raise ConfigError(
            f"admin_connections_per_host is {config.admin_connections_per_host}: use at most "
            f"admin_connections_max, which is {config.admin_connections_max}"
        )


def split_address(key: str, address: str) -> tuple[str, int]:
    """Host and port of an address; an IPv6 address has brackets in it, and none as a host.

    Raises:
        ConfigError: it is not host:port.
    """
    match = _address(address)
    if match is None or match["port"] is None:
        raise ConfigError(
            f"{key} {address!r}: write host:port, for example 127.0.0.1:6650 or [fd00::7]:6650"
        )
    return match["six"] or match["host"], int(match["port"])


def _address(text: str) -> re.Match[str] | None:
    """Host, and port if there is one; None if it is no address."""
    match = _ADDRESS.fullmatch(text)
    valid = match and int(match["port"] or 0) <= _PORT_MAX and _is_ipv6(match["six"])
    return match if valid else None


def _is_ipv6(text: str | None) -> bool:
    try:
        return text is None or bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False


def _hosts(host: str) -> frozenset[str]:
    """The host itself, or the addresses of this machine that it stands for by its spelling alone."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.casefold().removesuffix(".")
        return _OF_THIS_MACHINE.get(name, frozenset({name}))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return _OF_THIS_MACHINE.get(str(address), frozenset({str(address)}))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_url(key: str, value: str, prefixes: tuple[str, ...]) -> None:
    _check_prefix(key, value, prefixes)
    address = value.partition("://")[2].partition("/")[0]
    if _address(address) is None:
        raise ConfigError(
            f"{key} {value!r}: {address!r} is no host or host:port; write, for example, "
            f"{prefixes[0]}[fd00::7]:8080"
        )


def _check_prefix(key: str, value: str, prefixes: tuple[str, ...]) -> None:
    if not value.startswith(prefixes):
        raise ConfigError(f"{key} {value!r}: it must start with {' or '.join(prefixes)}")


def _check_choice(key: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{key} {value!r}: use one of {', '.join(choices)}")


def _check_range(key: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{key} is {value}: use {low} to {high}")
