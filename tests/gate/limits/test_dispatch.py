"""Permits withheld and passed on: limits kept by the real number of messages, and fairly shared."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product

import pytest

from coordinator.core.handling import Handling
from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass
from coordinator.core.traffic import Traffic
from tests.gate import peer
from tests.gate.brokers import Dispatcher, begin, run, seconds
from tests.gate.conftest import TOPIC, Bench

OTHER = "persistent://tenant/other/topic"


def given(bench: Bench) -> int:
    """Permits that all brokers got since the last look, of consumers with small ids and few permits."""
    frames = [frame for client in bench.clients for frame in client.broker_got()]
    return sum(frame[-1] for frame in frames if peer.kind_of(frame) == 11)


PROVED = {
    (1, 1, False),
    (1, 5, True),
    (7, 5, False),
    (100, 1, True),
    (1000, 1, False),
    (1000, 5, True),
}
"""Messages of a batch, consumers and kind of subscription; other combinations are in `make verify`."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("messages", "consumers", "shared"),
    [
        pytest.param(*each, marks=() if each in PROVED else pytest.mark.verify)
        for each in product((1, 7, 100, 1000), (1, 5), (False, True))
    ],
)
def test_a_limit_is_kept_from_the_first_second_on(
    bench: Bench, messages: int, consumers: int, shared: bool
) -> None:
    """A backlog of single messages or batches leaves at the limit, shared equally."""
    bench.dispatch_limited(5000)
    dispatchers = begin(bench, consumers, [messages] * (40_000 // messages), shared=shared)

    run(bench, dispatchers, 4000)

    by_second = seconds(dispatchers)
    assert max(by_second) <= 5000 + 50 + messages
    assert sum(by_second) == pytest.approx(20_000, abs=250 + messages)
    shares = [sum(dispatcher.received) for dispatcher in dispatchers]
    assert max(shares) - min(shares) <= 200 + messages


@pytest.mark.slow
@pytest.mark.parametrize("read_ms", [10, 40])
@pytest.mark.parametrize("consumers", [1, 3])
def test_a_broker_that_reads_slowly_is_kept_busy(
    bench: Bench, consumers: int, read_ms: int
) -> None:
    """Entries come long after their permits went out: the limit is still made use of.

    What comes in lumps is over it for a second, by a burst and by what may be out, 180 ms of it.
    """
    bench.dispatch_limited(500)
    dispatchers = begin(bench, consumers, [1] * 3000, read_ms=read_ms)

    run(bench, dispatchers, 5000)

    by_second = seconds(dispatchers)
    assert max(by_second) <= 500 + 25 + 90
    assert by_second[0] <= 500
    assert 0.95 * 4 * 500 <= sum(by_second[1:]) <= 4 * 500 + 25 + 90


@pytest.mark.slow
@pytest.mark.parametrize("standby", [0, 1], ids=["alone", "standby"])
@pytest.mark.parametrize(
    ("read_ms", "burst_s", "passed"),
    [(10, 0, (0.98, 1.01)), (60, 0, (0.75, 0.92)), (60, 1, (0.98, 1.01))],
    ids=["prompt", "slow", "slow-burst"],
)
def test_what_a_slow_broker_leaves_of_a_small_limit_in_bytes_is_saved_up_by_a_burst(
    bench: Bench, standby: int, read_ms: int, burst_s: int, passed: tuple[float, float]
) -> None:
    """A bucket of 50 ms has two messages: while permits for them are out for longer, it runs over."""
    bench.dispatch_limited(size=40_000)
    bench.handle("limited", Handling(burst_ns=burst_s * NANOS_PER_SECOND))
    dispatchers = begin(bench, 1, [1] * 3000, size=900, read_ms=read_ms)
    dispatchers += begin(bench, standby, [])

    run(bench, dispatchers, 3000)
    bench.groups.collect(bench.now_ns)
    run(bench, dispatchers, 10_000)

    (traffic,) = bench.groups.collect(bench.now_ns)
    least, most = passed
    assert least * 400_000 <= traffic.bytes <= most * 400_000


@pytest.mark.slow
def test_a_limit_in_bytes_is_kept(bench: Bench) -> None:
    """Bytes as Pulsar counts them."""
    bench.dispatch_limited(size=1_000_000)
    dispatchers = begin(bench, 2, [1] * 5000, size=900)

    run(bench, dispatchers, 4000)

    (traffic,) = bench.groups.collect(bench.now_ns)
    assert traffic.bytes == pytest.approx(4_000_000, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_mixed_batches_keep_the_limit(bench: Bench, seed: int) -> None:
    """Entries of any size in any order: debts are paid, and nothing is saved up."""
    dice = random.Random(seed)
    bench.dispatch_limited(2000)
    entries = [dice.choice([1, 1, 1, 10, 50, 300]) for _ in range(3000)]
    dispatchers = begin(bench, 3, entries)

    run(bench, dispatchers, 8000)

    assert sum(seconds(dispatchers)) == pytest.approx(16_000, abs=1000)


def test_consumers_without_a_backlog_take_nothing_from_others(bench: Bench) -> None:
    """Their unused permits are not tokens: the busy one gets the whole limit."""
    bench.dispatch_limited(1000)
    idle = begin(bench, 20, [])
    (busy,) = begin(bench, 1, [1] * 5000)

    run(bench, [*idle, busy], 3000)

    assert sum(busy.received) == pytest.approx(3000, abs=120)


def test_idle_consumers_that_wake_up_together_do_not_flood(bench: Bench) -> None:
    """Each had one permit in hand; the second in which they wake is over the limit by these at most."""
    bench.dispatch_limited(1000)
    dispatchers = begin(bench, 20, [])
    run(bench, dispatchers, 1000)
    for dispatcher in dispatchers:
        dispatcher.entries += [1] * 1000

    run(bench, dispatchers, 2000)

    assert max(seconds(dispatchers)) <= 1000 + 50 + 20


def test_a_client_that_stops_giving_permits_leaves_its_share_to_the_other(bench: Bench) -> None:
    """A slow consumer limits itself, and no other consumer waits for it."""
    bench.dispatch_limited(1000)
    (slow,) = begin(bench, 1, [1] * 5000, queue=100)
    slow.queue = 10_000  # it never reports half of that as consumed
    (quick,) = begin(bench, 1, [1] * 5000)

    run(bench, [slow, quick], 3000)

    assert sum(slow.received) == 100
    assert sum(quick.received) == pytest.approx(2900, abs=120)


@pytest.mark.parametrize(
    "free",
    [lambda bench: bench.limit_dispatch("limited", None), Bench.attach],
    ids=["lifted limit", "detached namespace"],
)
def test_without_a_limit_all_permits_are_released_at_once(
    bench: Bench, free: Callable[[Bench], None]
) -> None:
    """Consumers that wait for nothing get theirs, and later permits pass untouched."""
    bench.dispatch_limited(10)
    begin(bench, 2, [], queue=100)
    bench.wait(1000)
    assert given(bench) == 2

    free(bench)

    assert given(bench) == 198
    client = bench.clients[0]
    assert client.sends(peer.flow(1, 5)) == [peer.flow(1, 5)]
    assert client.session.withheld_permits == 0


def test_a_limit_that_comes_later_counts_the_permits_that_are_out(bench: Bench) -> None:
    """They cannot be taken back, but what they let out is paid for before more goes."""
    bench.attach(ns="limited")
    (dispatcher,) = begin(bench, 1, [10] * 1000, queue=100)
    bench.limit_dispatch("limited", 1000)

    run(bench, [dispatcher], 4000)

    assert sum(dispatcher.received) == pytest.approx(4000, abs=100)


def test_what_the_limit_lends_passes_at_once(bench: Bench) -> None:
    """Permits are withheld for it, and entries are not."""
    bench.dispatch_limited(10)
    (dispatcher,) = begin(bench, 1, [], queue=100)
    frames = [peer.delivery(1, number) for number in range(1, 9)]

    assert dispatcher.client.is_sent(*frames) == frames
    bench.wait(500)
    assert given(bench) == 0  # 36 messages: 3.6 s of debt at 10/s


def test_everything_else_of_a_consumer_passes(bench: Bench) -> None:
    """Acknowledgements, redelivery, seek; and nothing follows its CLOSE_CONSUMER."""
    bench.dispatch_limited(10)
    begin(bench, 1, [], queue=100)
    (client,) = bench.clients
    others = [
        peer.command(10, (1, 1)), peer.command(20, (1, 1)), peer.command(28, (1, 1), (2, 7)),
        peer.unsubscribe(1, 8),
    ]  # fmt: skip

    assert client.sends(*others) == others
    client.is_sent(peer.error(8))
    assert client.session.withheld_permits == 100
    assert client.sends(peer.close_consumer(1, 9)) == [peer.close_consumer(1, 9)]
    bench.wait(2000)
    assert (given(bench), client.session.withheld_permits) == (0, 0)


def test_a_consumer_that_subscribes_again_begins_anew(bench: Bench) -> None:
    """After a seek or an unload the broker knows of no permits, and the client gives them again."""
    bench.dispatch_limited(1000)
    (dispatcher,) = begin(bench, 1, [1] * 3000)
    run(bench, [dispatcher], 1000)

    dispatcher.client.is_sent(peer.close_consumer(1, 0))
    dispatcher.permits = 0
    dispatcher.begin(TOPIC)
    run(bench, [dispatcher], 1000)

    assert sum(dispatcher.received) == pytest.approx(2000, abs=100)


def test_partly_acknowledged_batches_cost_fewer_permits(bench: Bench) -> None:
    """ack_set says what is left of a batch; the broker takes only that, or the consumer would stall."""
    bench.attach(ns="limited")
    client = bench.client()
    client.opens(peer.subscribe(TOPIC))
    client.sends(peer.flow(1, 100))
    head = peer.message((1, 1), (2, peer.message((1, 5), (2, 6))), (4, 0b111), (4, 0b1))
    frame = peer.frame(peer.message((1, 9), (9, head)), peer.payload_of(b"y", 64))

    assert client.is_sent(frame) == [frame]

    (consumer,) = client.session._participants.consumers.values()
    assert consumer.permits == 96
    (traffic,) = bench.groups.collect(bench.now_ns)
    assert traffic.messages == 64


def test_topics_that_are_not_persistent_get_what_the_bucket_is_good_for(bench: Bench) -> None:
    """Their brokers drop what finds no permit, so a burst below the limit needs them beforehand."""
    bench.dispatch_limited(1000)
    begin(bench, 1, [], topic=f"non-{TOPIC}")

    bench.wait(100)

    assert given(bench) == 45


def test_a_subscriptions_name_exempts_nobody(bench: Bench) -> None:
    """The own broker's replicator, whose subscriptions are called so, passes no gate."""
    bench.dispatch_limited(0)
    client = bench.replicating()
    client.opens(peer.subscribe(TOPIC, request_id=2, subscription="pulsar.repl.west"))

    assert client.sends(peer.flow(1, 500)) == []


def test_what_is_delivered_again_counts_again(bench: Bench) -> None:
    """A redelivery is traffic like any other, in messages and bytes."""
    bench.dispatch_limited(5000)
    client = bench.client()
    Dispatcher(client, []).begin(TOPIC)
    counted = []
    for redeliveries in (0, 1, 300):
        client.is_sent(peer.delivery(1, 7, redeliveries=redeliveries))
        (traffic,) = bench.groups.collect(bench.now_ns)
        counted.append((traffic.messages, traffic.bytes))

    assert counted == [(7, counted[0][1])] * 3


def test_subscriptions_of_a_topic_share_its_limit(bench: Bench) -> None:
    """Each delivers the whole topic, together no more than the limit and equally, whatever their type."""
    bench.dispatch_limited(1000)
    dispatchers = [
        Dispatcher(bench.client(), [1] * 9000, shared=shared, subscription=f"shared-{shared}")
        for shared in (False, True)
    ]
    for dispatcher in dispatchers:
        dispatcher.begin(TOPIC)

    run(bench, dispatchers, 4000)

    assert sum(seconds(dispatchers)) == pytest.approx(4000, abs=100)
    assert sum(dispatchers[0].received) == pytest.approx(2000, abs=100)


def test_both_groups_of_a_topic_must_admit(bench: Bench) -> None:
    """The tenant's group binds its namespaces together, also on dispatch."""
    bench.attach({"tenant": "wide"}, ns="narrow")
    bench.limit_dispatch("narrow", 300)
    bench.limit_dispatch("wide", 1000)
    narrow = begin(bench, 1, [1] * 9000)
    wide = begin(bench, 1, [1] * 9000, topic=OTHER)

    run(bench, [*narrow, *wide], 4000)

    assert sum(narrow[0].received) == pytest.approx(1200, abs=60)
    assert sum(wide[0].received) == pytest.approx(2800, abs=120)


def test_waiting_for_permits_is_time_held(bench: Bench) -> None:
    """The coordinator sees from it that consumers want more than they get."""
    bench.dispatch_limited(1000)
    dispatchers = begin(bench, 1, [1] * 9000)
    run(bench, dispatchers, 1000)
    bench.groups.collect(bench.now_ns)

    run(bench, dispatchers, 1000)

    traffic: Traffic
    (traffic,) = bench.groups.collect(bench.now_ns)
    assert traffic.monitoring_class is MonitoringClass.DISPATCH
    assert traffic.messages_held_ns > 600_000_000
    assert traffic.bytes_held_ns == 0


def test_consumers_of_one_connection_are_told_apart(bench: Bench) -> None:
    """One limited, one not: permits of the other pass at once."""
    bench.dispatch_limited(10)
    client = bench.client()
    first = Dispatcher(client, [], consumer_id=1)
    second = Dispatcher(client, [], consumer_id=200)
    first.begin(TOPIC)
    second.begin(OTHER)

    assert (first.permits, second.permits) == (0, 1000)


def test_a_group_without_a_limit_holds_no_consumer_whose_entries_are_unknown(bench: Bench) -> None:
    """The tenant's group has passed messages; the namespace's limits a topic that is not persistent."""
    bench.attach({"tenant": "free"}, ns="limited")
    other = bench.client()
    other.opens(peer.subscribe(OTHER))
    other.sends(peer.flow())
    assert other.is_sent(peer.delivery()) == [peer.delivery()]
    bench.limit_dispatch("limited", 1_000)
    client = bench.client()
    client.opens(peer.subscribe("non-persistent://tenant/ns/topic"))

    assert client.sends(peer.flow(1, 100)) == []
    bench.wait(100)

    assert given(bench) == 45, "all that a nearly full bucket pays for"
