"""Brokers that name their own ports: clients of the gates never get there.

The brokers here know of no gate in what they answer: the gates dial their internal listener, so that
lookups and closes name internal addresses, as old releases and commands of later ones do. Bundles move by
transfer: the extensible load manager names the next broker in the close of each producer and consumer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pytest
from kazoo.client import KazooClient

from coordinator.adapters.zookeeper.registrations import DEFAULT_PATH
from deploy.background import Background
from deploy.local.cluster import Cluster
from deploy.local.configuration import CLUSTER_NAME
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars
from deploy.local.state import Broker
from deploy.local.topics import Topics, path_of
from tests.attacks.raw import ERROR, PRODUCER_SUCCESS, RawClient
from tests.gate import peer
from tests.integration.own_connections import OwnConnections, connected
from tests.integration.test_nothing_is_lost import Publisher, arrived
from tests.integration.world import TENANT, World, eventually, make_world
from tests.pulsar_version import pulsar_version

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
MESSAGES = 3000
MOVES = 4
MIGRATED = "topic migrated to another cluster"
REFUSED = 'pulsar_quota_gate_refusals_total{reason="address that leads to no gate"}'
LOOKUP_RESPONSE, TOPIC_MIGRATED = 24, 68
FAILED, SERVICE_NOT_READY = 2, 6


@pytest.fixture(scope="module")
def transferring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose load manager moves bundles by transfer."""
    options = ClusterOptions(
        state_dir=tmp_path_factory.mktemp("cluster"),
        brokers=2,
        pulsar=pulsar_version(),
        broker_settings={
            "loadManagerClassName": EXTENSIBLE,
            # From 5.0 on off by default: without it no broker asks which load manager is the latest.
            "loadManagerMigrationEnabled": "true",
            # Off by default: without it a migrated cluster closes nothing.
            "clusterMigrationCheckDurationSeconds": "1",
        },
        quick=True,
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
        sidecars.configure(broker.name, {**settings, **upstream})
    return sidecars


@contextmanager
def running(cluster: Cluster, sidecars: Sidecars, namespace: str, *names: str) -> Iterator[World]:
    """These sidecars, and a namespace with a topic on every broker."""
    with sidecars, httpx.Client(trust_env=False, timeout=30.0) as http:
        sidecars.start(*names)
        yield make_world(cluster, sidecars, http, f"{TENANT}/{namespace}")


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
        assert arrived(consumer, MESSAGES - 1) == list(range(MESSAGES))
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

        assert watched.alive
        assert watched.seen & {each.broker_port for each in transferring.brokers} == set()
        log = sidecars.log_file(broker.name).read_text()
        assert f"LOOKUP_RESPONSE names pulsar://127.0.0.1:{broker.broker_port}" in log
        assert "brokers without a gate" in log
        assert refused(world, broker.name) >= 2


def own_url(broker: Broker) -> str:
    """A broker's own address, where no gate is."""
    return f"pulsar://127.0.0.1:{broker.broker_port}"


def node_of(broker: Broker) -> str:
    """The id under which a broker registers."""
    return f"127.0.0.1:{broker.web_port}"


class Registrations:
    """Registrations of brokers that a test writes, beside the brokers' own.

    Args:
        zookeeper: connected.
        path: where the sidecars of the test read them.
    """

    def __init__(self, zookeeper: KazooClient, path: str) -> None:
        self._zookeeper = zookeeper
        self._path = path

    def write(self, broker: Broker, *, without: str = "") -> None:
        """Register a broker anew, as it has registered, or without one of its listeners."""
        node = node_of(broker)
        content, _ = self._zookeeper.get(f"{DEFAULT_PATH}/{node}")
        registration: dict[str, Any] = json.loads(content)
        registration["advertisedListeners"].pop(without, None)
        own = f"{self._path}/{node}"
        if self._zookeeper.exists(own):
            self._zookeeper.delete(own)
        self._zookeeper.create(own, json.dumps(registration).encode(), makepath=True)


@contextmanager
def registrations(cluster: Cluster, path: str) -> Iterator[Registrations]:
    """Registrations of a test's own."""
    zookeeper = KazooClient(cluster.state.zookeeper_connect)
    zookeeper.start()
    try:
        yield Registrations(zookeeper, path)
    finally:
        zookeeper.stop()
        zookeeper.close()


def is_put_off(broker: Broker, topic: str) -> bool:
    """Whether a gate answers a lookup with an error after which clients ask again, and no address."""
    with RawClient(broker.gate_port) as client:
        answer = client.ask(peer.command(23, (1, topic), (2, 1), (3, 0)), {LOOKUP_RESPONSE})
    assert answer is not None
    failed = (answer.number(3), answer.number(6)) == (FAILED, SERVICE_NOT_READY)
    return failed and answer.text(1) is None and answer.text(2) is None


def without_gate(world: World) -> list[str]:
    """The brokers of which a sidecar says that they advertise no gate."""
    found = world.get("/quota/v1/conditions")
    return [each["subject"] for each in found if each["condition"] == "WithoutGate"]


def test_a_map_that_lags_and_a_half_rolled_out_listener_put_clients_off(
    transferring: Cluster, tmp_path: Path
) -> None:
    """A client asks again until the topic's broker has registered its gate; the log has both reasons."""
    path = "/lagging/brokers"
    keys = {"zookeeper_root": "/lagging/quota", "zookeeper_brokers_path": path}
    sidecars = dialling_internal(transferring, tmp_path, keys)
    first, second = transferring.brokers
    with registrations(transferring, path) as registered, ThreadPoolExecutor() as pool:
        registered.write(first)
        with (
            running(transferring, sidecars, "lagging") as world,
            connected(first.gate_url) as client,
            OwnConnections() as watched,
        ):
            topic, log = world.topic_of[second.name], sidecars.log_file(first.name)
            producing = pool.submit(client.create_producer, topic)
            assert is_put_off(first, topic)
            assert f"{own_url(second)}: no registered broker has this address" in log.read_text()
            registered.write(second, without="external")
            eventually(
                lambda: (
                    is_put_off(first, topic)
                    and f"{own_url(second)}: its broker has no gate there" in log.read_text()
                ),
                "the missing listener is the reason",
            )
            eventually(lambda: without_gate(world) == [node_of(second)], "it is a condition")
            assert not producing.done()
            registered.write(second)
            eventually(lambda: without_gate(world) == [], "the condition is over")
            producing.result(timeout=60).send(b"at last")

            eventually(
                lambda: second.gate_port in watched.seen, "the client is at the topic's gate"
            )
            assert watched.seen & {each.broker_port for each in transferring.brokers} == set()


def named(port: int, topic: str) -> str | None:
    """Return the address that a gate, or a broker, names to a client that looks a topic up."""
    with RawClient(port) as client:
        answer = client.ask(peer.command(23, (1, topic), (2, 1), (3, 0)), {LOOKUP_RESPONSE})
    return None if answer is None else answer.text(1)


@contextmanager
def load_manager(cluster: Cluster, broker: Broker, name: str) -> Iterator[None]:
    """A broker that is started with another load manager than the others, and again without."""
    conf = cluster.state_dir / "conf" / f"{broker.name}.conf"
    before = conf.read_text()
    conf.write_text(f"{before}loadManagerClassName={name}\n")
    cluster.restart(broker.name)
    try:
        yield
    finally:
        conf.write_text(before)
        cluster.restart(broker.name)


def test_a_change_of_load_managers_leads_clients_to_gates_alone(
    transferring: Cluster, tmp_path: Path
) -> None:
    """Brokers with another load manager than the latest one's name that broker's internal address.

    A broker of 5.0.0-M1 that is led to in this way answers no producer, with a gate or without.
    """
    sidecars = Sidecars(transferring, tmp_path, {"zookeeper_root": "/managers"})
    first, second = transferring.brokers
    with running(transferring, sidecars, "managers") as world:
        topic = world.topic_of[first.name]
        is_5 = pulsar_version().startswith("5.")  # where redirects know the listener of the lookup
        redirected = {own_url(second), *([second.gate_url] if is_5 else [])}
        with load_manager(transferring, second, MODULAR):
            eventually(
                lambda: named(first.gate_upstream_port, topic) in redirected,
                "the broker itself leads to the other one",
            )
            assert named(first.gate_port, topic) == second.gate_url
            with (
                connected(first.gate_url) as client,
                OwnConnections() as watched,
                ThreadPoolExecutor() as pool,  # a client that is closed while it asks waits for ever
            ):
                producing = pool.submit(client.create_producer, topic)
                eventually(
                    lambda: second.gate_port in watched.seen, "the client is led to the gate"
                )
                if not is_5:
                    producing.result(timeout=60).send(b"here")
            assert watched.seen & {each.broker_port for each in transferring.brokers} == set()


def migrate(cluster: Cluster, namespace: str, url: str) -> None:
    """Tell a cluster that the topics of a namespace are at this address from now on."""
    clusters, admin = f"/admin/v2/clusters/{CLUSTER_NAME}", Topics(cluster.brokers)
    admin.ask("POST", f"{clusters}/migrate?isMigrated=false", {"brokerServiceUrl": url})
    admin.ask("POST", f"/admin/v2/namespaces/{namespace}/migration", body=True)


def stored_when_ended(cluster: Cluster, topic: str) -> int:
    """Wait until a broker has ended a topic that migrates; return its number of messages."""
    seen: dict[str, Any] = {}

    def ended() -> bool:
        answer = Topics(cluster.brokers).ask("GET", f"/admin/v2/{path_of(topic)}/internalStats")
        seen.update(json.loads(answer))
        return bool(seen["state"] == "Terminated")

    eventually(ended, "the broker ends the topic")
    return int(seen["entriesAddedCounter"])


def has_consumer(cluster: Cluster, topic: str) -> bool:
    """Whether a consumer of the test's subscription is connected."""
    stats = json.loads(Topics(cluster.brokers).ask("GET", f"/admin/v2/{path_of(topic)}/stats"))
    return bool(stats["subscriptions"]["audit"]["consumers"])


def migration_of(port: int, topic: str) -> str | None:
    """Return the address that a producer is sent to by TOPIC_MIGRATED; None where it is not."""
    version_20 = peer.command(2, (1, "mover"), (4, 20))
    with RawClient(port, connect=version_20) as client:
        answer = client.ask(peer.producer(topic, 1, 1), {TOPIC_MIGRATED, PRODUCER_SUCCESS, ERROR})
    return answer.text(3) if answer is not None and answer.kind == TOPIC_MIGRATED else None


def test_a_migration_to_a_brokers_own_port_leads_to_its_gate(
    transferring: Cluster, tmp_path: Path
) -> None:
    """An operator's mistake: the broker passes the address on as it was set, the gate does not."""
    sidecars = Sidecars(transferring, tmp_path, {"zookeeper_root": "/misled"})
    first, second = transferring.brokers
    with running(transferring, sidecars, "misled") as world:
        topic = world.topic_of[first.name]
        migrate(transferring, world.namespace, own_url(second))
        eventually(
            lambda: migration_of(first.gate_upstream_port, topic) == own_url(second),
            "the broker sends producers on",
        )
        assert migration_of(first.gate_port, topic) == second.gate_url


@contextmanager
def another_cluster(directory: Path, namespace: str) -> Iterator[Cluster]:
    """A small cluster with a sidecar and the same namespace, limited to the same."""
    directory.mkdir()
    options = ClusterOptions(
        state_dir=directory / "cluster", brokers=1, quick=True, pulsar=pulsar_version()
    )
    with Cluster.start(options) as cluster, Sidecars(cluster, directory) as sidecars:
        sidecars.start()
        with httpx.Client(trust_env=False, timeout=30.0) as http:
            make_world(cluster, sidecars, http, namespace)
        yield cluster


def test_a_namespace_that_migrates_under_load_takes_its_clients_to_the_other_clusters_gate(
    transferring: Cluster, tmp_path: Path
) -> None:
    """Nothing acknowledged is lost, and no client was at a broker's own port of either cluster.

    A broker of 4.2.4 that ends a topic while publishes are under way fences it ("Managed ledger was
    already terminated"), and sends its producers on only when it loads the topic anew. After that the
    messages that are left there cannot be read any more.
    """
    sidecars = Sidecars(transferring, tmp_path, {"zookeeper_root": "/migrating"})
    with (
        running(transferring, sidecars, "migrating") as world,
        another_cluster(tmp_path / "green", world.namespace) as green,
        connected(sidecars.service_url) as reader,
        connected(sidecars.service_url) as writer,
        OwnConnections() as connections,
    ):
        topic = world.topic_of["broker-1"]
        (there,) = green.brokers
        subscription = f"/admin/v2/{path_of(topic)}/subscription/audit"
        Topics(green.brokers).ask("PUT", subscription, "earliest")
        world.limit(publishRateInMsgs=400)
        consumer = reader.subscribe(topic, "audit")
        publisher = Publisher(writer, topic)
        with Background({"publishing": lambda: publisher.publish(MESSAGES, batching=False)}):
            eventually(lambda: len(publisher.receipts) > MESSAGES // 4, "traffic")
            migrate(transferring, world.namespace, there.gate_url)
            numbers = []
            for _ in range(stored_when_ended(transferring, topic)):
                message = consumer.receive(timeout_millis=30_000)
                consumer.acknowledge(message)
                numbers.append(int(message.data()))
            eventually(lambda: has_consumer(green, topic), "the consumer is sent on")
            Topics(transferring.brokers).ask("PUT", f"/admin/v2/{path_of(topic)}/unload")
            # A client that was refused a few times waits for seconds before it asks again.
            eventually(lambda: len(publisher.receipts) == MESSAGES, "all receipts", timeout_s=120)
        assert publisher.failures == []
        numbers += arrived(consumer, MESSAGES - 1)

        assert list(dict.fromkeys(numbers)) == list(range(MESSAGES))
        brokers = (*transferring.brokers, *green.brokers)
        assert connections.seen & {each.broker_port for each in brokers} == set()
        assert there.gate_port in connections.seen
        assert MIGRATED in sidecars.log_file("broker-1").read_text()
