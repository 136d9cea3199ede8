"""An entry that costs more than its limit lends is held until it is paid for; the others go on."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD
from coordinator.gate.limits.metering import DEBT_NS
from coordinator.gate.limits.publish_buffer import PublishBuffer
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


def test_entries_of_a_limit_have_a_bound_and_small_ones_fit_beside_it(bench: Bench) -> None:
    """Half of a quarter of the buffer; a small entry fits where its connection holds nothing."""
    bench.buffer = PublishBuffer(4_000_000)
    bench.dispatch_limited(50)
    large, small = peer.delivery(1, LARGE, b"y" * 600_000), peer.delivery(1, LARGE)
    first, second, third = (consuming(bench, f"s{number}") for number in range(3))

    assert first.is_sent(large) == third.is_sent(small) == []
    assert second.is_sent(large) == [peer.close_consumer(1, NO_REQUEST)]
    assert third.session.held_bytes == len(small) + HELD_FRAME_OVERHEAD
    assert bench.buffer.deliveries.held_bytes == first.session.held_bytes
    assert bench.buffer.has_room("limit", 4_000_000), "publishes have their own room"


ENTRY = peer.delivery(1)
SIZE = len(ENTRY) + HELD_FRAME_OVERHEAD
ELSEWHERE = "persistent://tenant/other/topic"


def slow_groups(bench: Bench, sizes: int) -> None:
    """Two groups of limit 0, and a buffer that holds so often `SIZE` of deliveries."""
    bench.buffer = PublishBuffer(4 * sizes * SIZE)
    bench.attach(ns="slow", other="another")
    for group in ("slow", "another"):
        bench.limit_dispatch(group, 0)


def greedy(bench: Bench, connections: int, entries: int, topic: str = TOPIC) -> list[Client]:
    """Connections that each would have this number of entries held for a consumer."""
    clients = []
    for _ in range(connections):
        clients.append(bench.client())
        clients[-1].opens(peer.subscribe(topic))
        clients[-1].is_sent(*[ENTRY] * entries)
    return clients


def test_consumers_of_a_group_leave_room_to_those_of_another(bench: Bench) -> None:
    """Of a hundred connections of a slow group the most are closed; one of another group is not."""
    slow_groups(bench, 64)

    many = greedy(bench, 100, 11)
    (other,) = greedy(bench, 1, 11, ELSEWHERE)

    assert sum(client.session.consumers for client in many) == 3
    assert (other.session.consumers, other.session.held_frames) == (1, 11)
    assert bench.buffer.deliveries.held_bytes == (30 + 10) * SIZE, (
        "the first of each is beside them"
    )


def test_the_entries_that_always_fit_take_no_room_of_others(bench: Bench) -> None:
    """A hundred connections hold one each; another group's consumer has half of the room all the same."""
    slow_groups(bench, 64)

    many = greedy(bench, 100, 1)
    (other,) = greedy(bench, 1, 33, ELSEWHERE)

    assert sum(client.session.held_frames for client in many) == 100
    assert (other.session.consumers, other.session.held_frames) == (1, 33)
    assert bench.buffer.deliveries.held_bytes == 32 * SIZE


def test_entries_count_where_their_consumer_waits(bench: Bench) -> None:
    """A group that its consumers leave has its room back, though nothing of theirs has passed."""
    slow_groups(bench, 64)
    deliveries = bench.buffer.deliveries
    (client,) = greedy(bench, 1, 11)
    assert (deliveries.of("resource group slow"), len(deliveries.shares)) == (10 * SIZE, 1)

    bench.attach(ns="another")

    assert (deliveries.of("resource group another"), len(deliveries.shares)) == (10 * SIZE, 1)
    bench.limit_dispatch("another", None)
    assert client.client_got() == [ENTRY] * 11
    assert deliveries.shares == frozenset()


def test_a_large_entry_keeps_its_room_while_others_take_theirs(bench: Bench) -> None:
    """Its share might not hold it any more when the rest of it comes."""
    bench.buffer = PublishBuffer(12_000_000)
    bench.attach(ns="limited", other="another")
    for group in ("limited", "another"):
        bench.limit_dispatch(group, 50)
    entry = peer.delivery(1, LARGE, b"y" * 600_000)
    first, second = consuming(bench, "a"), consuming(bench, "b")
    (other,) = greedy(bench, 1, 0, ELSEWHERE)
    first.is_sent(entry)

    second.is_sent_on(entry[:100_000])
    assert other.is_sent(peer.delivery(1, LARGE, b"y" * 900_000)) == []
    second.is_sent_on(entry[100_000:])

    assert second.session.consumers == 1
    assert second.session.held_bytes == len(entry) + HELD_FRAME_OVERHEAD


