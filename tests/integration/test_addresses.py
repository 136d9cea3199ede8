"""Brokers that name their own ports: clients of the gates never get there.

The brokers here know of no gate in what they answer: the gates dial their internal listener, so that
lookups and closes name internal addresses, as old releases and commands of later ones do. Bundles move by
transfer: the extensible load manager names the next broker in the close of each producer and consumer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pulsar
import pytest

from deploy.background import Background
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars, configuration, write_configuration
from deploy.local.state import Broker
from tests.integration.test_nothing_is_lost import Publisher, read_back
from tests.integration.world import TENANT, World, eventually, make_world

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
MESSAGES = 3000
MOVES = 4
REFUSED = 'pulsar_quota_gate_refusals_total{reason="address that leads to no gate"}'
_REMOTE, _INODE = 2, 9  # columns of /proc/net/tcp


@pytest.fixture(scope="module")
def transferring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose load manager moves bundles by transfer."""
    options = ClusterOptions(
        state_dir=tmp_path_factory.mktemp("cluster"),
        brokers=2,
        broker_settings={"loadManagerClassName": EXTENSIBLE},
    )
    with Cluster.start(options) as cluster:
        yield cluster


def dialling_internal(
    cluster: Cluster, directory: Path, settings: Mapping[str, object]
) -> Sidecars:
    """Sidecars whose gates are clients of the brokers' internal listener; none is started."""
    sidecars = Sidecars(cluster, directory)
    for broker in cluster.brokers:
        upstream = {"gate_upstream": f"127.0.0.1:{broker.broker_port}"}
        keys = configuration(broker, cluster, sidecars.bus_topics, {**settings, **upstream})
        write_configuration(sidecars.configuration_file(broker.name), keys)
    return sidecars


@contextmanager
def running(cluster: Cluster, sidecars: Sidecars, namespace: str, *names: str) -> Iterator[World]:
    """These sidecars, and a namespace with a topic on every broker."""
    with sidecars, httpx.Client(trust_env=False, timeout=30.0) as http:
        sidecars.start(*names)
        yield make_world(cluster, sidecars, http, f"{TENANT}/{namespace}")


@contextmanager
def connected(url: str, timeout_s: int = 60) -> Iterator[pulsar.Client]:
    """A client that is closed while there are gates."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(url, operation_timeout_seconds=timeout_s, logger=logger)
    try:
        yield client
    finally:
        client.close()


class OwnConnections(Background):
    """Watches where this process, and with it the clients of the test, is connected to."""

    def __init__(self) -> None:
        super().__init__({"connections": self._look})
        self.seen: set[int] = set()

    def _look(self) -> None:
        while not self._stop.is_set():
            self.seen |= remote_ports()
            self._stop.wait(0.02)


def remote_ports() -> set[int]:
    """The ports at the other ends of this process's TCP connections."""
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            own.add(descriptor.readlink().name)
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    sockets = (line.split() for line in lines)
    return {
        int(fields[_REMOTE].rpartition(":")[2], 16)
        for fields in sockets
        if f"socket:[{fields[_INODE]}]" in own
    }


def refused(world: World, name: str) -> float:
    """Return the number of addresses that a gate has kept from clients."""
    metrics = world.http.get(f"{world.sidecars.admin_url(name)}/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in metrics if line.startswith(REFUSED))


def other(cluster: Cluster, broker: Broker) -> Broker:
    """The other one of two brokers."""
    return next(each for each in cluster.brokers if each != broker)


@pytest.mark.shows("pip-322/bundle-unload")
def test_a_bundle_that_moves_under_load_takes_its_clients_from_gate_to_gate(
    transferring: Cluster, tmp_path: Path
) -> None:
    """No connection to a broker's own port, every message read back, in order."""
    sidecars = dialling_internal(transferring, tmp_path, {"zookeeper_root": "/transfer"})
    with (
        running(transferring, sidecars, "transfer") as world,
        connected(sidecars.service_url) as reader,
        connected(sidecars.service_url) as writer,
        OwnConnections() as connections,
    ):
        topic = world.topic_of["broker-1"]
        world.limit(publishRateInMsgs=400)
        consumer = reader.subscribe(topic, "audit")
        publisher = Publisher(writer, topic)
        with Background({"publishing": lambda: publisher.publish(MESSAGES, batching=False)}):
            for move in range(MOVES):
                at = move * MESSAGES // (MOVES + 1)
                eventually(lambda: len(publisher.receipts) > at, "traffic")  # noqa: B023
                world.topics.move(topic, other(transferring, world.topics.owner(topic)))
            eventually(lambda: len(publisher.receipts) == MESSAGES, "all receipts")

        assert publisher.failures == []
        # A publish that crosses with the close of its topic may be stored, and is sent again.
        assert list(dict.fromkeys(read_back(consumer, MESSAGES - 1))) == list(range(MESSAGES))
        assert connections.alive
        own = {broker.broker_port for broker in transferring.brokers}
        gates = {broker.gate_port for broker in transferring.brokers}
        assert connections.seen & own == set()
        assert connections.seen >= gates
        assert [refused(world, name) for name in world.topic_of] == [0, 0]


def test_a_broker_that_advertises_no_gate_is_not_named_to_clients(
    transferring: Cluster, tmp_path: Path
) -> None:
    """They may ask again, the log says why, and the refusals are counted."""
    settings = {"zookeeper_root": "/bare", "gate_listener_name": "gates"}
    sidecars = dialling_internal(transferring, tmp_path, settings)
    broker = transferring.brokers[0]
    with (
        running(transferring, sidecars, "bare", broker.name) as world,
        connected(f"pulsar://127.0.0.1:{broker.gate_port}", timeout_s=5) as client,
        OwnConnections() as watched,
    ):
        with pytest.raises(pulsar.Timeout):
            client.create_producer(world.topic_of[broker.name])

        assert watched.seen & {each.broker_port for each in transferring.brokers} == set()
        log = sidecars.log_file(broker.name).read_text()
        assert f"LOOKUP_RESPONSE names pulsar://127.0.0.1:{broker.broker_port}" in log
        assert "brokers without a gate" in log
        assert refused(world, broker.name) >= 2
