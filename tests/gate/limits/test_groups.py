"""The groups that a gate knows: which of them it asks for news, and which it forgets."""

from __future__ import annotations

import pytest

from coordinator.core.model import MonitoringClass, Rates
from coordinator.core.traffic import Traffic
from coordinator.gate.limits.counters import TrafficCounter
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.modes import Modes
from tests.gate import peer
from tests.gate.conftest import Bench


def test_only_groups_that_may_have_news_are_asked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many limited groups the gate asks the one with a producer, as long as it has one."""
    for number in range(50):
        bench.limit(f"g{number}", 1_000)
    bench.attach(ns="g7")
    asked: list[str] = []
    collect = TrafficCounter.collect

    def noted(self: TrafficCounter, now_ns: int) -> Traffic | None:
        asked.append(self.group)
        return collect(self, now_ns)

    monkeypatch.setattr(TrafficCounter, "collect", noted)
    bench.groups.collect(bench.now_ns)
    assert len(asked) == 100
    asked.clear()
    assert bench.groups.collect(bench.now_ns) == ()
    assert asked == []

    client = bench.producing()
    for _ in range(3):
        assert [each.group for each in bench.groups.collect(bench.now_ns)] == ["g7"]
    client.session.close(bench.now_ns)
    bench.groups.collect(bench.now_ns)
    bench.groups.collect(bench.now_ns)
    assert set(asked) == {"g7"}
    asked.clear()
    bench.groups.collect(bench.now_ns)
    assert asked == []


def test_what_passes_after_a_silence_is_counted(bench: Bench) -> None:
    """Each message once, however often its group fell silent."""
    bench.attach(ns="group")
    bench.limit("group", 1_000_000)
    bench.wait(1_000)
    counted = 0
    for _ in range(3):
        client = bench.producing()
        client.sends(peer.send(messages=5))
        client.session.close(bench.now_ns)
        for _ in range(3):
            counted += sum(each.messages for each in bench.groups.collect(bench.now_ns))
            bench.wait(1_000)
    assert counted == 15


def test_a_group_is_forgotten_when_nobody_mentions_it_any_more(bench: Bench) -> None:
    """It stays while it has limits or a connected participant."""
    bench.attach(ns="group")
    bench.limit("group", 1_000)
    client = bench.producing()
    group = bench.groups.group("group")
    bench.groups.remove_limits("group", bench.now_ns)
    bench.groups.collect(bench.now_ns)
    assert bench.groups.group("group") is group
    bench.limit("group", 1_000)
    client.session.close(bench.now_ns)
    bench.groups.collect(bench.now_ns)
    bench.groups.collect(bench.now_ns)
    assert bench.groups.group("group") is group

    bench.groups.remove_limits("group", bench.now_ns)
    bench.groups.collect(bench.now_ns)
    assert bench.groups.group("group") is not group


@pytest.mark.parametrize("monitoring_class", MonitoringClass)
def test_the_debt_of_a_batch_is_told_until_it_is_paid(
    bench: Bench, monitoring_class: MonitoringClass
) -> None:
    """A batch of 300 at 100 a second: half a second later 50 of the debt are paid."""
    limits = Rates(publish_messages=100, dispatch_messages=100)
    group = bench.groups.set_limits("group", limits, bench.now_ns)
    is_dispatch = monitoring_class is MonitoringClass.DISPATCH
    counter = group.dispatch if is_dispatch else group.publish
    counter.join("topic")
    bench.wait(1_000)
    if is_dispatch:
        group.dispatch_limiter.passed(300, 0, (300, 0), bench.now_ns)
    else:
        assert group.publish_limiter.admits(300, 0, bench.now_ns)
        group.publish_limiter.consume(300, 0)

    owed = []
    for _ in range(8):
        (counted,) = bench.groups.collect(bench.now_ns)
        owed.append(counted.messages_owed)
        bench.wait(500)
    counter.leave("topic")

    # The bucket had saved up 5 messages.
    assert owed == [295, 245, 195, 145, 95, 45, 0, 0]


@pytest.mark.parametrize("name", ["beside", "__change_events"])
def test_a_topic_beside_the_bus_counts_and_is_limited_like_any_other(
    bench: Bench, name: str
) -> None:
    """Sidecars and brokers reach theirs at the brokers' own listener: through a gate it is a client's."""
    topic = f"non-persistent://pulsar/system/{name}"
    bench.groups = GroupTable(bench.story, modes=Modes(cluster_group="all"))
    bench.set_limits("all", Rates(publish_messages=0, dispatch_messages=0))
    producer, consumer = bench.producing(topic), bench.client()
    consumer.opens(peer.subscribe(topic))
    assert producer.sends(peer.send(messages=3)) == []
    assert consumer.sends(peer.flow(1, 10)) == []

    bench.set_limits("all", Rates())
    assert producer.broker_got() == [peer.send(messages=3)]
    assert consumer.broker_got() == [peer.flow(1, 10)]
    consumer.is_sent(peer.delivery(1))
    counted = bench.groups.collect(bench.now_ns)
    assert [(each.group, each.messages, each.participants) for each in counted] == [
        ("all", 3, 1),
        ("all", 1, 1),
    ]
    assert bench.groups.passed_totals() == {
        ("pulsar/system", each.monitoring_class): (each.messages, each.bytes) for each in counted
    }
