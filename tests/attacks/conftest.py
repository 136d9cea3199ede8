"""The target of every attack: a limited namespace, and a neighbour on the same gate."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import httpx
import pytest
from kazoo.client import KazooClient
from prometheus_client.parser import text_string_to_metric_families

from deploy.clients import quiet_client
from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from deploy.local.state import Broker
from tests.conftest import Measure
from tests.integration.world import TENANT, World, eventually, make_world

LIMIT = 50
"""Messages per second that the attacked group may publish."""

SLACK_S = 1.0
"""The excess by a bucket's burst, a counter's delay and a broker that stands still, as time."""

BROKER = "broker-1"
_NAMESPACES = 12


@dataclass
class Target:
    """A namespace whose group may publish `LIMIT` messages per second, at one broker.

    Args:
        world: the cluster, the sidecars, and the namespace with a topic on every broker.
    """

    world: World
    began_s: float = field(default=0.0)
    counted: int = field(default=0)

    @property
    def topic(self) -> str:
        """A limited topic of `BROKER`."""
        return self.world.topic_of[BROKER]

    @property
    def namespace(self) -> str:
        """The limited namespace."""
        return self.world.namespace

    @property
    def broker(self) -> Broker:
        """`BROKER`, with its ports."""
        return self.world.cluster.broker(BROKER)

    @property
    def port(self) -> int:
        """The gate of `BROKER`."""
        return self.broker.gate_port

    def published(self) -> int:
        """The broker's count of messages published to the topic."""
        return self.world.topics.counters(self.topic).messages_in

    def dispatched(self) -> int:
        """The same of what it has delivered."""
        return self.world.topics.counters(self.topic).messages_out

    @property
    def admin_port(self) -> int:
        """The admin API of `BROKER`'s sidecar."""
        return self.broker.admin_port

    def figure(self, name: str, **labels: str) -> float:
        """A figure of the metrics of `BROKER`'s sidecar, without their prefix; 0 before its first."""
        return sum(self._figures(name, labels))

    def debt_s(self) -> float:
        """The longest debt of a group at `BROKER`'s gate, in seconds."""
        return max(self._figures("debt_seconds", {}), default=0.0)

    def _figures(self, name: str, labels: Mapping[str, str]) -> list[float]:
        text = self.world.http.get(f"{self.world.sidecars.admin_url(BROKER)}/metrics").text
        return [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"pulsar_quota_{name}" and labels.items() <= sample.labels.items()
        ]

    def measure(self) -> None:
        """Begin a measurement."""
        self.counted, self.began_s = self.published(), time.monotonic()

    def passed(self) -> tuple[int, float]:
        """Messages that were published since, and the rate of it."""
        messages = self.published() - self.counted
        return messages, messages / (time.monotonic() - self.began_s)

    def is_held(self) -> bool:
        """Whether no more was published since `measure` than the limit allows."""
        messages, _ = self.passed()
        return messages <= LIMIT * (time.monotonic() - self.began_s + SLACK_S)

    def assert_held(self, what: str) -> None:
        """No more was published since `measure` than the limit allows."""
        assert self.is_held(), f"{what}: {self.passed()[1]:.0f}/s of {LIMIT}"


@pytest.fixture(scope="session")
def limited_worlds(cluster: Cluster, sidecars: Sidecars) -> Iterator[Iterator[World]]:
    """Limited namespaces, again and again; what a test leaves behind is over when its turn comes."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        worlds = [
            make_world(cluster, sidecars, http, f"{TENANT}/attacked{number}")
            for number in range(_NAMESPACES)
        ]
        for world in worlds:
            world.limit(publishRateInMsgs=LIMIT, dispatchRateInMsgs=LIMIT)
        for world in worlds:
            eventually(partial(_is_limited, world), f"{BROKER} limits the group")
        yield itertools.cycle(worlds)


@pytest.fixture
def target(limited_worlds: Iterator[World]) -> Target:
    """A limited namespace."""
    world = next(limited_worlds)
    world.place()
    return Target(world)


def _is_limited(world: World) -> bool:
    return world.group in world.get("/admin/v2/resourcegroups", at=BROKER)


@pytest.fixture(scope="module")
def free_world(cluster: Cluster, sidecars: Sidecars) -> Iterator[World]:
    """A namespace without any limit."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        yield make_world(cluster, sidecars, http, f"{TENANT}/free")


@pytest.fixture(scope="session")
def zookeeper(cluster: Cluster) -> Iterator[KazooClient]:
    """The sidecars' store, read and written without them."""
    client = KazooClient(cluster.state.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


STOPPED_S = 20.0
"""For longer than this a neighbour waited at the floods that were found."""
SLOWED_S = 5.0


class Neighbour:
    """A stock client on the same gate, with a producer and a consumer of a topic without a limit."""

    def __init__(self, world: World, port: int) -> None:
        self._world = world
        self._topic = world.topic_of[BROKER]
        self._client = quiet_client(f"pulsar://127.0.0.1:{port}")
        self._producer = self._client.create_producer(self._topic)
        self._consumer = self._client.subscribe(self._topic, f"s{time.monotonic_ns()}")
        self._since = world.topics.publishers(self._topic)

    def assert_unharmed(self) -> None:
        """It publishes and receives on the connection that it began with."""
        self.exchange()
        publishers = self._world.topics.publishers(self._topic)
        assert publishers == self._since, "the neighbour had to reconnect"

    def assert_fast(self, measured: Measure) -> None:
        """It publishes and receives soon as fast as ever.

        What a flood has left in the sockets is worked off in turns with its first messages, a turn of the
        broker's being a megabyte of commands.
        """
        first_s = self._exchange_s()
        measured("a neighbour's first twenty messages", first_s, "s", most=STOPPED_S)
        eventually(
            lambda: self._exchange_s() < SLOWED_S, "the neighbour is as fast as ever", STOPPED_S
        )

    def exchange(self) -> None:
        """Publish twenty messages, one after the other, and receive them."""
        expected = [b"%d" % number for number in range(20)]
        for content in expected:
            self._producer.send(content)
        assert [self._consumer.receive(60_000).data() for _ in expected] == expected

    def _exchange_s(self) -> float:
        began_s = time.monotonic()
        self.exchange()
        return time.monotonic() - began_s

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


@pytest.fixture(scope="module")
def neighbours_world(cluster: Cluster, sidecars: Sidecars) -> Iterator[World]:
    """Another namespace, where nothing is attacked."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        yield make_world(cluster, sidecars, http, f"{TENANT}/neighbours")


@pytest.fixture(scope="module")
def neighbours() -> Iterator[list[Neighbour]]:
    """The neighbour of a module's tests, if there is one: a test that harms it leaves none to the next.

    Other modules stop sidecars, and end its connection by that.
    """
    there: list[Neighbour] = []
    yield there
    for each in there:
        each.close()


@pytest.fixture
def neighbour(
    request: pytest.FixtureRequest,
    neighbours: list[Neighbour],
    neighbours_world: World,
    target: Target,
    measured: Measure,
) -> Iterator[None]:
    """A client on the same gate, which must not be harmed by what the test does.

    A test of `make verify` measures how fast it is afterwards.
    """
    if not neighbours:
        neighbours.append(Neighbour(neighbours_world, target.port))
    yield
    [there] = neighbours
    try:
        if request.node.get_closest_marker("verify"):
            there.assert_fast(measured)
        there.assert_unharmed()
    except BaseException:
        neighbours.remove(there)
        there.close()
        raise
