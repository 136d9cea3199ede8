"""Sidecars beside the brokers of a cluster: configured, started, watched and ended by pid.

Two bus topics with different owners, so that the death of one broker never silences the bus. The
sidecars' configuration is what an operator would write; nothing in it is for tests only.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Self

from deploy.local import processes, rest
from deploy.local.addresses import at
from deploy.local.cluster import Cluster
from deploy.local.errors import LocalClusterError
from deploy.local.processes import ProcessIdentity
from deploy.local.programs import Programs
from deploy.local.state import Broker
from deploy.local.topics import Topics
from deploy.local.waiting import insist, wait_until

BUS_NAMESPACE = "pulsar/system"
PIP_82_TOPICS = "resourceUsagePublishTopicName"
#: What Python runs for the command `pulsar-quota`.
PROGRAM = ("-m", "coordinator.cli")
#: Four for each of three brokers, so that each of them owns some.
_BUNDLES = 12
_PROBED_WITHIN_S = 2.0
_STOP_GRACE_S = 20.0


class Sidecars:
    """The sidecars of one cluster, by the names of their brokers.

    Args:
        cluster: running.
        directory: for configuration files and logs.
        settings: configuration keys beyond the addresses, for all sidecars.
        program: how Python starts a sidecar; the command that is installed unless another is given.
        programs: where their processes go, if others are watched with them.
    """

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        settings: Mapping[str, object] = MappingProxyType({}),
        program: Sequence[str] = PROGRAM,
        programs: Programs | None = None,
    ) -> None:
        """Write one configuration file for each broker; nothing is started yet."""
        self._cluster = cluster
        self._directory = directory
        self._program = program
        self._brokers = {broker.name: broker for broker in cluster.brokers}
        self._programs = Programs(directory) if programs is None else programs
        self._running: set[str] = set()
        named = settings.get(PIP_82_TOPICS)
        self.bus_topics = (
            bus_topics(cluster.brokers, cluster.brokers[:2]) if named is None else (str(named),)
        )
        self._keys: dict[str, dict[str, object]] = {}
        for name in self._brokers:
            self.configure(name, settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def service_url(self) -> str:
        """Where clients connect: every sidecar's gate."""
        gates = (broker.gate_address for broker in self._brokers.values())
        return f"pulsar://{','.join(gates)}"

    def admin_url(self, name: str) -> str:
        """The admin API of a broker's sidecar."""
        return self._brokers[name].admin_url

    def configuration_file(self, name: str) -> Path:
        """Where the configuration of a broker's sidecar is."""
        return self._directory / f"{_program(name)}.toml"

    def log_file(self, name: str) -> Path:
        """Where the output of a broker's sidecar goes."""
        return self._programs.log_file(_program(name))

    def start(self, *names: str, timeout_s: float = 60.0) -> None:
        """Start the sidecars of these brokers, or all, and wait until they are ready.

        Raises:
            LocalClusterError: one ended, or was not ready in `timeout_s` seconds after those before it;
                its last answer and its log's end are in the text.
        """
        wanted = names or tuple(self._brokers)
        for name in wanted:
            made = command(self.configuration_file(name), self._program)
            self._programs.start(_program(name), made)
            self._running.add(name)
        for name in wanted:
            url = f"{self.admin_url(name)}/quota/v1/ready"
            alive = partial(self._require_alive, name)
            ready = partial(rest.request, "GET", url, timeout_s=_PROBED_WITHIN_S)
            try:
                insist(ready, f"The sidecar of {name} is not ready", alive, timeout_s)
            except LocalClusterError as error:
                log = processes.tail(self.log_file(name))
                raise LocalClusterError(f"{error}\n{log}") from error

    def pid(self, name: str) -> int:
        """The pid of a running sidecar; what it has started is its family (`processes.family`)."""
        return self._programs.process(_program(name)).pid

    def gate(self, name: str) -> ProcessIdentity:
        """The process that has the connections of a broker's clients.

        Raises:
            LocalClusterError: there is none.
        """
        port = self._brokers[name].gate_port
        process = processes.listener(processes.family(self.pid(name)), port)
        if process is None:
            raise LocalClusterError(f"No process listens at the gate of {name}, port {port}.")
        return process

    def configure(self, name: str, settings: Mapping[str, object]) -> None:
        """Write one sidecar's configuration anew, addresses and these settings, for its next start."""
        broker = self._brokers[name]
        self._keys[name] = configuration(broker, self._cluster, self.bus_topics, settings)
        write_configuration(self.configuration_file(name), self._keys[name])

    def reload(self, name: str, settings: Mapping[str, object]) -> None:
        """Change these keys of one sidecar's configuration; if it runs, have it read them again."""
        self._keys[name] |= settings
        write_configuration(self.configuration_file(name), self._keys[name])
        if name in self._running:
            processes.send_signal(self._programs.process(_program(name)), signal.SIGHUP)

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Send one sidecar a deadly signal and wait until it is gone, and what it has started.

        Raises:
            LocalClusterError: it did not end in time.
        """
        self._outlast(name, self._programs.process(_program(name)), number)

    def kill_gate(self, name: str) -> int | None:
        """SIGKILL the process of a gate and wait until its sidecar is gone; return its exit code.

        Raises:
            LocalClusterError: it did not end in time.
        """
        return self._outlast(name, self.gate(name), signal.SIGKILL)

    def stop(self) -> None:
        """End all that run."""
        ended = [self._programs.release(_program(name)) for name in self._running]
        self._running.clear()
        processes.stop_all(ended, _STOP_GRACE_S)

    def limit(self, group: str, definition: Mapping[str, object]) -> None:
        """Create or change a group at the first sidecar.

        Raises:
            AdminRestError: it is refused.
        """
        first = next(iter(self._brokers))
        url = f"{self.admin_url(first)}/admin/v2/resourcegroups/{group}"
        rest.request("PUT", url, definition)

    def attach(self, namespace: str, group: str) -> None:
        """Attach a namespace to a group at the second sidecar, and wait until all that run know.

        Load before that would pass a gate that does not know what to limit. What is done at one acts at
        all: the group is made at another one.

        Raises:
            LocalClusterError: it is refused for two minutes, or one does not know of it for as long.
        """
        at_one = list(self._brokers)[min(1, len(self._brokers) - 1)]
        path = f"/admin/v2/namespaces/{namespace}/resourcegroup/{group}"
        url = f"{self.admin_url(at_one)}{path}"
        insist(partial(rest.request, "POST", url), f"Attaching {namespace} fails")
        for name in self._brokers:
            knows = partial(self._knows_attachment, name, namespace, group)
            wait_until(knows, f"{name} misses the attachment of {namespace}")

    def _knows_attachment(self, name: str, namespace: str, group: str) -> bool:
        if not self._is_alive(name):
            return True
        told = rest.request("GET", f"{self.admin_url(name)}/quota/v1/groups/{group}")
        return namespace in json.loads(told)["attachments"]["namespaces"]

    def _is_alive(self, name: str) -> bool:
        return name in self._running and processes.is_alive(self._programs.process(_program(name)))

    def _require_alive(self, name: str) -> None:
        if not self._is_alive(name):
            raise LocalClusterError(f"The sidecar of {name} ended by itself:")

    def _outlast(self, name: str, struck: ProcessIdentity, number: signal.Signals) -> int | None:
        """Signal one process of a sidecar, and wait until all of them are gone."""
        self._running.remove(name)
        process = self._programs.release(_program(name))
        family = processes.family(process.pid)
        processes.send_signal(struck, number)
        if not all(processes.wait_until_gone(each, _STOP_GRACE_S) for each in family):
            processes.stop_all(family, grace_s=0)
            raise LocalClusterError(
                f"The sidecar of {name} still runs after {number.name} to process {struck.pid}."
            )
        return processes.exit_code(process)


def command(configuration_file: Path, program: Sequence[str] = PROGRAM) -> tuple[str, ...]:
    """Return the command that starts the sidecar with this configuration."""
    options = ("sidecar", "--config", str(configuration_file))
    return (sys.executable, *program, *options)


def configuration(
    broker: Broker,
    cluster: Cluster,
    topics: Sequence[str],
    settings: Mapping[str, object] = MappingProxyType({}),
) -> dict[str, object]:
    """The configuration keys of a broker's sidecar: addresses and these settings.

    With native enforcement there is no gate, and keys of one would be refused.
    """
    # The topics' name may be the one that PIP-82 gives it.
    bus_names = {} if PIP_82_TOPICS in settings else {"bus_topics": list(topics)}
    # The own broker first, so that a sidecar needs no other to find the bus.
    addresses = [broker, *(other for other in cluster.brokers if other != broker)]
    bus = ",".join(address.service_address for address in addresses)
    keys: dict[str, object] = {
        "broker_id": broker.name,
        "gate_listen": at(broker.host, broker.gate_port),
        "gate_upstream": at(broker.host, broker.gate_upstream_port),
        "admin_listen": at(broker.host, broker.admin_port),
        "broker_web_url": broker.web_url,
        "bus_service_url": f"pulsar://{bus}",
        "zookeeper_servers": cluster.state.zookeeper_connect,
        # Clients of demos and tests go round gates on purpose, and figures are those of the gates.
        "reconcile_seconds": 0,
    }
    keys |= bus_names | dict(settings)
    if keys.get("enforcement_path") == "native":
        return {key: value for key, value in keys.items() if not key.startswith("gate_")}
    return keys


def write_configuration(file: Path, keys: Mapping[str, object]) -> None:
    """Write a configuration file."""
    # Strings, numbers and lists of strings are written alike in JSON and TOML.
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))


def bus_topics(brokers: Sequence[Broker], owners: Sequence[Broker]) -> tuple[str, ...]:
    """Names of bus topics, one for each of these owners and owned by it."""
    topics = Topics(brokers)
    topics.create_tenant(BUS_NAMESPACE.partition("/")[0])
    topics.create_namespace(BUS_NAMESPACE, _BUNDLES)
    found = topics.one_for_each_broker(BUS_NAMESPACE, "quota-usage", "non-persistent")
    return tuple(found[owner.name] for owner in owners)


def _program(broker: str) -> str:
    return f"{broker}-sidecar"
