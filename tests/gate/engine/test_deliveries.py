"""An entry that costs more than its limit lends is held until it is paid for; the others go on."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD
from coordinator.gate.limits.metering import DEBT_NS
from coordinator.gate.protocol.own_frames import NO_REQUEST
from coordinator.gate.protocol.refusals import RefusalReason
from tests.gate import peer
from tests.gate.brokers import Dispatcher, begin, hand_out, run
from tests.gate.conftest import MILLISECOND_NS, TOPIC, Bench, Client

DEBT_S = DEBT_NS // NANOS_PER_SECOND
OTHER = "persistent://tenant/ns/other"
LARGE = 500
"""Messages of an entry that takes ten seconds of a limit of 50, more than is lent."""
OWN_REQUEST = 1 << 62
"""The id of the first request of a gate's own."""


def owed_s(bench: Bench, rate: int) -> float:
    """The debt of the group, as seconds of its limit."""
    return bench.groups.group("limited").dispatch_limiter.owed(bench.now_ns)[0] / rate


def consumers(bench: Bench, rate: int) -> tuple[Dispatcher, Dispatcher]:
    """One consumer whose entries are larger than its limit lends, and an honest one."""
    bench.dispatch_limited(rate)
    bench.wait(1000)
    large, honest = Dispatcher(bench.client(), []), Dispatcher(bench.client(), [])
    large.begin(TOPIC)
    honest.begin(OTHER)
    honest.entries += [1] * 5_000
    run(bench, [large, honest], 500)
    return large, honest


def arrivals(dispatcher: Dispatcher) -> list[int]:
    """The milliseconds in which something came."""
    return [at for at, messages in enumerate(dispatcher.received) if messages]


def holding(bench: Bench, *, shared: bool = False, held_bytes_max: int = 10**6) -> Client:
    """A client whose consumer 1 of a limit of 50 has a large entry held; consumer 2 has no limit."""
    bench.dispatch_limited(50)
    client = bench.client(held_bytes_max)
    client.opens(peer.subscribe(TOPIC, 1, 1, kind=int(shared)))
    client.opens(peer.subscribe("persistent://tenant/free/topic", 2, 2))
    client.sends(peer.flow(1, 1_000), peer.flow(2, 1_000))
    assert client.is_sent(peer.delivery(1, LARGE)) == []
    return client


def test_a_batch_of_ten_seconds_comes_when_it_is_paid_for(bench: Bench) -> None:
    """Another consumer has half of the limit at once: it does not wait for what it did not get."""
    large, honest = consumers(bench, 50)
    before = sum(honest.received)
    large.entries = [LARGE]

    run(bench, [large, honest], 18_000)
    assert sum(large.received) == 0
    assert sum(honest.received) - before == pytest.approx(18 * 50 / 2, abs=30)
    run(bench, [large, honest], 3_000)

    assert sum(large.received) == LARGE
    assert owed_s(bench, 50) < 0.1


def test_the_limit_holds_for_entries_that_it_does_not_lend(bench: Bench) -> None:
    """Batches of ten seconds come every ten seconds, the first one, too."""
    bench.dispatch_limited(50)
    (dispatcher,) = begin(bench, 1, [LARGE] * 4)

    run(bench, [dispatcher], 32_000)

    assert arrivals(dispatcher) == pytest.approx([10_000, 20_000, 30_000], abs=100)


def test_what_idle_consumers_were_promised_passes_at_the_limit(bench: Bench) -> None:
    """Five hundred consumers of an empty topic use the permit that each of them has, for 200 messages."""
    bench.dispatch_limited(50)
    client = bench.client()
    idle = [Dispatcher(client, [], consumer_id=n, subscription=f"s{n}") for n in range(1, 501)]
    for dispatcher in idle:
        dispatcher.begin(TOPIC)
    run(bench, idle, 100)
    (honest,) = begin(bench, 1, [1] * 5_000, topic=OTHER)
    run(bench, [honest], 1_000)
    before = sum(honest.received)

    for dispatcher in idle:
        dispatcher.entries = [200]
        dispatcher.permits += 1  # each has one, whatever became of it
        dispatcher.works()
    hand_out(idle)

    assert sum(sum(dispatcher.received) for dispatcher in idle) <= DEBT_S * 50
    assert owed_s(bench, 50) <= DEBT_S
    run(bench, [honest], 10_000)
    hand_out(idle)
    assert sum(honest.received) - before >= (10 - DEBT_S) * 50 / 2 - 30
    got = sum(sum(dispatcher.received) for dispatcher in (honest, *idle)) - before
    assert got <= (10 + DEBT_S) * 50


def test_a_debt_is_told_with_who_made_it(bench: Bench) -> None:
    """An entry of four seconds passes at once, and its consumer is named."""
    large, honest = consumers(bench, 50)
    large.entries = [200]

    run(bench, [large, honest], 500)

    ((group, told),) = large.client.debts
    assert (group, told.topic, told.messages) == ("limited", TOPIC, 200)
    assert told.owed_ns == pytest.approx(4 * NANOS_PER_SECOND, rel=0.1)
    assert not honest.client.debts


