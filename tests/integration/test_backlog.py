"""Backlogs of real topics: ages beside the truth and beside the broker's own, and quotas enforced."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pulsar
import pytest

from deploy.local.cluster import Cluster
from tests.conftest import Connect, Figure
from tests.integration.backlogs import (
    DRY,
    NAMESPACE,
    WATCHED,
    Bench,
    OwnChecks,
    publish,
    sample,
)
from tests.integration.world import eventually, other_sidecars

pytestmark = pytest.mark.cluster

CHECK_S = 1.0


@pytest.fixture(scope="module")
def bench(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Sidecars that look every second."""
    settings = {
        "backlog_check_seconds": CHECK_S,
        "backlog_enforcement_seconds": 1.0,
        "backlog_enforced_namespaces": [NAMESPACE],
        "backlog_dry_run_namespaces": [DRY],
    }
    directory = tmp_path_factory.mktemp("backlog")
    with other_sidecars(cluster, directory, settings) as own:
        made = Bench(cluster, own)
        yield made
        made.http.close()


@pytest.fixture(autouse=True)
def no_quotas(bench: Bench) -> Iterator[None]:
    """Each test sets its own."""
    bench.drop_quotas()
    yield
    bench.drop_quotas()


@pytest.mark.verify
@pytest.mark.shows(
    "pip-323/topic-backlog",
    "pip-323/age",
    "pip-323/precise",
    "pip-323/age-metric",
    "pip-323/stats-name",
    "pip-323/cached",
)
def test_ages_agree_with_the_truth_and_with_the_broker(
    bench: Bench, connect: Connect, figure: Figure
) -> None:
    """The oldest message of the oldest subscription; acknowledged, it is the next one's."""
    topic, owner = bench.topic("age")
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
    bench.checks_without_a_question(owner, 3)
    check_age(bench, topic, "slow", second_s)
    figure("pip-323/cached", "no question in three checks, while the age grows")


def check_age(bench: Bench, topic: str, subscription: str, published_s: float) -> None:
    """Within 1 s of the truth (over REST), 2 s (metric), and one check of the broker's own."""
    owner = bench.topics.owner(topic)
    stats_url = f"{owner.web_url}/admin/v2/{bench.path(topic)}/stats"

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
        ours = bench.ours(topic).get("oldestBacklogMessageAgeSeconds", -9)
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
        bench.check(owner)
        ours, theirs = bench.ours(topic), bench.brokers(topic)
        ok = ours.get("backlogSize") == theirs["backlogSize"] and ours[name] == theirs[name] == "a"
        return bool(ok and abs(ours[age] - theirs[age]) <= CHECK_S + 1)

    eventually(ages_agree, "both say the age")
    stats = bench.http.get(f"{owner.web_url}/admin/v2/{bench.path(topic)}/stats").json()
    assert stats["backlogQuotaLimitSize"] == 50_000_000

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
    """A dashboard that was made for a broker works; one label more tells the two apart in a sum."""
    topic, owner = bench.topic("metric")
    connect(bench.sidecars.service_url).subscribe(topic, "a")

    def same() -> bool:
        ours, theirs = (
            {name: labels_of(text, name) for name in LABELS} for text in bench.metrics(owner)
        )
        return theirs == LABELS and ours == {n: {*each, "exporter"} for n, each in LABELS.items()}

    eventually(same, "the metrics look the same at both")


def labels_of(text: str, name: str) -> set[str]:
    """The names of a metric's labels."""
    samples = re.findall(rf"^{name}(?:_bucket)?{{(.+)}} ", text, re.MULTILINE)
    return set(re.findall(r'(\w+)="', "".join(samples)))


