"""Real clients that go round real gates are told, by both classes and to the byte, whatever they claim.

So is what is attached here and does not exist in Pulsar, or was made in Pulsar and is not known here.
Messages are larger than the uncertainty of an account, so that none of them waits untold for others.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import httpx
import pulsar
import pytest

from coordinator.reconciliation.engine.account import LEAST
from deploy.background import Background
from deploy.clients import quiet_client
from deploy.local.cluster import Cluster
from deploy.local.sidecars import PROGRAM, Sidecars
from tests.attacks.raw import RawClient
from tests.gate import peer
from tests.integration.world import TENANT, World, eventually, make_world

pytestmark = pytest.mark.cluster

BROKER = "broker-1"
RATE = 200
SEEN_WITHIN_S = 10.0
OFTEN = {"reconcile_seconds": 1.0, "reconcile_part": 0.25, "inventory_seconds": 1.0}
"""A cluster of tests has many topics, and other work."""
LARGE = bytes(2 * LEAST)
RECEIPT, SEND_ERROR = 7, 8
_RATE = re.compile(
    r'^pulsar_quota_escaping_bytes_per_second\{monitoring_class="Publish",namespace="([^"]+)"\} (\S+)$',
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def sidecars_that_reconcile(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sidecars]:
    """Sidecars that compare the counters once a second."""
    with Sidecars(cluster, tmp_path_factory.mktemp("reconciling"), OFTEN) as sidecars:
        sidecars.start()
        yield sidecars


@pytest.fixture
def reconciled(
    cluster: Cluster, sidecars_that_reconcile: Sidecars, request: pytest.FixtureRequest
) -> Iterator[World]:
    """A namespace that these sidecars have read before anything is published to it."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        name = f"{TENANT}/r{abs(hash(request.node.name))}"
        world = make_world(cluster, sidecars_that_reconcile, http, name)
        read_again(world, 1)
        yield world


def own_port(world: World, name: str = BROKER) -> pulsar.Client:
    """A stock client at a broker's own port."""
    return quiet_client(world.cluster.broker(name).service_url)


def at_gates(world: World) -> pulsar.Client:
    """A stock client of the gates."""
    return quiet_client(world.sidecars.service_url)


def read_again(world: World, times: int) -> None:
    """Wait until every sidecar has compared the counters some more times."""
    for name in world.topic_of:
        since = world.get("/quota/v1/reconciliation", at=name)["readings"]
        eventually(
            lambda name=name, since=since: (  # type: ignore[misc]
                world.get("/quota/v1/reconciliation", at=name)["readings"] >= since + times
            ),
            f"{name} reads",
        )


def escaped(world: World, name: str = BROKER) -> dict[str, tuple[int, int]]:
    """Messages and bytes that a sidecar has told of the test's namespace, by class."""
    rows = world.get("/quota/v1/reconciliation", at=name)["escapes"]
    return {
        row["monitoringClass"]: (row["messages"], row["bytes"])
        for row in rows
        if row["namespace"] == world.namespace
    }


def escaping(world: World) -> float:
    """The rate of what is published to the test's namespace, by the metric of the broker's sidecar."""
    text = world.http.get(f"{world.sidecars.admin_url(BROKER)}/metrics").text
    return float(dict(_RATE.findall(text)).get(world.namespace, 0.0))


def conditions(world: World, name: str = BROKER) -> list[dict[str, Any]]:
    """The conditions of traffic round the gate that hold for the test's namespace."""
    return [
        each
        for each in world.get("/quota/v1/conditions", at=name)
        if each["condition"] == "TrafficRoundTheGate" and f" {world.namespace} " in each["subject"]
    ]


def examined(world: World) -> list[str]:
    """The doctor's findings about the test's namespace."""
    found = pulsar_quota(world, "--json", "doctor")
    findings = [each for each in json.loads(found.stdout) if each["subject"] == "round the gate"]
    assert findings, found.stdout
    return [each["text"] for each in findings if world.namespace in each["text"]]


