"""Single subscriptions, and the replication of single remote clusters, with groups of their own."""

from __future__ import annotations

import pytest

from coordinator.core.model import Attachments, MonitoringClass, Rates
from coordinator.gate.protocol.connect_policy import Client as Address
from tests.gate import peer
from tests.gate.conftest import PEER, TOPIC, Bench, Client

LIMIT = 10


def attach(bench: Bench, attachments: Attachments) -> None:
    """Attach, as a gate does."""
    bench.groups.attachments = attachments
    for client in bench.clients:
        client.session.reattach(bench.now_ns)


def groups_of(bench: Bench, monitoring_class: MonitoringClass) -> dict[str, int]:
    """The participants of each group that has any."""
    traffic = bench.groups.collect(bench.now_ns)
    return {
        each.group: each.participants
        for each in traffic
        if each.monitoring_class is monitoring_class and each.participants
    }


@pytest.mark.parametrize("partition", ["", "-partition-0", "-partition-12"])
def test_a_subscription_counts_for_its_group_and_that_of_its_namespace(
    bench: Bench, partition: str
) -> None:
    """With all partitions of its topic, and no other subscription does."""
    client = bench.client()
    for number, name in enumerate(("audit", "other"), 1):
        client.opens(peer.subscribe(TOPIC + partition, number, number, name))
    key = TOPIC.replace("://", "/") + "/audit"
    attach(bench, Attachments({}, {"tenant/ns": "ns"}, subscriptions={key: "slow"}))
    assert groups_of(bench, MonitoringClass.DISPATCH) == {"slow": 1, "ns": 2}
    attach(bench, Attachments({}, {"tenant/ns": "ns"}))
    assert groups_of(bench, MonitoringClass.DISPATCH) == {"ns": 2}


def test_a_limited_subscription_gets_permits_by_its_limit_and_others_at_once(bench: Bench) -> None:
    """The client's producers of the topic are not concerned."""
    key = TOPIC.replace("://", "/") + "/audit"
    attach(bench, Attachments(subscriptions={key: "slow"}))
    bench.set_limits("slow", Rates(publish_messages=0, dispatch_messages=LIMIT))
    client = bench.client()
    client.opens(peer.producer(TOPIC), peer.subscribe(TOPIC, 1, 2, "audit"))
    client.opens(peer.subscribe(TOPIC, 2, 3, "other"))
    assert client.sends(peer.send()) == [peer.send()]
    assert client.sends(peer.flow(2, 1_000)) == [peer.flow(2, 1_000)]
    client.sends(peer.flow(1, 1_000))
    assert client.session.withheld_permits > 900


def replicating(bench: Bench, name: str) -> Client:
    """A producer of a remote cluster."""
    client = bench.client(replication=PEER)
    client.session.connected(Address("10.0.0.7"))
    client.opens(peer.producer(TOPIC, name=name))
    return client


def test_replication_counts_for_the_group_of_its_cluster_and_no_other(bench: Bench) -> None:
    """Without an attachment it is exempt as before, and counted apart in either case."""
    attached = Attachments({"tenant": "t"}, {"tenant/ns": "ns"}, roles={"": "rest"})
    west = replicating(bench, "pulsar.repl.west-->east")
    replicating(bench, "pulsar.repl.north-->east")
    attach(bench, attached)
    assert groups_of(bench, MonitoringClass.PUBLISH) == {}
    attach(bench, Attachments(attached.tenants, attached.namespaces, clusters={"west": "slow"}))
    assert groups_of(bench, MonitoringClass.PUBLISH) == {"slow": 1}
    bench.limit("slow", messages=LIMIT)
    passed = len(west.sends(*(peer.send(sequence_id=number) for number in range(3 * LIMIT))))
    assert passed <= LIMIT
    assert bench.counters.replicated_messages == passed
    attach(bench, attached)
    assert west.session.held_frames == 0, "exempt again, and what was held goes on"
    assert bench.counters.replicated_messages == 3 * LIMIT, "what was held is counted like the rest"


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("pulsar.repl.west", {"slow": 1}),
        ("pulsar.repl.west-->east", {"slow": 1}),
        ("pulsar.repl.west-->east-->north", {"slow": 1}),
        ("pulsar.repl.", {}),
        ("pulsar.repl.west.2-->east", {}),
        ("pulsar.repl.north-->west", {}),
    ],
)
def test_the_cluster_is_the_one_that_the_name_says_it_comes_from(
    bench: Bench, name: str, groups: dict[str, int]
) -> None:
    """Older brokers name only that one."""
    attach(bench, Attachments(clusters={"west": "slow"}))
    replicating(bench, name)
    assert groups_of(bench, MonitoringClass.PUBLISH) == groups


def test_a_stranger_that_calls_itself_a_replicator_is_limited_as_a_stranger(bench: Bench) -> None:
    """Only listed peers replicate."""
    attach(bench, Attachments({"tenant": "t"}, clusters={"west": "slow"}))
    client = bench.client(replication=PEER)
    client.session.connected(Address("10.9.9.9"))
    client.opens(peer.producer(TOPIC, name="pulsar.repl.west-->east"))
    assert groups_of(bench, MonitoringClass.PUBLISH) == {"t": 1}
