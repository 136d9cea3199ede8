"""A small cluster of some release with sidecars, and the counts of its brokers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from deploy.background import Background
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars
from tests.attacks.raw import RawClient
from tests.clients.harness import NamespaceMaker, Outcome, run_scenes
from tests.clients.releases import Release
from tests.integration.sliding import Counted, sliding
from tests.integration.world import broker_metrics, eventually

_WINDOW_S: Final = 7.0
_WINDOWS_MAX: Final = 15
"""One begins each second: all together last as long as three that stand back to back."""


class Reading(NamedTuple):
    """The brokers' counts of published messages, and the moments around the reading, in seconds."""

    messages: int
    asked_s: float
    answered_s: float

    @property
    def middle_s(self) -> float:
        """The moment that the counts are taken for."""
        return (self.asked_s + self.answered_s) / 2


class ReleaseWorld:
    """A cluster of a release with sidecars.

    Args:
        cluster: running.
        sidecars: beside all its brokers.
        http: for questions to both.
        directory: for the clients' logs.
    """

    def __init__(
        self, cluster: Cluster, sidecars: Sidecars, http: httpx.Client, directory: Path
    ) -> None:
        self._cluster = cluster
        self._sidecars = sidecars
        self._http = http
        self._directory = directory
        self._namespaces = NamespaceMaker(cluster)
        #: The addresses for clients: the gates'.
        self.service_url = sidecars.service_url
        #: The highest count of each topic so far.
        self._seen: Counter[str] = Counter()

    def namespace(self) -> str:
        """Make a namespace."""
        return self._namespaces.make()

    def scale(self, topic: str) -> None:
        """Create a scalable topic of two segments."""
        self._namespaces.requests(f"scale {topic} 2")

    def accepted_producers(self, topic: str) -> int:
        """Ask every gate for a producer on a topic; return how many brokers accept it."""
        accepted = 0
        for broker in self._cluster.brokers:
            with RawClient(broker.gate_port) as client:
                accepted += client.open_producer(topic)
        return accepted

    def limit_namespace(self, namespace: str, **rates: int) -> None:
        """Attach the namespace to a group of its own with these rates."""
        admin, group = self._sidecars.admin_url("broker-1"), namespace.replace("/", "-")
        self._http.put(f"{admin}/admin/v2/resourcegroups/{group}", json=rates).raise_for_status()
        path = f"/admin/v2/namespaces/{namespace}/resourcegroup/{group}"
        self._http.post(admin + path).raise_for_status()

    def limit_topic(self, namespace: str, name: str, rate: int) -> None:
        """Limit the publishes to a scalable topic, and wait until every sidecar knows."""
        path = f"/quota/v1/topic/{namespace}/{name}/publishRate"
        body = {"publishThrottlingRateInMsg": rate}
        url = self._sidecars.admin_url("broker-1") + path
        self._http.post(url, json=body).raise_for_status()
        topic = f"topic://{namespace}/{name}"
        eventually(
            lambda: all(self._is_limited(broker.name, topic) for broker in self._cluster.brokers),
            "the limit at all sidecars",
        )

    def _is_limited(self, broker: str, topic: str) -> bool:
        path = f"/quota/v1/usage/{topic.replace('/', '%2F')}"
        return self._http.get(self._sidecars.admin_url(broker) + path).is_success

    def explained(self, limited: str, broker: str) -> Any:
        """Why a broker's part of a group's or scalable topic's limit is what it is."""
        path = f"/quota/v1/explain/{limited.replace('/', '%2F')}"
        return self._http.get(self._sidecars.admin_url(broker) + path).raise_for_status().json()

    def local_limits(self, limited: str) -> dict[str, int]:
        """Each broker's part of a limit on publishes, as its own sidecar has it."""
        return {
            broker.name: int(self.explained(limited, broker.name)["localLimit"])
            for broker in self._cluster.brokers
        }

    def statistics(self, topic: str, kind: str) -> Any:
        """Ask a broker for a persistent topic's `stats` or `partitioned-stats`."""
        url = f"{self._cluster.web_url()}/admin/v2/{topic.replace('://', '/')}/{kind}"
        return self._http.get(url, follow_redirects=True).raise_for_status().json()

    def play(self, client: Release, namespace: str, *scenes: str) -> list[Outcome]:
        """Run scenes of a client's programme."""
        log = self._directory / f"{client.name}-{scenes[0]}.log"
        requests = self._namespaces.requests
        return run_scenes(client.launch(), self.service_url, namespace, requests, log, scenes)

    @contextmanager
    def natively(self, directory: Path) -> Iterator[None]:
        """Steer the brokers' own limiters meanwhile, and let clients go straight to the brokers."""
        self._sidecars.stop()
        gates = self.service_url
        try:
            with Sidecars(self._cluster, directory, {"enforcement_path": "native"}) as native:
                native.start()
                ports = ",".join(f"127.0.0.1:{each.broker_port}" for each in self._cluster.brokers)
                self.service_url = f"pulsar://{ports}"
                yield
        finally:
            self.service_url = gates
            self._sidecars.start()

    def published(self, namespace: str, domain: str = "") -> Reading:
        """Read what all brokers counted for a namespace since their start, of one domain or all."""
        asked_s = time.monotonic()
        for broker in self._cluster.brokers:
            for line in broker_metrics(self._http, broker).splitlines():
                if line.startswith("pulsar_in_messages_total{") and f"://{namespace}/" in line:
                    # A sealed segment may be listed no more; what it took in stays counted.
                    labels, _, value = line.rpartition("} ")
                    self._seen[labels] = max(self._seen[labels], int(float(value.split()[0])))
        topic = f'"{domain}://{namespace}/' if domain else f"://{namespace}/"
        messages = sum(count for labels, count in self._seen.items() if topic in labels)
        return Reading(messages, asked_s, time.monotonic())

    def has_published(self, namespace: str, domain: str = "") -> bool:
        """Return whether the brokers have counted a message."""
        return self.published(namespace, domain).messages > 0

    def comes_to(self, namespace: str, limit: int, within: float, burst: int = 0) -> None:
        """Measure windows of 7 s until one is at the limit; of three back to back none may be above it.

        They slide, as a machine that stands still for longer than a bucket's burst loses what would have
        passed then.

        Args:
            namespace: counted, all its topics.
            limit: messages per second.
            within: part of the limit that a window may be off.
            burst: messages that pass at once from time to time; a window may hold one burst more than its
                time is due.
        """
        least, most = (1 - within) * limit, (1 + within) * limit + burst / _WINDOW_S
        rates: list[float] = []
        for rate in sliding(lambda: self._counted(namespace), _WINDOW_S, 1.0):
            rates.append(rate[namespace])
            if (len(rates) - 1) % _WINDOW_S == 0:
                assert rates[-1] <= most, f"{rates} of {limit}/s"
            if least <= rates[-1] <= most:
                return
            assert len(rates) < _WINDOWS_MAX, f"{rates} of {limit}/s"

    def _counted(self, namespace: str) -> Counted:
        reading = self.published(namespace)
        return {namespace: (reading.messages, reading.middle_s)}

    def rate(self, namespace: str, seconds: float) -> float:
        """Return the messages per second that the brokers take in, over this time."""
        before = self.published(namespace)
        time.sleep(seconds)
        after = self.published(namespace)
        return (after.messages - before.messages) / (after.middle_s - before.middle_s)


class Readings(Background):
    """Reads the brokers' counts four times a second."""

    def __init__(self, world: ReleaseWorld, namespace: str) -> None:
        super().__init__({"reading": self._read})
        self._world = world
        self._namespace = namespace
        self.seen: list[Reading] = []

    def _read(self) -> None:
        while not self._stop.is_set():
            self.seen.append(self._world.published(self._namespace))
            self._stop.wait(0.25)


@contextmanager
def world_of(
    pulsar: str, directory: Path, keys: Mapping[str, object] | None = None
) -> Iterator[ReleaseWorld]:
    """Start two brokers of a release with sidecars.

    Args:
        pulsar: the release.
        directory: for everything that is written.
        keys: of the sidecars' configuration, beyond the addresses.
    """
    options = ClusterOptions(
        state_dir=directory / "cluster",
        brokers=2,
        pulsar=pulsar,
        own_resource_groups=True,
        resource_group_interval_s=1,
        quick=True,
    )
    with (
        Cluster.start(options) as cluster,
        Sidecars(cluster, directory, keys or {}) as sidecars,
        httpx.Client(trust_env=False, timeout=30.0) as http,
    ):
        sidecars.start()
        yield ReleaseWorld(cluster, sidecars, http, directory)