class Publishing(Background):
    """Publishes large messages to a topic at its broker's own port, one after the other."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        super().__init__({"publishing": self._publish})
        self._producer = client.create_producer(topic, batching_enabled=False)

    def _publish(self) -> None:
        while not self._stop.wait(0.05):
            self._producer.send(LARGE)


def test_a_consumer_at_the_brokers_own_port_is_told_to_the_byte(reconciled: World) -> None:
    """It gets the messages that came through the gate, as a consumer of the gate does."""
    topic, number = reconciled.topic_of[BROKER], 50
    with closing(at_gates(reconciled)) as client, closing(own_port(reconciled)) as round_it:
        through = client.subscribe(topic, "through")
        producer = client.create_producer(topic, batching_enabled=False)
        for _ in range(number):
            producer.send(LARGE)
            through.receive(30_000)
        size = reconciled.topics.counters(topic).bytes_in
        earliest = pulsar.InitialPosition.Earliest
        consumer = round_it.subscribe(topic, "round", initial_position=earliest)
        for _ in range(number):
            consumer.receive(30_000)
        eventually(
            lambda: escaped(reconciled) == {"Dispatch": (number, size)},
            f"{number} messages of {size} bytes are told",
            last=lambda: escaped(reconciled),
        )


def test_readers_that_end_at_once_are_told_as_such(reconciled: World) -> None:
    """At the broker's own port, each for a few messages; a condition while they go on."""
    topic = reconciled.topic_of[BROKER]
    with closing(own_port(reconciled)) as client, closing(at_gates(reconciled)) as through:
        producer = through.create_producer(topic, batching_enabled=False)
        for _ in range(20):
            producer.send(LARGE)

        def read_and_end() -> bool:
            reader = client.create_reader(topic, pulsar.MessageId.earliest)
            for _ in range(20):
                reader.read_next(30_000)
            reader.close()
            subject = f"{BROKER} (ended subscriptions) Dispatch"
            told = reconciled.get("/quota/v1/conditions", at=BROKER)
            return any(each["subject"] == subject for each in told)

        eventually(read_and_end, "the condition holds")


@pytest.mark.parametrize("local_name", ["__change_events", "__transaction_buffer_snapshot"])
def test_a_producer_of_a_system_topic_at_the_brokers_own_port_is_told(
    reconciled: World, local_name: str
) -> None:
    """By its namespace, to the byte, as a condition; no name exempts it."""
    topic = f"persistent://{reconciled.namespace}/{local_name}"
    name = reconciled.topics.owner(topic).name
    with closing(own_port(reconciled, name)) as client:
        with Publishing(client, topic):
            eventually(lambda: bool(conditions(reconciled, name)), "the condition holds")
        counted = reconciled.topics.counters(topic)
        expected = (counted.messages_in, counted.bytes_in)
        eventually(
            lambda: escaped(reconciled, name)["Publish"] == expected,
            f"{expected} is told",
            last=lambda: escaped(reconciled, name),
        )


def by_both(number: int) -> bytes:
    """A SEND whose command and metadata claim 40,000 messages."""
    return peer.send(1, number, 40_000, checksum=False)


def by_metadata(number: int) -> bytes:
    """A SEND whose metadata claim 40,000 messages and whose command says one."""
    command = peer.message((1, 6), (6, peer.message((1, 1), (2, number))))
    return peer.frame(command, peer.payload_of(b"x" * 100, 40_000, checksum=False))


def test_messages_claimed_at_a_gate_do_not_hide_what_goes_round_it(reconciled: World) -> None:
    """40,000 in each SEND, by command and metadata, or by metadata alone: bytes decide."""
    topic, number = reconciled.topic_of[BROKER], 50
    gate = reconciled.cluster.broker(BROKER).gate_port
    with closing(own_port(reconciled)) as client, RawClient(gate) as claiming:
        producer = client.create_producer(topic, batching_enabled=False)
        assert claiming.open_producer(topic)

        def claim() -> None:
            for each in range(10):
                frame = by_both(each) if each % 2 else by_metadata(each)
                answer = claiming.ask(frame, {RECEIPT, SEND_ERROR})
                assert answer is not None
                assert answer.kind == RECEIPT

        claim()
        at_the_gate = reconciled.topics.counters(topic).bytes_in
        for _ in range(number):
            producer.send(LARGE)
        size = reconciled.topics.counters(topic).bytes_in - at_the_gate
        claim()
        eventually(
            lambda: escaped(reconciled).get("Publish", (0, 0))[1] == size,
            f"{size} bytes are told",
            last=lambda: escaped(reconciled),
        )


