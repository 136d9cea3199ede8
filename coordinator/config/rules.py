"""The rules between the keys of a configuration.

A broken one is told with the names of the keys, the reason and the fix; nothing is guessed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from coordinator.config.forms import split_address
from coordinator.config.model import Config
from coordinator.core.model import NANOS_PER_SECOND

_DEFAULTS = Config("", "", "", "", "", "")
_OF_THIS_MACHINE: Mapping[str, frozenset[str]] = {
    "0.0.0.0": frozenset({"0.0.0.0", "127.0.0.1"}),
    "::": frozenset({"0.0.0.0", "127.0.0.1", "::", "::1"}),  # a gate listens to both families there
    "localhost": frozenset({"127.0.0.1", "::1"}),
}


def _all_of(*beginnings: str) -> tuple[str, ...]:
    return tuple(item.name for item in fields(Config) if item.name.startswith(beginnings))


_NEEDED: Mapping[str, Sequence[str]] = {
    "gate_tls_listen": ("gate_tls_client_ca_file",),
    "gate_tls_client_ca_file": ("replication_peer_roles",),
    "gate_upstream_tls": _all_of("gate_upstream_tls_"),
    "zookeeper_tls": _all_of("zookeeper_tls_"),
    "zookeeper_credentials_file": ("zookeeper_sasl",),
    "admin_tls_certificate_file": ("admin_tls_client_ca_file",),
    "backlog_check_seconds": (
        "condition_backlog_age_seconds",
        *_all_of("backlog_enforced_", "backlog_dry_"),
    ),
}
"""Keys without which others mean nothing."""

_TOGETHER: Mapping[Sequence[str], str] = {
    ("gate_tls_listen", "gate_tls_certificate_file", "gate_tls_key_file"): "no TLS",
    ("gate_upstream_tls_certificate_file", "gate_upstream_tls_key_file"): "no certificate",
    ("zookeeper_tls_certificate_file", "zookeeper_tls_key_file"): "no certificate",
    ("admin_tls_certificate_file", "admin_tls_key_file"): "plain HTTP",
}
"""Keys that need each other, and what there is without them."""

_OF_GATES = (
    *_all_of("gate_", "broker_publish_", "broker_dispatch_", "partition_"),
    *("subscribe_rate_per_consumer", "delayed_group", "unknown_topics", "reconcile_part"),
)


def broken(config: Config) -> Iterator[str]:
    """Yield a sentence for each broken rule."""
    yield from _meaningless(config)
    for keys, otherwise in _TOGETHER.items():
        missing = [key for key in keys if not getattr(config, key)]
        if 0 < len(missing) < len(keys):
            yield f"{', '.join(missing)}: missing; name all of {', '.join(keys)}, or none for {otherwise}"
    yield from _gate(config)
    yield from _access(config)
    yield from _bounds(config)
    if config.delayed_group and config.delayed_group == config.cluster_group:
        yield "delayed_group: is cluster_group, too; name another group"
    both = set(config.backlog_enforced_namespaces) & set(config.backlog_dry_run_namespaces)
    if both:
        yield f"backlog_dry_run_namespaces: {min(both)} is enforced, too; name it in one of the two"


def _meaningless(config: Config) -> Iterator[str]:
    for needed, keys in _NEEDED.items():
        if not getattr(config, needed):
            yield from _unset(config, keys, f"without {needed}: set that, or remove this")
    if not config.is_native:
        yield from _unset(config, _all_of("native_"), "with enforcement_path = gate; remove it")
    if not config.has_gate:
        keys = (*_OF_GATES, "reconcile_seconds") if config.reconcile_seconds else _OF_GATES
        yield from _unset(
            config, keys, "with enforcement_path = native: only a gate can; remove it"
        )
    if config.topic_limit_mode != "soft":
        where = "with topic_limit_mode other than soft; remove it"
        yield from _unset(config, ["topic_limit_check_seconds"], where)
    if not config.bus_service_url.startswith("pulsar+ssl://"):
        yield from _unset(config, ["bus_tls_ca_file"], "unless bus_service_url is pulsar+ssl://")
    if not config.has_token_keys:
        where = "without auth_secret_key_file or auth_public_key_files"
        yield from _unset(config, ["super_user_roles", "tenant_admins"], where)


def _unset(config: Config, keys: Sequence[str], reason: str) -> Iterator[str]:
    for key in keys:
        if getattr(config, key) != getattr(_DEFAULTS, key):
            yield f"{key}: means nothing {reason}"


def _gate(config: Config) -> Iterator[str]:
    """The gate is not its own broker: it would answer each client with one more client, for ever."""
    missing = [key for key in ("gate_listen", "gate_upstream") if not getattr(config, key)]
    if missing or not config.has_gate:
        yield from (f"{key}: must not be empty" for key in missing if config.has_gate)
        return
    host, port = split_address("gate_upstream", config.gate_upstream)
    for key in ("gate_listen", "gate_tls_listen"):
        listens = getattr(config, key)
        if not listens:
            continue
        own_host, own_port = split_address(key, listens)
        if port and port == own_port and not _hosts(host).isdisjoint(_hosts(own_host)):
            yield (
                f"gate_upstream {config.gate_upstream!r}: the gate itself listens there ({key} "
                f"{listens!r}); name the address that the broker binds for the gate, which is in its "
                "bindAddresses"
            )


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


def _access(config: Config) -> Iterator[str]:
    host, _ = split_address("admin_listen", config.admin_listen)
    if not config.has_token_keys and not _is_loopback(host):
        yield (
            f"admin_listen {config.admin_listen!r}: others can reach it, so it needs access control: "
            "name auth_secret_key_file or auth_public_key_files, or listen on 127.0.0.1"
        )
    if config.has_token_keys and not config.super_user_roles:
        yield "super_user_roles: name at least one role; without one no caller can change a group"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bounds(config: Config) -> Iterator[str]:
    for low, high in (
        ("admin_connections_per_host", "admin_connections_max"),
        ("held_bytes_max", "publish_buffer_bytes_max"),
    ):
        if getattr(config, low) > getattr(config, high):
            yield (
                f"{low} is {getattr(config, low)}: use at most {high}, which is {getattr(config, high)}"
            )
    settings = config.core_settings()
    if settings.hold_ns < settings.least_hold_ns:
        least = settings.least_hold_ns / NANOS_PER_SECOND
        yield (
            f"hold_seconds is {config.hold_seconds}: with report_interval_seconds = "
            f"{config.report_interval_seconds} a silent peer is noticed after up to {least:g} s; "
            f"hold for {least:g} or more, or report more often"
        )
