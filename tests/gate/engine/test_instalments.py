"""A publish takes a few seconds of its limit in advance at most; the rest is paid in instalments."""

from __future__ import annotations

import pytest

from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass, Rates
from coordinator.gate.limits.counters import TrafficCounter
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.metering import DEBT_NS
from coordinator.gate.limits.modes import Modes
from coordinator.gate.protocol.frames import MalformedFrame
from tests.gate import peer
from tests.gate.conftest import START_NS, TOPIC, Bench, Story

DEBT_S = DEBT_NS // NANOS_PER_SECOND
DEBT_MS = DEBT_S * 1000
MOST = DEBT_S + 1
"""The tokens that one publish takes at once of one message per second: one, and those of the debt."""

OTHER = "persistent://tenant/ns/other"
BATCH = MOST + 4
"""Messages of a publish that is paid for in instalments of one."""


def limited(bench: Bench) -> None:
    """One message per second, and one has been saved up."""
    bench.attach(ns="group")
    bench.limit("group", 1)
    bench.wait(1000)


def paid(bench: Bench) -> int:
    """Messages that the group was charged for since the last look."""
    return sum(traffic.messages for traffic in bench.groups.collect(bench.now_ns))


def paid_bytes(bench: Bench) -> int:
    """The same in bytes."""
    return sum(traffic.bytes for traffic in bench.groups.collect(bench.now_ns))


def test_a_limiter_lends_some_seconds_beside_its_bucket() -> None:
    """It lends messages and bytes alike; without a limit it lends any amount."""
    limiter = PublishLimiter(TrafficCounter("group", MonitoringClass.PUBLISH, Story()))
    assert limiter.lends(10**18, 10**18)

    limiter.set_limits(Rates(publish_messages=1000, publish_bytes=100_000), START_NS)

    messages, size = 45 + 1000 * DEBT_S, 4500 + 100_000 * DEBT_S
    assert limiter.lends(messages, size)
    assert not limiter.lends(messages + 1, size)
    assert not limiter.lends(messages, size + 1)


def test_what_is_lent_is_a_setting(bench: Bench) -> None:
    """A gate that lends ten seconds lets a batch pass for which another one asks instalments."""
    for debt_ns, passed in ((10 * NANOS_PER_SECOND, 1), (NANOS_PER_SECOND, 0)):
        bench.groups = GroupTable(bench.story, modes=Modes(debt_ns=debt_ns))
        limited(bench)
        assert len(bench.producing().sends(peer.send(1, 0, MOST))) == passed


def test_a_publish_that_takes_all_that_is_lent_passes_at_once(bench: Bench) -> None:
    """The next message of the group has to wait for all of it."""
    limited(bench)
    client = bench.producing()

    assert client.sends(peer.send(1, 0, MOST)) == [peer.send(1, 0, MOST)]
    assert client.sends(peer.send(1, 1)) == []

    bench.wait(DEBT_MS - 1000)
    assert client.broker_got() == []
    bench.wait(2000)
    assert client.broker_got() == [peer.send(1, 1)]


def test_a_larger_publish_goes_with_its_last_instalment(bench: Bench) -> None:
    """Each instalment is a full bucket, and all of them are the whole: no debt is left."""
    limited(bench)
    client = bench.producing()
    publish = peer.send(1, 0, BATCH)

    assert client.sends(publish) == []
    bench.wait((BATCH - 2) * 1000)
    assert (paid(bench), client.broker_got()) == (BATCH - 1, [])
    bench.wait(1000)
    assert (paid(bench), client.broker_got()) == (1, [publish])
    client.sends(peer.send(1, 1))
    bench.wait(1000)
    assert client.broker_got() == [peer.send(1, 1)]


def test_a_claim_of_millions_takes_no_more_than_its_turns_of_others(bench: Bench) -> None:
    """A kilobyte that claims three million messages: another producer has half of the limit meanwhile."""
    bench.attach(ns="group")
    bench.limit("group", 1000)
    bench.wait(1000)
    claims, honest = bench.producing(), bench.producing(OTHER)
    claims.sends(peer.send(1, 0, 3_000_000, b"z" * 1300))
    passed = 0
    for _ in range(400):
        for _ in range(20 - honest.session.held_frames):
            honest.sends_on(peer.send(1, 0))
        bench.wait(5)
        passed += len(honest.broker_got())

    assert 980 <= passed <= 1070
    assert claims.broker_got() == []