def test_clients_of_gates_are_never_told(reconciled: World) -> None:
    """Plain, batched, compressed, in chunks; several kinds of subscriptions, and readers that end."""
    kinds: list[dict[str, Any]] = [
        {"batching_enabled": False},
        {"batching_enabled": True, "batching_max_publish_delay_ms": 5},
        *(
            {"batching_enabled": True, "compression_type": each}
            for each in (
                pulsar.CompressionType.LZ4,
                pulsar.CompressionType.ZLib,
                pulsar.CompressionType.ZSTD,
                pulsar.CompressionType.SNAPPY,
            )
        ),
        {"batching_enabled": False, "chunking_enabled": True},
    ]
    topic = reconciled.topic_of[BROKER]
    read_again(reconciled, 3)  # of what an earlier test's clients did
    before = ended(reconciled)
    with closing(at_gates(reconciled)) as client:
        exclusive = client.subscribe(topic, "exclusive")
        shared = client.subscribe(topic, "shared", consumer_type=pulsar.ConsumerType.Shared)
        reader = client.create_reader(topic, pulsar.MessageId.latest)
        for kind in kinds:
            producer = client.create_producer(topic, **kind)
            contents = [bytes(6 << 20)] if "chunking_enabled" in kind else [bytes(100)] * 100
            for content in contents:
                producer.send_async(content, lambda *_: None)
            producer.flush()
            producer.close()
            for _ in contents:
                exclusive.receive(30_000)
                shared.receive(30_000)
                reader.read_next(30_000)
        reader.close()
        exclusive.unsubscribe()
    read_again(reconciled, 4)
    assert (escaped(reconciled), ended(reconciled)) == ({}, before)


def told(world: World, kind: str) -> set[str]:
    """The subjects of a kind of condition, at any sidecar."""
    return {subject for name in world.topic_of for subject in told_by(world, name, kind)}


def told_by(world: World, name: str, kind: str) -> set[str]:
    """The subjects of a kind of condition, at one sidecar."""
    found = world.get("/quota/v1/conditions", at=name)
    return {each["subject"] for each in found if each["condition"] == kind}


