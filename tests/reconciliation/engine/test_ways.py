"""The most likely way round a gate, by the publishers that a broker lists."""

from __future__ import annotations

import pytest

from coordinator.reconciliation.engine.ways import (
    KnownOrigins,
    ListedPublisher,
    Way,
    WayFinding,
    find,
)

GATE = ("127.0.0.1", 41_000)
BROKER = "10.0.0.1"
PEER = "10.9.0.7"
AROUND = KnownOrigins(frozenset({BROKER}), "pulsar.repl", lambda host: host == PEER)
TOPIC = "persistent://t/n/a"


def publisher(name: str = "p", host: str = "10.0.0.9", **others: object) -> ListedPublisher:
    """A publisher of the topic."""
    return ListedPublisher(TOPIC, name, host, 5_000, **others)  # type: ignore[arg-type]


def found(*publishers: ListedPublisher) -> WayFinding:
    """Find the way that these publishers show, beside one through the gate."""
    through = ListedPublisher(TOPIC, "through", *GATE, messages=900.0)
    return find([through, *publishers], {GATE}, AROUND)


@pytest.mark.parametrize(
    ("seen", "way"),
    [
        (publisher(client="Pulsar-CPP-v3.5.1"), Way.DIRECT),
        (publisher(host=BROKER, client="Pulsar-CPP-v3.5.1"), Way.DIRECT),
        (publisher(host=BROKER, client="Pulsar-Java-v4.2.4"), Way.INSIDE_BROKER),
        (publisher(properties={"application": "pulsar-function"}), Way.FUNCTIONS),
        (publisher(properties={"application": "pulsar-sink"}), Way.FUNCTIONS),
        (publisher(properties={"application": "shop"}), Way.DIRECT),
        (publisher("pulsar.repl.west"), Way.REPLICATION),
    ],
)
def test_a_publisher_shows_its_way(seen: ListedPublisher, way: Way) -> None:
    """By name, address, library and properties."""
    assert found(seen) == WayFinding(way, seen)


def test_publishers_of_the_gate_show_no_way() -> None:
    """Then the producers are gone already, or there is none."""
    assert found() == WayFinding(Way.UNSEEN)
    assert found().sentence.startswith("most likely a producer that the broker does not list")


def test_the_way_of_the_largest_rate_is_the_likeliest() -> None:
    """Its busiest publisher is the example."""
    busy = publisher("busy", messages=60.0)
    many = [publisher(str(n), properties={"application": "pulsar-function"}) for n in range(9)]
    assert found(*many, publisher("idle", messages=1.0), busy) == WayFinding(Way.DIRECT, busy)


def test_the_commonest_way_is_the_likeliest_without_rates() -> None:
    """All rates are 0 until the broker's next update."""
    many = [publisher(str(n), properties={"application": "pulsar-function"}) for n in range(3)]
    assert found(publisher(), *many).way is Way.FUNCTIONS


def test_clients_of_several_libraries_at_one_address_are_a_proxys() -> None:
    """Any other explanation is rarer; and the remedy names the proxy's settings."""
    java, python = publisher(client="Pulsar-Java-v4.2.4"), publisher(client="Pulsar-CPP-v3.5.1")
    assert found(java, python) == WayFinding(Way.PROXY, java)
    assert "brokerServiceURL" in Way.PROXY.fix
    elsewhere = publisher(host="10.0.0.8", client="Pulsar-CPP-v3.5.1")
    assert found(java, elsewhere).way is Way.DIRECT
    nowhere = publisher(host="", client="Pulsar-CPP-v3.5.1")
    assert found(publisher(host="", client="Pulsar-Java-v4.2.4"), nowhere).way is Way.DIRECT


def test_replication_is_exempt_only_for_named_peers() -> None:
    """Any client can choose such a name."""
    assert found(publisher("pulsar.repl.west", PEER)).replicated_permille == 1_000
    assert found(publisher("pulsar.repl.west")).replicated_permille == 0
    assert found(publisher("orders", PEER)).replicated_permille == 0


def test_the_part_of_replication_is_its_part_of_the_rates() -> None:
    """Of their number where the broker has no rates yet."""
    repl = publisher("pulsar.repl.west", PEER, messages=30.0)
    direct = publisher(messages=10.0)
    assert found(repl, direct) == WayFinding(Way.DIRECT, direct, 750)
    idle = publisher("pulsar.repl.west", PEER), publisher("a"), publisher("b"), publisher("c")
    assert found(*idle).replicated_permille == 250


def test_names_of_clients_are_safe_to_show() -> None:
    """They may hold anything, of any length."""
    evil = publisher("a\x1b[2J\n" + "b" * 500, client="x\u202ey" * 100)
    sentence = found(evil).sentence
    assert sentence.isprintable()
    assert len(sentence) < 400


def test_trouble_is_told_in_place_of_a_way() -> None:
    """As when the sidecar's token may not read statistics."""
    assert WayFinding(trouble="GET /x answered 403").sentence == "way unknown: GET /x answered 403"


@pytest.mark.parametrize("way", Way)
def test_every_way_has_words_and_a_remedy(way: Way) -> None:
    """An alarm says both."""
    assert way.text
    assert way.fix
