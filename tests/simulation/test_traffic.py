"""What clients send, and what a valve lets pass of it."""

from __future__ import annotations

import random
import statistics

import pytest

from coordinator.simulation.traffic import Constant, Load, OnOff, by_ratio, poisson, zipf
from coordinator.simulation.valve import BURST_NS, STEP_NS, Valve

SECOND_NS = 1_000_000_000
STEPS = SECOND_NS // STEP_NS


def admitted_in_a_second(valve: Valve, load: Load, begin_ns: int = 0) -> int:
    """Run a second in steps."""
    total = 0
    for step in range(1, STEPS + 1):
        now_ns = begin_ns + step * STEP_NS
        load.arrive(now_ns, STEP_NS)
        passed = valve.admit(load.waiting, now_ns)
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
    """What waits is bounded by the window and one step, however long the limit holds it."""
    load = Load(Constant(1_000))
    for step in range(100):
        load.arrive(step * STEP_NS, STEP_NS)

    assert load.waiting == 100


def test_disconnected_clients_take_what_waits_with_them() -> None:
    """None is that nobody is connected."""
    load = Load(Constant(1_000))
    load.arrive(STEP_NS, STEP_NS)
    load.replace(Constant(None))

    assert not load.arrive(2 * STEP_NS, STEP_NS)
    assert (load.waiting, load.offered) == (0, 0)


def test_a_square_wave() -> None:
    """High, low, and high again a period later, beginning late by the phase."""
    wave = OnOff(high=9, low=1, on_ns=5, off_ns=5, phase_ns=2)

    assert [wave.rate(moment) for moment in (2, 6, 7, 11, 12)] == [9, 9, 1, 1, 9]


def test_zipf_and_ratio_split_a_rate() -> None:
    """The k-th part is proportional to 1/k; a ratio is a ratio."""
    assert zipf(1_100, 3, 1.0) == [600, 300, 200]
    assert by_ratio(1_000, (3, 7)) == [300, 700]


@pytest.mark.parametrize("mean", [0.5, 4.0, 200.0])
def test_poisson_numbers(mean: float) -> None:
    """Mean and variance are the same, by either method."""
    rng = random.Random(3)
    numbers = [poisson(rng, mean) for _ in range(5_000)]

    assert statistics.fmean(numbers) == pytest.approx(mean, rel=0.05)
    assert statistics.variance(numbers) == pytest.approx(mean, rel=0.1)


@pytest.mark.parametrize("rate", [1, 3, 19, 21, 333, 12_345])
def test_a_saturated_valve_passes_exactly_its_rate(rate: int) -> None:
    """Also where the rate is no whole number of tokens per step."""
    valve, load = Valve(rate, 0), Load(Constant(10 * rate + 100))

    total = sum(admitted_in_a_second(valve, load, second * SECOND_NS) for second in range(3))

    assert total in (3 * rate - 1, 3 * rate)


def test_an_idle_valve_saves_its_burst_and_no_more() -> None:
    """After ten idle seconds a second passes the rate and 50 ms of it."""
    valve, load = Valve(1_000, 0), Load(Constant(0))
    for second in range(10):
        admitted_in_a_second(valve, load, second * SECOND_NS)
    load.replace(Constant(5_000))

    total = admitted_in_a_second(valve, load, 10 * SECOND_NS)

    assert total == 1_000 + 1_000 * BURST_NS // SECOND_NS


def test_a_valve_of_zero_lets_nothing_pass() -> None:
    """Not even what had been saved."""
    valve, load = Valve(1_000, 0), Load(Constant(0))
    admitted_in_a_second(valve, load)
    valve.set_rate(0, SECOND_NS)
    load.replace(Constant(1_000))

    assert admitted_in_a_second(valve, load, SECOND_NS) == 0


def test_a_new_rate_holds_at_once() -> None:
    """Halved in mid-run, a second passes half."""
    valve, load = Valve(1_000, 0), Load(Constant(5_000))
    admitted_in_a_second(valve, load)
    valve.set_rate(500, SECOND_NS)

    assert admitted_in_a_second(valve, load, SECOND_NS) == 500
