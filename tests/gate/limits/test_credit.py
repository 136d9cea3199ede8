"""Credit: what a group saves up below its limit, how much that is, and what it never exceeds."""

from __future__ import annotations

import random
from itertools import accumulate

import pytest

from coordinator.core.handling import DEFAULT_HANDLING, Handling
from coordinator.core.limiting.windows import LimitMode, maker_of
from coordinator.core.model import NANOS_PER_MILLI, NANOS_PER_SECOND, MonitoringClass, Rates
from coordinator.gate.limits.counters import TrafficCounter
from coordinator.gate.limits.dispatch import DispatchLimiter
from coordinator.gate.limits.lease import GateLease
from coordinator.gate.limits.limiter import PublishLimiter
from tests.gate import peer
from tests.gate.conftest import START_NS, Bench, Story

FIVE_SECONDS = Handling(burst_ns=5 * NANOS_PER_SECOND)


def new_limiter(rate: int, handling: Handling = FIVE_SECONDS) -> PublishLimiter:
    """With this limit since START_NS."""
    limiter = PublishLimiter(TrafficCounter("group", MonitoringClass.PUBLISH, Story()))
    limiter.set_handling(handling, START_NS)
    limiter.set_limits(Rates(publish_messages=rate), START_NS)
    return limiter


def passed(limiter: PublishLimiter, now_ns: int, most: int = 1_000_000) -> int:
    """Return how many single messages pass at a moment."""
    count = 0
    while count < most and limiter.admits(1, 100, now_ns):
        limiter.consume(1, 100)
        count += 1
    return count


def test_what_is_left_unused_is_saved_up_to_the_burst() -> None:
    """It passes at once, and then the limit holds again."""
    limiter = new_limiter(1000)
    at = START_NS + 60 * NANOS_PER_SECOND
    assert passed(limiter, at) == 5000
    assert passed(limiter, at + NANOS_PER_SECOND) == 1000
    assert passed(limiter, at + 3 * NANOS_PER_SECOND) == 2000


def test_a_limit_that_falls_takes_its_part_of_the_credit_with_it() -> None:
    """The part that another broker may save up from then on; a rising limit brings none."""
    limiter = new_limiter(1000)
    at = START_NS + 60 * NANOS_PER_SECOND
    limiter.set_limits(Rates(publish_messages=100), at)
    limiter.set_limits(Rates(publish_messages=1000), at)
    assert passed(limiter, at) == 500


@pytest.mark.parametrize("rate", [0, 1])
def test_nothing_of_the_credit_passes_a_limit_of_nothing(rate: int) -> None:
    """A limit of 0 and the end of a lease let no credit pass."""
    limiter = new_limiter(1000)
    at = START_NS + 60 * NANOS_PER_SECOND
    limiter.set_limits(Rates(publish_messages=1000 * rate), at, GateLease() if rate else None)
    assert passed(limiter, at) == 0


def test_a_handling_that_ends_leaves_no_credit() -> None:
    """Nothing but what every group saves up."""
    limiter = new_limiter(1000)
    at = START_NS + 60 * NANOS_PER_SECOND
    limiter.set_handling(DEFAULT_HANDLING, at)
    assert passed(limiter, at) == 50


def test_a_large_message_waits_for_no_more_than_without_credit() -> None:
    """It passes on credit of the usual kind, and later ones wait for it."""
    limiter = new_limiter(1000)
    at = START_NS + 45 * NANOS_PER_MILLI
    assert limiter.admits(3000, 100, at)
    limiter.consume(3000, 100)
    assert limiter.wait_ns(1, 100, at) == 2_956 * NANOS_PER_MILLI


