"""Clients share a limit fairly, and each client's producers share what it gets."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator.gate.engine.identity import IdentityRules
from coordinator.gate.limits.service_order import ClientTurns, ServiceOrder
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench, Client
from tests.gate.engine.test_identity import connect

OTHER = "persistent://tenant/ns/other"


@dataclass(eq=False)
class Clock:
    """A limiter that shares a millisecond among its waiters."""

    contended: bool = True
    service_ns: int = 0

    def span_ns(self, messages: int, size: int) -> int:
        """Return the time that a message takes up."""
        return max(messages, size)


@dataclass(eq=False)
class Waits:
    """A waiter of some client."""

    client: ClientTurns
    turn: tuple[int, int]
    served_ns: int = field(default=0)


@pytest.mark.parametrize("seed", range(10))
def test_the_waiters_of_one_client_are_a_sorted_list(seed: int) -> None:
    """Against the plain model, with removals anywhere and new turns."""
    dice = random.Random(seed)
    client = ClientTurns()
    order, model = ServiceOrder[Waits](Clock()), list[Waits]()
    for turn in range(500):
        if model and dice.random() < 0.45:
            waiter = dice.choice(model)
            order.remove(waiter)
            model.remove(waiter)
            if dice.random() < 0.3:
                waiter.turn = (turn, 0)
                order.add(waiter)
                model.append(waiter)
        else:
            model.append(Waits(client, (turn, 0)))
            order.add(model[-1])
        first = order.first()
        assert (first and first.turn) == min((waiter.turn for waiter in model), default=None)
        assert len(order) == len(model) == len([*order.waiters()])


@pytest.mark.parametrize("seed", range(10))
def test_any_clients_with_any_costs_get_the_same(seed: int) -> None:
    """Saturated clients differ by no more than their largest messages, with any number of producers."""
    dice = random.Random(seed)
    limiter = Clock()
    order = ServiceOrder[Waits](limiter)
    clients = [ClientTurns() for _ in range(5)]
    costs = [dice.randint(1, 50) for _ in clients]
    waiters = [
        Waits(client, (0, n))
        for n, client in enumerate(clients)
        for _ in range(dice.randint(1, 30))
    ]
    for waiter in waiters:
        order.add(waiter)
    served = Counter[ClientTurns]()
    for number in range(1, 5_000):
        served_next = order.first()
        assert served_next is not None
        waiter = served_next
        cost = costs[clients.index(waiter.client)]
        served[waiter.client] += cost
        waiter.served_ns = waiter.client.charge(limiter, waiter.served_ns, cost)
        waiter.turn = waiter.client.begins_within_ns(limiter, waiter.served_ns), number
        order.requeue(waiter)

    assert max(served.values()) - min(served.values()) <= 2 * max(costs)


def test_a_client_that_uses_less_than_its_part_waits_for_one_message() -> None:
    """However many others wait, and at whichever moment of their round it comes."""
    limiter = Clock()
    order = ServiceOrder[Waits](limiter)
    clients = [ClientTurns() for _ in range(20)]
    for number, client in enumerate(clients):
        order.add(Waits(client, (0, number)))
    sparse = Waits(ClientTurns(), (0, 0))
    numbers = iter(range(100, 10_000))

    def serve() -> Waits:
        waiter = order.first()
        assert waiter is not None
        waiter.served_ns = waiter.client.charge(limiter, waiter.served_ns, 10)
        waiter.turn = waiter.client.begins_within_ns(limiter, waiter.served_ns), next(numbers)
        return waiter

    for others in range(1, 60):
        for _ in range(2 * len(clients) + others % 20):
            order.requeue(serve())
        order.add(sparse)
        assert serve() is sparse
        order.remove(sparse)


def test_a_client_that_was_served_by_another_limiter_moves_back() -> None:
    """Its place is looked at when it comes first."""
    limiter = Clock()
    order = ServiceOrder[Waits](limiter)
    first, second = Waits(ClientTurns(), (0, 0)), Waits(ClientTurns(), (0, 1))
    order.add(first)
    order.add(second)
    assert order.first() is first

    first.client.charge(limiter, 0, 100)

    assert order.first() is second
    assert order.precedes(ClientTurns(), (0, 9))
    assert not order.precedes(second.client, (0, 0))


def test_clocks_of_limiters_without_waiters_are_forgotten() -> None:
    """A client that publishes to any number of groups keeps a bounded number of clocks."""
    client = ClientTurns()
    busy = Clock()
    client.charge(busy, 0, 7)
    idle = [Clock(contended=False) for _ in range(5_000)]
    for limiter in idle:
        client.charge(limiter, 0, 7)

    kept = sum(client.served_until_ns(limiter) > 0 for limiter in idle)
    assert 0 < kept <= 1024
    assert client.served_until_ns(busy) == 7


def test_clocks_are_looked_through_seldom() -> None:
    """Thousands of limiters that have waiters, and none of whose clocks can be forgotten."""
    looks = 0

    class Looked(Clock):
        def __getattribute__(self, name: str) -> Any:
            nonlocal looks
            looks += name == "contended"
            return super().__getattribute__(name)

    client = ClientTurns()
    for _ in range(5_000):
        client.charge(Looked(), 0, 7)

    assert 0 < looks <= 2 * 5_000


def passed(bench: Bench, clients: dict[str, Client], seconds: int) -> Counter[str]:
    """Keep every producer of every client supplied for a while; messages that passed, by client."""
    found = Counter[str]()
    for _ in range(seconds * 200):
        for client in clients.values():
            for producer in client.session._participants.producers.values():
                if not producer.held:
                    client.sends_on(peer.send(producer.producer_id))
        bench.wait(5)
        for name, client in clients.items():
            found[name] += len(client.broker_got())
    return found


def many_producers(bench: Bench, count: int, client: Client | None = None) -> Client:
    """A client with this many producers."""
    client = client or bench.client()
    client.opens(*(peer.producer(TOPIC, number, number) for number in range(1, count + 1)))
    return client


def test_three_hundred_producers_of_one_connection_leave_another_its_half(bench: Bench) -> None:
    """Turns are those of clients; within each, those of its producers."""
    bench.limited(100)
    found = passed(bench, {"many": many_producers(bench, 300), "one": bench.producing(OTHER)}, 20)

    assert abs(found["one"] - 1000) <= 10
    assert abs(found["many"] - 1000) <= 10


def test_producers_that_come_and_go_gain_nothing(bench: Bench) -> None:
    """A new producer's turn is its client's."""
    bench.limited(100)
    churns, honest = bench.client(), bench.producing(OTHER)
    found = Counter[str]()
    for number in range(1, 2_001):
        churns.opens(peer.producer(TOPIC, number, 2 * number))
        churns.sends_on(peer.send(number))
        found["churns"] += sum(peer.kind_of(frame) == 6 for frame in churns.broker_got())
        if number > 20:
            churns.sends_on(peer.close_producer(number - 20, 2 * number + 1))
            churns.is_sent(peer.success(2 * number + 1))
        if not honest.session.held_frames:
            honest.sends_on(peer.send(1))
        bench.wait(5)
        found["churns"] += sum(peer.kind_of(frame) == 6 for frame in churns.broker_got())
        found["honest"] += len(honest.broker_got())

    assert found["honest"] >= 480


def test_a_role_has_one_clients_part_on_all_its_connections(bench: Bench) -> None:
    """Ten connections that have proved the same role share what one connection of another gets."""
    bench.limited(100)
    rules = IdentityRules(basic=True)
    crowd = {
        f"crowd {number}": bench.client(identities=rules, connected=False) for number in range(10)
    }
    single = bench.client(identities=rules, connected=False)
    for client in (*crowd.values(), single):
        name = "single" if client is single else "crowd"
        client.sends(connect("basic", f"{name}:secret".encode()))
        client.is_sent(peer.connected())
        many_producers(bench, 1, client)

    found = passed(bench, {**crowd, "single": single}, 20)

    assert abs(found["single"] - 1000) <= 10
    assert max(found[name] for name in crowd) - min(found[name] for name in crowd) <= 2
