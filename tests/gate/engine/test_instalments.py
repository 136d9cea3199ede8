"""A publish takes a bounded time of its limit in advance and pays the rest in instalments."""

from __future__ import annotations

import pytest

from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass, Rates
from coordinator.gate.limits.counters import TrafficCounter
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.metering import DEBT_NS
from tests.gate import peer
from tests.gate.conftest import START_NS, TOPIC, Bench, Story

HOUR_S = DEBT_NS // NANOS_PER_SECOND
HOUR_MS = HOUR_S * 1000
MOST = HOUR_S + 1
"""The tokens that one publish takes at once of one message per second: one, and an hour's."""

OTHER = "persistent://tenant/ns/other"
BATCH = 2 * MOST + 10
"""Messages of a publish that is paid for in three instalments."""


def limited(bench: Bench) -> None:
    """One message per second, and one has been saved up."""
    bench.attach(ns="group")
    bench.limit("group", 1)
    bench.wait(1000)


def paid(bench: Bench) -> int:
    """Messages that the group was charged for since the last look."""
    return sum(traffic.messages for traffic in bench.groups.collect(bench.now_ns))


def test_a_limiter_lends_an_hour_beside_its_bucket() -> None:
    """It lends messages and bytes alike; without a limit it lends any amount."""
    limiter = PublishLimiter(TrafficCounter("group", MonitoringClass.PUBLISH, Story()))
    assert min(limiter.most) > 10**18

    limiter.set_limits(Rates(publish_messages=1000, publish_bytes=100_000), START_NS)

    assert limiter.most == (45 + 1000 * HOUR_S, 4500 + 100_000 * HOUR_S)


@pytest.mark.parametrize(("messages", "admitted"), [(MOST, True), (MOST + 1, False)])
def test_no_more_than_that_passes_at_once(messages: int, admitted: bool) -> None:
    """However full the bucket is."""
    limiter = PublishLimiter(TrafficCounter("group", MonitoringClass.PUBLISH, Story()))
    limiter.set_limits(Rates(publish_messages=1), START_NS)
    later_ns = START_NS + 10 * NANOS_PER_SECOND

    assert limiter.admits(messages, 100, later_ns) is admitted
    assert limiter.take(messages, 100, later_ns) is admitted


def test_a_publish_that_takes_an_hour_passes_at_once_and_leaves_a_debt(bench: Bench) -> None:
    """The next message of the group has to wait for all of it."""
    limited(bench)
    client = bench.producing()

    assert client.sends(peer.send(1, 0, MOST)) == [peer.send(1, 0, MOST)]
    assert client.sends(peer.send(1, 1)) == []

    bench.wait(HOUR_MS - 1000)
    assert client.broker_got() == []
    bench.wait(2000)
    assert client.broker_got() == [peer.send(1, 1)]


def test_a_larger_publish_goes_with_its_last_instalment(bench: Bench) -> None:
    """Each instalment is charged in its turn, and all of them are the whole."""
    limited(bench)
    client = bench.producing()
    publish = peer.send(1, 0, BATCH)

    assert client.sends(publish) == []
    bench.wait(1000)
    assert paid(bench) == MOST
    bench.wait(HOUR_MS)
    assert (paid(bench), client.broker_got()) == (MOST, [])
    bench.wait(HOUR_MS + 1000)
    assert (paid(bench), client.broker_got()) == (10, [publish])
    bench.wait(10 * HOUR_MS)
    assert paid(bench) == 0


def test_others_of_the_group_are_served_between_instalments(bench: Bench) -> None:
    """A large publish of one member does not make another one wait for all of it."""
    limited(bench)
    large, small = bench.producing(), bench.producing(OTHER)
    publish = peer.send(1, 0, 4 * MOST)
    large.sends(publish)
    bench.wait(1000)

    assert small.sends(peer.send(1, 0)) == []
    bench.wait(2 * HOUR_MS + 5000)

    assert small.broker_got() == [peer.send(1, 0)]
    assert large.broker_got() == []
    bench.wait(2 * HOUR_MS)
    assert large.broker_got() == [publish]


def test_what_was_paid_for_a_dropped_publish_is_no_credit(bench: Bench) -> None:
    """The next publish of its producer costs all that it holds."""
    limited(bench)
    client = bench.producing()
    client.sends(peer.send(1, 0, BATCH))
    bench.wait(1000)
    client.sends(peer.producer(TOPIC, 1, 7))  # begins anew
    assert paid(bench) == MOST

    client.sends(peer.send(1, 0, BATCH))
    bench.wait(4 * HOUR_MS)

    assert client.broker_got() == [peer.send(1, 0, BATCH)]
    assert paid(bench) == BATCH


def test_an_instalment_fits_each_limit_of_the_topic(bench: Bench) -> None:
    """The narrowest decides how much is paid at a time; all are charged the same."""
    limited(bench)
    bench.limit_topic(TOPIC, Rates(publish_messages=2))
    bench.wait(1000)
    client = bench.producing()
    client.sends(peer.send(1, 0, BATCH))

    bench.wait(1000)

    assert paid(bench) == MOST
    bench.wait(3 * HOUR_MS)
    assert client.broker_got() == [peer.send(1, 0, BATCH)]
    assert paid(bench) == BATCH - MOST
