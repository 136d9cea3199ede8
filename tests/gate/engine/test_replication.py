"""Geo-replication: which producers count against no group, and when that is told."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from coordinator.gate.engine.replication import ReplicationPeers
from coordinator.gate.protocol.connect_policy import Client
from tests.gate import peer
from tests.gate.conftest import PEER, TOPIC, Bench

NAME = "pulsar.repl.west-->east"
PEERS = ReplicationPeers(
    networks=(ip_network("10.0.0.0/24"), ip_network("2001:db8::/64")), roles=frozenset({"west"})
)
OTHER = "persistent://tenant/other/topic"


@pytest.mark.parametrize(
    "client",
    [
        Client("10.0.0.7"),
        Client("::ffff:10.0.0.7"),
        Client("2001:db8::7"),
        Client("2001:db8::7%eth0"),
        Client("192.0.2.1", "west"),
    ],
    ids=["IPv4", "IPv4 in IPv6", "IPv6", "IPv6 with a scope", "role"],
)
@pytest.mark.shows("pip-82/replication-exempt")
def test_a_named_address_or_role_is_exempt(client: Client) -> None:
    """The system may write the address in any form."""
    assert PEERS.exempt(client, NAME)


@pytest.mark.parametrize(
    "client",
    [
        Client(),
        Client("10.0.1.7"),
        Client("2001:db8:0:1::7"),
        Client("192.0.2.1", "West"),
        Client("192.0.2.1", ""),
    ],
    ids=["nothing known", "other network", "other prefix", "other case", "no certificate"],
)
def test_any_other_client_is_limited(client: Client) -> None:
    """The name of a client's producer proves nothing."""
    assert not PEERS.exempt(client, NAME)


@pytest.mark.parametrize("name", ["", "app", "pulsar.rep", "x pulsar.repl.west"])
def test_a_peers_other_producers_are_limited(name: str) -> None:
    """A remote broker may have other clients on its machine."""
    assert not PEERS.exempt(Client("10.0.0.7", "west"), name)


def test_without_peers_no_client_is_exempt() -> None:
    """A client with an empty role is not exempt either."""
    assert not ReplicationPeers().exempt(Client("10.0.0.7", "west"), NAME)
    assert not ReplicationPeers(roles=frozenset({""})).exempt(Client("10.0.0.7"), NAME)


@pytest.mark.parametrize("answer", [peer.error(1), peer.PING], ids=["ERROR", "none"])
def test_a_producer_is_no_exemption_before_the_broker_has_accepted_it(
    bench: Bench, answer: bytes
) -> None:
    """The record names producers that publish without a limit, and this one does not publish."""
    client = bench.client(replication=PEER)
    client.session.connected(Client("10.0.0.7"))
    client.sends(peer.producer(TOPIC, name=NAME))

    client.is_sent(answer)

    assert client.exemptions == []


def test_a_producer_that_the_gate_refuses_is_no_exemption(bench: Bench) -> None:
    """One with the id of another producer gets an error."""
    client = bench.replicating()

    assert client.sends(peer.producer(OTHER, 1, 2, name=NAME)) == []
    assert client.exemptions == [NAME]


def test_a_producer_that_is_asked_for_twice_is_one_exemption(bench: Bench) -> None:
    """The broker grants the second request as well, to the same producer."""
    client = bench.replicating()
    again = peer.producer(TOPIC, 1, 2, name=NAME)

    client.opens(again)

    assert client.exemptions == [NAME]
