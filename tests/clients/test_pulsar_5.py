"""Scalable topics of Pulsar 5 are limited like any other, with the client and brokers of 5.0.0-M1.

The cluster is this module's own, whatever version all other tests run on, and small.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from deploy.background import Background
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars
from tests.attacks.raw import RawClient
from tests.clients.harness import NamespaceMaker, Outcome, run_scenes
from tests.clients.releases import JAVA_V5, all_releases
from tests.integration.world import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.timeout(300)]

(CLIENT,) = (each for each in all_releases() if each.family == "java-v5")
(PULSAR,) = JAVA_V5

_BURST_S = 0.65
"""A bucket's burst, what is counted late, and a gate that stood still for half a second."""


class Reading(NamedTuple):
    """The brokers' counts of published messages, and the moments around the reading, in seconds."""

    messages: int
    asked_s: float
    answered_s: float

    @property
    def middle_s(self) -> float:
        """The moment that the counts are taken for."""
        return (self.asked_s + self.answered_s) / 2


class Five:
    """A cluster of 5.0.0-M1 with sidecars.

    Args:
        cluster: running.
        sidecars: beside all its brokers.
        http: for questions to both.
        directory: for the client's logs.
    """

    def __init__(
        self, cluster: Cluster, sidecars: Sidecars, http: httpx.Client, directory: Path
    ) -> None:
        self._cluster = cluster
        self._sidecars = sidecars
        self._http = http
        self._directory = directory
        self._namespaces = NamespaceMaker(cluster)
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
        """Limit the publishes to a scalable topic, and wait until every gate knows."""
        path = f"/quota/v1/topic/{namespace}/{name}/publishRate"
        body = {"publishThrottlingRateInMsg": rate}
        url = self._sidecars.admin_url("broker-1") + path
        self._http.post(url, json=body).raise_for_status()
        topic = f"topic://{namespace}/{name}"
        gates = [broker.name for broker in self._cluster.brokers]
        eventually(
            lambda: all(topic in self.parts(gate) for gate in gates), "the limit at all gates"
        )

    def parts(self, broker: str) -> dict[str, dict[str, int]]:
        """A gate's limits of topics: the part of each segment that was used there."""
        answer = self._http.get(self._sidecars.admin_url(broker) + "/quota/v1/gate/limits")
        return {
            topic["topic"]: {part["segment"]: part["publishRateInMsgs"] for part in topic["parts"]}
            for topic in answer.json()["topics"]
        }

    def all_parts(self, topic: str) -> dict[str, int]:
        """The parts of a topic's segments at all gates."""
        found: dict[str, int] = {}
        for broker in self._cluster.brokers:
            found |= self.parts(broker.name).get(topic, {})
        return found

    def play(self, namespace: str, *scenes: str) -> list[Outcome]:
        """Run scenes of the client's programme through the gates."""
        log = self._directory / f"{scenes[0]}.log"
        url, requests = self._sidecars.service_url, self._namespaces.requests
        return run_scenes(CLIENT.launch(), url, namespace, requests, log, scenes)

    def published(self, namespace: str) -> Reading:
        """Read what all brokers counted for the segments of a namespace since their start."""
        asked_s = time.monotonic()
        for broker in self._cluster.brokers:
            answer = self._http.get(f"{broker.web_url}/metrics/")
            for line in answer.raise_for_status().text.splitlines():
                if (
                    line.startswith("pulsar_in_messages_total{")
                    and f"segment://{namespace}/" in line
                ):
                    # A sealed segment may be listed no more; what it took in stays counted.
                    labels, _, value = line.rpartition("} ")
                    self._seen[labels] = max(self._seen[labels], int(float(value.split()[0])))
        messages = sum(count for labels, count in self._seen.items() if f"/{namespace}/" in labels)
        return Reading(messages, asked_s, time.monotonic())


