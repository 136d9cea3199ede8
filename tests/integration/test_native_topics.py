"""Limits of single topics, held by Pulsar's own policies: real brokers, real clients, nothing between."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pulsar
import pytest

from coordinator.native.engine.rate_policy import DISPATCH, PUBLISH, RatePolicy
from deploy.local.topics import path_of
from tests.integration.native_world import Native, opened
from tests.integration.world import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

NAMESPACE = "native/topics"
"""Without a group."""

SENT = "native/sent"
"""Of a group with a limit of dispatch."""

SENT_LIMIT = 600
AUDIT_LIMIT = 100
"""Of the group of some subscriptions."""

LIMIT = 500
WINDOW_S = 10
HIGH = 100_000


class Limits:
    """Topics with limits of their own, and clients at their brokers' own ports.

    Args:
        native: the brokers and their sidecars.
        client: a stock client.
    """

    def __init__(self, native: Native, client: pulsar.Client) -> None:
        self.native, self.client = native, client

    def limit(self, topic: str, policy: RatePolicy, messages: int | None) -> None:
        """Limit a topic at one sidecar, all its partitions together; None takes the limit away."""
        path = f"/quota/v1/{topic.replace('://', '/')}/{policy.path}"
        if messages is None:
            self.native.api("DELETE", path)
        else:
            self.native.api("POST", path, {policy.messages: messages})

    def policy_of(self, topic: str, policy: RatePolicy) -> Any:
        """A topic's policy in Pulsar, in messages per second; None is none."""
        found = self.native.topics.ask("GET", f"/admin/v2/{path_of(topic)}/{policy.path}")
        return json.loads(found)[policy.messages] if found else None

    def set_policy(self, topic: str, policy: RatePolicy, messages: int) -> None:
        """Set it, as an operator."""
        path = f"/admin/v2/{path_of(topic)}/{policy.path}"
        body = {policy.messages: messages, policy.bytes: -1, **policy.further}
        self.native.topics.ask("POST", path, body)

    def comes_to(self, topic: str, policy: RatePolicy, messages: int | None) -> None:
        """Wait until Pulsar has this policy."""
        eventually(
            lambda: self.policy_of(topic, policy) == messages, f"{policy.path} is {messages}"
        )

    def known_everywhere(self, topic: str) -> None:
        """Wait until each sidecar has found the limit in force: only then it tells who changes it."""

        def is_so() -> bool:
            native = self.native
            urls = (f"{native.sidecars.admin_url(b)}/quota/v1/gate/limits" for b in native.brokers)
            found = [native.http.get(url).json()["topics"] for url in urls]
            return all(topic in [each["topic"] for each in topics] for topics in found)

        eventually(is_so, "the limit is in force at every sidecar")

    @contextmanager
    def published(self, topic: str, batch: int = 1) -> Iterator[None]:
        """A producer that publishes as fast as it may."""
        producer = self.client.create_producer(
            topic,
            batching_enabled=batch > 1,
            batching_max_messages=max(2, batch),
            batching_max_publish_delay_ms=10,
            block_if_queue_full=True,
            max_pending_messages=1_000,
            message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        )
        over = threading.Event()

        def publish() -> None:
            with suppress(pulsar.PulsarException):
                while not over.is_set():
                    producer.send_async(bytes(100), lambda *_: None)

        worker = threading.Thread(target=publish)
        worker.start()
        try:
            yield
        finally:
            over.set()
            worker.join()
            producer.close()

    @contextmanager
    def consumed(self, *topics: str, name: str = "s") -> Iterator[None]:
        """A consumer of each topic, by a subscription of this name; it acknowledges all that it gets."""

        def take(consumer: Any, message: Any) -> None:
            with suppress(pulsar.PulsarException):
                consumer.acknowledge(message)

        kind = pulsar.ConsumerType.Shared
        consumers = [
            self.client.subscribe(topic, name, consumer_type=kind, message_listener=take)
            for topic in topics
        ]
        try:
            yield
        finally:
            for consumer in consumers:
                consumer.close()

    def fill(self, topic: str, messages: int, *names: str) -> None:
        """Give subscriptions of a topic a backlog."""
        for name in names or ("s",):
            kind = pulsar.ConsumerType.Shared
            self.client.subscribe(topic, name, consumer_type=kind).close()
        producer = self.client.create_producer(
            topic, batching_enabled=False, block_if_queue_full=True
        )
        for _ in range(messages):
            producer.send_async(bytes(100), lambda *_: None)
        producer.flush()
        producer.close()

    def rate(self, topics: Sequence[str], policy: RatePolicy, seconds: float = WINDOW_S) -> float:
        """Return the messages per second that pass all these topics together, by brokers' counters."""
        before = [self._counted(topic, policy) for topic in topics]
        time.sleep(seconds)
        after = [self._counted(topic, policy) for topic in topics]
        return sum(
            (now[0] - was[0]) / (now[1] - was[1]) for was, now in zip(before, after, strict=True)
        )

    def passes(self, topic: str, policy: RatePolicy, messages: int) -> None:
        """Wait until this rate passes; a second's worth passes at once, so 20 s have one more or less."""
        last = [0.0]

        def is_so() -> bool:
            last[0] = self.rate([topic], policy, 2 * WINDOW_S)
            return last[0] == pytest.approx(messages, rel=0.06)

        eventually(is_so, f"{messages}/s", last=lambda: last)

    def subscription_rate(self, topic: str, name: str) -> Any:
        """A subscription's dispatch rate in Pulsar, in messages per second; None is none."""
        found = self.native.topics.ask("GET", f"/admin/v2/{path_of(topic)}/{name}/dispatchRate")
        return json.loads(found)[DISPATCH.messages] if found else None

    def sent_to(self, topic: str, name: str) -> int:
        """The messages that a subscription's consumers were sent, by the broker's counter."""
        found = self.native.topics.ask("GET", f"/admin/v2/{path_of(topic)}/stats")
        count: int = json.loads(found)["subscriptions"][name]["msgOutCounter"]
        return count

    def subscription_passes(self, topic: str, name: str, messages: float) -> None:
        """Wait until this rate passes a subscription, for 20 s."""
        last = [0.0]

        def is_so() -> bool:
            began_s, before = time.monotonic(), self.sent_to(topic, name)
            time.sleep(2 * WINDOW_S)
            last[0] = (self.sent_to(topic, name) - before) / (time.monotonic() - began_s)
            return last[0] == pytest.approx(messages, rel=0.06)

        eventually(is_so, f"{messages}/s", last=lambda: last)

    def _counted(self, topic: str, policy: RatePolicy) -> tuple[int, float]:
        asked_s = time.monotonic()
        counters = self.native.topics.counters(topic)
        count = counters.messages_in if policy is PUBLISH else counters.messages_out
        return count, (asked_s + time.monotonic()) / 2


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Native]:
    """Three brokers, and a native sidecar beside each."""
    with opened(tmp_path_factory.mktemp("native-topics")) as world:
        for namespace in (NAMESPACE, SENT):
            world.topics.create_namespace(namespace, 12)
        world.api("PUT", "/admin/v2/resourcegroups/sent", {"dispatchRateInMsgs": SENT_LIMIT})
        world.api("POST", f"/admin/v2/namespaces/{SENT}/resourcegroup/sent")
        yield world


