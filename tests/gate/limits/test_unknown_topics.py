"""Topics whose names the gate does not know are refused, or pass and are counted."""

from __future__ import annotations

import pytest

from coordinator.core.model import Rates
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.modes import Modes
from coordinator.gate.limits.unknown_topics import LETTERS_MAX, NAMES_MAX
from coordinator.insight.model.gate_views import UnknownTopicsView
from tests.gate import peer
from tests.gate.conftest import Bench, Client

LATER = "shelf://tenant/ns/t"


def letting_pass(bench: Bench, cluster_group: str = "") -> None:
    """Let topics of unknown names pass this gate."""
    bench.groups = GroupTable(
        bench.story, modes=Modes(cluster_group=cluster_group), unknown_topics_pass=True
    )


def refusals(client: Client) -> list[int]:
    """The commands that the gate answered."""
    return [peer.kind_of(frame) for frame in client.client_got()]


@pytest.mark.parametrize("frame", [peer.producer(LATER), peer.subscribe(LATER)])
def test_an_unknown_name_is_refused(bench: Bench, frame: bytes) -> None:
    """That is the default: the broker never hears of it."""
    client = bench.client()

    assert client.sends(frame) == []

    assert refusals(client) == [14]
    assert bench.groups.unknown_topics.view() == UnknownTopicsView()


def test_traffic_of_unknown_names_is_counted_where_it_passes(bench: Bench) -> None:
    """Publishes and deliveries, and the participants for as long as they are connected."""
    letting_pass(bench)
    client = bench.producing(LATER)
    consumer = bench.client()
    consumer.opens(peer.subscribe(LATER))
    assert client.sends(peer.send(messages=3))
    consumer.sends(peer.flow(1, 10))
    consumer.is_sent(peer.delivery())

    assert bench.groups.unknown_topics.view() == UnknownTopicsView(2, 4, (f"'{LATER}'",))

    client.session.close(bench.now_ns)
    consumer.session.close(bench.now_ns)
    assert bench.groups.unknown_topics.view() == UnknownTopicsView(0, 4, (f"'{LATER}'",))


def test_the_limits_of_all_traffic_hold_for_unknown_names(bench: Bench) -> None:
    """Both that of the cluster's group and the broker's own."""
    letting_pass(bench, cluster_group="all")
    client = bench.producing(LATER)
    bench.set_limits("all", Rates(publish_messages=0))
    assert client.sends(peer.send()) == []

    bench.set_limits("all", Rates())
    assert client.broker_got() == [peer.send()]
    bench.limit_broker(Rates(publish_messages=0))

    assert client.sends(peer.send()) == []
    bench.limit_broker(Rates())


def test_clients_fill_no_memory_with_names(bench: Bench) -> None:
    """The latest ten are kept, in a form that a terminal can show."""
    letting_pass(bench)
    for number in range(NAMES_MAX + 5):
        bench.client().opens(peer.producer(f"shelf://{number}\x1b[31m\u2028" + "x" * 900))

    names = bench.groups.unknown_topics.view().names

    assert len(names) == NAMES_MAX
    assert names[-1].startswith("'shelf://14")
    assert all(name.isascii() and name.isprintable() for name in names)
    assert all(len(name) < 2 * LETTERS_MAX for name in names)