def test_a_seek_back_and_an_empty_backlog_are_seen(bench: Bench, connect: Connect) -> None:
    """After a seek the age is the first message's; with all acknowledged it is -1 and names none."""
    topic, _ = bench.topic("seek")
    consumer = connect(bench.sidecars.service_url).subscribe(topic, "a")
    published_s = publish(connect(bench.sidecars.service_url), topic, 3)
    check_age(bench, topic, "a", published_s)
    for _ in range(3):
        consumer.acknowledge(consumer.receive(60_000))
    name, age = "oldestBacklogMessageSubscriptionName", "oldestBacklogMessageAgeSeconds"

    def is_empty() -> bool:
        ours = bench.ours(topic)
        metric = bench.metric(topic, "pulsar_storage_backlog_age_seconds")
        return bool(ours) and ours.get(age, -1) == metric == -1 and ours.get(name) is None

    eventually(is_empty, "there is no backlog any more")
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
        answer = bench.http.get(f"{broker.web_url}/admin/v2/{path}/partitioned-stats")
        assert "oldestBacklogMessageAgeSeconds" in answer.json()


@pytest.mark.verify
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
        consumer.acknowledge(consumer.receive(60_000))
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
    """Long before the broker's next look; counted by type at the topic and the broker.

    A broker answers before it has moved the cursor.
    """
    topic, _ = bench.topic("evict")
    client = connect(bench.sidecars.service_url)
    client.subscribe(topic, "a")
    publish(client, topic, 40)
    bench.set_quota("destination_storage", "consumer_backlog_eviction", 20_600)
    name = "pulsar_storage_backlog_quota_exceeded_evictions_total"
    eventually(lambda: bench.metric(topic, name, quota_type="size") == 1.0, "one eviction")
    eventually(
        lambda: bench.brokers(topic)["backlogSize"] <= 0.9 * 20_600,
        "the broker has moved the cursor",
    )
    assert bench.brokers(topic)["backlogSize"] >= 0.8 * 20_600  # whole entries of some 1,030 bytes
    assert bench.metric(topic, name, quota_type="size") == 1.0
    assert bench.metric(topic, name, quota_type="time") == 0.0


@pytest.mark.verify
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


EVICTIONS = "pulsar_storage_backlog_quota_exceeded_evictions_total"


@pytest.mark.verify
@pytest.mark.shows("pip-323/limit-metrics", "pip-323/usage-time")
def test_limits_and_size_are_gauges_as_the_brokers_are(
    bench: Bench, connect: Connect, figure: Figure
) -> None:
    """The four gauges agree with the broker's; age by limit is the used part of the quota."""
    bench.set_quota("destination_storage", "producer_request_hold", 50_000, WATCHED)
    bench.set_quota("message_age", "producer_request_hold", 60, WATCHED)
    topic, owner = bench.topic("gauges", WATCHED)
    client = connect(bench.sidecars.service_url)
    client.subscribe(topic, "a")
    published_s = publish(client, topic, 20)
    names = ("quota_limit", "quota_limit_time", "size")

    def same() -> bool:
        bench.check(owner)
        ours, theirs = (
            [sample(text, f"pulsar_storage_backlog_{name}", topic=topic) for name in names]
            for text in bench.metrics(owner)
        )
        return ours == theirs and ours[:2] == [50_000, 60] and (ours[2] or 0) > 20_000

    eventually(same, "both have the same gauges")

    def used() -> float:
        return bench.metric(topic, "pulsar_quota_backlog_used_ratio", quota_type="time") or 0.0

    # An age grows from check to check; a quarter of the quota is 15 s.
    eventually(lambda: used() > 0.1, "a tenth of the quota is used")
    part, age_s = used(), time.time() - published_s
    assert part == pytest.approx(age_s / 60, abs=0.03)
    figure("pip-323/usage-time", f"{100 * part:.0f} % used at {age_s:.1f} s of 60 s")


