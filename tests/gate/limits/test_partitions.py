"""The limit that every partition has by default."""

from __future__ import annotations

import pytest

from coordinator.core.model import Rates
from coordinator.gate.limits.partitions import UNUSED_MAX
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench


def limit(bench: Bench, rates: Rates) -> None:
    """As the gate does it."""
    bench._scope_changed(bench.groups.scopes.partitions.set_rates(rates, bench.now_ns))


@pytest.mark.shows("service-partition/limits")
def test_each_partition_has_the_whole_limit_for_itself(bench: Bench) -> None:
    """Unlike the limit of a topic, which its partitions share."""
    limit(bench, Rates(publish_messages=100))
    client = bench.client()
    for index in (0, 1):
        client.opens(peer.producer(f"{TOPIC}-partition-{index}", index, index))
    bench.wait(1_000)
    sends = [peer.send(index, number) for number in range(50) for index in (0, 1)]
    passed = client.sends(*sends)
    for _ in range(200):
        bench.wait(5)
        passed += client.broker_got()
    assert sorted(passed) == sorted(sends)
    traffic = bench.groups.scopes.partitions.collect(bench.now_ns)
    assert {each.group: each.messages for each in traffic} == {
        f"{TOPIC}-partition-0": 50,
        f"{TOPIC}-partition-1": 50,
    }


def test_a_lifted_limit_lets_everything_pass_at_once(bench: Bench) -> None:
    """The gate stops counting by partition."""
    limit(bench, Rates(publish_messages=0))
    client = bench.producing()
    assert client.sends(peer.send()) == []
    limit(bench, Rates())
    assert client.broker_got() == [peer.send()]
    assert bench.groups.scopes.partitions.collect(bench.now_ns) == ()


def test_partitions_that_nobody_uses_are_forgotten_once_there_are_many(bench: Bench) -> None:
    """Names cannot pile up."""
    limit(bench, Rates(publish_messages=100))
    client = bench.client()
    for number in range(UNUSED_MAX + 200):
        client.opens(peer.producer(f"{TOPIC}-{number}", 1, number + 1))
        client.is_sent(peer.close_producer(1, 0))
    assert sum(1 for _ in bench.groups.scopes.partitions.groups()) <= UNUSED_MAX + 2