def pulsar_quota(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command against a sidecar."""
    command = [sys.executable, *PROGRAM, "--api", world.sidecars.admin_url(BROKER), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def says(world: World, command: str, words: str) -> None:
    """Wait until a command has these words: each sidecar looks by itself, and this is one of them."""
    eventually(
        lambda: words in " ".join(pulsar_quota(world, command).stdout.split()),
        f"{command} says {words!r}",
    )


def test_what_was_deleted_at_a_broker_is_an_orphan_until_its_group_is_deleted_by_force(
    reconciled: World,
) -> None:
    """A namespace and a tenant; what still exists is none."""
    at_broker = f"{reconciled.cluster.web_url()}/admin/v2"
    namespace, tenant = f"{TENANT}/gone-{reconciled.group}", f"gone-{reconciled.group}"
    reconciled.limit(publishRateInMsgs=100)
    reconciled.topics.create_namespace(namespace, 4)
    reconciled.topics.create_tenant(tenant)
    at_sidecar = f"{reconciled.sidecars.admin_url('broker-2')}/admin/v2"
    for owner in (f"namespaces/{namespace}", f"tenants/{tenant}"):
        url = f"{at_sidecar}/{owner}/resourcegroup/{reconciled.group}"
        reconciled.http.post(url).raise_for_status()
        reconciled.http.delete(f"{at_broker}/{owner}").raise_for_status()

    eventually(lambda: told(reconciled, "Orphaned") >= {namespace, tenant}, "both are told")
    says(reconciled, "doctor", f"groups detach --namespace {namespace}")
    says(reconciled, "doctor", f"groups detach --tenant {tenant}")
    assert pulsar_quota(reconciled, "groups", "delete", reconciled.group).returncode == 1
    forced = pulsar_quota(reconciled, "groups", "delete", "--force", reconciled.group)
    assert forced.returncode == 0, forced.stderr
    eventually(lambda: not told(reconciled, "Orphaned") & {namespace, tenant}, "none is left")


def test_a_namespace_that_is_made_anew_is_not_held_in_silence(reconciled: World) -> None:
    """Deleted and made again at a broker while it was attached: told until it is detached."""
    namespace = f"{TENANT}/anew-{reconciled.group}"
    at_broker = f"{reconciled.cluster.web_url()}/admin/v2/namespaces/{namespace}"
    reconciled.limit(publishRateInMsgs=100)
    reconciled.topics.create_namespace(namespace, 4)
    reconciled.attach(namespace)
    reconciled.http.delete(at_broker).raise_for_status()
    # Each sidecar looks by itself, and the doctor asks this one.
    eventually(lambda: namespace in told_by(reconciled, BROKER, "Orphaned"), "it is gone")
    reconciled.topics.create_namespace(namespace, 4)

    says(reconciled, "doctor", f"the namespace {namespace} was deleted and made anew")
    detached = pulsar_quota(
        reconciled, "groups", "detach", reconciled.group, "--namespace", namespace
    )
    assert detached.returncode == 0, detached.stderr
    eventually(lambda: namespace not in told(reconciled, "Orphaned"), "it is detached")


def test_a_group_that_was_made_at_a_broker_is_told_until_it_is_known(reconciled: World) -> None:
    """By its name, with the command that takes it over."""
    name = f"alone-{reconciled.group}"
    at_broker = f"{reconciled.cluster.web_url()}/admin/v2/resourcegroups/{name}"
    reconciled.http.put(at_broker, json={"publishRateInMsgs": 100}).raise_for_status()
    try:
        eventually(lambda: name in told(reconciled, "OnlyInPulsar"), "it is told")
        says(reconciled, "doctor", f"the resource group {name} was made at a broker")
        line = (
            f"pulsar-quota import --from {reconciled.cluster.broker(BROKER).web_url} takes it over"
        )
        for command in ("doctor", "status"):
            says(reconciled, command, line)
        made = pulsar_quota(reconciled, "groups", "create", name, "-mp", "100")
        assert made.returncode == 0, made.stderr
        eventually(lambda: name not in told(reconciled, "OnlyInPulsar"), "it is known")
    finally:
        pulsar_quota(reconciled, "groups", "delete", name)
        reconciled.http.delete(at_broker)


def test_a_namespace_that_was_attached_at_a_broker_is_told_until_it_is_imported(
    reconciled: World,
) -> None:
    """A group that only Pulsar has, too; one import takes both over."""
    name, namespace = f"theirs-{reconciled.group}", f"{TENANT}/theirs"
    reconciled.topics.create_namespace(namespace, bundles=4)
    url = f"{reconciled.cluster.web_url()}/admin/v2"
    group_url, attached_url = f"{url}/resourcegroups/{name}", f"{url}/namespaces/{namespace}"
    reconciled.http.put(group_url, json={"publishRateInMsgs": 100}).raise_for_status()
    reconciled.http.post(f"{attached_url}/resourcegroup/{name}").raise_for_status()
    try:
        eventually(lambda: {name, namespace} <= told(reconciled, "OnlyInPulsar"), "both are told")
        says(reconciled, "doctor", f"the namespace {namespace} was attached to {name} at a broker")
        source = reconciled.cluster.broker(BROKER).web_url
        imported = pulsar_quota(reconciled, "import", "--from", source)
        assert imported.returncode == 0, imported.stderr
        eventually(lambda: not told(reconciled, "OnlyInPulsar") & {name, namespace}, "both known")
        assert reconciled.get(f"/quota/v1/groups/{name}")["attachments"]["namespaces"] == [
            namespace
        ]
    finally:
        pulsar_quota(reconciled, "groups", "delete", name, "--force")
        reconciled.http.delete(f"{attached_url}/resourcegroup")
        reconciled.http.delete(group_url)


def ended(world: World) -> int:
    """The bytes that the broker's sidecar has told of ended subscriptions."""
    rows = world.get("/quota/v1/reconciliation", at=BROKER)["escapes"]
    return sum(row["bytes"] for row in rows if row["namespace"] == "(ended subscriptions)")


def test_bus_topics_are_told_and_are_no_condition(reconciled: World) -> None:
    """Sidecars speak there at the brokers' own ports, so what passes there is shown as their row."""
    name = reconciled.topics.owner(reconciled.sidecars.bus_topics[0]).name

    def rows() -> dict[str, dict[str, Any]]:
        found = reconciled.get("/quota/v1/reconciliation", at=name)["escapes"]
        return {row["monitoringClass"]: row for row in found if row["namespace"] == "(bus topics)"}

    eventually(lambda: rows().keys() == {"Publish", "Dispatch"}, "the bus is told")
    assert not any(row["escaping"] for row in rows().values())
    assert not any(
        "(bus" in each["subject"] for each in reconciled.get("/quota/v1/conditions", at=name)
    )


def test_a_topic_whose_name_keeps_it_out_of_the_metrics_is_told(reconciled: World) -> None:
    """One with a line feed; by its namespace and as a condition, at the broker that has it."""
    topic = f"non-persistent://{reconciled.namespace}/one\ntwo"
    with closing(own_port(reconciled)) as client:
        client.create_producer(topic).send(b"x")
        eventually(
            lambda: any(map(partial(tells_uncounted, reconciled), reconciled.topic_of)), "told"
        )


def tells_uncounted(world: World, name: str) -> bool:
    """Whether a sidecar tells that it misses topics of the test's namespace, as a condition, too."""
    found = world.get("/quota/v1/reconciliation", at=name)["uncounted"]
    subjects = [each["subject"] for each in conditions(world, name)]
    told = [each["namespace"] for each in found]
    return world.namespace in told and f"{name} {world.namespace} uncounted" in subjects


@contextmanager
def clients_round_the_gate(world: World, rate: int) -> Iterator[None]:
    """A stock client that publishes at the broker's own port; the block begins when it may send."""
    process = subprocess.Popen(
        [
            sys.executable,
            *("-m", "deploy.demo.load", "--url", world.cluster.broker(BROKER).service_url),
            *("--topic", world.topic_of[BROKER], "--rate", str(rate)),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "connected"
        yield
    finally:
        process.terminate()
        process.communicate(timeout=60)


def bytes_per_message(world: World) -> float:
    """The bytes of a message of the load, by the broker's counter."""
    counted = world.topics.counters(world.topic_of[BROKER])
    return counted.bytes_in / counted.messages_in


def examined_rate(world: World) -> float:
    """The rate in the doctor's sentence about the test's namespace."""
    (sentence,) = examined(world)
    return float(sentence.split()[0].replace(",", ""))


def overview_rate(world: World) -> float:
    """The rate in the overview of groups."""
    rows = world.get("/quota/v1/overview?limit=200", at=BROKER)["rows"]
    (row,) = (each for each in rows if each["group"] == world.group)
    return float(row["escapingBytes"])


@pytest.mark.verify
def test_traffic_round_a_gate_is_told_within_ten_seconds(reconciled: World) -> None:
    """By metric, condition and doctor, within a tenth of its rate; and nothing before."""
    world = reconciled
    world.limit(publishRateInMsgs=10_000)
    with world.load({BROKER: RATE}):
        time.sleep(SEEN_WITHIN_S)
        assert (escaping(world), conditions(world), examined(world)) == (0.0, [], [])
        with clients_round_the_gate(world, RATE):
            eventually(
                lambda: (
                    escaping(world) > 0
                    and [world.namespace in each["sentence"] for each in conditions(world)]
                    == [True]
                ),
                "told",
                SEEN_WITHIN_S,
            )
            # A busy machine sends, and counts, now more and now less.
            rate = RATE * bytes_per_message(world)
            for place in (escaping, examined_rate, overview_rate):
                eventually(lambda: place(world) == pytest.approx(rate, rel=0.1), place.__name__)  # noqa: B023
        eventually(lambda: not escaping(world), "it is over", 3 * SEEN_WITHIN_S)
        assert examined(world) == []
    world.limit(publishRateInMsgs=-1)
