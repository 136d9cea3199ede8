"""Build a gate from the configuration; start nothing."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path

from coordinator.config import Config, ConfigError, split_address
from coordinator.core.limiting.windows import LimitMode, maker_of
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.gate.engine.connection_limits import ConnectionLimits
from coordinator.gate.engine.identity import IdentityRules
from coordinator.gate.engine.replication import ReplicationPeers
from coordinator.gate.limits.counters import GateListener
from coordinator.gate.limits.modes import Modes
from coordinator.gate.process import descriptors
from coordinator.gate.server.proxy import Gate
from coordinator.gate.server.tls import ServerCertificate, TlsError, TlsFiles, TlsListener
from coordinator.gate.server.upstream import UpstreamTls
from coordinator.ports import Clock, Verifier
from coordinator.runtime.client_tls import ClientTls


def gate(
    config: Config,
    listener: GateListener,
    clock: Clock,
    kept_sockets: Sequence[socket.socket] = (),
) -> Gate:
    """Build the gate of a configuration, and try out the files that it names.

    Args:
        config: the configuration.
        listener: told of participants.
        clock: monotonic time.
        kept_sockets: sockets that listen already, on the ports that the configuration names.

    Raises:
        ConfigError: a file that the configuration names cannot be used, or a socket is of no port that it
            names.
    """
    _check_ports(config, kept_sockets)
    listen_host, listen_port = split_address("gate_listen", config.gate_listen)
    upstream_host, upstream_port = split_address("gate_upstream", config.gate_upstream)
    try:
        return Gate(
            listen_host=listen_host,
            listen_port=listen_port,
            upstream_host=upstream_host,
            upstream_port=upstream_port,
            listener=listener,
            clock=clock,
            held_bytes_max=config.held_bytes_max,
            publish_buffer_bytes_max=config.publish_buffer_bytes_max,
            pending_requests_max=config.pending_publish_requests_max or None,
            tls=_gate_tls(config),
            burst_ns=round(config.burst_seconds * NANOS_PER_SECOND),
            upstream_tls=_upstream_tls(config, upstream_host),
            modes=Modes(
                maker_of(LimitMode(config.limit_mode)),
                maker_of(
                    LimitMode(config.topic_limit_mode),
                    round(config.topic_limit_check_seconds * NANOS_PER_SECOND),
                ),
                config.cluster_group,
                config.delayed_group,
            ),
            proxy_protocol=config.gate_upstream_proxy_protocol,
            replication=ReplicationPeers(
                tuple(map(ip_network, config.replication_peer_addresses)),
                frozenset(config.replication_peer_roles),
                config.replication_producer_prefix,
            ),
            identities=IdentityRules(
                _verifier(config),
                basic=config.gate_basic_roles,
                proxy_roles=frozenset(config.gate_proxy_roles),
            ),
            unknown_topics_pass=config.unknown_topics == "pass",
            reserved_topics=config.reserved_topics,
            kept_sockets=kept_sockets,
            connections=ConnectionLimits(
                descriptors.connections_max(config.gate_connections_max),
                config.gate_connections_per_host_max,
            ),
        )
    except TlsError as error:
        raise ConfigError(f"gate_upstream_tls_*_file: cannot be used: {error}") from error


def _verifier(config: Config) -> Verifier | None:
    if not config.has_token_keys:
        return None
    from coordinator.adapters.tokens import verifier_of  # noqa: PLC0415 - 8 MB, for keys only

    return verifier_of(config)


def _check_ports(config: Config, kept_sockets: Sequence[socket.socket]) -> None:
    keys = ("gate_listen", "gate_tls_listen") if config.gate_tls_listen else ("gate_listen",)
    ports = {split_address(key, getattr(config, key))[1] for key in keys}
    for kept in kept_sockets:
        address = kept.getsockname()
        if not isinstance(address, tuple) or address[1] not in ports:
            raise ConfigError(
                f"{' and '.join(keys)}: a socket was handed over that listens at {address}, which is on "
                "no port that is named here; name it, or correct ListenStream of the socket unit"
            )


def _gate_tls(config: Config) -> TlsListener | None:
    """Return the TLS listener; try out its files, so that a mistake shows at once."""
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
        ServerCertificate(files)
    except TlsError as error:
        raise ConfigError(f"gate_tls_*_file: cannot be used: {error}") from error
    return TlsListener(host, port, files)


def _upstream_tls(config: Config, host: str) -> UpstreamTls | None:
    if not config.gate_upstream_tls:
        return None
    client = ClientTls.of(
        config.gate_upstream_tls_ca_file,
        config.gate_upstream_tls_certificate_file,
        config.gate_upstream_tls_key_file,
    )
    return UpstreamTls(config.gate_upstream_tls_hostname or host, client)
