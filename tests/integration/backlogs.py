"""Topics with backlogs, and what a broker and the sidecar beside it say of them."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pulsar

from deploy.background import Background
from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from deploy.local.state import Broker
from deploy.local.topics import Topics
from tests.integration.world import TENANT, broker_metrics, eventually

NAMESPACE = f"{TENANT}/backlog"
DRY = f"{TENANT}/backlog-dry"
WATCHED = f"{TENANT}/backlog-watched"
"""Where sidecars enforce quotas, where they only write it down, and where the broker alone acts."""

DURATION = "pulsar_storage_backlog_quota_check_duration_seconds"


class Bench:
    """A sidecar beside every broker that looks every second, and topics of a namespace."""

    def __init__(self, cluster: Cluster, sidecars: Sidecars) -> None:
        self.cluster = cluster
        self.sidecars = sidecars
        self.topics = Topics(cluster.brokers)
        self.http = httpx.Client(trust_env=False, timeout=30.0, follow_redirects=True)
        self.topics.create_tenant(TENANT)
        for namespace in (NAMESPACE, DRY, WATCHED):
            self.topics.create_namespace(namespace, bundles=4)

    def topic(self, name: str, namespace: str = NAMESPACE) -> tuple[str, Broker]:
        """A new topic and its owner."""
        topic = f"persistent://{namespace}/{name}-{time.monotonic_ns()}"
        self.topics.create_topic(topic)
        return topic, self.topics.owner(topic)

    def path(self, topic: str) -> str:
        """Below /admin/v2 or /quota/v1."""
        return topic.replace("://", "/")

    def ours(self, topic: str) -> dict[str, Any]:
        """Return the answer of the owner's sidecar about a topic."""
        owner = self.topics.owner(topic)
        url = f"{self.sidecars.admin_url(owner.name)}/quota/v1/{self.path(topic)}/backlog"
        answer = self.http.get(url)
        return dict(answer.json()) if answer.status_code == 200 else {}

    def brokers(self, topic: str, kind: str = "stats") -> dict[str, Any]:
        """Return the broker's own answer."""
        url = self.cluster.brokers[0].web_url
        answer = self.http.get(f"{url}/admin/v2/{self.path(topic)}/{kind}")
        answer.raise_for_status()
        return dict(answer.json())

    def metrics(self, broker: Broker) -> tuple[str, str]:
        """All metrics of a broker's sidecar, and of the broker itself."""
        return self.sidecar_metrics(broker), broker_metrics(self.http, broker)

    def sidecar_metrics(self, broker: Broker) -> str:
        """All metrics of a broker's sidecar."""
        return self.http.get(f"{self.sidecars.admin_url(broker.name)}/metrics").text

    def metric(self, topic: str, name: str, **labels: str) -> float | None:
        """A sample at the owner's sidecar."""
        text = self.sidecar_metrics(self.topics.owner(topic))
        return sample(text, name, topic=topic, **labels)

    def checks_without_a_question(self, broker: Broker, count: int) -> None:
        """Wait until this number of checks in a row has asked for no more than the summaries.

        Known quotas are asked for again, twice a minute.
        """
        asked, checks = self._questions(broker)

        def are_quiet() -> bool:
            nonlocal asked, checks
            now, since = self._questions(broker)
            if now != asked:
                asked, checks = now, since
            return since - checks >= count

        eventually(are_quiet, f"{count} checks without a question")

    def _questions(self, broker: Broker) -> tuple[float, float]:
        """The questions of a broker's sidecar beside the summaries, and its checks."""
        text = self.sidecar_metrics(broker)
        names = ("pulsar_quota_backlog_questions_total", f"{DURATION}_count")
        asked, checks = (
            next(line for line in text.splitlines() if line.startswith(name)) for name in names
        )
        return float(asked.split()[-1]), float(checks.split()[-1])

    def check(self, broker: Broker) -> None:
        """Have the broker make its own check now: what its scheduler does once in an interval."""
        url = f"{broker.web_url}/admin/v2/brokers/backlog-quota-check"
        httpx.get(url, trust_env=False, timeout=30.0).raise_for_status()

    def set_quota(self, kind: str, policy: str, limit: int, namespace: str = NAMESPACE) -> None:
        """A quota of the namespace."""
        field = "limitSize" if kind == "destination_storage" else "limitTime"
        url = f"{self.cluster.brokers[0].web_url}/admin/v2/namespaces/{namespace}/backlogQuota"
        body = {"limitSize": -1, "limitTime": -1, "policy": policy} | {field: limit}
        self.http.post(f"{url}?backlogQuotaType={kind}", json=body).raise_for_status()

    def drop_quotas(self) -> None:
        """No quota any more."""
        for namespace in (NAMESPACE, DRY, WATCHED):
            url = f"{self.cluster.brokers[0].web_url}/admin/v2/namespaces/{namespace}/backlogQuota"
            for kind in ("destination_storage", "message_age"):
                self.http.delete(f"{url}?backlogQuotaType={kind}").raise_for_status()


class OwnChecks(Background):
    """The brokers' own check of backlog quotas, over and over, as if its interval were this short."""

    def __init__(self, bench: Bench, interval_s: float = 0.2) -> None:
        super().__init__({"backlog quotas": self._check})
        self._bench = bench
        self._interval_s = interval_s

    def _check(self) -> None:
        while not self._stop.wait(self._interval_s):
            for broker in self._bench.cluster.brokers:
                self._bench.check(broker)


def publish(client: pulsar.Client, topic: str, count: int, size: int = 1000) -> float:
    """Publish, and return when the first one was, in seconds of the epoch."""
    producer = client.create_producer(topic, batching_enabled=False)
    began = time.time()
    for _ in range(count):
        producer.send(b"x" * size)
    producer.close()
    return began


def sample(text: str, name: str, **labels: str) -> float | None:
    """The first sample with these labels; None when there is none."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    for line in text.splitlines():
        if line.startswith(f"{name}{{") and all(part in line for part in wanted):
            return float(line.rpartition(" ")[2])
    return None
