"""A sidecar whose metrics of backlogs have no topics."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from deploy.local.state import Broker
from tests.conftest import Connect, Figure
from tests.integration.backlogs import NAMESPACE, Bench, publish, sample
from tests.integration.world import eventually

pytestmark = pytest.mark.cluster

BROKER = "broker-3"
SETTINGS = {
    "backlog_check_seconds": 1.0,
    "backlog_topic_metrics": False,
    "backlog_enforcement_seconds": 1.0,
    "backlog_enforced_namespaces": [NAMESPACE],
}


@pytest.fixture(scope="module")
def bench(cluster: Cluster, sidecars: Sidecars) -> Iterator[Bench]:
    """One of the session's sidecars has other settings for a time."""
    sidecars.end(BROKER)
    sidecars.configure(BROKER, SETTINGS)
    sidecars.start(BROKER)
    made = Bench(cluster, sidecars)
    made.drop_quotas()
    yield made
    made.drop_quotas()
    made.http.close()
    sidecars.end(BROKER)
    sidecars.configure(BROKER, {})
    sidecars.start(BROKER)


def topic_at(bench: Bench, name: str, broker: Broker) -> str:
    """A new topic, moved to a broker: of some namespaces a broker serves none."""
    topic, owner = bench.topic(name)
    if owner != broker:
        bench.topics.move(topic, broker)
    return topic


@pytest.mark.verify
@pytest.mark.shows("pip-323/evictions-namespace", "pip-323/no-namespace-age")
def test_metrics_without_topics_have_evictions_by_namespace_and_no_age(
    bench: Bench, connect: Connect, figure: Figure
) -> None:
    """Evictions of two topics are one number; their ages cannot be added up."""
    evictions = "pulsar_storage_backlog_quota_exceeded_evictions_total"
    bench.set_quota("destination_storage", "consumer_backlog_eviction", 20_600)
    client = connect(bench.sidecars.service_url)
    owner = bench.cluster.broker(BROKER)
    for number in range(2):
        topic = topic_at(bench, f"labels-{number}", owner)
        client.subscribe(topic, "a").close()
        publish(client, topic, 40)

    def count() -> float | None:
        return sample(
            bench.sidecar_metrics(owner), evictions, namespace=NAMESPACE, quota_type="size"
        )

    eventually(lambda: (count() or 0) >= 2, "evictions from both topics")
    ours = bench.sidecar_metrics(owner)
    assert "pulsar_storage_backlog_age_seconds{" not in ours
    assert not re.search(r"^pulsar_storage_backlog\w*{[^}]*topic=", ours, re.MULTILINE)
    figure("pip-323/evictions-namespace", f"{count():.0f} of two topics, by size")
