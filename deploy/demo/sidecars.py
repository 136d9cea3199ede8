"""Our sidecars: one beside each broker, the group made by their own REST.

The group is created at the first sidecar and its namespace attached at the second, so that the story
also shows that what is done at one acts at all. The reports' bus has two topics on two brokers, and one
of the two is the broker that dies.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import httpx

from deploy.demo.system import GROUP, SENT_GROUP, TENANT, BrokerStatus, RestCall, System
from deploy.demo.targets import SESSION_TIMEOUT_S
from deploy.local.cluster import Cluster
from deploy.local.errors import AdminRestError
from deploy.local.programs import Programs
from deploy.local.sidecars import Sidecars

_TIMEOUT_S = 5.0
#: For what is shown live: a screen that stands still is worse than an empty field.
_STATUS_TIMEOUT_S = 0.5

#: One of them is killed: no more than its last two seconds of what is recorded shall be lost.
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
        settings = {
            "zookeeper_session_timeout_seconds": SESSION_TIMEOUT_S,
            "record_dir": str(recorded_in(directory)),
            "record_cluster": "demo",
            "record_file_seconds": _RECORD_FILE_S,
        }
        self.sidecars = Sidecars(
            cluster, directory, settings | dict(self.settings), programs=programs
        )
        self._http = httpx.Client(trust_env=False)

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
        return self.sidecars.service_url

    def set_up(self, limit: int) -> dict[str, str]:
        """Start the sidecars, create group and topics, and attach the namespace."""
        topics = self.make_topics(GROUP)
        self.sidecars.start()
        self.set_limit(limit)
        self.sidecars.attach(f"{TENANT}/{GROUP}", GROUP)
        return topics

    def limit_dispatch(self, limit: int) -> dict[str, str]:
        """Create a group with a dispatch limit, and topics of it."""
        topics = self.make_topics(SENT_GROUP)
        definition = {"dispatchRateInMsgs": limit, "overshootPolicy": self.policy}
        self.sidecars.limit(SENT_GROUP, definition)
        self.sidecars.attach(f"{TENANT}/{SENT_GROUP}", SENT_GROUP)
        return topics

    def set_limit(self, limit: int) -> RestCall:
        """Change the group's limit, at the first sidecar."""
        sent_s = time.monotonic()
        self.sidecars.limit(GROUP, {"publishRateInMsgs": limit, "overshootPolicy": self.policy})
        return RestCall(sent_s, time.monotonic())

    def is_gone(self, broker: str) -> bool:
        """Say whether a surviving sidecar no longer lists it among the members."""
        survivor = next(name for name in self.brokers if name != broker)
        members = self._told(survivor, "/quota/v1/members", _TIMEOUT_S)
        return all(member["broker"] != broker for member in members)

    def statuses(self) -> Mapping[str, BrokerStatus]:
        """Return each sidecar's own state and local limit."""
        return {name: self._status(name) for name in self.brokers}

    def kill(self, broker: str) -> float:
        """Kill a broker and its sidecar."""
        killed_s = time.monotonic()
        # First, or it would still tell the others that its broker's producers are gone.
        self.sidecars.end(broker, signal.SIGKILL)
        super().kill(broker)
        return killed_s

    def bring_back(self, broker: str) -> None:
        """Start a dead broker again, and its sidecar."""
        super().bring_back(broker)
        self.sidecars.start(broker)

    def _status(self, broker: str) -> BrokerStatus:
        try:
            health = self._told(broker, "/quota/v1/health", _STATUS_TIMEOUT_S)
            limits = self._told(broker, "/quota/v1/limits", _STATUS_TIMEOUT_S)
        except httpx.TransportError:
            return BrokerStatus("DOWN", None)
        except AdminRestError as error:
            return BrokerStatus(f"HTTP {error.status}", None)
        local = {group["group"]: group["brokers"] for group in limits}
        own = local.get(GROUP, {}).get(broker)
        return BrokerStatus(health["state"], own and own["publishRateInMsgs"])

    def _told(self, broker: str, path: str, timeout_s: float) -> Any:
        url = f"{self.brokers[broker].admin_url}{path}"
        answer = self._http.get(url, timeout=timeout_s)
        if not answer.is_success:
            raise AdminRestError("GET", url, answer.status_code, answer.text)
        return answer.json()
