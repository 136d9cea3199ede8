"""Backlogs of real topics: ages beside the truth and beside the broker's own, and quotas enforced."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pulsar
import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from deploy.local.state import Broker
from deploy.local.topics import Topics
from tests.integration.world import TENANT, eventually

pytestmark = pytest.mark.cluster

NAMESPACE = f"{TENANT}/backlog"
DRY = f"{TENANT}/backlog-dry"
CHECK_S = 1.0
Connect = Callable[[str], pulsar.Client]


class Bench:
    """A sidecar beside every broker that looks every second, and topics of a namespace."""

    def __init__(self, cluster: Cluster, sidecars: Sidecars) -> None:
        self.cluster = cluster
        self.sidecars = sidecars
        self.topics = Topics(cluster.brokers)
        self.http = httpx.Client(trust_env=False, timeout=30.0, follow_redirects=True)
        self.topics.create_tenant(TENANT)
        for namespace in (NAMESPACE, DRY):
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
        ours = self.http.get(f"{self.sidecars.admin_url(broker.name)}/metrics")
        theirs = self.http.get(f"{broker.web_url}/metrics/")
        return ours.text, theirs.raise_for_status().text

    def metric(self, topic: str, name: str, **labels: str) -> float | None:
        """A sample at the owner's sidecar."""
        owner = self.topics.owner(topic)
        text = self.http.get(f"{self.sidecars.admin_url(owner.name)}/metrics").text
        return sample(text, name, topic=topic, **labels)

    def set_quota(self, kind: str, policy: str, limit: int, namespace: str = NAMESPACE) -> None:
        """A quota of the namespace."""
        field = "limitSize" if kind == "destination_storage" else "limitTime"
        url = f"{self.cluster.brokers[0].web_url}/admin/v2/namespaces/{namespace}/backlogQuota"
        body = {"limitSize": -1, "limitTime": -1, "policy": policy} | {field: limit}
        self.http.post(f"{url}?backlogQuotaType={kind}", json=body).raise_for_status()

    def drop_quotas(self) -> None:
        """No quota any more."""
        for namespace in (NAMESPACE, DRY):
            url = f"{self.cluster.brokers[0].web_url}/admin/v2/namespaces/{namespace}/backlogQuota"
            for kind in ("destination_storage", "message_age"):
                self.http.delete(f"{url}?backlogQuotaType={kind}").raise_for_status()


