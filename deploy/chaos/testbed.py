"""The scene of mishaps: a cluster, sidecars behind links that the bench controls, and load.

Between every sidecar and every ZooKeeper stands a link, another between every sidecar and every
broker's bus (network_paths.py), and one between each gate and its broker, whose upstream is a setting.
Under native enforcement there are no gates: clients connect to the brokers themselves.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Self

import pulsar

from coordinator.config.model import GATE, NATIVE
from deploy.chaos import LISTENERS, clients
from deploy.chaos.checker.history import Delivery, Sent, TopicMessages
from deploy.chaos.links import Link, Links
from deploy.chaos.network_paths import NetworkPaths, open_network_paths
from deploy.clients import quiet_client
from deploy.local import rest
from deploy.local.cluster import Cluster
from deploy.local.errors import WrongUseError
from deploy.local.programs import Programs
from deploy.local.sidecars import PROGRAM, Sidecars
from deploy.local.state import Broker
from deploy.local.topics import Topics
from deploy.local.waiting import insist, wait_until

TENANT = "chaos"
LIMIT = 600
#: Of every topic: more than the whole limit, so that no broker ever wants less than a fair share.
OFFERED = 700
SESSION_TIMEOUT_S = 4.0
BURST_S = 0.05
#: Of the reports of Pulsar's own resource groups, which native enforcement uses.
INTERVAL_S = 1
_BUNDLES = 12
_READY_WITHIN_S = 60.0
_READ_WITHIN_S = 120.0
_RECORD_FILE_S = 2.0
#: A recorder that failed tries again every two seconds; the rest is for a busy machine.
_RECORDED_WITHIN_S = 10.0


class Testbed:
    """A cluster with sidecars, links and load.

    Args:
        cluster: running, with `LISTENERS`; no sidecars beside it.
        directory: for configurations, records and logs.
        policy: the group's ``overshootPolicy``.
        seed: of what the links roll dice for.
        program: how Python starts a sidecar.
        path: where limits are enforced, ``gate`` or ``native``.
    """

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        policy: str,
        seed: int,
        program: Sequence[str] = PROGRAM,
        *,
        path: str = GATE,
    ) -> None:
        self.cluster = cluster
        self.path = path
        self.directory = directory
        self.policy = policy
        self.brokers: Mapping[str, Broker] = {b.name: b for b in cluster.brokers}
        self.topics = Topics(cluster.brokers)
        name = uuid.uuid4().hex[:8]
        self.group = f"chaos-{name}"
        self._namespace = f"{TENANT}/{name}"
        self._root = f"/{self.group}"
        self._links = Links(seed)
        self._stack = ExitStack()
        self._programs = Programs(directory)
        self.sidecars = Sidecars(cluster, directory, program=program)
        #: By sidecar: to ZooKeeper and to the bus, and of its gate to its broker.
        self.network_paths: dict[str, NetworkPaths] = {}
        self.to_broker: dict[str, Link] = {}
        #: By broker: the topic that is at home there.
        self.topic_of: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Start links, sidecars and load, and limit it.

        Raises:
            LocalClusterError: something did not start.
            WrongUseError: the cluster does not advertise the listeners.
        """
        if any(tuple(broker.listener_ports) != LISTENERS for broker in self.brokers.values()):
            options = " ".join(f"--listener {name}" for name in LISTENERS)
            raise WrongUseError(f"The cluster must have been started with {options}.")
        if self.path == NATIVE and self.cluster.state.resource_group_interval_s != INTERVAL_S:
            options = f"--own-resource-groups --resource-group-interval {INTERVAL_S}"
            raise WrongUseError(f"The cluster must have been started with {options}.")
        try:
            self._stack.enter_context(self._links)
            self._stack.callback(self._programs.stop)
            self._stack.callback(self.sidecars.stop)
            self._open_links()
            self.sidecars.start(timeout_s=_READY_WITHIN_S)
            self._make_topics()
            self._limit()
            self._start_clients()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def links(self) -> Links:
        """The links, to be made worse and sound again."""
        return self._links

    @property
    def service_url(self) -> str:
        """Where clients connect: every gate, or every broker where there is none."""
        if self.path == GATE:
            return self.sidecars.service_url
        return f"pulsar://{self._broker_addresses}"

    @property
    def burst_s(self) -> float:
        """Seconds of its part that a bucket may have saved up, wherever it is."""
        return BURST_S if self.path == GATE else INTERVAL_S / (INTERVAL_S + 1)

    @property
    def web_urls(self) -> dict[str, str]:
        """The admin REST of every broker."""
        return {name: broker.web_url for name, broker in self.brokers.items()}

    def come_home(self) -> None:
        """Bring every topic back to its broker, as the cluster's own shedding would in time."""
        for name, topic in self.topic_of.items():
            move = partial(self.topics.move, topic, self.brokers[name])
            insist(move, f"{topic} is not back at {name}", within_s=_READY_WITHIN_S)

    def end_publishing(self) -> None:
        """End the publisher, once it has its receipts."""
        self._programs.end("publish", grace_s=_READ_WITHIN_S)

    def end_consuming(self) -> None:
        """End the consumer, once nothing more comes."""
        self._programs.end("consume", grace_s=_READ_WITHIN_S)

    def check(self) -> None:
        """See that the clients still run.

        Raises:
            LocalClusterError: one ended by itself.
        """
        self._programs.check()

    def unsettled(self) -> list[str]:
        """Changes of the group that are still under way, as any sidecar tells them."""
        url = self.sidecars.admin_url(next(iter(self.brokers)))
        operations = json.loads(
            rest.request("GET", f"{url}/quota/v1/operations?group={self.group}")
        )
        return [
            f"{operation['text']} is {operation['state']}"
            for operation in operations
            if operation["state"] in ("accepted", "converging")
        ]

    def not_recording(self) -> list[str]:
        """The sidecars that have recorded nothing lately."""
        since_s = time.time() - _RECORDED_WITHIN_S
        return [
            name
            for name in self.brokers
            if all(
                file.stat().st_mtime < since_s for file in self._record_dir(name).rglob("*.parquet")
            )
        ]

    def diaries(self) -> list[TopicMessages]:
        """Read the records of clients and the messages in brokers, topic by topic."""
        names = list(self.topic_of.values())
        sent: list[list[Sent]] = [[] for _ in names]
        delivered: list[list[Delivery]] = [[] for _ in names]
        for line in self._diary("publish").read_text().splitlines():
            place, number, sent_s, outcome = line.split()
            sent[int(place)].append(_sent(int(number), float(sent_s), outcome))
        for line in self._diary("consume").read_text().splitlines():
            place, number, message_id, at_s = line.split()
            delivered[int(place)].append(Delivery(int(number), message_id, float(at_s)))
        return [
            TopicMessages(
                name, sorted(sent[n], key=lambda s: s.number), self._stored(name), delivered[n]
            )
            for n, name in enumerate(names)
        ]

    def _open_links(self) -> None:
        self.network_paths = open_network_paths(self._links, self.cluster)
        for name, broker in self.brokers.items():
            self._configure(name, broker)

    def _configure(self, name: str, broker: Broker) -> None:
        settings: dict[str, object] = {
            **self.network_paths[name].keys,
            "enforcement_path": self.path,
            "zookeeper_root": self._root,
            "zookeeper_session_timeout_seconds": SESSION_TIMEOUT_S,
            "check_invariants": True,
            "record_dir": str(self._record_dir(name)),
            "record_file_seconds": _RECORD_FILE_S,
        }
        if self.path == GATE:
            self.to_broker[name] = self._links.open(broker.gate_upstream_port)
            settings["gate_upstream"] = f"127.0.0.1:{self.to_broker[name].port}"
            settings["burst_seconds"] = BURST_S
        self.sidecars.configure(name, settings)

    def _make_topics(self) -> None:
        self.topics.create_tenant(TENANT)
        self.topics.create_namespace(self._namespace, _BUNDLES)
        # The checker reads all of it at the end.
        self.topics.keep_everything(self._namespace)
        self.topic_of = self.topics.one_for_each_broker(self._namespace, "topic")

    def _limit(self) -> None:
        body = {"publishRateInMsgs": LIMIT, "overshootPolicy": self.policy}
        self.sidecars.limit(self.group, body)
        self.sidecars.attach(self._namespace, self.group)
        if self.path == NATIVE:
            path = f"/admin/v2/namespaces/{self._namespace}/resourcegroup"
            wait_until(
                lambda: self.group in rest.request("GET", f"{self.cluster.web_url()}{path}"),
                "Pulsar does not know the attachment",
                within_s=_READY_WITHIN_S,
            )

    def _start_clients(self) -> None:
        topics = [word for topic in self.topic_of.values() for word in ("--topic", topic)]
        for part in ("consume", "publish"):
            command = [sys.executable, "-m", "deploy.chaos.clients", part, *topics]
            command += ["--url", self.service_url, "--rate", str(OFFERED)]
            command += ["--out", str(self._diary(part))]
            self._programs.start(part, command)

    def _record_dir(self, name: str) -> Path:
        return self.directory / "recorded" / name

    def _diary(self, part: str) -> Path:
        return self.directory / f"{part}.txt"

    @property
    def _broker_addresses(self) -> str:
        return ",".join(f"127.0.0.1:{broker.broker_port}" for broker in self.brokers.values())

    def _stored(self, topic: str) -> list[Delivery]:
        url = f"pulsar://{self._broker_addresses}"
        with closing(quiet_client(url, listener_name="internal")) as client:
            reader = client.create_reader(topic, pulsar.MessageId.earliest)
            found = []
            while reader.has_message_available():
                message = reader.read_next(timeout_millis=int(_READ_WITHIN_S * 1000))
                name = clients.name_of(message.message_id())
                found.append(Delivery(int(message.data()), name, time.monotonic()))
            return found


def _sent(number: int, sent_s: float, outcome: str) -> Sent:
    """Read how a message ended: with a receipt, with nothing, or with an error."""
    if outcome == "-":
        return Sent(number, sent_s, None)
    try:
        return Sent(number, sent_s, float(outcome))
    except ValueError:
        return Sent(number, sent_s, None, outcome)