def test_a_large_entry_has_its_room_before_all_of_it_has_come(bench: Bench) -> None:
    """The room is free again when it turns out not to be needed."""
    bench.buffer = PublishBuffer(4_000_000)
    bench.dispatch_limited(50)
    entry = peer.delivery(1, LARGE, b"y" * 600_000)
    first, second = consuming(bench, "a"), consuming(bench, "b")

    first.session.receive_from_broker(entry[:100_000], bench.now_ns)
    assert first.session.held_bytes == len(entry) + HELD_FRAME_OVERHEAD
    assert second.is_sent(entry) == [peer.close_consumer(1, NO_REQUEST)]
    bench.limit_dispatch("limited", None)

    first.session.receive_from_broker(entry[100_000:], bench.now_ns)
    assert first.client_got() == [entry]
    assert bench.buffer.deliveries.held_bytes == 0


class Traffic:
    """Consumers of three groups on random connections: entries, limits, moves and ends of them."""

    SPACES = ("ns", "other", "third")

    def __init__(self, bench: Bench, seed: int) -> None:
        self._bench, self._dice, self._seed = bench, random.Random(seed), seed
        bench.buffer = PublishBuffer(4 * 40 * SIZE)
        self._clients: list[Client] = []
        #: By connection, what has not been sent yet of an entry.
        self._rest: dict[Client, bytes] = {}
        self._attach()

    def step(self) -> None:
        """Do one of these things."""
        dice = self._dice.random()
        if len(self._clients) < 12 or dice < 0.05:
            self._begins()
        elif dice < 0.85:
            self._gets(self._dice.choice(self._clients))
        elif dice < 0.9:
            self._dice.choice(self._clients).sends_on(peer.command(20, (1, 1)))
        elif dice < 0.95:
            self._ends()
        elif dice < 0.97:
            self._attach()
        else:
            self._bench.wait(self._dice.choice((10, 2_000)))

    def _begins(self) -> None:
        space = self._dice.choice(self.SPACES)
        self._clients.append(self._bench.client(held_bytes_max=20 * SIZE))
        self._clients[-1].opens(peer.subscribe(f"persistent://tenant/{space}/topic"))

    def _gets(self, client: Client) -> None:
        rest = self._rest.pop(client, b"")
        if not rest:
            content = b"y" * self._dice.choice((0, 500, 5_000))
            rest = peer.delivery(1, self._dice.choice((1, 30)), content)
        part = self._dice.choice((40, len(rest) - 1, len(rest)))
        client.is_sent_on(rest[:part])
        self._rest[client] = rest[part:]

    def _ends(self) -> None:
        client = self._clients.pop(self._dice.randrange(len(self._clients)))
        self._rest.pop(client, None)
        client.session.close(self._bench.now_ns)

    def _attach(self) -> None:
        groups = {space: self._dice.choice(("fast", "slow", "shut")) for space in self.SPACES}
        self._bench.attach(**groups)
        for group, rate in (("fast", 50), ("slow", 2), ("shut", 0)):
            self._bench.limit_dispatch(group, self._dice.choice((rate, rate, None)))

    def check(self) -> None:
        """The book of all connections is the sum of theirs, share by share."""
        book: Counter[str] = Counter()
        beside = 0
        for client in self._clients:
            deliveries = client.session._holding.deliveries
            beside += 0 if deliveries._own is None else deliveries._own.taken
            beside += 0 if deliveries._reserved_of else deliveries.reserved
            book[deliveries._reserved_of] += deliveries.reserved if deliveries._reserved_of else 0
            for consumer in client.session._participants.consumers.values():
                book[consumer.buffer_share] += consumer.buffered_bytes
        room = self._bench.buffer.deliveries
        of_shares = {share: room.of(share) for share in room.shares}
        assert of_shares == dict(+book), f"seed {self._seed}"
        held = sum(each.session._holding.deliveries.held_bytes for each in self._clients)
        assert room.held_bytes + beside == held, f"seed {self._seed}"


@pytest.mark.parametrize("seed", range(8))
def test_the_books_of_deliveries_agree_whatever_happens(bench: Bench, seed: int) -> None:
    """Entries come in parts and pass; consumers are closed and moved, and connections end."""
    traffic = Traffic(bench, seed)

    for _ in range(1_500):
        traffic.step()
        traffic.check()

    assert bench.counters.dropped_frames, f"seed {seed}"
    assert bench.counters.refusals[RefusalReason.HELD_DELIVERIES], f"seed {seed}"


def consuming(bench: Bench, subscription: str) -> Client:
    """A client with a consumer of the topic."""
    client = bench.client()
    client.opens(peer.subscribe(TOPIC, 1, 1, subscription))
    client.sends(peer.flow(1, 1_000))
    return client


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