def test_the_first_permit_of_a_consumer_waits_for_no_credit() -> None:
    """Its cost is unknown, so it waits for a nearly full bucket, of the usual size."""
    limiter = DispatchLimiter(TrafficCounter("group", MonitoringClass.DISPATCH, Story()))
    limiter.set_handling(Handling(burst_ns=3600 * NANOS_PER_SECOND), START_NS)
    limiter.set_limits(Rates(dispatch_messages=1000), START_NS)
    wait_ns = limiter.wait_ns(1 << 62, 1 << 62, START_NS)
    assert wait_ns is not None
    assert wait_ns <= 50 * NANOS_PER_MILLI


def test_dispatch_saves_up_as_well(bench: Bench) -> None:
    """The permits of an idle minute go out at once, as far as messages come for them."""
    bench.handle("limited", FIVE_SECONDS)
    bench.dispatch_limited(100)
    client = bench.client()
    client.opens(peer.subscribe("persistent://tenant/ns/topic"))
    client.sends(peer.flow(1, 1))
    bench.wait(60_000)
    client.is_sent(peer.delivery(1))
    bench.wait(60_000)
    client.broker_got()
    came = 0
    client.sends_on(peer.flow(1, 10_000))
    for _ in range(100):
        bench.wait(1)
        granted = len(client.broker_got())
        for _ in range(granted):
            client.is_sent(peer.delivery(1))
        came += granted
    assert came >= 50


def test_windows_keep_no_credit() -> None:
    """With limit_mode window a second has what it has."""
    make = maker_of(LimitMode.WINDOW)
    limiter = PublishLimiter(TrafficCounter("g", MonitoringClass.PUBLISH, Story()), make=make)
    limiter.set_handling(FIVE_SECONDS, START_NS)
    limiter.set_limits(Rates(publish_messages=1000), START_NS)
    assert passed(limiter, START_NS + 60 * NANOS_PER_SECOND) <= 1000


@pytest.mark.parametrize("seed", range(30))
def test_all_brokers_together_never_pass_more_than_the_limit_and_the_credit(seed: int) -> None:
    """In any time: limits move at random, lowered before others are raised, and demand comes and goes."""
    dice = random.Random(seed)
    limit, burst_s = dice.choice((10, 1000)), dice.choice((1, 5, 60))
    brokers = [
        new_limiter(0, Handling(burst_ns=burst_s * NANOS_PER_SECOND))
        for _ in range(dice.randrange(1, 5))
    ]
    shares = [0] * len(brokers)
    now_ns, times, amounts = START_NS, [START_NS], [0]
    for _ in range(400):
        now_ns += dice.choice((1, 7, 50, 400, 5000)) * NANOS_PER_MILLI
        if dice.random() < 0.4:
            move(dice, brokers, shares, limit, now_ns)
        amount = 0
        for broker in brokers:
            most = dice.choice((0, 0, 1, limit, 100 * limit))
            amount += passed(broker, now_ns, most)
        times.append(now_ns)
        amounts.append(amount)
    sums = list(accumulate(amounts))
    credit = limit * burst_s + len(brokers)
    # For every beginning the end with the most on top, from the last one backwards.
    most = sums[-1] * NANOS_PER_SECOND - limit * times[-1]
    for at in range(len(times) - 1, 0, -1):
        most = max(most, sums[at] * NANOS_PER_SECOND - limit * times[at])
        before = sums[at - 1] * NANOS_PER_SECOND - limit * times[at]
        assert most - before <= credit * NANOS_PER_SECOND, f"seed {seed}, from {at}"


def move(
    dice: random.Random, brokers: list[PublishLimiter], shares: list[int], limit: int, now_ns: int
) -> None:
    """Split the limit anew, or less of it; whatever falls is in force before anything rises."""
    wanted = [dice.random() for _ in brokers]
    whole = limit * dice.choice((1, 1, 1, 0.5))
    after = [int(whole * each / sum(wanted)) for each in wanted]
    for falls in (True, False):
        for at, broker in enumerate(brokers):
            if (after[at] < shares[at]) is falls:
                broker.set_limits(Rates(publish_messages=after[at]), now_ns)
    shares[:] = after