class _Readings(Background):
    """Reads the brokers' counts twice a second."""

    def __init__(self, five: Five, namespace: str) -> None:
        super().__init__({"reading": self._read})
        self._five = five
        self._namespace = namespace
        self.seen: list[Reading] = []

    def _read(self) -> None:
        while not self._stop.is_set():
            self.seen.append(self._five.published(self._namespace))
            self._stop.wait(0.5)


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Five]:
    """A cluster of two brokers with sidecars."""
    directory = tmp_path_factory.mktemp("five")
    options = ClusterOptions(state_dir=directory / "cluster", brokers=2, pulsar=PULSAR)
    with (
        Cluster.start(options) as cluster,
        Sidecars(cluster, directory) as sidecars,
        httpx.Client(trust_env=False, timeout=30.0) as http,
    ):
        sidecars.start()
        yield Five(cluster, sidecars, http, directory)


def test_a_group_holds_a_producer_on_a_scalable_topic(five: Five) -> None:
    """50/s on the namespace: within 2 % over 15 s, by the brokers' own counters."""
    namespace = five.namespace()
    five.limit_namespace(namespace, publishRateInMsgs=50)
    with ThreadPoolExecutor() as pool:
        playing = pool.submit(five.play, namespace, "steady")
        eventually(lambda: five.published(namespace).messages > 0, "a message at the brokers")
        time.sleep(8.0)
        before = five.published(namespace)
        time.sleep(15.0)
        after = five.published(namespace)
        outcomes = playing.result()

    assert [each.why for each in outcomes if each.failed] == []
    rate = (after.messages - before.messages) / (after.middle_s - before.middle_s)
    assert rate == pytest.approx(50, rel=0.02)


def test_a_topics_limit_holds_through_a_split_and_a_merge(five: Five) -> None:
    """100/s for all segments together; nothing acknowledged is lost, and keys stay in order."""
    namespace = five.namespace()
    topic = f"topic://{namespace}/rescaled"
    five.limit_topic(namespace, "rescaled", 100)
    with _Readings(five, namespace) as readings:
        outcomes = five.play(namespace, "rescaled")
        assert readings.alive, "the readings have stopped"

    assert [(each.scene, each.why) for each in outcomes] == [("rescaled", "")]
    seen = [each for each in readings.seen if each.messages]
    for before, after in combinations(seen, 2):
        passed, took_s = after.messages - before.messages, after.answered_s - before.asked_s
        assert passed <= 100 * (took_s + _BURST_S), f"{passed} in {took_s:.2f} s"
    assert seen[-1].messages >= 0.6 * 100 * 20, "the limit let less than its part pass"
    parts = {"0000-7fff": 50, "8000-ffff": 50, "0000-3fff": 25, "4000-7fff": 25}
    assert five.all_parts(topic) == parts


def test_every_consumer_of_a_scalable_topic_is_limited(five: Five) -> None:
    """60 messages at 20/s take a stream, a queue and a checkpoint consumer their time."""
    namespace = five.namespace()
    five.limit_namespace(namespace, dispatchRateInMsgs=20)

    outcomes = five.play(namespace, "scalable_stream", "scalable_queue", "scalable_checkpoint")

    assert [each.why for each in outcomes if each.failed] == []
    assert all(each.seconds >= 60 / 20 - _BURST_S for each in outcomes), outcomes


def test_a_client_gets_no_part_of_a_limit_for_an_invented_segment(five: Five) -> None:
    """Brokers accept the segments of the layout alone, in any spelling, and a gate counts them as one."""
    namespace = five.namespace()
    topic = f"topic://{namespace}/real"
    five.scale(topic)
    five.limit_topic(namespace, "real", 100)
    segments = topic.replace("topic://", "segment://")

    for invented in ("0000-ffff-9", "0000-ffff-0", "0000-7fff-1"):
        assert five.accepted_producers(f"{segments}/{invented}") == 0
    for spelling in ("0000-7fff-0", "0-7FFF-00"):
        assert five.accepted_producers(f"{segments}/{spelling}") == 1

    assert five.all_parts(topic) == {"0000-7fff": 50}