def test_who_leaves_leaves_no_debt(bench: Bench) -> None:
    """The group gets back what was paid for what never came."""
    large, honest = consumers(bench, 50)
    large.entries = [LARGE]
    run(bench, [large, honest], 1_000)

    large.client.session.close(bench.now_ns)

    assert owed_s(bench, 50) == 0
    before = sum(honest.received)
    run(bench, [honest], 10_000)
    assert sum(honest.received) - before == pytest.approx(500, abs=30)
    assert bench.counters.dropped_frames == 1


def test_entries_that_are_lent_to_the_group_are_charged_to_the_turn_of_their_client(
    bench: Bench,
) -> None:
    """Batches of four seconds of the limit, one after the other: another consumer has its half."""
    large, honest = consumers(bench, 50)
    before = sum(honest.received)
    large.entries = [200] * 100

    run(bench, [large, honest], 24_000)

    assert sum(honest.received) - before == pytest.approx(24 * 50 / 2, abs=220)


def test_a_limit_in_bytes_holds_alike(bench: Bench) -> None:
    """An entry of a megabyte at a limit of 10 kB/s is paid for in 100 s, and others have their half."""
    bench.dispatch_limited(size=10_000)
    large, honest = Dispatcher(bench.client(), [1], size=1_000_000), Dispatcher(bench.client(), [])
    large.begin(TOPIC)
    honest.begin(OTHER)
    run(bench, [large], 1_000)
    honest.entries += [1] * 5_000

    run(bench, [large, honest], 10_000)

    assert sum(large.received) == 0
    got = sum(honest.received) * peer.size_of(peer.delivery(1, 1, b"y" * 50))
    assert got == pytest.approx(10 * 10_000 / 2, rel=0.1)


def test_a_lifted_limit_lets_pass_what_is_held(bench: Bench) -> None:
    """In order, and at once; a later limit begins without a debt."""
    client = holding(bench)
    client.is_sent(peer.delivery(1, 1))

    bench.limit_dispatch("limited", None)

    assert client.client_got() == [peer.delivery(1, LARGE), peer.delivery(1, 1)]
    bench.limit_dispatch("limited", 50)
    assert owed_s(bench, 50) == 0


def test_a_limit_that_is_new_holds_what_was_asked_for_before(bench: Bench) -> None:
    """Of a thousand messages with permits the ones beyond the debt wait."""
    bench.attach(ns="limited")
    client = bench.client()
    client.opens(peer.subscribe(TOPIC))
    assert client.sends(peer.flow(1, 1_000)) == [peer.flow(1, 1_000)]

    bench.limit_dispatch("limited", 50)

    assert len(client.is_sent(*[peer.delivery(1)] * 1_000)) == DEBT_S * 50
    bench.wait(DEBT_S * 1_000 - 100)
    assert client.client_got() == []
    bench.wait(2_100)
    assert len(client.client_got()) == pytest.approx(100, abs=5)


def test_an_entry_that_no_slice_promised_is_charged_as_a_whole(bench: Bench) -> None:
    """Its permit is from before the limit; of 50 a second a message takes 20 ms of its client's turn."""
    bench.attach(ns="limited")
    client = bench.client()
    client.opens(peer.subscribe(TOPIC))
    client.sends(peer.flow(1, 1_000))
    bench.limit_dispatch("limited", 50)

    assert client.is_sent(peer.delivery(1)) == [peer.delivery(1)]

    (consumer,) = client.session._participants.consumers.values()
    limiter = bench.groups.group("limited").dispatch_limiter
    assert consumer.client.served_until_ns(limiter) == 20 * MILLISECOND_NS


def test_what_comes_behind_a_held_entry_waits_and_others_pass_it(bench: Bench) -> None:
    """Entries and news of its consumer stay in order; another consumer, and answers, do not wait."""
    client = holding(bench)
    active, ended = peer.command(31, (1, 1), (2, 1)), peer.command(27, (1, 1))
    behind = (peer.delivery(1, 1), active, peer.delivery(1, 2), ended)
    others = (peer.delivery(2, 7), peer.command(31, (1, 2), (2, 1)), peer.PONG)

    assert client.is_sent(*behind, *others) == [*others]

    bench.wait(11_000)
    assert client.client_got() == [peer.delivery(1, LARGE), *behind]


def test_what_comes_in_one_read_with_an_entry_that_is_held_for_a_moment_does_not_overtake(
    bench: Bench,
) -> None:
    """The entry goes out behind the read in which it came, and so does what came with it."""
    bench.dispatch_limited(1_000)
    bench.wait(1_000)
    client = bench.client()
    client.opens(peer.subscribe(TOPIC))
    assert client.sends(peer.flow()) == [peer.flow(1, 1)]
    # All that a full bucket lends: beside the permit's promise it has no credit.
    entry, active = peer.delivery(1, 5_045), peer.command(31, (1, 1), (2, 1))

    assert client.is_sent(entry, active) == [entry]
    bench.wait(6_000)
    assert client.client_got() == [active]


