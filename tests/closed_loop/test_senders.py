"""Senders of every kind get what they need at once, and take little more than that from the others.

One broker's producer always wants more than there is; what the others leave is to be its own. The bounds
are next to what was measured; the comments beside them say what it was when demand was judged by sums of
rounds alone.
"""

from __future__ import annotations

import random

import pytest

from tests.closed_loop.loop import Loop
from tests.closed_loop.senders import Arrivals, Sender, flushing, poisson, steady, until

LIMIT = 1000
GREEDY = "b0"


def share(*others: Arrivals, limit: int = LIMIT) -> tuple[Loop, dict[str, float]]:
    """Return the settled rates over a minute of a greedy sender and these, each at its own broker."""
    senders = {GREEDY: Sender(steady(5 * limit))}
    senders |= {f"b{number}": Sender(each) for number, each in enumerate(others, 1)}
    loop = Loop(limit=limit)
    loop.start_senders(senders)
    loop.run(20)
    for sender in senders.values():
        sender.waited_s = 0.0
    return loop, loop.rates(60)


def longest_wait_s(loop: Loop) -> float:
    """The longest wait of a sender, the greedy one aside."""
    return max(gate.sender.waited_s for name, gate in loop.gates.items() if name != GREEDY)


@pytest.mark.verify
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("rate", "least"),
    [(0.3, 0.95), (1, 0.95), (3, 0.92)],  # 0.60, 0.53 and 0.68
)
def test_slow_senders_at_random_moments_keep_little_from_who_can_use_it(
    rate: float, least: float, seed: int
) -> None:
    """Nine brokers with a message now and then leave nearly everything to the tenth."""
    dice = random.Random(seed)
    loop, rates = share(*(poisson(rate, dice) for _ in range(9)))

    assert sum(rates.values()) >= least * LIMIT
    assert longest_wait_s(loop) < 1


def test_a_sender_that_flushes_late_in_every_round_keeps_little_unused() -> None:
    """200 messages at once, 850 ms into every second: not half of the limit for that."""
    loop, rates = share(flushing(200, every_s=1, at_s=0.85))

    assert sum(rates.values()) >= 0.92 * LIMIT  # 0.70
    assert longest_wait_s(loop) <= 1


@pytest.mark.verify
def test_many_senders_that_flush_late_keep_little_unused() -> None:
    """Nine brokers with 15 messages at once, in the last tenth of every second."""
    loop, rates = share(*(flushing(15, every_s=1, at_s=0.9) for _ in range(9)))

    assert sum(rates.values()) >= 0.95 * LIMIT  # 0.24
    assert longest_wait_s(loop) <= 1


@pytest.mark.parametrize("every_s", [5, 10])
def test_a_batch_that_takes_several_rounds_hardly_waits(every_s: int) -> None:
    """One frame with 200 messages for every second since the last: it is paid for when the next comes."""
    messages = 200 * every_s
    loop, rates = share(flushing(messages, every_s=every_s, at_s=0.3, batch=messages))

    assert longest_wait_s(loop) < 0.25  # 1.8 and 3.8
    assert rates["b1"] == 200
    assert sum(rates.values()) >= 0.85 * LIMIT


@pytest.mark.verify
@pytest.mark.parametrize(("limit", "others", "rate"), [(4, 1, 0.2), (20, 9, 0.2)])
def test_of_a_small_limit_nothing_is_kept_for_few_messages(
    limit: int, others: int, rate: float
) -> None:
    """A message now and then would keep too large a part of it: what is not used is free at once."""
    dice = random.Random(1)
    loop, rates = share(*(poisson(rate, dice) for _ in range(others)), limit=limit)

    assert sum(rates.values()) >= 0.6 * limit
    assert longest_wait_s(loop) < 1


@pytest.mark.parametrize(("limit", "each"), [(1000, 60), (100, 8), (20, 2)])
def test_who_stops_frees_its_part_at_once(limit: int, each: int) -> None:
    """Four of five brokers stop and stay connected: two seconds later the fifth has nearly all."""
    loop, rates = share(*(until(90, steady(each)) for _ in range(4)), limit=limit)
    assert rates[GREEDY] <= limit - 4 * each
    loop.run(12)

    assert loop.rates(4)[GREEDY] >= 0.95 * limit
