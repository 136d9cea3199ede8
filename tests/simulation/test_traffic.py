"""Clients send, and a limiter lets a part of it pass."""

from __future__ import annotations

import random
import statistics

import pytest

from coordinator.core.model import Unit
from coordinator.simulation.traffic import Constant, Load, OnOff, poisson, zipf
from coordinator.simulation.valve import BURST_NS, STEP_NS, SimulatedLimiter

SECOND_NS = 1_000_000_000
STEPS = SECOND_NS // STEP_NS


def limited_to(messages: int | None = None, bytes_: int | None = None) -> SimulatedLimiter:
    """A new limiter, at the beginning of time."""
    limiter = SimulatedLimiter()
    limiter.set_rate(Unit.MESSAGES, messages, 0)
    limiter.set_rate(Unit.BYTES, bytes_, 0)
    return limiter


def admitted_in_a_second(limiter: SimulatedLimiter, load: Load, begin_ns: int = 0) -> int:
    """Run a second in steps."""
    total = 0
    for step in range(1, STEPS + 1):
        now_ns = begin_ns + step * STEP_NS
        load.arrive(now_ns, STEP_NS)
        passed = limiter.admit(load.waiting, load.source.message_bytes, now_ns)
        load.waiting -= passed
        total += passed
    return total


@pytest.mark.parametrize("rate", [1, 7, 333, 99_999])
def test_a_load_sends_exactly_its_rate(rate: int) -> None:
    """Remainders are carried, so that nothing is lost to the steps."""
    load = Load(Constant(rate))
    total = 0
    for step in range(1, 3 * STEPS + 1):
        load.arrive(step * STEP_NS, STEP_NS)
        total += load.offered

    assert total == 3 * rate


def test_held_clients_stop_sending() -> None:
    """The window and one step bound the waiting messages, however long the limit holds them."""
    load = Load(Constant(1_000))
    for step in range(100):
        load.arrive(step * STEP_NS, STEP_NS)

    assert load.waiting == 100


def test_disconnected_clients_take_what_waits_with_them() -> None:
    """None means that no client is connected."""
    load = Load(Constant(1_000))
    load.arrive(STEP_NS, STEP_NS)
    load.source = Constant(None)

    assert not load.arrive(2 * STEP_NS, STEP_NS)
    assert (load.waiting, load.offered) == (0, 0)


def test_a_square_wave() -> None:
    """High, low, and high again a period later, beginning late by the phase."""
    wave = OnOff(high=9, low=1, on_ns=5, off_ns=5, phase_ns=2)

    assert [wave.rate(moment) for moment in (2, 6, 7, 11, 12)] == [9, 9, 1, 1, 9]


def test_zipf_splits_a_rate() -> None:
    """The k-th part is proportional to 1/k."""
    assert zipf(1_100, 3, 1.0) == [600, 300, 200]


@pytest.mark.parametrize("mean", [0.5, 4.0, 200.0])
def test_poisson_numbers(mean: float) -> None:
    """Mean and variance are the same, by either method."""
    rng = random.Random(3)
    numbers = [poisson(rng, mean) for _ in range(5_000)]

    assert statistics.fmean(numbers) == pytest.approx(mean, rel=0.05)
    assert statistics.variance(numbers) == pytest.approx(mean, rel=0.1)


@pytest.mark.parametrize("rate", [1, 3, 19, 21, 333, 12_345])
def test_a_saturated_limiter_passes_exactly_its_rate(rate: int) -> None:
    """The rate need not be a whole number of tokens per step."""
    limiter, load = limited_to(rate), Load(Constant(10 * rate + 100))

    total = sum(admitted_in_a_second(limiter, load, second * SECOND_NS) for second in range(3))

    assert total in (3 * rate - 1, 3 * rate)


def test_an_idle_limiter_saves_its_burst_and_no_more() -> None:
    """After ten idle seconds a second passes the rate and 50 ms of it."""
    limiter, load = limited_to(1_000), Load(Constant(0))
    for second in range(10):
        admitted_in_a_second(limiter, load, second * SECOND_NS)
    load.source = Constant(5_000)

    total = admitted_in_a_second(limiter, load, 10 * SECOND_NS)

    assert total == 1_000 + 1_000 * BURST_NS // SECOND_NS


@pytest.mark.parametrize(("offered", "rate"), [(0, 0), (5_000, 500)])
def test_a_new_rate_holds_at_once(offered: int, rate: int) -> None:
    """Halved in mid-run, a second passes half; at a rate of 0 saved tokens do not pass either."""
    limiter, load = limited_to(1_000), Load(Constant(offered))
    admitted_in_a_second(limiter, load)
    limiter.set_rate(Unit.MESSAGES, rate, SECOND_NS)
    load.source = Constant(5_000)

    assert admitted_in_a_second(limiter, load, SECOND_NS) == rate


@pytest.mark.parametrize("size", [100, 999, 30_000])
def test_a_byte_limit_passes_its_bytes_whatever_the_messages_size(size: int) -> None:
    """A message larger than the bucket leaves a debt that is paid first."""
    limiter = limited_to(bytes_=100_000)
    load = Load(Constant(10_000_000, message_bytes=size), unit=Unit.BYTES)

    passed = sum(admitted_in_a_second(limiter, load, second * SECOND_NS) for second in range(30))

    assert 3_000_000 - 2 * size <= passed * size <= 3_000_000 + size


def test_the_scarcer_unit_decides_and_is_named() -> None:
    """1,000 messages of 1,000 B per second under a limit of 500 kB/s: half, held by bytes alone."""
    limiter, load = limited_to(1_000, 500_000), Load(Constant(1_000, message_bytes=1_000))

    passed = sum(admitted_in_a_second(limiter, load, second * SECOND_NS) for second in range(4))

    assert passed == 2_000
    assert limiter.held_by == {Unit.BYTES}


def test_a_load_of_bytes_makes_messages_of_its_size() -> None:
    """100,000 B per second in messages of 333 B are 300 messages and a rest that is carried."""
    load = Load(Constant(100_000, message_bytes=333), unit=Unit.BYTES)
    total = 0
    for step in range(1, 333 * STEPS + 1):
        load.arrive(step * STEP_NS, STEP_NS)
        total += load.offered

    assert total == 100_000
