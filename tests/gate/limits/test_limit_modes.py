"""Limits by windows at the gate, and the group that everything counts against."""

from __future__ import annotations

import pytest

from coordinator.core.limiting.windows import LimitMode, maker_of
from coordinator.core.model import Rates
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.modes import Modes
from tests.gate import peer
from tests.gate.brokers import begin, run
from tests.gate.conftest import TOPIC, Bench

OTHER = "persistent://another/ns/topic"


def with_modes(bench: Bench, modes: Modes) -> Bench:
    """The bench with another table of groups."""
    bench.groups = GroupTable(bench.story, modes=modes)
    return bench


@pytest.mark.shows("service-cluster/window", "service-cluster/publish-stops")
def test_the_101st_of_100_messages_a_second_in_400_ms_is_held_for_600_ms(bench: Bench) -> None:
    """The example of the managed service, at the gate."""
    with_modes(bench, Modes(groups=maker_of(LimitMode.WINDOW)))
    bench.limited(100)
    client = bench.producing()
    sends = [peer.send(1, number) for number in range(101)]
    passed = []
    for number in range(100):
        passed += client.sends(sends[number])
        bench.wait(4)
    assert passed == sends[:100]
    assert client.sends(sends[100]) == []
    bench.wait(595)
    assert client.broker_got() == []
    bench.wait(10)
    assert client.broker_got() == [sends[100]]


@pytest.mark.shows(
    "service-partition/check", "service-partition/soft", "service-partition/overshoot"
)
def test_a_soft_limit_of_a_partition_holds_only_after_a_look_and_until_the_second_ends(
    bench: Bench,
) -> None:
    """All messages of the first 50 ms pass."""
    with_modes(bench, Modes(topics=maker_of(LimitMode.SOFT)))
    bench.limit_topic(TOPIC, Rates(publish_messages=10))
    client = bench.producing()
    sends = [peer.send(1, number) for number in range(41)]
    assert client.sends(*sends[:40]) == sends[:40]
    bench.wait(50)
    assert client.sends(sends[40]) == []
    bench.wait(945)
    assert client.broker_got() == []
    bench.wait(10)
    assert client.broker_got() == [sends[40]]


@pytest.mark.shows("service-cluster/dispatch-stops")
@pytest.mark.parametrize(
    ("mode", "after_300_ms", "after_950_ms", "after_1300_ms"),
    [(LimitMode.WINDOW, 20, 20, 40), (LimitMode.BUCKET, 6, 19, 26)],
)
def test_a_window_dispatches_a_second_at_once_and_a_bucket_evenly(
    bench: Bench, mode: LimitMode, after_300_ms: int, after_950_ms: int, after_1300_ms: int
) -> None:
    """At 20 messages a second, of a backlog that is longer; permits leave by twos."""
    with_modes(bench, Modes(groups=maker_of(mode)))
    bench.dispatch_limited(20)
    dispatchers = begin(bench, 1, [1] * 200)
    received = []
    for milliseconds in (300, 650, 350):
        run(bench, dispatchers, milliseconds)
        received.append(sum(dispatchers[0].received))
    assert received == pytest.approx([after_300_ms, after_950_ms, after_1300_ms], abs=2)
    assert (received[0] == received[1]) is (mode is LimitMode.WINDOW)


def test_everything_counts_against_the_group_of_the_cluster(bench: Bench) -> None:
    """Beside its own group, and without one."""
    with_modes(bench, Modes(cluster_group="cluster"))
    bench.attach(ns="own")
    bench.limit("cluster", 0)
    first, second = bench.producing(), bench.producing(OTHER)
    assert first.sends(peer.send()) == second.sends(peer.send()) == []
    bench.limit("cluster", None)
    assert first.broker_got() == second.broker_got() == [peer.send()]


def test_a_namespace_in_the_group_of_the_cluster_counts_once(bench: Bench) -> None:
    """Both ways lead to the same group."""
    with_modes(bench, Modes(cluster_group="cluster"))
    bench.attach(ns="cluster")
    client = bench.producing()
    client.sends(peer.send())
    (traffic,) = bench.groups.collect(bench.now_ns)
    assert (traffic.group, traffic.messages) == ("cluster", 1)


@pytest.mark.parametrize("mode", list(LimitMode))
def test_a_rate_of_0_lets_nothing_pass_in_any_mode(bench: Bench, mode: LimitMode) -> None:
    """Until it is raised."""
    with_modes(bench, Modes(groups=maker_of(mode)))
    bench.limited(0)
    client = bench.producing()
    assert client.sends(peer.send()) == []
    bench.wait(5_000)
    assert client.broker_got() == []
    bench.limit("limited", 1_000)
    bench.wait(1_000)
    assert client.broker_got() == [peer.send()]


def test_a_soft_limit_has_no_instalments(bench: Bench) -> None:
    """It forgives what is beyond it, so all of them would be paid at one moment, one by one."""
    with_modes(bench, Modes(topics=maker_of(LimitMode.SOFT)))
    bench.limit_topic(TOPIC, Rates(publish_messages=10, dispatch_messages=10))
    client = bench.producing()
    client.sends(*(peer.send(1, number) for number in range(40)))
    bench.wait(50)
    large = peer.send(1, 41, 3_000_000, b"z" * 1_300)
    assert client.sends(large) == []
    (group,) = bench.groups.scopes.groups()

    assert group.publish_limiter.lends(3_000_000, len(large))
    assert group.dispatch_limiter.lends(3_000_000, len(large))
    bench.wait(950)
    assert client.broker_got() == [large]