def test_others_of_the_group_are_served_between_instalments(bench: Bench) -> None:
    """A large publish of one member does not make another one wait for all of it."""
    limited(bench)
    large, small = bench.producing(), bench.producing(OTHER)
    publish = peer.send(1, 0, BATCH)
    large.sends(publish)
    small.sends(peer.send(1, 0), peer.send(1, 1))

    bench.wait(5000)

    assert small.broker_got() == [peer.send(1, 0), peer.send(1, 1)]
    assert large.broker_got() == []
    bench.wait(BATCH * 1000)
    assert large.broker_got() == [publish]


def test_an_instalment_is_no_hold_of_its_own(bench: Bench) -> None:
    """The histogram of hold times has one entry for each message that was held."""
    limited(bench)
    client = bench.producing()
    client.sends(peer.send(1, 0, BATCH))

    bench.wait(BATCH * 1000)

    assert len(client.broker_got()) == 1
    assert sum(sum(held.counts) for held in bench.groups.holds(bench.now_ns)) == 1


def test_what_was_paid_for_a_dropped_publish_is_no_credit(bench: Bench) -> None:
    """It is given back, and the next publish of its producer costs all that it holds."""
    limited(bench)
    client = bench.producing()
    client.sends(peer.send(1, 0, BATCH))
    bench.wait(2000)
    assert paid(bench) == 3
    client.sends(peer.producer(TOPIC, 1, 7))  # begins anew
    assert bench.groups.group("group").publish.messages == 0

    client.sends(peer.send(1, 0, BATCH))
    bench.wait(BATCH * 1000)

    assert client.broker_got() == [peer.send(1, 0, BATCH)]
    assert bench.groups.group("group").publish.messages == BATCH


def test_an_instalment_fits_each_limit_of_the_topic(bench: Bench) -> None:
    """The narrowest decides how much is paid at a time; all are charged the same."""
    limited(bench)
    bench.limit_topic(TOPIC, Rates(publish_messages=2))
    bench.wait(1000)
    client = bench.producing()
    client.sends(peer.send(1, 0, BATCH))

    bench.wait((BATCH - 2) * 1000)
    assert paid(bench) == BATCH - 1
    bench.wait(1000)
    assert client.broker_got() == [peer.send(1, 0, BATCH)]
    assert paid(bench) == 1


def test_the_bytes_of_a_publish_that_never_came_are_given_back(bench: Bench) -> None:
    """The head of 40 kB, and a client that goes away: the next one need not wait for them."""
    bench.attach(ns="group")
    bench.limit("group", size=10_000)
    bench.wait(1000)
    gone, honest = bench.producing(), bench.producing(OTHER)
    large = peer.send(content=b"z" * 40_000)
    gone.sends_on(large[:200])
    assert honest.sends(peer.send(1, 0)) == []

    gone.session.close(bench.now_ns)
    bench.wait(50)

    assert honest.broker_got() == [peer.send(1, 0)]
    came = 200 - (len(large) - peer.size_of(large))
    assert paid_bytes(bench) == came + peer.size_of(peer.send(1, 0))


def test_the_messages_of_a_publish_that_never_came_are_given_back(bench: Bench) -> None:
    """The head of 40 kB that claims four thousand messages: no consumer will ever see one of them."""
    bench.attach(ns="group")
    bench.limit("group", 1000)
    bench.wait(1000)
    gone, honest = bench.producing(), bench.producing(OTHER)
    gone.sends_on(peer.send(1, 0, 4_000, b"z" * 40_000)[:200])
    assert honest.sends(peer.send(1, 0)) == []

    gone.session.close(bench.now_ns)
    bench.wait(50)

    assert honest.broker_got() == [peer.send(1, 0)]
    assert paid(bench) == 1


