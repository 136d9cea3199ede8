"""A broker that estimates ages and has default quotas, beside a sidecar that estimates ages, too.

`backlogQuotaDefaultLimitBytes` and `...Second` of the broker's configuration are quotas of each topic
that has no other; `preciseTimeBasedBacklogQuotaCheck` is off, as it is by default.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from deploy.chaos import LISTENERS
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars
from deploy.local.state import Broker
from tests.conftest import Connect, Figure
from tests.integration.backlogs import NAMESPACE, WATCHED, Bench, publish, sample
from tests.integration.world import eventually
from tests.pulsar_version import pulsar_version

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

SIZE, AGE_S = 50_000_000, 100_000
FIELDS = ("backlogQuotaLimitSize", "backlogQuotaLimitTime")
AGE = "oldestBacklogMessageAgeSeconds"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One broker, and a sidecar that looks every second."""
    options = ClusterOptions(
        state_dir=tmp_path_factory.mktemp("cluster"),
        brokers=1,
        quick=True,
        pulsar=pulsar_version(),
        listeners=LISTENERS,
        broker_settings={
            "backlogQuotaCheckEnabled": "false",  # a test asks for it
            "backlogQuotaDefaultLimitBytes": str(SIZE),
            "backlogQuotaDefaultLimitSecond": str(AGE_S),
        },
    )
    settings = {"backlog_age": "estimated", "backlog_check_seconds": 1.0}
    with (
        Cluster.start(options) as cluster,
        Sidecars(cluster, tmp_path_factory.mktemp("sidecars"), settings) as sidecars,
    ):
        sidecars.start()
        made = Bench(cluster, sidecars)
        yield made
        made.http.close()


@pytest.mark.shows("pip-323/defaults")
def test_the_brokers_defaults_are_quotas_of_each_topic(
    bench: Bench, connect: Connect, figure: Figure
) -> None:
    """Of both types, or of the one that the namespace has not: in the answer, and as gauges."""
    bench.set_quota("destination_storage", "producer_exception", SIZE // 2, WATCHED)
    client = connect(bench.sidecars.service_url)
    for namespace, size in ((NAMESPACE, SIZE), (WATCHED, SIZE // 2)):
        topic, broker = bench.topic("defaults", namespace)
        client.subscribe(topic, "a").close()
        publish(client, topic, 1)
        eventually(
            lambda at=broker, of=topic, size=size: (  # type: ignore[misc]
                (answered(bench, of), gauges(bench, at, of)) == ([size, AGE_S], [size, AGE_S])
            ),
            f"{size} bytes and {AGE_S} s",
        )
        assert [bench.brokers(topic)[field] for field in FIELDS] == [size, AGE_S]
    figure("pip-323/defaults", f"{SIZE:,} bytes and {AGE_S:,} s, as at the broker")


def answered(bench: Bench, topic: str) -> list[int | None]:
    """Both bounds, by the sidecar's answer about a topic."""
    answer = bench.ours(topic)
    return [answer.get(field) for field in FIELDS]


def gauges(bench: Bench, broker: Broker, topic: str) -> list[float | None]:
    """Both bounds, by the sidecar's metrics."""
    text = bench.sidecar_metrics(broker)
    names = ("quota_limit", "quota_limit_time")
    return [sample(text, f"pulsar_storage_backlog_{name}", topic=topic) for name in names]


@pytest.mark.shows("pip-323/estimated")
def test_an_estimated_age_is_that_of_the_end_of_the_messages_ledger(
    bench: Bench, connect: Connect, figure: Figure
) -> None:
    """A message in the open ledger has none; a ledger ends when its topic is unloaded."""
    topic, broker = bench.topic("estimated")
    client = connect(bench.sidecars.service_url)
    client.subscribe(topic, "a").close()
    published_s = publish(client, topic, 3)
    eventually(lambda: bench.ours(topic).get("backlogSize", 0) > 3_000, "the backlog is seen")
    assert bench.ours(topic)[AGE] == -1

    eventually(lambda: time.time() > published_s + 3, "the message is older than its ledger's end")
    earliest_s = time.time()
    bench.topics.ask("PUT", f"/admin/v2/{bench.path(topic)}/unload")
    bench.topics.create_topic(topic)
    client.subscribe(topic, "a").close()  # the broker loads it
    latest_s = time.time()

    def ages() -> tuple[int, int]:
        bench.check(broker)
        return bench.ours(topic).get(AGE, -9), bench.brokers(topic)[AGE]

    def agree() -> bool:
        """Within the second that each of them cuts off, and the one between two checks."""
        ours, theirs = ages()
        now_s = time.time()
        return now_s - latest_s - 2 <= ours <= now_s - earliest_s and abs(ours - theirs) <= 2

    eventually(agree, "both say the age of the ledger's end")
    eventually(lambda: ages()[0] >= 5, "it grows")
    ours, theirs = ages()
    assert time.time() - published_s > ours + 2, "it is not the message's"
    told = (
        f"{ours} s ({theirs} s at the broker), {time.time() - published_s:.0f} s after the message"
    )
    figure("pip-323/estimated", told)
