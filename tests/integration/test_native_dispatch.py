"""Dispatch limits held by Pulsar's own dispatch rates: real brokers, real clients, nothing between."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pulsar
import pytest

from coordinator.native.engine.rate_policy import DISPATCH
from deploy.local.topics import path_of
from tests.integration.native_world import Native, opened
from tests.integration.sliding import Counted, sliding
from tests.integration.world import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

LIMIT = 600
NAMESPACE = "native/sent"
BACKLOG = 30_000
WINDOW_S = 10
SET = {
    "dispatchThrottlingRateInMsg": 50,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
"""A rate that an operator has set."""


class Sent:
    """A namespace with a limit of dispatch, and what each of its topics' consumers were sent.

    Args:
        native: the brokers and their sidecars.
        client: a stock client.
    """

    def __init__(self, native: Native, client: pulsar.Client) -> None:
        self.native, self.client = native, client
        self.received = 0
        self.by_broker: dict[str, str] = {}

    def limit(self, messages: int) -> None:
        """Limit the group to this number per second."""
        self.native.api("PUT", "/admin/v2/resourcegroups/sent", {"dispatchRateInMsgs": messages})

    def fill(self, topics: Sequence[str], messages: int, batch: int = 1) -> None:
        """Give a subscription of each topic a backlog."""
        producers = []
        for topic in topics:
            self._subscribe(topic).close()
            producers.append(
                self.client.create_producer(
                    topic,
                    batching_enabled=batch > 1,
                    batching_max_messages=max(2, batch),
                    batching_max_publish_delay_ms=1_000,
                    block_if_queue_full=True,
                )
            )
        for _ in range(messages):
            for producer in producers:
                producer.send_async(bytes(100), lambda *_: None)
        for producer in producers:
            producer.flush()
            producer.close()

    @contextmanager
    def consumed(self, *topics: str) -> Iterator[None]:
        """A consumer of each topic, which acknowledges all that it gets."""
        consumers = [self._subscribe(topic, message_listener=self._take) for topic in topics]
        try:
            yield
        finally:
            for consumer in consumers:
                consumer.close()

    def rate_of(self, owner: str) -> Any:
        """The dispatch rate of a topic or namespace in Pulsar; None is none."""
        found = self.native.topics.ask("GET", f"{_admin_path(owner)}/dispatchRate")
        return json.loads(found) if found else None

    def set_rate(self, owner: str, rate: Mapping[str, object]) -> None:
        """Set it, as an operator."""
        self.native.topics.ask("POST", f"{_admin_path(owner)}/dispatchRate", rate)

    def comes_to(self, wanted: dict[str, float], within: float) -> None:
        """Wait until each topic's consumers are sent messages at this rate, over ten seconds."""
        give_up_s = time.monotonic() + 120.0
        for found in sliding(lambda: self._counted(list(wanted)), WINDOW_S, 1.0):
            if all(abs(found[topic] - rate) <= within * rate for topic, rate in wanted.items()):
                return
            assert time.monotonic() < give_up_s, f"{found} is not {wanted}"

    def sum_of(self, topics: Sequence[str], seconds: float) -> float:
        """Return what the consumers of all these topics together are sent per second."""
        before = self._counted(topics)
        time.sleep(seconds)
        after = self._counted(topics)
        return sum(
            (after[topic][0] - before[topic][0]) / (after[topic][1] - before[topic][1])
            for topic in topics
        )

    def _counted(self, topics: Sequence[str]) -> Counted:
        found = {}
        for topic in topics:
            asked_s = time.monotonic()
            count = self.native.topics.counters(topic).messages_out
            found[topic] = count, (asked_s + time.monotonic()) / 2
        return found

    def _subscribe(self, topic: str, **more: Any) -> pulsar.Consumer:
        kind = pulsar.ConsumerType.Shared
        return self.client.subscribe(topic, "s", consumer_type=kind, **more)

    def _take(self, consumer: Any, message: Any) -> None:
        with suppress(pulsar.PulsarException):
            consumer.acknowledge(message)
            self.received += 1


def _admin_path(owner: str) -> str:
    """The path of a topic or a namespace."""
    return f"/admin/v2/{path_of(owner) if '://' in owner else f'namespaces/{owner}'}"


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Native]:
    """Three brokers, and a native sidecar beside each."""
    with opened(tmp_path_factory.mktemp("native-dispatch")) as world:
        world.topics.create_namespace(NAMESPACE, 12)
        world.api("PUT", "/admin/v2/resourcegroups/sent", {"dispatchRateInMsgs": LIMIT})
        world.api("POST", f"/admin/v2/namespaces/{NAMESPACE}/resourcegroup/sent")
        yield world


@pytest.fixture
def sent(native: Native) -> Iterator[Sent]:
    """The limited namespace."""
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(native.service_url("broker-1"), logger=quiet)
    found = Sent(native, client)
    found.limit(LIMIT)
    yield found
    client.close()


