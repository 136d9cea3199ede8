"""Limits below one message a second are exact, in both classes and however traffic is handled."""

from __future__ import annotations

from fractions import Fraction

import pytest

from coordinator.core.handling import Handling
from coordinator.core.limiting.windows import LimitMode, maker_of
from coordinator.core.model import (
    NANOS_PER_SECOND,
    Dimension,
    ExactRates,
    MonitoringClass,
    Rate,
    Rates,
)
from coordinator.gate.limits.counters import TrafficCounter
from coordinator.gate.limits.limiter import PublishLimiter
from tests.gate.brokers import begin, run, seconds
from tests.gate.conftest import MILLISECOND_NS, START_NS, Bench, Story

TWO_THIRDS = Fraction(2, 3)


def limit_of(rate: Rate) -> ExactRates:
    """Return a limit of published messages."""
    return ExactRates.from_mapping({Dimension.PUBLISH_MESSAGES: rate})


def in_a_minute(limiter: PublishLimiter, start_ns: int = START_NS) -> int:
    """Return how many single messages pass in a minute, asked for every 10 ms."""
    passed = 0
    for step in range(1, 6_001):
        while limiter.admits(1, 100, start_ns + step * 10 * MILLISECOND_NS):
            limiter.consume(1, 100)
            passed += 1
    return passed


@pytest.mark.parametrize("mode", [LimitMode.BUCKET, LimitMode.WINDOW])
@pytest.mark.parametrize(("whole", "expected"), [(0, 40), (1, 100)])
def test_a_minute_has_forty_for_two_thirds(mode: LimitMode, whole: int, expected: int) -> None:
    """Beside the whole part of the limit, with a bucket and with windows of a second."""
    counter = TrafficCounter("group", MonitoringClass.PUBLISH, Story())
    limiter = PublishLimiter(counter, make=maker_of(mode))
    limiter.set_limits(limit_of(whole + TWO_THIRDS), START_NS)

    assert abs(in_a_minute(limiter) - expected) <= 1


def test_other_handling_keeps_the_fraction_and_another_limit_ends_it() -> None:
    """A fraction belongs to the limit that it came with."""
    limiter = PublishLimiter(TrafficCounter("group", MonitoringClass.PUBLISH, Story()))
    limiter.set_limits(limit_of(TWO_THIRDS), START_NS)
    limiter.set_handling(Handling(burst_ns=NANOS_PER_SECOND), START_NS)
    assert abs(in_a_minute(limiter) - 40) <= 1

    later_ns = START_NS + 60 * NANOS_PER_SECOND
    limiter.set_limits(Rates(publish_messages=0), later_ns)
    assert in_a_minute(limiter, later_ns) == 0


def test_consumers_take_turns_below_one_message_a_second(bench: Bench) -> None:
    """Twenty in half a minute, ten for each of two."""
    bench.attach(ns="limited")
    bench.set_limits("limited", ExactRates.from_mapping({Dimension.DISPATCH_MESSAGES: TWO_THIRDS}))
    dispatchers = begin(bench, 2, [1] * 1000)

    run(bench, dispatchers, 30_000)

    assert abs(sum(seconds(dispatchers)) - 20) <= 2
    assert all(abs(sum(dispatcher.received) - 10) <= 2 for dispatcher in dispatchers)