@pytest.mark.parametrize(
    ("shared", "ids", "is_dropped"),
    [(False, (), True), (True, (), True), (False, (5,), True), (True, (5,), False)],
)
def test_what_the_broker_sends_again_is_not_sent_twice(
    bench: Bench, shared: bool, ids: tuple[int, ...], is_dropped: bool
) -> None:
    """All of it, unless a Shared consumer names entries; the permits used for it are given again."""
    client = holding(bench, shared=shared)
    again = peer.command(20, (1, 1), *((2, peer.message((1, each), (2, 6))) for each in ids))

    assert client.sends(again)[0] == again

    bench.limit_dispatch("limited", None)
    passed = [] if is_dropped else [peer.delivery(1, LARGE)]
    assert client.client_got() == passed
    given = LARGE if is_dropped else 0
    assert client.session.held_bytes == 0
    assert permits_in(client.broker_got()) >= given


def permits_in(frames: list[bytes]) -> int:
    """The permits that FLOWs of consumer 1 give."""
    return sum(
        next(n for n in range(2_000) if peer.flow(1, n) == frame)
        for frame in frames
        if peer.kind_of(frame) == 11
    )


@pytest.mark.parametrize("closes", ["client", "broker"])
def test_what_is_held_of_a_consumer_that_is_closed_is_dropped(bench: Bench, closes: str) -> None:
    """As soon as its client asks for that; the broker's own close has the same effect."""
    client = holding(bench)
    if closes == "client":
        client.sends(peer.close_consumer(1, 9))
    else:
        assert client.is_sent(peer.close_consumer(1, 0)) == [peer.close_consumer(1, 0)]
    assert client.session.held_frames == 0

    client.is_sent(*([peer.success(9)] if closes == "client" else []))
    client.client_got()
    bench.wait(20_000)
    assert client.client_got() == []


def test_a_consumer_that_moves_to_another_group_begins_to_pay_anew(bench: Bench) -> None:
    """The group that it leaves gets back what was paid."""
    client = holding(bench)
    bench.wait(5_000)
    bench.limit_dispatch("other", 50)

    bench.attach(ns="other")

    bench.wait(9_000)
    assert client.client_got() == []
    bench.wait(2_000)
    assert client.client_got() == [peer.delivery(1, LARGE)]
    (counted,) = (each for each in bench.groups.collect(bench.now_ns) if each.messages)
    assert (counted.group, counted.messages) == ("other", LARGE)


def test_a_consumer_for_which_no_more_can_be_held_is_closed_at_both_ends(bench: Bench) -> None:
    """As when its topic moves: what comes for it afterwards is dropped, and it may subscribe again."""
    entry = peer.delivery(1, 50)
    client = holding(bench, held_bytes_max=10 * (len(entry) + HELD_FRAME_OVERHEAD))
    client.broker_got()

    got = client.is_sent(*[entry] * 9, entry, peer.delivery(2), entry, peer.PONG)

    assert got == [peer.delivery(2), peer.PONG, peer.close_consumer(1, NO_REQUEST)]
    assert client.broker_got() == [peer.close_consumer(1, OWN_REQUEST)]
    assert client.is_sent(peer.success(OWN_REQUEST)) == []
    assert (client.session.consumers, client.session.held_bytes) == (1, 0)
    assert client.refusals == [(RefusalReason.HELD_DELIVERIES, TOPIC)]
    client.opens(peer.subscribe(TOPIC, 1, 7))
    bench.limit_dispatch("limited", None)
    assert client.is_sent(entry) == [entry]


def test_an_error_to_the_gates_own_request_is_for_no_client(bench: Bench) -> None:
    """The broker may have ended the consumer itself at the same moment; its id is free."""
    entry = peer.delivery(1, 50)
    client = holding(bench, held_bytes_max=1)
    client.is_sent(entry)

    assert client.is_sent(peer.error(OWN_REQUEST)) == []
    client.broker_got()
    client.opens(peer.subscribe(OTHER, 1, 7))


def test_a_rate_of_nothing_lets_nothing_pass(bench: Bench) -> None:
    """Permits that were given before let out nothing either."""
    bench.attach(ns="limited")
    client = bench.client()
    client.opens(peer.subscribe(TOPIC))
    client.sends(peer.flow(1, 1_000))
    bench.limit_dispatch("limited", 0)

    assert client.is_sent(peer.delivery(1)) == []
    bench.wait(60_000)
    assert client.client_got() == []


def test_intervals_between_large_entries_are_those_of_the_limit(bench: Bench) -> None:
    """Two consumers with entries of different sizes, neither of them lent, share the limit."""
    bench.dispatch_limited(100)
    wide, narrow = begin(bench, 1, [1_200] * 5) + begin(bench, 1, [600] * 10, topic=OTHER)

    run(bench, [wide, narrow], 50_000)

    assert sum(wide.received) == pytest.approx(2_400, abs=1_200)
    assert sum(narrow.received) == pytest.approx(2_400, abs=600)
    gaps = [later - earlier for earlier, later in pairwise(arrivals(narrow))]
    assert gaps == pytest.approx([12_000] * 3, abs=500)
