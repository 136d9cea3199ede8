"""cluster.json: all that a later command, a test or a sidecar's configuration knows of a cluster.

It is written before the first process starts and again after each, always by renaming, so a reader
sees a whole file, and whatever happened to the one who wrote it, `down` finds what runs. That a pid
stands here does not mean that it lives: `Server.alive` asks the system.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from deploy.local import processes
from deploy.local.addresses import LOOPBACK, at
from deploy.local.errors import LocalClusterError, WrongUseError
from deploy.local.processes import ProcessIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server of the cluster: a ZooKeeper or the bookie.

    It stays equal to itself when it is restarted, so a topic's owner may be compared with a broker
    that was read earlier.

    Attributes:
        name: as in `kill NAME`.
        port: where its clients connect.
        log_file: absolute path.
        command: how to start it, and to start it again.
        host: the loopback address that it is on.
        pid: of the latest start; None before the first.
        pid_started: when that process started, opaque; guards against recycled pids.
    """

    name: str
    port: int
    log_file: str
    command: tuple[str, ...]
    host: str = LOOPBACK
    pid: int | None = field(default=None, compare=False)
    pid_started: str | None = field(default=None, compare=False)

    @property
    def process(self) -> ProcessIdentity | None:
        """The latest process started under this name, alive or not."""
        if self.pid is None or self.pid_started is None:
            return None
        return ProcessIdentity(self.pid, self.pid_started)

    @property
    def alive(self) -> bool:
        """Whether that process runs now."""
        return self.process is not None and processes.is_alive(self.process)

    def run_as(self, process: ProcessIdentity) -> Self:
        """Return the same server, running as this process."""
        return dataclasses.replace(self, pid=process.pid, pid_started=process.started)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker(Server):
    """One broker; `port` is `broker_port` again. The ports are those of `BrokerPorts`.

    Attributes:
        advertised: what its address is called in service URLs, and in its id.
    """

    broker_port: int
    web_port: int
    gate_port: int
    gate_upstream_port: int
    admin_port: int
    advertised: str = LOOPBACK
    listener_ports: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def web_url(self) -> str:
        """Its admin REST."""
        return f"http://{at(self.host, self.web_port)}"

    @property
    def service_url(self) -> str:
        """Its internal listener, past any sidecar."""
        return f"pulsar://{self.service_address}"

    @property
    def gate_url(self) -> str:
        """Where its sidecar listens, if there is one."""
        return f"pulsar://{self.gate_address}"

    @property
    def service_address(self) -> str:
        """The same without a scheme, as in a list of addresses."""
        return f"{self.advertised}:{self.broker_port}"

    @property
    def gate_address(self) -> str:
        """The same without a scheme."""
        return f"{self.advertised}:{self.gate_port}"

    @property
    def admin_url(self) -> str:
        """The admin API of its sidecar, if there is one."""
        return f"http://{at(self.host, self.admin_port)}"


_S = TypeVar("_S", bound=Server)


def _named(name: str, servers: Sequence[_S]) -> _S:
    for server in servers:
        if server.name == name:
            return server
    names = ", ".join(server.name for server in servers)
    raise WrongUseError(f"There is no {name!r} in this cluster; there are {names}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A whole cluster; `started` is an ISO 8601 time in UTC."""

    state_dir: str
    started: str
    pulsar_version: str
    java: str
    zookeeper_connect: str
    own_resource_groups: bool
    resource_group_interval_s: int | None
    zookeepers: tuple[Server, ...]
    bookie: Server
    brokers: tuple[Broker, ...]
    host: str = LOOPBACK

    @property
    def servers(self) -> tuple[Server, ...]:
        """All of them, in the order in which they must start."""
        return (*self.zookeepers, self.bookie, *self.brokers)

    def server(self, name: str) -> Server:
        """Return the server of this name.

        Raises:
            WrongUseError: there is none.
        """
        return _named(name, self.servers)

    def broker(self, name: str) -> Broker:
        """Return the broker of this name.

        Raises:
            WrongUseError: there is none.
        """
        return _named(name, self.brokers)

    def with_process(self, name: str, process: ProcessIdentity) -> ClusterState:
        """Return the state in which this server runs as this process."""
        return dataclasses.replace(
            self,
            zookeepers=tuple(s.run_as(process) if s.name == name else s for s in self.zookeepers),
            bookie=self.bookie.run_as(process) if self.bookie.name == name else self.bookie,
            brokers=tuple(b.run_as(process) if b.name == name else b for b in self.brokers),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, with what `status` adds: which processes are alive."""
        data = dataclasses.asdict(self)
        for entry in (*data["zookeepers"], data["bookie"], *data["brokers"]):
            entry["alive"] = self.server(entry["name"]).alive
        return data


def file_of(state_dir: Path) -> Path:
    """Return where the state of the cluster in this directory is written."""
    return state_dir / "cluster.json"


def write(state: ClusterState) -> None:
    """Replace cluster.json, so that a reader sees the old file or the new one."""
    target = file_of(Path(state.state_dir))
    partial = target.with_suffix(".part")
    partial.write_text(json.dumps(dataclasses.asdict(state), indent=2) + "\n")
    partial.rename(target)


def read(state_dir: Path) -> ClusterState:
    """Return the state of the cluster in this directory.

    Raises:
        WrongUseError: there is no cluster.
        LocalClusterError: the file is of another version of the launcher, or damaged.
    """
    file = file_of(state_dir)
    try:
        return _from_dict(json.loads(file.read_text()))
    except FileNotFoundError:
        raise WrongUseError(f"No cluster was started in {state_dir}.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LocalClusterError(f"{file} is not readable as a cluster: {error!r}") from error


def _from_dict(data: dict[str, Any]) -> ClusterState:
    def server(entry: dict[str, Any]) -> Server:
        return Server(**entry | {"command": tuple(entry["command"])})

    parts = {
        "zookeepers": tuple(server(entry) for entry in data["zookeepers"]),
        "bookie": server(data["bookie"]),
        "brokers": tuple(
            Broker(**entry | {"command": tuple(entry["command"])}) for entry in data["brokers"]
        ),
    }
    return ClusterState(**data | parts)


@contextmanager
def locked(state_dir: Path) -> Iterator[None]:
    """Hold the directory against other commands that change the cluster.

    Raises:
        WrongUseError: there is no such directory, or another command holds it.
    """
    try:
        directory = os.open(state_dir, os.O_RDONLY)
    except FileNotFoundError:
        raise WrongUseError(f"No cluster was started in {state_dir}.") from None
    try:
        _lock(directory, state_dir)
        yield
    finally:
        os.close(directory)


def _lock(directory: int, state_dir: Path) -> None:
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise WrongUseError(f"Another command is at work on the cluster in {state_dir}.") from None