@pytest.fixture
def limits(native: Native) -> Iterator[Limits]:
    """Topics and limits."""
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(native.service_url("broker-1"), logger=quiet)
    yield Limits(native, client)
    client.close()


def one(limits: Limits, name: str, namespace: str = NAMESPACE) -> str:
    """Create a topic without partitions."""
    topic = f"persistent://{namespace}/{name}"
    limits.native.topics.create_topic(topic)
    return topic


@pytest.mark.parametrize("batch", [1, 50], ids=["single", "batches"])
def test_a_topic_publishes_at_its_limit(limits: Limits, batch: int) -> None:
    """Within 3 %; a limit that is changed, or taken away, is so within seconds."""
    topic = one(limits, f"published-{batch}")
    limits.limit(topic, PUBLISH, LIMIT)
    limits.comes_to(topic, PUBLISH, LIMIT)
    with limits.published(topic, batch):
        time.sleep(2)
        for whole in (LIMIT, 2 * LIMIT):
            limits.limit(topic, PUBLISH, whole)
            limits.comes_to(topic, PUBLISH, whole)
            time.sleep(2)  # a full bucket passes at once
            assert limits.rate([topic], PUBLISH) == pytest.approx(whole, rel=0.03)
        limits.limit(topic, PUBLISH, None)
        limits.comes_to(topic, PUBLISH, None)
        eventually(lambda: limits.rate([topic], PUBLISH, 1.0) > 3 * LIMIT, "no limit is left")


def test_partitions_have_one_limit_together(limits: Limits) -> None:
    """Six of them, at three brokers; more that are added later get their part of it."""
    topic = f"persistent://{NAMESPACE}/parts"
    path = f"/admin/v2/{path_of(topic)}/partitions"
    limits.native.topics.ask("PUT", path, 6)
    limits.limit(topic, PUBLISH, 600)
    limits.comes_to(topic, PUBLISH, 100)
    partitions = [f"{topic}-partition-{number}" for number in range(6)]
    with limits.published(topic):
        time.sleep(2)
        assert limits.rate(partitions, PUBLISH) == pytest.approx(600, rel=0.03)
    limits.native.topics.ask("POST", path, 12)
    limits.comes_to(topic, PUBLISH, 50)


