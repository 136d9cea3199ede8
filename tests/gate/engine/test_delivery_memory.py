"""The memory for held deliveries: however many consumers wait for one limit, another's are not closed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from coordinator.gate.engine.deliveries import FIRST_MAX
from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD
from coordinator.gate.limits.publish_buffer import PublishBuffer
from coordinator.gate.protocol.own_frames import NO_REQUEST
from coordinator.gate.protocol.refusals import RefusalReason
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client

LARGE = 500
"""Messages of an entry that takes ten seconds of a limit of 50, more than is lent."""
ENTRY = peer.delivery(1)
SIZE = len(ENTRY) + HELD_FRAME_OVERHEAD
ELSEWHERE = "persistent://tenant/other/topic"


def consuming(bench: Bench, subscription: str) -> Client:
    """A client with a consumer of the topic."""
    client = bench.client()
    client.opens(peer.subscribe(TOPIC, 1, 1, subscription))
    client.sends(peer.flow(1, 1_000))
    return client


def test_entries_of_a_limit_have_a_bound_and_small_ones_fit_beside_it(bench: Bench) -> None:
    """Half of a quarter of the buffer; a small entry counts apart where its connection holds nothing."""
    bench.buffer = PublishBuffer(4_000_000)
    bench.dispatch_limited(50)
    large, small = peer.delivery(1, LARGE, b"y" * 600_000), peer.delivery(1, LARGE)
    first, second, third = (consuming(bench, f"s{number}") for number in range(3))

    assert first.is_sent(large) == third.is_sent(small) == []
    assert second.is_sent(large) == [peer.close_consumer(1, NO_REQUEST)]
    assert third.session.held_bytes == len(small) + HELD_FRAME_OVERHEAD
    assert bench.buffer.deliveries.held_bytes == first.session.held_bytes
    assert bench.buffer.first_deliveries.held_bytes == third.session.held_bytes
    assert bench.buffer.has_room("limit", 4_000_000), "publishes have their own room"


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
    assert bench.buffer.deliveries.held_bytes == (30 + 10) * SIZE, "the first of each is apart"


def test_the_only_entries_of_their_connections_take_no_room_of_others(bench: Bench) -> None:
    """Thirty connections hold one each; another group's consumer has half of the room all the same."""
    slow_groups(bench, 64)

    many = greedy(bench, 30, 1)
    (other,) = greedy(bench, 1, 33, ELSEWHERE)

    assert sum(client.session.held_frames for client in many) == 30
    assert (other.session.consumers, other.session.held_frames) == (1, 33)
    assert bench.buffer.deliveries.held_bytes == 32 * SIZE
    assert bench.buffer.first_deliveries.held_bytes == (30 + 1) * SIZE


def test_deliveries_have_a_bound_with_any_number_of_connections(bench: Bench) -> None:
    """Of a thousand with an entry each, half of either memory is held; the other consumers are closed."""
    slow_groups(bench, 64)

    many = greedy(bench, 1_000, 1)

    memories = (bench.buffer.deliveries, bench.buffer.first_deliveries)
    assert [memory.held_bytes for memory in memories] == [32 * SIZE] * 2
    assert sum(client.session.held_frames for client in many) == 2 * 32
    assert sum(client.session.consumers for client in many) == 2 * 32
    (other,) = greedy(bench, 1, 1, ELSEWHERE)
    assert other.session.held_frames == 1, "a consumer of another group is not closed"


def test_a_large_entry_never_counts_apart(bench: Bench) -> None:
    """It would take the room of many small ones."""
    bench.buffer = PublishBuffer(16 * FIRST_MAX)
    bench.dispatch_limited(50)
    client = consuming(bench, "s")

    client.is_sent_on(peer.delivery(1, LARGE, b"y" * FIRST_MAX))

    assert bench.buffer.first_deliveries.held_bytes == 0
    assert bench.buffer.deliveries.held_bytes == client.session.held_bytes > FIRST_MAX


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
        self._bench.attach(None, **groups)
        for group, rate in (("fast", 50), ("slow", 2), ("shut", 0)):
            self._bench.limit_dispatch(group, self._dice.choice((rate, rate, None)))

    def check(self) -> None:
        """The books of all connections are the sum of theirs, share by share."""
        book: Counter[str] = Counter()
        firsts: Counter[str] = Counter()
        for client in self._clients:
            deliveries = client.session._holding.deliveries
            if deliveries._first is not None:
                firsts[deliveries._first_share] += deliveries._first.taken
            arriving = deliveries.arriving
            (firsts if deliveries._arrives_first else book)[arriving.share] += arriving.size
            for consumer in client.session._participants.consumers.values():
                book[consumer.buffer_share] += consumer.buffered_bytes
        buffer = self._bench.buffer
        for room, counted in ((buffer.deliveries, book), (buffer.first_deliveries, firsts)):
            of_shares = {share: room.of(share) for share in room.shares}
            assert of_shares == dict(+counted), f"seed {self._seed}"
        held = sum(each.session._holding.deliveries.held_bytes for each in self._clients)
        in_books = buffer.deliveries.held_bytes + buffer.first_deliveries.held_bytes
        assert in_books == held, f"seed {self._seed}"


@pytest.mark.parametrize("seed", range(8))
def test_the_books_of_deliveries_agree_whatever_happens(bench: Bench, seed: int) -> None:
    """Entries come in parts and pass; consumers are closed and moved, and connections end."""
    traffic = Traffic(bench, seed)

    for _ in range(1_500):
        traffic.step()
        traffic.check()

    assert bench.counters.dropped_frames, f"seed {seed}"
    assert bench.counters.refusals[RefusalReason.HELD_DELIVERIES], f"seed {seed}"