@pytest.mark.parametrize("closes", ["client", "broker"])
def test_a_publish_that_never_came_is_given_back_when_its_producer_has_gone(
    bench: Bench, closes: str
) -> None:
    """It was closed while the publish was under way, and counts for no group any more."""
    bench.attach(ns="group")
    bench.limit("group", size=10_000)
    bench.wait(1000)
    gone, honest = bench.producing(), bench.producing(OTHER)
    head = peer.send(content=b"z" * 40_000)[:200]
    if closes == "client":
        gone.sends_on(peer.close_producer(1, 9), head)
        gone.is_sent(peer.success(9))
    else:
        gone.sends_on(head)
        gone.is_sent(peer.close_producer(1, 0))
    assert gone.session.producers == 0
    assert honest.sends(peer.send(1, 0)) == []

    gone.session.close(bench.now_ns)
    bench.wait(50)

    assert honest.broker_got() == [peer.send(1, 0)]


def test_a_publish_that_came_in_full_is_paid_for_whatever_follows_it(bench: Bench) -> None:
    """Its last bytes come with a frame that ends the connection: the broker has stored it."""
    bench.attach(ns="group")
    bench.limit("group", size=10_000)
    bench.wait(1000)
    client = bench.producing()
    large = peer.send(content=b"z" * 40_000)
    client.sends_on(large[:200])
    with pytest.raises(MalformedFrame):
        client.sends_on(large[200:], b"\xff" * 12)
    client.session.close(bench.now_ns)

    assert client.broker_got() == [large]
    assert paid_bytes(bench) == peer.size_of(large)


def test_what_was_collected_before_it_was_given_back_is_taken_off_later_counts(
    bench: Bench,
) -> None:
    """No count is ever below zero, and all of them together are what came."""
    bench.attach(ns="group")
    bench.limit("group", size=1_000_000)
    bench.wait(1000)
    gone, honest = bench.producing(), bench.producing(OTHER)
    gone.sends_on(peer.send(content=b"z" * 50_000)[:200])
    first = paid_bytes(bench)
    gone.session.close(bench.now_ns)

    assert paid_bytes(bench) == 0
    honest.sends(peer.send(1, 0, content=b"z" * 60_000))
    bench.wait(1000)
    assert 0 < first + paid_bytes(bench) < 61_000


def test_what_was_paid_of_a_dropped_publish_is_taken_off_later_counts(bench: Bench) -> None:
    """A count below zero could not be reported, and all of them together are what passed."""
    limited(bench)
    gone = bench.producing()
    gone.sends(peer.send(1, 0, BATCH))
    bench.wait(3000)
    counted = [paid(bench)]
    assert counted == [4]

    gone.session.close(bench.now_ns)
    counted.append(paid(bench))
    honest = bench.producing(OTHER)
    for number in range(8):
        honest.sends_on(peer.send(1, number))
        bench.wait(1000)
        counted.append(paid(bench))

    assert len(honest.broker_got()) == sum(counted) == 8
    assert min(counted) == 0


def test_what_was_paid_is_given_back_where_it_was_paid(bench: Bench) -> None:
    """The namespace has moved to another group since: that one was paid nothing."""
    limited(bench)
    client = bench.producing()
    client.sends(peer.send(1, 0, BATCH))
    bench.wait(2000)
    assert paid(bench) == 3
    bench.limit("another", 0)

    bench.attach(ns="another")
    client.session.close(bench.now_ns)

    counted = [bench.groups.group(name).publish.messages for name in ("group", "another")]
    assert counted == [0, 0]


def test_a_publish_whose_group_changes_is_paid_for_by_the_new_one(bench: Bench) -> None:
    """All of it, and nothing of it stays counted for the group that it has left."""
    limited(bench)
    client = bench.producing()
    client.sends(peer.send(1, 0, BATCH))
    bench.wait(2000)
    bench.limit("another", 1)

    bench.attach(ns="another")
    bench.wait(BATCH * 1000)

    assert client.broker_got() == [peer.send(1, 0, BATCH)]
    counted = [bench.groups.group(name).publish.messages for name in ("group", "another")]
    assert counted == [0, BATCH]