def test_a_topics_own_limit_and_its_part_of_the_groups_both_hold(limits: Limits) -> None:
    """The limited one leaves the rest to the other, of the same group."""
    found = limits.native.topics.one_for_each_broker(SENT, "both", "persistent")
    own, other = found["broker-1"], found["broker-2"]
    limits.limit(own, DISPATCH, 50)
    eventually(lambda: limits.policy_of(own, DISPATCH) is not None, "it has a rate")
    for topic in (own, other):
        limits.fill(topic, 40_000)
    with limits.consumed(own, other):
        limits.passes(own, DISPATCH, 50)
        limits.passes(other, DISPATCH, SENT_LIMIT - 50)
    limits.limit(own, DISPATCH, None)
    limits.comes_to(own, DISPATCH, None)


def test_a_dispatch_limit_of_a_topic_is_held_without_a_group(limits: Limits) -> None:
    """By Pulsar's own token bucket."""
    topic = one(limits, "drained")
    limits.limit(topic, DISPATCH, 200)
    limits.comes_to(topic, DISPATCH, 200)
    limits.fill(topic, 10_000)
    with limits.consumed(topic):
        limits.passes(topic, DISPATCH, 200)


def test_subscriptions_share_a_limit_of_their_own(limits: Limits) -> None:
    """Of two topics at two brokers; another subscription of the same topic is not held."""
    native = limits.native
    found = native.topics.one_for_each_broker(NAMESPACE, "audited", "persistent")
    topics = [found["broker-1"], found["broker-2"]]
    native.api("PUT", "/admin/v2/resourcegroups/audit", {"dispatchRateInMsgs": AUDIT_LIMIT})
    paths = [
        f"/quota/v1/subscriptions/{topic.replace('://', '/')}/audit/resourcegroup/audit"
        for topic in topics
    ]
    for path in paths:
        native.api("POST", path)
    for topic in topics:
        limits.fill(topic, 10_000, "audit", "free")
    eventually(
        lambda: all(limits.subscription_rate(topic, "audit") for topic in topics), "they have rates"
    )
    with limits.consumed(*topics, name="free"):
        eventually(
            lambda: all(limits.sent_to(topic, "free") == 10_000 for topic in topics), "not held"
        )
    with limits.consumed(*topics, name="audit"):
        for topic in topics:
            limits.subscription_passes(topic, "audit", AUDIT_LIMIT / 2)
    with limits.consumed(topics[0], name="audit"):
        limits.subscription_passes(topics[0], "audit", AUDIT_LIMIT)
    for path in paths:
        native.api("DELETE", path.removesuffix("/audit"))
    eventually(
        lambda: not any(limits.subscription_rate(topic, "audit") for topic in topics),
        "their rates are gone",
    )


def test_a_topic_that_comes_later_has_its_limit_at_once(limits: Limits) -> None:
    """Three seconds after its first message at the latest; the limit was set before."""
    topic = f"persistent://{NAMESPACE}/late"
    limits.limit(topic, PUBLISH, LIMIT)
    time.sleep(3)
    with limits.published(topic):
        time.sleep(3)
        assert limits.rate([topic], PUBLISH, 5.0) == pytest.approx(LIMIT, rel=0.05)


def test_what_a_tenant_lifts_or_spoils_is_set_again(limits: Limits) -> None:
    """Where more passes than the limit within seconds, and it is told."""
    topic = one(limits, "lifted")
    limits.limit(topic, PUBLISH, LIMIT)
    limits.known_everywhere(topic)
    with limits.published(topic):
        limits.set_policy(topic, PUBLISH, HIGH)
        limits.comes_to(topic, PUBLISH, LIMIT)
        path = f"/admin/v2/{path_of(topic)}/properties"
        limits.native.topics.ask("PUT", path, {PUBLISH.kept_as: "[no rate"})
        time.sleep(2)
        assert limits.rate([topic], PUBLISH) == pytest.approx(LIMIT, rel=0.03)
    eventually(lambda: topic in limits.native.conditions().get("edited", ""), "it is told")


def test_what_an_operator_has_set_comes_back(limits: Limits) -> None:
    """It is the most meanwhile; all sidecars may be killed, and it survives, as does the limit."""
    topic, steered = one(limits, "set"), one(limits, "steered")
    limits.set_policy(topic, PUBLISH, 70)
    limits.comes_to(topic, PUBLISH, 70)
    for each in (topic, steered):
        limits.limit(each, PUBLISH, LIMIT)
    limits.comes_to(steered, PUBLISH, LIMIT)
    assert limits.policy_of(topic, PUBLISH) == 70
    sidecars = limits.native.sidecars
    for name in limits.native.brokers:
        sidecars.end(name, signal.SIGKILL)
    assert limits.policy_of(steered, PUBLISH) == LIMIT
    eventually(lambda: limits.native.off().returncode == 0, "the sidecars' sessions have ended")
    assert limits.policy_of(topic, PUBLISH) == 70
    assert limits.policy_of(steered, PUBLISH) is None
    sidecars.start()
    limits.comes_to(steered, PUBLISH, LIMIT)
    for each in (topic, steered):
        limits.limit(each, PUBLISH, None)
    limits.comes_to(steered, PUBLISH, None)
    limits.comes_to(topic, PUBLISH, 70)
