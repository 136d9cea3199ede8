"""The subject of the story: a cluster whose brokers share one limit, by whichever means.

`System` is all that the story knows of it, so that ours and Pulsar's own resource groups are put
through the same acts by the same code. What they share is here: the cluster, its topics, and how a
broker dies and comes back.
"""

from __future__ import annotations

import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.targets import GATE, Targets
from deploy.local.cluster import Cluster
from deploy.local.errors import LocalClusterError
from deploy.local.processes import tail
from deploy.local.programs import Programs
from deploy.local.state import Broker
from deploy.local.topics import Topics
from deploy.local.waiting import wait_until

GROUP = "orders"
#: The group of the dispatch limit.
SENT_GROUP = "sent"
TENANT = "demo"
#: The namespace that belongs to the group; of the same name, for readers of a log.
NAMESPACE = f"{TENANT}/{GROUP}"
#: Four for each broker, so that each of them owns some.
_BUNDLES = 12

#: How far below the demo's own priority a broker that comes back runs. On a cluster of machines its start
#: takes no processor time from the others; on one machine of few cores it would, five seconds of a whole
#: core, and the figures would show the machine instead of the coordinator. It keeps that priority, to its
#: own disadvantage. Everything else has the priority that the demo was given: whatever a message or its
#: receipt passes through, load and servers alike, would hold it up if it had less. (Each process leads a
#: session. A kernel that shares its time among sessions first, autogroup, gives each as much anyway.)
POLITE = 10


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A broker's own view of itself: a word, and its part of the limit if it says so."""

    state: str
    limit: int | None


@dataclass(frozen=True, slots=True)
class RestCall:
    """When a request was sent and when it was answered, seconds of CLOCK_MONOTONIC."""

    sent_s: float
    answered_s: float


class System(ABC):
    """A running cluster with a limited group.

    Args:
        cluster: running; its starter stops it.
        programs: where the system's own processes go.
        directory: for its files and logs.
        policy: the group's overshoot policy, if the system knows such a thing.
    """

    #: As people call it.
    name: str
    #: Whether its cluster has Pulsar's own resource groups at work.
    own_resource_groups: bool
    #: Seconds between the reports of these.
    resource_group_interval_s: int = 5
    #: What its figures are held against.
    targets: Targets = GATE
    #: Whether it can limit dispatch.
    limits_dispatch: bool = False

    def __init__(self, cluster: Cluster, programs: Programs, directory: Path, policy: str) -> None:
        self.cluster = cluster
        self.programs = programs
        self.directory = directory
        self.policy = policy
        self.brokers: dict[str, Broker] = {broker.name: broker for broker in cluster.brokers}
        self.topics = Topics(cluster.brokers)

    @property
    @abstractmethod
    def addresses(self) -> str:
        """Where to look while it runs, for people."""

    @property
    def client_url(self) -> str:
        """The service URL for clients: the brokers themselves."""
        addresses = (broker.service_address for broker in self.brokers.values())
        return f"pulsar://{','.join(addresses)}"

    @abstractmethod
    def set_up(self, limit: int) -> dict[str, str]:
        """Make everything ready, the group with its limit included; return a topic for each broker."""

    @abstractmethod
    def set_limit(self, limit: int) -> RestCall:
        """Change the group's limit."""

    def limit_dispatch(self, limit: int) -> dict[str, str]:
        """Limit the dispatch of a group of its own; return a topic of it for each broker.

        Raises:
            NotImplementedError: this system limits none.
        """
        raise NotImplementedError(f"{self.name} limits no dispatch")

    @abstractmethod
    def is_gone(self, broker: str) -> bool:
        """Say whether the others know that this broker is dead."""

    @abstractmethod
    def statuses(self) -> Mapping[str, BrokerStatus]:
        """Return what each broker's side says now; one that does not answer is in it as well."""

    def kill(self, broker: str) -> float:
        """End a broker, and what stands beside it, as a dying machine would; return when."""
        killed_s = time.monotonic()
        self.cluster.kill(broker)
        return killed_s

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Let go of connections; processes are not this object's."""

    def bring_back(self, broker: str) -> None:
        """Start a dead broker again, and what stands beside it.

        Raises:
            LocalClusterError: it does not come back.
        """
        log = self.directory / f"restart-{broker}.log"
        command = [*("nice", "-n", str(POLITE)), sys.executable, "-m", "deploy.local"]
        command += ["start", broker, "--state-dir", str(self.cluster.state_dir)]
        # A process of its own: its priority is inherited by the broker with all its threads, and a
        # demo that is interrupted meanwhile need not wait for it.
        with log.open("wb") as output:
            starting = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until(
                lambda: starting.poll() is not None,
                f"{broker} is not back",
                self.programs.check,
            )
        finally:
            starting.kill()
            starting.wait()
        if starting.returncode != 0:
            raise LocalClusterError(f"{broker} did not come back:\n{tail(log)}")

    def make_topics(self, name: str) -> dict[str, str]:
        """Create this namespace of the demo's tenant with a topic on each broker.

        Returns:
            The topics' full names, by broker.
        """
        namespace = f"{TENANT}/{name}"
        self.topics.create_tenant(TENANT)
        self.topics.create_namespace(namespace, _BUNDLES)
        return self.topics.one_for_each_broker(namespace, "topic")

    def start_load(self, name: str, topic: str, rate: int) -> None:
        """Start a program of this name that publishes `rate` messages a second to the topic."""
        command = self.client_program("deploy.demo.load")
        self.programs.start(name, [*command, "--topic", topic, "--rate", str(rate)])

    def client_program(self, module: str) -> list[str]:
        """Return the command that runs a client's module against this system."""
        return [sys.executable, "-m", module, "--url", self.client_url]
