"""Laying a cluster out: which server gets which ports, files and command, before any of them runs.

Everything a cluster writes is below its state directory: `conf`, `data`, `logs` and `run` (the
working directory of its processes). Only these and cluster.json are ever removed again, so a state
directory that was named by mistake loses nothing else.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from deploy.local import commands, configuration
from deploy.local.addresses import LOOPBACK, LOOPBACKS, at, name_of
from deploy.local.commands import JavaRuntime
from deploy.local.configuration import BrokerPorts, ZooKeeperPeer
from deploy.local.errors import WrongUseError
from deploy.local.jars import DEFAULT_PULSAR
from deploy.local.ports import BLOCK_SIZE
from deploy.local.state import Broker, ClusterState, Server, file_of

_DIRECTORIES = ("conf", "data", "logs", "run")
#: A broker's own ports; and those of three ZooKeepers and the bookie.
_BROKER_PORTS = 5
_OTHER_PORTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The choices about a cluster.

    Attributes:
        state_dir: where it lives; None takes a directory of this user's under the system's
            temporary directory, so that nothing lands in a work tree.
        brokers: how many, 1 to 10.
        zookeepers: how many; 3 makes an ensemble that survives the loss of one.
        host: the loopback address that all of it is on, 127.0.0.1 or ::1.
        pulsar: version of the brokers.
        own_resource_groups: switch on the transport of Pulsar's own resource groups.
        resource_group_interval_s: seconds between their reports.
        broker_settings: broker.conf settings that win over ours.
        listeners: names of further listeners. Each broker advertises a port of its own for each of
            them, on which another program listens, such as a proxy; a client that asks lookups for
            the listener is sent there. A name that ends in "+ssl" is a listener's address with TLS.
        broker_java_options: options for the brokers' Java that win over ours.
        quick: Java compiles quickly, and not in full as a benchmark needs it. That halves the processor
            time of a broker's start (4.9 to 2.6 s) and adds 40 % to that of a message. A cluster of
            tests is better off with it: in half an hour of them compiling in full takes a third of
            a broker's time.
    """

    state_dir: Path | None = None
    brokers: int = 3
    zookeepers: int = 1
    host: str = LOOPBACK
    pulsar: str = DEFAULT_PULSAR
    own_resource_groups: bool = False
    resource_group_interval_s: int = 5
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    listeners: Sequence[str] = ()
    broker_java_options: Sequence[str] = ()
    quick: bool = False

    def validate(self) -> None:
        """Check the choices.

        Raises:
            WrongUseError: one of them is out of range, or this machine has no name for the address.
        """
        if not 1 <= self.brokers <= 10:
            raise WrongUseError(f"{self.brokers} brokers: 1 to 10 are possible.")
        if self.zookeepers not in (1, 3):
            raise WrongUseError(f"{self.zookeepers} ZooKeepers: 1 or 3 are possible.")
        if self.host not in LOOPBACKS:
            raise WrongUseError(f"{self.host}: {' or '.join(LOOPBACKS)} are possible.")
        name_of(self.host)
        ports = self.brokers * (_BROKER_PORTS + len(self.listeners))
        if ports > BLOCK_SIZE - _OTHER_PORTS:
            raise WrongUseError(
                f"{self.brokers} brokers with {len(self.listeners)} further listeners need {ports} "
                f"ports: {BLOCK_SIZE - _OTHER_PORTS} are possible."
            )
        if self.resource_group_interval_s < 1:
            raise WrongUseError("The resource group interval is at least 1 second.")


def lay_out(
    options: ClusterOptions, state_dir: Path, runtime: JavaRuntime, ports: range
) -> ClusterState:
    """Write the configuration files of a new cluster and return its state, with nothing started."""
    assert len(ports) >= BLOCK_SIZE
    for name in _DIRECTORIES:
        (state_dir / name).mkdir()
    runtime.logging.write_text(configuration.logging())
    numbers = iter(ports)
    peers = [
        ZooKeeperPeer(n, next(numbers), next(numbers), next(numbers), host=options.host)
        for n in range(1, options.zookeepers + 1)
    ]
    connect = ",".join(f"{name_of(options.host)}:{peer.client_port}" for peer in peers)
    return ClusterState(
        state_dir=str(state_dir),
        host=options.host,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        pulsar_version=options.pulsar,
        java=str(runtime.java),
        zookeeper_connect=",".join(at(peer.host, peer.client_port) for peer in peers),
        own_resource_groups=options.own_resource_groups,
        resource_group_interval_s=(
            options.resource_group_interval_s if options.own_resource_groups else None
        ),
        zookeepers=tuple(_zookeeper(peer, peers, state_dir, runtime) for peer in peers),
        bookie=_bookie(connect, next(numbers), options, state_dir, runtime),
        brokers=tuple(
            _broker(f"broker-{n}", connect, numbers, options, state_dir, runtime)
            for n in range(1, options.brokers + 1)
        ),
    )


def clear(state_dir: Path) -> None:
    """Remove what a cluster wrote into its directory."""
    for name in _DIRECTORIES:
        shutil.rmtree(state_dir / name, ignore_errors=True)
    file_of(state_dir).unlink(missing_ok=True)


def _zookeeper(
    own: ZooKeeperPeer, peers: list[ZooKeeperPeer], state_dir: Path, runtime: JavaRuntime
) -> Server:
    ensemble = len(peers) > 1
    name = f"zookeeper-{own.number}" if ensemble else "zookeeper"
    data = state_dir / "data" / name
    data.mkdir()
    (data / "myid").write_text(f"{own.number}\n")
    conf = state_dir / "conf" / f"{name}.cfg"
    conf.write_text(configuration.zookeeper(own, peers, data))
    return Server(
        name=name,
        host=own.host,
        port=own.client_port,
        log_file=_log(state_dir, name),
        command=commands.zookeeper(runtime, conf, ensemble=ensemble),
    )


def _bookie(
    connect: str, port: int, options: ClusterOptions, state_dir: Path, runtime: JavaRuntime
) -> Server:
    conf = state_dir / "conf" / "bookie.conf"
    data = state_dir / "data" / "bookie"
    conf.write_text(configuration.bookie(connect, port, data, name_of(options.host)))
    return Server(
        name="bookie",
        host=options.host,
        port=port,
        log_file=_log(state_dir, "bookie"),
        command=commands.bookie(runtime, conf, quick=options.quick),
    )


def _broker(
    name: str,
    connect: str,
    numbers: Iterator[int],
    options: ClusterOptions,
    state_dir: Path,
    runtime: JavaRuntime,
) -> Broker:
    own = [next(numbers) for _ in range(_BROKER_PORTS)]
    listeners = {name: next(numbers) for name in options.listeners}
    ports = BrokerPorts(
        *own, listener_ports=listeners, host=options.host, name=name_of(options.host)
    )
    interval_s = options.resource_group_interval_s if options.own_resource_groups else None
    conf = state_dir / "conf" / f"{name}.conf"
    conf.write_text(configuration.broker(connect, ports, interval_s, options.broker_settings))
    return Broker(
        name=name,
        host=ports.host,
        port=ports.broker_port,
        log_file=_log(state_dir, name),
        command=commands.broker(runtime, conf, options.broker_java_options, quick=options.quick),
        broker_port=ports.broker_port,
        web_port=ports.web_port,
        advertised=ports.name,
        gate_port=ports.gate_port,
        gate_upstream_port=ports.gate_upstream_port,
        admin_port=ports.admin_port,
        listener_ports=dict(ports.listener_ports),
    )


def _log(state_dir: Path, name: str) -> str:
    return str(state_dir / "logs" / f"{name}.log")