@pytest.fixture(scope="module")
def bench(
    cluster: Cluster, sidecars: Sidecars, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """The session's sidecars make room for some that look every second, and come back."""
    sidecars.stop()
    settings = {
        "backlog_check_seconds": CHECK_S,
        "backlog_enforcement_seconds": 1.0,
        "backlog_enforced_namespaces": [NAMESPACE],
        "backlog_dry_run_namespaces": [DRY],
    }
    try:
        with Sidecars(cluster, tmp_path_factory.mktemp("backlog"), settings) as own:
            own.start()
            made = Bench(cluster, own)
            yield made
            made.http.close()
    finally:
        sidecars.start()


@pytest.fixture(autouse=True)
def no_quotas(bench: Bench) -> Iterator[None]:
    """Each test sets its own."""
    bench.drop_quotas()
    yield
    bench.drop_quotas()


def publish(client: pulsar.Client, topic: str, count: int, size: int = 1000) -> float:
    """Publish, and return when the first one was, in seconds of the epoch."""
    producer = client.create_producer(topic, batching_enabled=False)
    began = time.time()
    for _ in range(count):
        producer.send(b"x" * size)
    producer.close()
    return began


@pytest.mark.shows(
    "pip-323/topic-backlog",
    "pip-323/age",
    "pip-323/precise",
    "pip-323/age-metric",
    "pip-323/stats-name",
)
def test_ages_agree_with_the_truth_and_with_the_broker(bench: Bench, connect: Connect) -> None:
    """The oldest message of the oldest subscription; acknowledged, it is the next one's."""
    topic, _ = bench.topic("age")
    client = connect(bench.sidecars.service_url)
    slow, fast = client.subscribe(topic, "slow"), client.subscribe(topic, "fast/er one")
    first_s = publish(client, topic, 3)
    time.sleep(2.0)
    second_s = publish(client, topic, 2)
    for _ in range(4):
        fast.acknowledge(fast.receive(10_000))
    check_age(bench, topic, "slow", first_s)
    for _ in range(3):
        slow.acknowledge(slow.receive(10_000))
    check_age(bench, topic, "slow", second_s)
    subscriptions = bench.ours(topic)["subscriptions"]
    assert {found["subscription"] for found in subscriptions} == {"slow", "fast/er one"}


def check_age(bench: Bench, topic: str, subscription: str, published_s: float) -> None:
    """Within 1 s of the truth (over REST), 2 s (metric), and one check of the broker's own."""
    owner = bench.topics.owner(topic)
    stats_url = f"{bench.sidecars.admin_url(owner.name)}/admin/v2/{bench.path(topic)}/stats"

    def agrees() -> bool:
        # Before an acknowledgement is seen, any of those with the same oldest message may be named.
        ours = bench.ours(topic)
        off_s = ours.get("oldestBacklogMessageAgeSeconds", -9) - age_of(published_s)
        named = ours.get("oldestBacklogMessageSubscriptionName")
        return bool(abs(off_s) <= 1 and named == subscription)

    def agrees_as_a_metric() -> bool:
        metric = bench.metric(topic, "pulsar_storage_backlog_age_seconds")
        return metric is not None and abs(metric - age_of(published_s)) <= 2

    def agrees_with_the_broker() -> bool:
        stats = bench.http.get(f"{stats_url}?getEarliestTimeInBacklog=true").json()
        ours = bench.ours(topic)["oldestBacklogMessageAgeSeconds"]
        earliest_s = stats["earliestMsgPublishTimeInBacklogs"] / 1000
        return bool(abs(age_of(earliest_s) - ours) <= 1.5)

    said = f"the age of {topic} is {age_of(published_s):.1f} s, of {subscription}"
    eventually(agrees, said)
    eventually(agrees_as_a_metric, f"{said}, as a metric")
    eventually(agrees_with_the_broker, f"{said}, as the broker has it")


def age_of(published_s: float) -> float:
    """Seconds since then."""
    return time.time() - published_s


@pytest.mark.shows(
    "pip-323/size", "pip-323/stats-fields", "pip-323/two-quotas", "pip-323/namespace-quota"
)
def test_the_four_fields_agree_with_a_broker_that_has_them(bench: Bench, connect: Connect) -> None:
    """Limits at once; age and subscription once the broker itself has looked."""
    bench.set_quota("destination_storage", "consumer_backlog_eviction", 50_000_000)
    bench.set_quota("message_age", "consumer_backlog_eviction", 86_400)
    topic, owner = bench.topic("fields")
    client = connect(bench.sidecars.service_url)
    client.subscribe(topic, "a")
    publish(client, topic, 5)
    fields = ("backlogQuotaLimitSize", "backlogQuotaLimitTime")
    eventually(
        lambda: (
            [bench.ours(topic).get(name) for name in fields]
            == [bench.brokers(topic)[name] for name in fields]
            == [50_000_000, 86_400]
        ),
        "both say the quotas",
    )
    name, age = "oldestBacklogMessageSubscriptionName", "oldestBacklogMessageAgeSeconds"

    def ages_agree() -> bool:
        look = bench.http.get(f"{owner.web_url}/admin/v2/brokers/backlog-quota-check")
        look.raise_for_status()
        ours, theirs = bench.ours(topic), bench.brokers(topic)
        same = ours["backlogSize"] == theirs["backlogSize"] and ours[name] == theirs[name] == "a"
        return bool(same and abs(ours[age] - theirs[age]) <= CHECK_S + 1)

    eventually(ages_agree, "both say the age")
    url = bench.sidecars.admin_url(owner.name)
    passed = bench.http.get(f"{url}/admin/v2/{bench.path(topic)}/stats").json()
    assert passed["backlogQuotaLimitSize"] == 50_000_000

    def metrics_agree() -> bool:
        ours, theirs = (
            sample(text, "pulsar_storage_backlog_age_seconds", topic=topic)
            for text in bench.metrics(owner)
        )
        return ours is not None and theirs is not None and abs(ours - theirs) <= CHECK_S + 1

    eventually(metrics_agree, "both say the age as a metric")


LABELS = {
    "pulsar_storage_backlog_age_seconds": {"cluster", "namespace", "topic"},
    "pulsar_storage_backlog_quota_exceeded_evictions_total": {
        "cluster",
        "namespace",
        "topic",
        "quota_type",
    },
    "pulsar_storage_backlog_quota_check_duration_seconds": {"cluster", "le"},
    "pulsar_broker_storage_backlog_quota_exceeded_evictions_total": {"cluster", "quota_type"},
}


@pytest.mark.shows("pip-323/evictions", "pip-323/evictions-broker", "pip-323/duration")
def test_the_four_metrics_have_the_labels_that_the_broker_gives_them(
    bench: Bench, connect: Connect
) -> None:
    """A dashboard that was made for a broker with these metrics works with any."""
    topic, owner = bench.topic("metric")
    connect(bench.sidecars.service_url).subscribe(topic, "a")

    def same() -> bool:
        ours, theirs = (
            {name: labels_of(text, name) for name in LABELS} for text in bench.metrics(owner)
        )
        return ours == theirs == LABELS

    eventually(same, "the metrics look the same at both")


def sample(text: str, name: str, **labels: str) -> float | None:
    """The first sample with these labels; None when there is none."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    for line in text.splitlines():
        if line.startswith(f"{name}{{") and all(part in line for part in wanted):
            return float(line.rpartition(" ")[2])
    return None


def labels_of(text: str, name: str) -> set[str]:
    """The names of a metric's labels."""
    samples = re.findall(rf"^{name}(?:_bucket)?{{(.+)}} ", text, re.MULTILINE)
    return set(re.findall(r'(\w+)="', "".join(samples)))


def test_a_seek_back_and_an_empty_backlog_are_seen(bench: Bench, connect: Connect) -> None:
    """After a seek the age is the first message's; with all acknowledged it is -1 and names none."""
    topic, _ = bench.topic("seek")
    consumer = connect(bench.sidecars.service_url).subscribe(topic, "a")
    published_s = publish(connect(bench.sidecars.service_url), topic, 3)
    for _ in range(3):
        consumer.acknowledge(consumer.receive(10_000))
    name, age = "oldestBacklogMessageSubscriptionName", "oldestBacklogMessageAgeSeconds"

    def is_empty() -> bool:
        ours = bench.ours(topic)
        return ours.get(age, -1) == -1 and ours.get(name) is None

    eventually(lambda: bool(bench.ours(topic)) and is_empty(), "there is no backlog")
    assert bench.metric(topic, "pulsar_storage_backlog_age_seconds") == -1
    consumer.seek(pulsar.MessageId.earliest)
    check_age(bench, topic, "a", published_s)


@pytest.mark.shows("pip-323/topic-quota", "pip-323/stats-name")
def test_every_partition_has_an_age_at_its_owners_sidecar(bench: Bench, connect: Connect) -> None:
    """Any sidecar answers for the parent topic."""
    name = f"parts-{time.monotonic_ns()}"
    url = bench.cluster.brokers[0].web_url
    path = f"persistent/{NAMESPACE}/{name}"
    bench.http.put(f"{url}/admin/v2/{path}/partitions", json=3).raise_for_status()
    client = connect(bench.sidecars.service_url)
    topic = f"persistent://{NAMESPACE}/{name}"
    client.subscribe(topic, "a")
    quota = {"limitSize": -1, "limitTime": 86_400, "policy": "producer_exception"}
    of_topic = f"{url}/admin/v2/{path}/backlogQuota?backlogQuotaType=message_age"
    bench.http.post(of_topic, json=quota).raise_for_status()
    limit = "backlogQuotaLimitTime"
    parts = [f"{topic}-partition-{index}" for index in range(3)]
    eventually(
        lambda: all(bench.brokers(part)[limit] == 86_400 for part in parts), "brokers know it"
    )
    for part in parts:
        publish(client, part, 1)
    for index in range(3):
        eventually(
            lambda index=index: (
                bench.ours(f"{topic}-partition-{index}").get(  # type: ignore[misc]
                    "oldestBacklogMessageSubscriptionName"
                )
                == "a"
            ),
            f"partition {index} has an age",
        )
    eventually(
        lambda: all(bench.ours(part).get(limit) == 86_400 for part in parts),
        "partitions have the quota of their topic",
    )
    for broker in bench.cluster.brokers:
        answer = bench.http.get(
            f"{bench.sidecars.admin_url(broker.name)}/admin/v2/{path}/partitioned-stats"
        )
        assert "oldestBacklogMessageAgeSeconds" in answer.json()


def test_a_topic_that_moves_is_told_by_its_new_owners_sidecar(
    bench: Bench, connect: Connect
) -> None:
    """Within a check of each, and with the same age."""
    topic, owner = bench.topic("moving")
    client = connect(bench.sidecars.service_url)
    client.subscribe(topic, "a")
    published_s = publish(client, topic, 3)
    check_age(bench, topic, "a", published_s)
    other = next(broker for broker in bench.cluster.brokers if broker.name != owner.name)
    bench.topics.move(topic, other)
    check_age(bench, topic, "a", published_s)
    before = f"{bench.sidecars.admin_url(owner.name)}/quota/v1/{bench.path(topic)}/backlog"
    eventually(lambda: bench.http.get(before).status_code == 404, "its former owner forgets it")


@pytest.mark.shows("pip-323/hold")
def test_connected_producers_are_held_and_released(bench: Bench, connect: Connect) -> None:
    """A broker would let them go on until its next look closes them."""
    topic, _ = bench.topic("hold")
    client = connect(bench.sidecars.service_url)
    consumer = client.subscribe(topic, "a")
    producer = client.create_producer(topic, batching_enabled=False, send_timeout_millis=60_000)
    for _ in range(30):
        producer.send(b"x" * 1000)
    bench.set_quota("destination_storage", "producer_request_hold", 20_000)
    eventually(lambda: deeds(bench, topic) == ["hold producers"], "producers are held")
    arrived: list[object] = []
    producer.send_async(b"held", lambda result, _: arrived.append(result))
    time.sleep(1.5)
    assert arrived == []
    for _ in range(30):
        consumer.acknowledge(consumer.receive(10_000))
    eventually(lambda: bool(arrived), "the held publish passes once there is no backlog")
    assert arrived == [pulsar.Result.Ok]
    assert deeds(bench, topic) == ["hold producers", "release producers"]


@pytest.mark.shows("pip-323/fail")
def test_connected_producers_are_refused_with_the_right_error(
    bench: Bench, connect: Connect
) -> None:
    """A client gets Pulsar's own error."""
    topic, _ = bench.topic("refuse")
    client = connect(bench.sidecars.service_url)
    client.subscribe(topic, "a")
    producer = client.create_producer(topic, batching_enabled=False, send_timeout_millis=20_000)
    for _ in range(30):
        producer.send(b"x" * 1000)
    bench.set_quota("destination_storage", "producer_exception", 20_000)
    eventually(lambda: deeds(bench, topic) == ["refuse publishes"], "publishes are refused")
    with pytest.raises(pulsar.ProducerBlockedQuotaExceededException):
        producer.send(b"refused")


@pytest.mark.shows("pip-323/evict-size", "pip-323/evictions", "pip-323/interval")
def test_a_size_is_evicted_to_nine_tenths_within_seconds(bench: Bench, connect: Connect) -> None:
    """Long before the broker's next look; counted by type at the topic and the broker."""
    topic, _ = bench.topic("evict")
    client = connect(bench.sidecars.service_url)
    client.subscribe(topic, "a")
    publish(client, topic, 40)
    bench.set_quota("destination_storage", "consumer_backlog_eviction", 20_600)
    name = "pulsar_storage_backlog_quota_exceeded_evictions_total"
    eventually(lambda: bench.metric(topic, name, quota_type="size") == 1.0, "one eviction")
    assert bench.metric(topic, name, quota_type="time") == 0.0
    left = bench.brokers(topic)["backlogSize"]
    assert 0.8 * 20_600 <= left <= 0.9 * 20_600  # whole entries of some 1,030 bytes


@pytest.mark.shows("pip-323/evict-age")
def test_an_age_is_evicted_within_seconds(bench: Bench, connect: Connect) -> None:
    """Messages older than nine tenths of the quota go; a broker itself evicts so few only later."""
    bench.set_quota("message_age", "consumer_backlog_eviction", 10)
    topic, owner = bench.topic("expire")
    client = connect(bench.sidecars.service_url)
    client.subscribe(topic, "a")
    publish(client, topic, 4)
    eventually(lambda: deeds(bench, topic) == ["evict"], "the old messages are evicted")
    url = f"{bench.sidecars.admin_url(owner.name)}/quota/v1/backlog/actions"
    (evicted,) = (row for row in bench.http.get(url).json() if row["topic"] == topic)
    assert evicted["outcome"].startswith("a to ")
    eventually(
        lambda: bench.brokers(topic)["subscriptions"]["a"]["msgBacklog"] == 0, "nothing is left"
    )


def test_a_dry_run_evicts_nothing(bench: Bench, connect: Connect) -> None:
    """It says what it would have evicted."""
    bench.set_quota("destination_storage", "consumer_backlog_eviction", 20_600, DRY)
    topic, _ = bench.topic("dry", DRY)
    client = connect(bench.sidecars.service_url)
    client.subscribe(topic, "a")
    publish(client, topic, 40)
    eventually(lambda: "evict" in deeds(bench, topic), "it is written down")
    assert bench.brokers(topic)["backlogSize"] > 40_000


def deeds(bench: Bench, topic: str) -> list[str]:
    """Return the actions on a topic, in order."""
    owner = bench.topics.owner(topic)
    url = f"{bench.sidecars.admin_url(owner.name)}/quota/v1/backlog/actions"
    rows = reversed(bench.http.get(url).json())
    return [row["deed"] for row in rows if row["topic"] == topic]
