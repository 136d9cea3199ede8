"""The configuration files of a local cluster, as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from deploy.local import configuration
from deploy.local.configuration import BrokerPorts, ZooKeeperPeer

PORTS = BrokerPorts(broker_port=1, web_port=2, gate_port=3, gate_upstream_port=4, admin_port=5)


def parsed(text: str) -> dict[str, str]:
    """Return the settings of a properties file."""
    return dict(line.split("=", 1) for line in text.splitlines())


def test_the_external_listener_is_advertised_as_the_sidecar_and_bound_behind_it() -> None:
    """Clients are told the gate's port, while the broker listens on the gate's upstream port."""
    settings = parsed(configuration.broker("zk:9", PORTS, None, {}))
    assert settings["advertisedListeners"] == (
        "internal:pulsar://127.0.0.1:1,external:pulsar://127.0.0.1:3"
    )
    assert settings["bindAddresses"] == "external:pulsar://127.0.0.1:4"
    assert settings["internalListenerName"] == "internal"


def test_a_further_listener_is_advertised_at_its_own_port_and_bound_nowhere() -> None:
    """Another program listens there, and the broker sends clients that ask for it to that port."""
    ports = replace(PORTS, listener_ports={"bus-1": 6, "bus-2": 7})
    settings = parsed(configuration.broker("zk:9", ports, None, {}))
    assert settings["advertisedListeners"].endswith(
        ",bus-1:pulsar://127.0.0.1:6,bus-2:pulsar://127.0.0.1:7"
    )
    assert settings["bindAddresses"] == "external:pulsar://127.0.0.1:4"


def test_pulsars_own_resource_groups_have_a_transport_only_when_asked_for() -> None:
    """Without an interval no transport is named; with one, both settings stand there."""
    name = "resourceUsageTransportClassName"
    assert name not in parsed(configuration.broker("zk:9", PORTS, None, {}))
    settings = parsed(configuration.broker("zk:9", PORTS, 7, {}))
    assert settings[name].endswith(".ResourceUsageTopicTransportManager")
    assert settings["resourceUsageTransportPublishIntervalInSecs"] == "7"


def test_a_setting_given_by_the_user_wins() -> None:
    """Overrides replace our settings and add new ones."""
    overrides = {"clusterName": "mine", "extra": "yes"}
    settings = parsed(configuration.broker("zk:9", PORTS, None, overrides))
    assert settings["clusterName"] == "mine"
    assert settings["extra"] == "yes"


def test_booleans_are_spelled_as_java_reads_them() -> None:
    """True becomes true."""
    assert configuration.properties({"a": True, "b": 3}) == "a=true\nb=3\n"


def test_a_single_zookeeper_knows_of_no_ensemble() -> None:
    """Standalone mode has no server lines; its sessions end within half a second of their time."""
    peer = ZooKeeperPeer(1, 11, 12, 13)
    settings = parsed(configuration.zookeeper(peer, [peer], Path("/d")))
    assert not [key for key in settings if key.startswith("server.")]
    assert settings["tickTime"] == "500"
    assert settings["maxSessionTimeout"] == "40000"


def test_three_zookeepers_know_each_other() -> None:
    """Each server's file lists the peer and election port of all of them."""
    peers = [ZooKeeperPeer(n, n, 10 + n, 20 + n) for n in (1, 2, 3)]
    settings = parsed(configuration.zookeeper(peers[1], peers, Path("/d")))
    assert settings["clientPort"] == "2"
    assert settings["server.3"] == "127.0.0.1:13:23"


def test_the_bookie_is_told_of_the_metadata_store_in_one_place() -> None:
    """Its metadata address is Pulsar's form, which needs Pulsar's drivers on the command line."""
    settings = parsed(configuration.bookie("h:1", 5, Path("/d")))
    assert settings["metadataServiceUri"] == "metadata-store:zk:h:1"
    assert settings["journalDirectory"] == "/d/journal"
