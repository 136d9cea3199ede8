"""A consumer pays for a delivery that costs more than a few seconds of the limit; the others do not."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.gate.limits.metering import DEBT_NS
from tests.gate import peer
from tests.gate.brokers import Dispatcher, begin, run, seconds
from tests.gate.conftest import TOPIC, Bench

DEBT_S = DEBT_NS // NANOS_PER_SECOND
OTHER = "persistent://tenant/ns/other"


def owed_s(bench: Bench, rate: int) -> float:
    """The debt of the group, as seconds of its limit."""
    return bench.groups.group("limited").dispatch_limiter.owed(bench.now_ns)[0] / rate


def consumers(bench: Bench, rate: int) -> tuple[Dispatcher, Dispatcher]:
    """One consumer whose entries are larger than a minute of the limit, and an honest one."""
    bench.attach(ns="limited")
    bench.limit_dispatch("limited", rate)
    bench.wait(1000)
    large, honest = Dispatcher(bench.client(), []), Dispatcher(bench.client(), [])
    large.begin(TOPIC)
    honest.begin(OTHER)
    honest.entries += [1] * 5_000
    run(bench, [large, honest], 500)
    return large, honest


def test_a_batch_of_a_minute_takes_half_of_the_limit_and_no_more(bench: Bench) -> None:
    """Another consumer has the other half at once: it does not wait for what it did not get."""
    large, honest = consumers(bench, 50)
    before = sum(honest.received)
    large.entries = [3_000]

    run(bench, [large, honest], 10_000)

    assert sum(large.received) == 3_000
    assert sum(honest.received) - before == pytest.approx(10 * 50 / 2, abs=30)
    assert owed_s(bench, 50) == 0


def test_the_one_who_got_it_gets_nothing_until_it_has_paid(bench: Bench) -> None:
    """The limit holds on the long run: three batches of ten seconds take half a minute."""
    bench.attach(ns="limited")
    bench.limit_dispatch("limited", 50)
    dispatchers = begin(bench, 1, [500] * 4)

    run(bench, dispatchers, 28_000)

    arrived = [second for second, messages in enumerate(seconds(dispatchers)) if messages]
    assert [later - earlier for earlier, later in pairwise(arrived)] == [10, 10]


def test_no_debt_is_longer_than_its_bound_whatever_comes_at_once(bench: Bench) -> None:
    """Five hundred consumers of an empty topic use the permit that each of them has, for 200 messages."""
    bench.attach(ns="limited")
    bench.limit_dispatch("limited", 50)
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

    assert owed_s(bench, 50) <= DEBT_S
    run(bench, [honest], 10_000)
    assert sum(honest.received) - before >= (10 - DEBT_S) * 50 / 2 - 30


def test_a_consumer_that_owes_alone_is_named(bench: Bench) -> None:
    """The debt is told as time of the limit, though the group owes none of it."""
    large, honest = consumers(bench, 50)
    large.entries = [3_000]

    run(bench, [large, honest], 100)

    ((group, told),) = large.client.debts
    assert (group, told.topic, told.messages) == ("limited", TOPIC, 3_000)
    assert told.owed_ns == pytest.approx(60 * NANOS_PER_SECOND, rel=0.01)
    assert owed_s(bench, 50) < 1
    assert not honest.client.debts


def test_who_leaves_leaves_a_bounded_debt(bench: Bench) -> None:
    """The group takes over as much as it may owe, and forgets the rest."""
    large, honest = consumers(bench, 50)
    large.entries = [3_000]
    run(bench, [large], 100)

    large.client.session.close(bench.now_ns)

    assert 0 < owed_s(bench, 50) <= DEBT_S
    before = sum(honest.received)
    run(bench, [honest], (DEBT_S + 10) * 1000)
    assert sum(honest.received) - before == pytest.approx(500, abs=30)


def test_entries_that_are_lent_to_the_group_are_charged_to_the_turn_of_their_client(
    bench: Bench,
) -> None:
    """Batches of four seconds of the limit, one after the other: another consumer has its half."""
    large, honest = consumers(bench, 50)
    before = sum(honest.received)
    large.entries = [200] * 100

    run(bench, [large, honest], 24_000)

    assert sum(honest.received) - before == pytest.approx(24 * 50 / 2, abs=220)


def test_a_limit_in_bytes_lends_alike(bench: Bench) -> None:
    """An entry of a megabyte at a limit of 10 kB/s is paid for in 100 s, and others have their half."""
    bench.attach(ns="limited")
    bench.limit_dispatch("limited", size=10_000)
    large, honest = Dispatcher(bench.client(), [1], size=1_000_000), Dispatcher(bench.client(), [])
    large.begin(TOPIC)
    honest.begin(OTHER)
    run(bench, [large], 1_000)
    honest.entries += [1] * 5_000

    run(bench, [large, honest], 10_000)

    got = sum(honest.received) * peer.size_of(peer.delivery(1, 1, b"y" * 50))
    assert got == pytest.approx(10 * 10_000 / 2, rel=0.1)


def test_a_lifted_limit_forgives_what_is_owed(bench: Bench) -> None:
    """There is nothing left to pay for; a later limit begins without it."""
    large, _ = consumers(bench, 50)
    large.entries = [3_000, 1, 1]
    run(bench, [large], 100)

    bench.limit_dispatch("limited", None)
    run(bench, [large], 100)

    assert sum(large.received) == 3_002
