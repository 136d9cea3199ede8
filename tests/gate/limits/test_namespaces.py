"""Every message that passes counts for its namespace, whichever way it passes."""

from __future__ import annotations

from coordinator.core.model import MonitoringClass, TrafficKey
from coordinator.core.traffic import NamespaceKey, NamespaceTraffic
from coordinator.gate.limits.namespaces import FORGOTTEN, Namespaces
from tests.gate import peer
from tests.gate.conftest import MILLISECOND_NS, TOPIC, Bench

PUBLISH, DISPATCH = MonitoringClass.PUBLISH, MonitoringClass.DISPATCH


def key(
    namespace: str = "ns", *groups: str, monitoring_class: MonitoringClass = PUBLISH
) -> NamespaceKey:
    """Of the tenant that tests use."""
    return NamespaceKey("tenant", namespace, groups, monitoring_class)


def collected(bench: Bench) -> dict[NamespaceKey, NamespaceTraffic]:
    """Return the counts since the last call."""
    return {each.key: each for each in bench.groups.namespaces.collect(bench.now_ns)}


def test_all_participants_of_a_namespace_count_together(bench: Bench) -> None:
    """Two topics on two connections, without any group; who is in another namespace counts there."""
    one, other = bench.producing(), bench.producing(f"{TOPIC}-2")
    elsewhere = bench.producing("persistent://tenant/other/topic")
    one.sends(*[peer.send(1, number) for number in range(5)])
    other.sends(peer.send(messages=10))
    elsewhere.sends(peer.send())
    found = collected(bench)

    assert (found[key()].messages, found[key("other")].messages) == (15, 1)
    assert found[key()].bytes > found[key("other")].bytes > 0
    assert collected(bench) == {}


def test_a_namespace_and_its_group_count_the_same(bench: Bench) -> None:
    """Messages that passed at once, that were held first, and that were delivered."""
    bench.attach(ns="orders")
    bench.limit("orders", messages=1_000)
    client = bench.producing()
    client.opens(peer.subscribe(TOPIC))
    bench.wait(1_000)
    client.sends(*[peer.send(1, number, messages=7) for number in range(30)])
    bench.wait(5_000)
    client.is_sent(*[peer.delivery() for _ in range(9)])
    of_group = {each.monitoring_class: each for each in bench.groups.collect(bench.now_ns)}
    found = collected(bench)

    for monitoring_class in (PUBLISH, DISPATCH):
        counted = found[key("ns", "orders", monitoring_class=monitoring_class)]
        group = of_group[monitoring_class]
        assert (counted.messages, counted.bytes) == (group.messages, group.bytes)
    assert found[key("ns", "orders")].messages == 210


def test_a_namespace_is_held_while_any_of_its_clients_waits(bench: Bench) -> None:
    """From the first that waits to the last, also across two looks; a neighbour is not."""
    bench.attach(ns="orders")
    bench.limit("orders", messages=0)
    neighbour = bench.producing("persistent://tenant/other/topic")
    first, last = bench.producing(), bench.producing()
    bench.wait(100)
    first.sends(peer.send())
    bench.wait(100)
    last.sends(peer.send())
    neighbour.sends(peer.send())
    bench.wait(100)
    before = collected(bench)
    bench.wait(50)
    first.session.close(bench.now_ns)
    bench.wait(50)
    bench.limit("orders")
    bench.wait(100)
    after = collected(bench)

    assert before[key("ns", "orders")].held_ns == 200 * MILLISECOND_NS
    assert after[key("ns", "orders")].held_ns == 100 * MILLISECOND_NS
    assert before[key("other")].held_ns == 0
    assert after[key("ns", "orders")].messages == 1
    bench.clients.remove(first)


def test_what_passes_after_a_move_counts_with_the_new_group(bench: Bench) -> None:
    """A namespace attached to another group, or to a second one, is another item on the bill."""
    client = bench.producing()
    client.sends(peer.send())
    bench.attach(ns="orders")
    client.sends(peer.send(), peer.send())
    bench.attach({"tenant": "all"}, ns="orders")
    client.sends(peer.send(), peer.send(), peer.send())

    assert {each.groups: traffic.messages for each, traffic in collected(bench).items()} == {
        (): 1,
        ("orders",): 2,
        ("orders", "all"): 3,
    }


def test_replication_counts_for_no_namespace(bench: Bench) -> None:
    """It counts against no group either."""
    bench.replicating().sends(peer.send())

    assert collected(bench) == {}


def test_with_many_namespaces_each_has_its_turn_and_nothing_is_lost() -> None:
    """A call collects a part of them; the last one collects the rest."""
    namespaces = Namespaces(collected_max=2)
    counters = [namespaces.counter(key(str(number))) for number in range(5)]
    for each in counters:
        each.messages += 1
    parts = [[one.key.namespace for one in namespaces.collect(0)] for _ in range(3)]
    assert parts == [["0", "1"], ["2", "3"], ["4"]]

    for each in counters:
        each.messages += 1
    assert len(namespaces.collect(0)) == 2
    assert [each.messages for each in namespaces.collect(0, whole=True)] == [1, 1, 1]


def test_unused_namespaces_are_forgotten_and_what_was_not_collected_is_kept() -> None:
    """Participants bound the counters; one that was forgotten counts anew."""
    namespaces = Namespaces(least_room=3)
    namespaces.collect(0)
    one, two, three = (namespaces.counter(key(name)) for name in "123")
    one.participants = 1
    two.messages += 4

    namespaces.counter(key("4"))
    assert namespaces.counter(key("1")) is one
    assert namespaces.counter(key("2")) is two
    assert namespaces.counter(key("3")) is not three
    assert [each.messages for each in namespaces.collect(0)] == [4]


def test_where_nothing_is_recorded_unused_namespaces_are_forgotten_with_their_counts() -> None:
    """Otherwise they would be kept for ever."""
    namespaces = Namespaces(least_room=1)
    namespaces.counter(key("1")).messages += 4
    namespaces.counter(key("2"))

    assert namespaces.collect(0) == ()


def test_the_totals_of_a_namespace_are_those_of_all_its_groups_by_class() -> None:
    """They only grow until counters are forgotten, which they say."""
    namespaces = Namespaces(least_room=3)
    for counted in (key("1"), key("1", "g"), key("1", monitoring_class=DISPATCH)):
        counter = namespaces.counter(counted)
        counter.messages, counter.bytes = 2, 20
    totals: dict[TrafficKey, tuple[int, int]] = {}
    namespaces.add_totals(totals)
    assert totals == {("tenant/1", PUBLISH): (4, 40), ("tenant/1", DISPATCH): (2, 20)}

    namespaces.collect(0)
    namespaces.counter(key("2"))
    totals.clear()
    namespaces.add_totals(totals)
    assert totals[FORGOTTEN, PUBLISH] == (1, 1)
    assert ("tenant/1", PUBLISH) not in totals


def test_a_counter_of_replication_is_kept_while_its_producer_is_connected(bench: Bench) -> None:
    """However many namespaces replicate: what it counts is what its broker counts."""
    bench.groups.replicated = Namespaces(least_room=1)
    first = bench.replicating()
    for number in range(5):
        bench.replicating(f"persistent://tenant/ns{number}/topic")

    first.sends(peer.send(messages=5))

    assert bench.groups.passed_totals()["tenant/ns", PUBLISH][0] == 5
    first.session.close(bench.now_ns)
    for number in range(5, 50):
        bench.replicating(f"persistent://tenant/ns{number}/topic").session.close(bench.now_ns)
    assert len(bench.groups.replicated._counters) < 20