@pytest.mark.verify
@pytest.mark.shows("pip-323/broker-evicts", "pip-323/times-exceeded")
def test_what_the_brokers_own_check_does_is_counted(
    bench: Bench, connect: Connect, figure: Figure
) -> None:
    """Evictions by both types, and a quota with another policy that is exceeded and not evicted from."""
    client = connect(bench.sidecars.service_url)
    exceeded = exceedances(bench, "size")
    bench.set_quota("destination_storage", "consumer_backlog_eviction", 20_600, WATCHED)
    size, owner = bench.topic("by-size", WATCHED)
    client.subscribe(size, "a")
    publish(client, size, 40)
    eventually(
        lambda: exceedances(bench, "size") > exceeded, "it is seen that the quota is exceeded"
    )
    with OwnChecks(bench):
        eventually(lambda: (bench.metric(size, EVICTIONS, quota_type="size") or 0) > 0, "evictions")
    agree(bench, size, "size")
    told = f"{bench.metric(size, EVICTIONS, quota_type='size'):.0f} by size"

    bench.drop_quotas()
    bench.set_quota("message_age", "consumer_backlog_eviction", 5, WATCHED)
    age, _ = bench.topic("by-age", WATCHED)
    client.subscribe(age, "a")
    publish(client, age, 40)
    with OwnChecks(bench):
        eventually(lambda: (bench.metric(age, EVICTIONS, quota_type="time") or 0) > 0, "evictions")
    agree(bench, age, "time")
    figure(
        "pip-323/broker-evicts",
        f"{told}, {bench.metric(age, EVICTIONS, quota_type='time'):.0f} by age",
    )

    bench.drop_quotas()
    before = exceedances(bench, "size")
    counted = bench.metric(size, EVICTIONS, quota_type="size")
    bench.set_quota("destination_storage", "producer_exception", 20_600, WATCHED)
    refused, _ = bench.topic("refused", WATCHED)
    client.subscribe(refused, "a")
    publish(client, refused, 40)
    with OwnChecks(bench):
        eventually(lambda: exceedances(bench, "size") > before, "the quota is exceeded once more")
    assert bench.metric(refused, EVICTIONS, quota_type="size") == 0.0
    other = next(broker for broker in bench.cluster.brokers if broker.name != owner.name)
    unloaded_at = f"{bench.sidecars.admin_url(owner.name)}/metrics"
    bench.topics.move(size, other)
    text = bench.http.get(unloaded_at).text
    assert sample(text, EVICTIONS, topic=size, quota_type="size") == counted, "it never falls"
    figure("pip-323/times-exceeded", f"{exceedances(bench, 'size') - exceeded:.0f} times by size")


def agree(bench: Bench, topic: str, kind: str) -> None:
    """Wait until sidecar and broker have counted the same evictions of a topic."""

    def same() -> bool:
        ours, theirs = bench.metrics(bench.topics.owner(topic))
        return sample(ours, EVICTIONS, topic=topic, quota_type=kind) == sample(
            theirs, EVICTIONS, topic=topic, quota_type=kind
        )

    eventually(same, f"as many evictions by {kind} as the broker says")


def exceedances(bench: Bench, kind: str) -> float:
    """Return how often sidecars have seen a quota of the namespace begin to be exceeded."""
    name = "pulsar_quota_backlog_exceedances_total"
    texts = (bench.sidecar_metrics(broker) for broker in bench.cluster.brokers)
    return sum(sample(text, name, namespace=WATCHED, quota_type=kind) or 0 for text in texts)


@pytest.mark.verify
@pytest.mark.shows("pip-323/evict-size")
def test_broker_and_sidecar_that_evict_at_once_evict_no_more_than_one_does(
    bench: Bench, connect: Connect
) -> None:
    """Ten topics, while the broker's own check runs all the time: nine tenths of each quota are left."""
    bench.set_quota("destination_storage", "consumer_backlog_eviction", 20_600)
    client = connect(bench.sidecars.service_url)
    topics = [bench.topic(f"both-{number}")[0] for number in range(10)]
    for topic in topics:
        client.subscribe(topic, "a")
    with OwnChecks(bench, interval_s=0.02):
        for topic in topics:
            publish(client, topic, 40)

        def left() -> dict[str, int]:
            return {topic: bench.brokers(topic)["backlogSize"] for topic in topics}

        eventually(lambda: max(left().values()) <= 20_600, "all are inside their quota")
    # Whole entries of some 1,030 bytes, and one that the broker evicts besides.
    assert min(left().values()) >= 0.9 * 20_600 - 2 * 1_060
