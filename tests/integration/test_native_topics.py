"""Limits of single topics, held by Pulsar's own policies: real brokers, real clients, nothing between."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.native.engine.rate_policy import DISPATCH, PUBLISH, RatePolicy
from deploy.local.topics import path_of
from tests.integration.native_clients import NativeClients, client_of
from tests.integration.native_world import Native, opened
from tests.integration.sliding import WINDOW_S
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
HIGH = 100_000


class Limits(NativeClients):
    """Topics with limits of their own, and their clients."""

    def limit(self, topic: str, policy: RatePolicy, messages: int | None) -> None:
        """Limit a topic at one sidecar, all its partitions together; None takes the limit away."""
        path = f"/quota/v1/{topic.replace('://', '/')}/{policy.path}"
        if messages is None:
            self.native.api("DELETE", path)
        else:
            self.native.api("POST", path, {policy.messages: messages})

    def messages_of(self, topic: str, policy: RatePolicy) -> Any:
        """A topic's policy in Pulsar, in messages per second; None is none."""
        found = self.policy_of(topic, policy)
        return found and found[policy.messages]

    def comes_to(self, topic: str, policy: RatePolicy, messages: int | None) -> None:
        """Wait until Pulsar has this policy."""
        eventually(
            lambda: self.messages_of(topic, policy) == messages, f"{policy.path} is {messages}"
        )

    def known_everywhere(self, topic: str) -> None:
        """Wait until each sidecar has found the limit in force: only then it tells who changes it."""

        def is_so() -> bool:
            native = self.native
            urls = (f"{native.sidecars.admin_url(b)}/quota/v1/gate/limits" for b in native.brokers)
            found = [native.http.get(url).json()["topics"] for url in urls]
            return all(topic in [each["topic"] for each in topics] for topics in found)

        eventually(is_so, "the limit is in force at every sidecar")

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

    def subscription_passes(self, topic: str, name: str, messages: float) -> None:
        """Wait until this rate passes a subscription, for 20 s."""
        last = [0.0]

        def is_so() -> bool:
            began_s, before = time.monotonic(), self.sent_to(topic, name)
            time.sleep(2 * WINDOW_S)
            last[0] = (self.sent_to(topic, name) - before) / (time.monotonic() - began_s)
            return last[0] == pytest.approx(messages, rel=0.06)

        eventually(is_so, f"{messages}/s", last=lambda: last)


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
    with client_of(native) as client:
        yield Limits(native, client)


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
    eventually(lambda: limits.messages_of(own, DISPATCH) is not None, "it has a rate")
    limits.fill([own, other], 40_000)
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
    limits.fill([topic], 10_000)
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
    limits.fill(topics, 10_000, names=("audit", "free"))
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
        limits.spoil_kept(topic, PUBLISH)
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
    assert limits.messages_of(topic, PUBLISH) == 70
    sidecars = limits.native.sidecars
    for name in limits.native.brokers:
        sidecars.end(name, signal.SIGKILL)
    assert limits.messages_of(steered, PUBLISH) == LIMIT
    eventually(lambda: limits.native.off().returncode == 0, "the sidecars' sessions have ended")
    assert limits.messages_of(topic, PUBLISH) == 70
    assert limits.messages_of(steered, PUBLISH) is None
    sidecars.start()
    limits.comes_to(steered, PUBLISH, LIMIT)
    for each in (topic, steered):
        limits.limit(each, PUBLISH, None)
    limits.comes_to(steered, PUBLISH, None)
    limits.comes_to(topic, PUBLISH, 70)
