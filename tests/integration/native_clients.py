"""Stock clients at the brokers' own ports, and what brokers count and Pulsar has set of their topics."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import pulsar

from coordinator.native.engine.rate_policy import PUBLISH, RatePolicy
from deploy.clients import quiet_client
from deploy.local.topics import path_of
from tests.integration.native_world import Native
from tests.integration.sliding import WINDOW_S, Counted, come_to


class NativeClients:
    """One stock client of a cluster.

    Args:
        native: the brokers and their sidecars.
        client: the client.
    """

    def __init__(self, native: Native, client: pulsar.Client) -> None:
        self.native, self.client = native, client
        #: Messages that consumers have acknowledged.
        self.received = 0

    def fill(
        self, topics: Sequence[str], messages: int, *, batch: int = 1, names: Sequence[str] = ("s",)
    ) -> None:
        """Give these subscriptions of each topic a backlog."""
        producers = []
        for topic in topics:
            for name in names:
                self._subscribe(topic, name).close()
            producers.append(self._producer(topic, batch))
        for _ in range(messages):
            for producer in producers:
                producer.send_async(bytes(100), lambda *_: None)
        for producer in producers:
            producer.flush()
            producer.close()

    @contextmanager
    def published(self, topic: str, batch: int = 1) -> Iterator[None]:
        """A producer that publishes as fast as it may."""
        producer = self._producer(topic, batch)
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
        consumers = [self._subscribe(topic, name, message_listener=self._take) for topic in topics]
        try:
            yield
        finally:
            for consumer in consumers:
                consumer.close()

    def policy_of(self, owner: str, policy: RatePolicy) -> Any:
        """The policy of a topic or namespace in Pulsar; None is none."""
        found = self.native.topics.ask("GET", f"{admin_path(owner)}/{policy.path}")
        return json.loads(found) if found else None

    def set_policy(self, owner: str, policy: RatePolicy, messages: int) -> None:
        """Set it as an operator, in messages per second; -1 is no limit."""
        body = {policy.messages: messages, policy.bytes: -1, **policy.further}
        self.native.topics.ask("POST", f"{admin_path(owner)}/{policy.path}", body)

    def spoil_kept(self, owner: str, policy: RatePolicy) -> None:
        """Write a text that is no rate where an operator's rate is kept, as a tenant may."""
        path = f"{admin_path(owner)}/properties"
        self.native.topics.ask("PUT", path, {policy.kept_as: "[no rate"})

    def rate(self, topics: Sequence[str], policy: RatePolicy, seconds: float = WINDOW_S) -> float:
        """Return the messages per second that pass all these topics together, by brokers' counters."""
        before = self._counted(topics, policy)
        time.sleep(seconds)
        after = self._counted(topics, policy)
        return sum(
            (after[topic][0] - count) / (after[topic][1] - read_s)
            for topic, (count, read_s) in before.items()
        )

    def rates_come_to(self, wanted: Mapping[str, float], policy: RatePolicy, within: float) -> None:
        """Wait until these rates pass each of these topics, over ten seconds that begin at any one."""
        come_to(lambda: self._counted(list(wanted), policy), wanted, within)

    def sent_to(self, topic: str, name: str) -> int:
        """The messages that a subscription's consumers were sent, by the broker's counter."""
        found = self.native.topics.ask("GET", f"{admin_path(topic)}/stats")
        count: int = json.loads(found)["subscriptions"][name]["msgOutCounter"]
        return count

    def _counted(self, topics: Sequence[str], policy: RatePolicy) -> Counted:
        found = {}
        for topic in topics:
            asked_s = time.monotonic()
            counters = self.native.topics.counters(topic)
            count = counters.messages_in if policy is PUBLISH else counters.messages_out
            found[topic] = count, (asked_s + time.monotonic()) / 2
        return found

    def _producer(self, topic: str, batch: int) -> pulsar.Producer:
        return self.client.create_producer(
            topic,
            batching_enabled=batch > 1,
            batching_max_messages=max(2, batch),
            batching_max_publish_delay_ms=10,
            block_if_queue_full=True,
            message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        )

    def _subscribe(
        self, topic: str, name: str, message_listener: Callable[[Any, Any], None] | None = None
    ) -> pulsar.Consumer:
        kind = pulsar.ConsumerType.Shared
        return self.client.subscribe(
            topic, name, consumer_type=kind, message_listener=message_listener
        )

    def _take(self, consumer: Any, message: Any) -> None:
        with suppress(pulsar.PulsarException):
            consumer.acknowledge(message)
            self.received += 1


@contextmanager
def client_of(native: Native) -> Iterator[pulsar.Client]:
    """A stock client at a broker's own port, which says only what fails."""
    with closing(quiet_client(native.service_url("broker-1"))) as client:
        yield client


def admin_path(owner: str) -> str:
    """The path of a topic or a namespace in Pulsar's REST API."""
    return f"/admin/v2/{path_of(owner) if '://' in owner else f'namespaces/{owner}'}"