def test_a_dispatch_limit_is_shared_by_brokers_and_follows_consumers(sent: Sent) -> None:
    """A joiner gets its third, a changed limit is in force, and what one leaves is free for others."""
    topics = list(
        sent.native.topics.one_for_each_broker(NAMESPACE, "shared", "persistent").values()
    )
    sent.fill(topics, BACKLOG)
    with sent.consumed(*topics[:2]):
        sent.comes_to(dict.fromkeys(topics[:2], LIMIT / 2), within=0.03)
        with sent.consumed(topics[2]):
            sent.comes_to(dict.fromkeys(topics, LIMIT / 3), within=0.03)
            sent.limit(LIMIT // 2)
            sent.comes_to(dict.fromkeys(topics, LIMIT / 6), within=0.03)
        sent.limit(LIMIT)
        sent.comes_to(dict.fromkeys(topics[:2], LIMIT / 2), within=0.03)
    eventually(lambda: [sent.rate_of(topic) for topic in topics] == [None] * 3, "no rate is left")


def test_a_backlog_is_drained_without_loss(sent: Sent) -> None:
    """Every message arrives, at the limit, and not sooner."""
    topic = sent.native.topics.one_for_each_broker(NAMESPACE, "drained", "persistent")["broker-2"]
    sent.fill([topic], 6_000)
    began_s = time.monotonic()
    with sent.consumed(topic):
        eventually(lambda: sent.received >= 6_000, "all have arrived")
        took_s = time.monotonic() - began_s
    assert sent.received == 6_000
    assert took_s >= 6_000 / LIMIT * 0.8, took_s


def test_partitions_of_a_topic_and_batches_are_held(sent: Sent) -> None:
    """Six partitions at three brokers have one rate; batches are counted by their messages.

    Pulsar sends a hundred batches of five at once, so a single second shows little.
    """
    topic = f"persistent://{NAMESPACE}/parts"
    sent.native.topics.ask("PUT", f"/admin/v2/{path_of(topic)}/partitions", 6)
    partitions = [f"{topic}-partition-{number}" for number in range(6)]
    sent.fill(partitions, 15_000, batch=5)
    with sent.consumed(topic):
        deadline = time.monotonic() + 90
        seen = [sent.sum_of(partitions, 2 * WINDOW_S)]
        while not LIMIT * 0.9 <= seen[-1] <= LIMIT * 1.05 and time.monotonic() < deadline:
            seen.append(sent.sum_of(partitions, 2 * WINDOW_S))
        assert LIMIT * 0.9 <= seen[-1] <= LIMIT * 1.05, seen


def test_a_topic_that_moves_keeps_to_the_limit(sent: Sent) -> None:
    """Its new broker's sidecar goes on from the rate that it finds."""
    topic = sent.native.topics.one_for_each_broker(NAMESPACE, "moved", "persistent")["broker-1"]
    sent.fill([topic], BACKLOG)
    with sent.consumed(topic):
        sent.comes_to({topic: LIMIT}, within=0.03)
        sent.native.topics.move(topic, sent.native.brokers["broker-3"])
        sent.comes_to({topic: LIMIT}, within=0.03)


def test_a_tenant_that_changes_rates_and_texts_gets_no_more(sent: Sent) -> None:
    """A lifted rate is taken down again, and a text that is no rate stops no topic."""
    topics = sent.native.topics.one_for_each_broker(NAMESPACE, "lifted", "persistent")
    lifted, other = topics["broker-1"], topics["broker-2"]
    sent.fill([lifted, other], BACKLOG)
    with sent.consumed(lifted, other):
        sent.comes_to({lifted: LIMIT / 2, other: LIMIT / 2}, within=0.05)
        sent.set_rate(lifted, SET | {"dispatchThrottlingRateInMsg": 100_000})
        for owner in (NAMESPACE, other):
            path = f"{_admin_path(owner)}/properties"
            sent.native.topics.ask("PUT", path, {DISPATCH.kept_as: "[no rate"})
        sent.comes_to({lifted: LIMIT / 2, other: LIMIT / 2}, within=0.05)
    eventually(lambda: sent.rate_of(other) is None, "no rate is left")
    set_meanwhile = SET | {"dispatchThrottlingRateInMsg": 100_000}
    eventually(lambda: sent.rate_of(lifted) == set_meanwhile, "the tenant's own rate is back")


def test_what_an_operator_has_set_is_kept_and_comes_back(sent: Sent) -> None:
    """While sidecars steer it is the most that a topic gets; a killed one loses nothing."""
    topics = sent.native.topics.one_for_each_broker(NAMESPACE, "set", "persistent")
    own, other = topics["broker-1"], topics["broker-2"]
    sent.fill([own], BACKLOG // 5)
    sent.fill([other], 3 * BACKLOG)
    sent.set_rate(own, SET)
    with sent.consumed(own, other):
        sent.comes_to({own: 50, other: LIMIT - 50}, within=0.05)
        sent.native.sidecars.end("broker-1", signal.SIGKILL)
        sent.native.sidecars.end("broker-2", signal.SIGKILL)
        sent.native.sidecars.start("broker-1")
        sent.native.sidecars.start("broker-2")
        sent.comes_to({own: 50, other: LIMIT - 50}, within=0.05)
        sent.native.sidecars.stop()
        try:
            off = sent.native.off()
            assert off.returncode == 0, off.stderr
            assert f"{NAMESPACE}: 3 rates given back" in off.stdout
            assert sent.rate_of(own) == SET
            assert sent.rate_of(other) is None
            assert sent.rate_of(NAMESPACE) is None
        finally:
            sent.native.sidecars.start()
    sent.set_rate(own, SET | {"dispatchThrottlingRateInMsg": -1})
