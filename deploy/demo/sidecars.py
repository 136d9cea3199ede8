"""Our sidecars: one beside each broker, the group made by their own REST.

The group is created at the first sidecar and its namespace attached at the second, so that the story
also shows that what is done at one acts at all. The reports' bus has two topics on two brokers, and one
of the two is the broker that dies.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

import httpx

from deploy.demo.errors import DemoError
from deploy.demo.programs import Programs
from deploy.demo.system import GROUP, SENT_GROUP, TENANT, BrokerStatus, RestCall, System
from deploy.demo.targets import SESSION_TIMEOUT_S
from deploy.demo.waiting import wait_until
from deploy.local import sidecars as local_sidecars
from deploy.local.cluster import Cluster
from deploy.local.state import Broker

_TIMEOUT_S = 5.0
#: For what is shown live: a screen that stands still is worse than an empty field.
_STATUS_TIMEOUT_S = 0.5


#: How long what was recorded waits in memory.
_RECORD_FILE_S = 2


def recorded_in(directory: Path) -> Path:
    """Where the sidecars of a run in this directory record to."""
    return directory / "recorded"


class SidecarCluster(System):
    """A cluster with a sidecar beside each broker."""

    name = "pulsar-quota"
    own_resource_groups = False
    limits_dispatch = True
    #: Configuration keys beyond the addresses.
    settings: ClassVar[Mapping[str, object]] = {}

    def __init__(self, cluster: Cluster, programs: Programs, directory: Path, policy: str) -> None:
        """Take a running cluster; nothing else is started yet."""
        super().__init__(cluster, programs, directory, policy)
        self._http = httpx.Client(timeout=_TIMEOUT_S, trust_env=False)

    def close(self) -> None:
        """Close the connections to the sidecars."""
        self._http.close()

    @property
    def addresses(self) -> str:
        """The sidecars' admin APIs."""
        return " ".join(broker.admin_url for broker in self.brokers.values())

    @property
    def client_url(self) -> str:
        """The gates."""
        gates = (broker.gate_address for broker in self.brokers.values())
        return f"pulsar://{','.join(gates)}"

    def set_up(self, limit: int) -> dict[str, str]:
        """Start the sidecars, create group and topics, and attach the namespace."""
        topics = self.make_topics(GROUP)
        brokers = tuple(self.brokers.values())
        # The second is the broker that dies: the bus must not need it.
        bus_topics = local_sidecars.bus_topics(brokers, brokers[:2])
        for broker in self.brokers.values():
            self._write_configuration(broker, bus_topics)
            self._start_sidecar(broker.name)
        for name in self.brokers:
            self._wait_until_serving(name)
        self.set_limit(limit)
        self._attach(GROUP)
        return topics

    def limit_dispatch(self, limit: int) -> dict[str, str]:
        """Create a group with a dispatch limit, and topics of it."""
        topics = self.make_topics(SENT_GROUP)
        definition = {"dispatchRateInMsgs": limit, "overshootPolicy": self.policy}
        first = next(iter(self.brokers))
        answer = self._ask("PUT", first, f"/admin/v2/resourcegroups/{SENT_GROUP}", definition)
        if answer.is_error:
            raise DemoError(f"The limit was refused: {answer.status_code} {answer.text}")
        self._attach(SENT_GROUP)
        return topics

    def set_limit(self, limit: int) -> RestCall:
        """Change the group's limit, at the first sidecar."""
        first = next(iter(self.brokers))
        sent_s = time.monotonic()
        definition = {"publishRateInMsgs": limit, "overshootPolicy": self.policy}
        answer = self._ask("PUT", first, f"/admin/v2/resourcegroups/{GROUP}", definition)
        answered_s = time.monotonic()
        if answer.is_error:
            raise DemoError(f"The limit was refused: {answer.status_code} {answer.text}")
        return RestCall(sent_s, answered_s)

    def is_gone(self, broker: str) -> bool:
        """Say whether a surviving sidecar no longer lists it among the members."""
        survivor = next(name for name in self.brokers if name != broker)
        members = self._ask("GET", survivor, "/quota/v1/members").json()
        return all(member["broker"] != broker for member in members)

    def statuses(self) -> Mapping[str, BrokerStatus]:
        """Return each sidecar's own state and local limit."""
        return {name: self._status(name) for name in self.brokers}

    def kill(self, broker: str) -> float:
        """Kill a broker and its sidecar."""
        killed_s = time.monotonic()
        # First, or it would still tell the others that its broker's producers are gone.
        self.programs.kill(_program(broker))
        super().kill(broker)
        return killed_s

    def bring_back(self, broker: str) -> None:
        """Start a dead broker again, and its sidecar."""
        super().bring_back(broker)
        self._start_sidecar(broker)
        self._wait_until_serving(broker)

    def _write_configuration(self, broker: Broker, bus_topics: tuple[str, ...]) -> None:
        keys = local_sidecars.configuration(broker, self.cluster, bus_topics, self.settings)
        keys["zookeeper_session_timeout_seconds"] = SESSION_TIMEOUT_S
        keys["record_dir"] = str(recorded_in(self.directory))
        keys["record_cluster"] = "demo"
        # One of them is killed: no more than its last two seconds shall be lost.
        keys["record_file_seconds"] = _RECORD_FILE_S
        local_sidecars.write_configuration(self._configuration(broker.name), keys)

    def _start_sidecar(self, broker: str) -> None:
        command = local_sidecars.command(self._configuration(broker))
        self.programs.start(_program(broker), command)

    def _wait_until_serving(self, broker: str) -> None:
        self._wait(partial(self._serves, broker), f"The sidecar of {broker} is not ready")

    def _wait(self, condition: Callable[[], bool], trouble: str) -> None:
        wait_until(condition, trouble, self.programs.check)

    def _serves(self, broker: str) -> bool:
        beside = self.brokers[broker]
        try:
            with socket.create_connection((beside.host, beside.gate_port), _STATUS_TIMEOUT_S):
                return self._is_ready(broker)
        except OSError:
            return False

    def _is_ready(self, broker: str) -> bool:
        try:
            return self._ask("GET", broker, "/quota/v1/ready").is_success
        except httpx.TransportError:
            return False

    def _attach(self, group: str) -> None:
        """Attach the namespace of this name to a group, and wait until all sidecars know it."""
        second = list(self.brokers)[1]
        attachment = f"/admin/v2/namespaces/{TENANT}/{group}/resourcegroup/{group}"
        self._wait(lambda: self._ask("POST", second, attachment).is_success, "Attaching fails")
        for name in self.brokers:
            # Load before that would pass a gate that does not know what to limit.
            knows = partial(self._knows_attachment, name, group)
            self._wait(knows, f"{name} misses the attachment")

    def _knows_attachment(self, broker: str, group: str) -> bool:
        answer = self._ask("GET", broker, f"/quota/v1/groups/{group}")
        namespace = f"{TENANT}/{group}"
        return answer.is_success and namespace in answer.json()["attachments"]["namespaces"]

    def _status(self, broker: str) -> BrokerStatus:
        try:
            health = self._ask("GET", broker, "/quota/v1/health", timeout_s=_STATUS_TIMEOUT_S)
            limits = self._ask("GET", broker, "/quota/v1/limits", timeout_s=_STATUS_TIMEOUT_S)
        except httpx.TransportError:
            return BrokerStatus("DOWN", None)
        local = {group["group"]: group["brokers"] for group in limits.json()}
        own = local.get(GROUP, {}).get(broker)
        return BrokerStatus(health.json()["state"], own and own["publishRateInMsgs"])

    def _ask(
        self,
        method: str,
        broker: str,
        path: str,
        body: object = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> httpx.Response:
        url = f"{self.brokers[broker].admin_url}{path}"
        return self._http.request(method, url, json=body, timeout=timeout_s)

    def _configuration(self, broker: str) -> Path:
        return self.directory / f"{_program(broker)}.toml"


def _program(broker: str) -> str:
    return f"sidecar-{broker}"
