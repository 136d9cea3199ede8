"""The doctor's checks of the sidecar's machine: can it reach what its configuration names?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields
from urllib.parse import urlsplit

from coordinator.app.factories import zookeeper_access
from coordinator.cli.findings import Finding, note, ok, wrong
from coordinator.cli.probes import Probes
from coordinator.config import Config, ConfigError, split_address
from coordinator.gate.process.descriptors import needed

_QUORUM = "A quorum of the servers must be up; see their logs."
NEWEST_TRIED_PYTHON = (3, 13)
_DEFAULT_BUS_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}


def examine_host(config: Config, answering_broker: str | None, probes: Probes) -> Iterator[Finding]:
    """Check everything that a configuration names.

    Args:
        config: the configuration of the sidecar.
        answering_broker: the broker whose sidecar answers the admin API; None if none does. A sidecar
            that runs already is the right one to hold the ports it listens on.
        probes: the ways to try things.
    """
    yield _python(sys.version_info[:2])
    yield ok("configuration", f"is complete and consistent, for {config.broker_id}")
    yield from _files(config, probes)
    yield from _zookeeper(config, probes)
    yield _bus(config, probes)
    yield _web(config, probes)
    if config.has_gate:
        yield _upstream(config, probes)
        yield _descriptors(config, probes)
    is_ours = answering_broker == config.broker_id
    for key, address in (
        ("gate_listen", config.gate_listen),
        ("gate_tls_listen", config.gate_tls_listen),
        ("admin_listen", config.admin_listen),
    ):
        if address:
            yield _listen(key, address, probes, is_ours=is_ours)


def _python(version: tuple[int, int]) -> Finding:
    name = ".".join(map(str, version))
    if version <= NEWEST_TRIED_PYTHON:
        return ok("Python", name)
    newest = ".".join(map(str, NEWEST_TRIED_PYTHON))
    return note("Python", f"{name} has not been tried, 3.11 to {newest} have")


def _files(config: Config, probes: Probes) -> Iterator[Finding]:
    """Check keys, certificates and tokens; this user may differ from the sidecar's."""
    named = [
        (key, path)
        for key in (item.name for item in fields(config))
        if key.endswith(("_file", "_files"))
        for path in _paths(getattr(config, key))
    ]
    faults = [(key, path, probes.read(path)) for key, path in named]
    for key, path, fault in faults:
        if fault is not None:
            fix = f"Let the sidecar's user read it, or correct {key}."
            yield wrong("file", f"{key} {path}: {fault}", fix)
    if named and not any(fault for *_, fault in faults):
        yield ok("files", f"all {len(named)} that are named can be read")


def _paths(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(None, (value,) if isinstance(value, str) else value))


def _zookeeper(config: Config, probes: Probes) -> Iterator[Finding]:
    for server in config.zookeeper_servers.split(","):
        fault = probes.connect(*split_address("zookeeper_servers", server))
        if fault is None:
            yield ok("ZooKeeper", f"{server} accepts connections")
        else:
            fix = "Start that server, or correct zookeeper_servers."
            yield wrong("ZooKeeper", f"{server}: {fault}", fix)
    try:
        access = zookeeper_access(config)
    except ConfigError as error:
        yield wrong("ZooKeeper", str(error), "Correct the file, or the key that names it.")
        return
    fault = probes.zookeeper_session(config.zookeeper_servers, config.zookeeper_root, access)
    if fault is None:
        yield ok("ZooKeeper", "gives a session, and its nodes can be read")
    else:
        reason, _, cure = fault.partition("; ")
        fix = f"{cure[0].upper()}{cure[1:]}." if cure else _QUORUM
        yield wrong("ZooKeeper", reason, fix)


def _bus(config: Config, probes: Probes) -> Finding:
    url = urlsplit(config.bus_service_url)
    # A URL may name several brokers; the client tries them one after the other, and so does this.
    faults = []
    for address in url.netloc.split(","):
        host, _, port = address.rpartition(":")
        if not port.isdecimal():
            host, port = address, str(_DEFAULT_BUS_PORTS[url.scheme])
        fault = probes.connect(host, int(port))
        if fault is None:
            return ok("bus", f"{address} accepts connections")
        faults.append(f"{address}: {fault}")
    fix = "bus_service_url must be a broker's internal listener that is up."
    return wrong("bus", "; ".join(faults), fix)


def _web(config: Config, probes: Probes) -> Finding:
    url = config.broker_web_url.rstrip("/") + "/admin/v2/brokers/ready"
    status = probes.get_status(url)
    if status == 200:
        return ok("broker", f"{config.broker_web_url} is ready")
    if status in (401, 403):
        return note("broker", f"{url} asks for credentials ({status})")
    fix = "Start the broker, or correct broker_web_url."
    return wrong("broker", f"{url} answers: {status}", fix)


def _upstream(config: Config, probes: Probes) -> Finding:
    address = config.gate_upstream
    fault = probes.connect(*split_address("gate_upstream", address))
    if fault is None:
        return ok("gate upstream", f"{address} accepts connections")
    fix = (
        f"Give the broker bindAddresses=external:pulsar://{address} "
        "and an advertised listener of that name."
    )
    return wrong("gate upstream", f"{address}: {fault}", fix)


def _descriptors(config: Config, probes: Probes) -> Finding:
    allowed, wanted = probes.descriptors(), needed(config.gate_connections_max)
    if allowed >= wanted:
        return ok(
            "file descriptors", f"{allowed} are allowed here, the gate needs {wanted} at most"
        )
    fix = (
        f"If the sidecar has no more than that either, raise its limit of open files to {wanted} "
        "(LimitNOFILE of the unit, ulimit -n), or lower gate_connections_max; its gate does so itself."
    )
    text = (
        f"{allowed} are allowed here, gate_connections_max = {config.gate_connections_max} "
        f"needs {wanted}"
    )
    return note("file descriptors", text, fix)


def _listen(key: str, address: str, probes: Probes, *, is_ours: bool) -> Finding:
    host, port = split_address(key, address)
    fault = probes.listen(host, port)
    if not is_ours and fault is None:
        return ok(key, f"{address} is free")
    if not is_ours:
        fix = (
            f"Stop what listens there (sudo ss -ltnp 'sport = :{port}' names it) unless it is systemd "
            f"for pulsar-quota.socket, or change {key}."
        )
        return wrong(key, f"{address}: {fault}", fix)
    if fault is not None and probes.connect(host, port) is None:
        return ok(key, f"{address} is held by the running sidecar")
    text = f"{address}: the running sidecar does not listen there"
    return wrong(key, text, f"Restart it with this configuration, or correct {key}.")
