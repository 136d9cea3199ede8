"""From the lumps of a saturated broker to even rounds, and nothing lost on the way."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.pacing import Pacer

S = NANOS_PER_SECOND
TURN_NS = S // 20
SEED = 7


class Bucket:
    """A broker's limiter: a full bucket each interval, then its rate; counts what passes and waits."""

    def __init__(self, limit: int, interval_s: int, phase_ns: int) -> None:
        self.quota = limit * interval_s / (interval_s + 1)
        self.interval_ns = interval_s * S
        self.tokens = 0.0
        self.phase_ns = phase_ns
        self.passed = self.throttles = 0.0

    def step(self, now_ns: int, demand: int) -> None:
        """5 ms of clients that want `demand` a second."""
        if now_ns % self.interval_ns < self.phase_ns <= now_ns % self.interval_ns + 5_000_000:
            self.tokens = self.quota
        self.tokens = min(self.quota, self.tokens + self.quota / 200)
        passes = min(demand / 200, max(0.0, self.tokens))
        self.tokens -= passes
        self.passed += passes
        self.throttles += 0.25 * (passes < demand / 200)


def rounds(
    limit: int, demand: int, interval_s: int, phase_ns: int, count: int
) -> Iterator[tuple[int, int]]:
    """Return the core's view, a second at a time: admitted and held messages; polls jitter."""
    random = Random(SEED)
    bucket, pacer = Bucket(limit, interval_s, phase_ns), Pacer(interval_s)
    pacer.set_limit(limit, 0)
    poll_ns, last_ns, counted, throttled = S // 2, 0, 0, 0
    admitted = held = 0
    for now_ns in range(0, count * S, 5_000_000):
        bucket.step(now_ns, demand)
        if now_ns >= poll_ns:
            passed, throttles = int(bucket.passed), int(bucket.throttles)
            pacer.count(passed - counted, throttles - throttled, now_ns - last_ns, now_ns)
            counted, throttled, last_ns = passed, throttles, now_ns
            poll_ns += S // 2 + random.randint(-40_000_000, 40_000_000)
        if now_ns % TURN_NS == 0:
            amount, waited = pacer.take(now_ns)
            admitted, held = admitted + amount, held + waited
        if now_ns and now_ns % S == 0:
            yield admitted, held
            admitted = held = 0


@pytest.mark.parametrize("interval_s", [1, 2, 5, 10])
@pytest.mark.parametrize("phase_ms", [100, 480, 500, 990])
def test_a_saturated_broker_uses_its_limit_up_in_every_round(
    interval_s: int, phase_ms: int
) -> None:
    """This holds for any phase of its bursts."""
    seen = list(rounds(1_000, 5_000, interval_s, phase_ms * 1_000_000, 40))[2 * interval_s + 3 :]

    assert all(955 <= admitted <= 1_060 for admitted, _ in seen), f"seed {SEED}: {seen}"
    assert all(held >= 0.95 * S for _, held in seen), f"seed {SEED}: {seen}"


@pytest.mark.parametrize("demand", [10, 300, 900])
def test_who_wants_less_never_waits(demand: int) -> None:
    """Its admitted rate is its demand."""
    seen = list(rounds(1_000, demand, 1, 300_000_000, 20))[3:]

    assert all(abs(admitted - demand) <= 0.1 * demand + 1 for admitted, _ in seen)
    assert all(held == 0 for _, held in seen)


def test_nothing_is_lost_or_added_in_the_end() -> None:
    """This holds over a minute, for any waiting."""
    total = sum(admitted for admitted, _ in rounds(1_000, 5_000, 1, 300_000_000, 60))
    assert abs(total - 60_000) <= 1_500


def test_held_by_another_limiter_is_not_held_by_this_one() -> None:
    """A topic's own limit of a tenth throttles, too."""
    pacer = Pacer(1)
    pacer.set_limit(1_000, 0)
    for number in range(1, 10):
        pacer.count(50, 20, S // 2, number * S // 2)
        assert pacer.held_permille == 0


def test_without_a_limit_nobody_waits() -> None:
    """Throttled or not."""
    pacer = Pacer(1)
    pacer.set_limit(None, 0)
    pacer.count(10**6, 50, S, S)
    assert pacer.held_permille == 0
    pacer.take(S)
    assert pacer.take(2 * S)[0] == 10**6


def test_throttles_that_began_anew_end_no_waiting() -> None:
    """An unknown count leaves the state as it was."""
    pacer = Pacer(1)
    pacer.set_limit(1_000, 0)
    for number in range(1, 5):
        pacer.count(500, 20, S // 2, number * S // 2)
    assert pacer.is_held
    pacer.count(480, 0, S // 2, 3 * S, unsure=True)
    assert pacer.is_held


def test_a_raised_limit_that_the_broker_takes_late_ends_no_waiting() -> None:
    """Otherwise the traffic meanwhile would count as the whole demand, and lower the limit again."""
    pacer = Pacer(1)
    pacer.set_limit(50, 0)
    for number in range(1, 11):
        pacer.count(25, 10, S // 2, number * S // 2)
    pacer.set_limit(1_000, 5 * S)
    for number in range(11, 16):
        pacer.count(25, 10, S // 2, number * S // 2)
        assert pacer.is_held


def test_a_broker_that_stands_still_for_a_moment_is_taken_to_be_held() -> None:
    """For two intervals and a second after the last poll that showed it, by which it shows it again."""
    pacer = Pacer(1)
    pacer.set_limit(1_000, 0)
    for half in range(1, 7):
        pacer.count(500, 20, S // 2, half * S // 2)
    pacer.count(0, 0, S // 2, 7 * S // 2)
    pacer.count(0, 0, S // 2, 8 * S // 2)
    assert pacer.held_permille == 1000
    assert pacer.take(4 * S)[0] == 0, "what passed is told as it is"
    pacer.count(0, 0, S // 2, 6 * S)
    assert pacer.held_permille == 0


def test_clients_that_have_just_connected_are_taken_to_wait_until_a_poll_can_tell() -> None:
    """Without a connected producer none of them waits."""
    pacer = Pacer(1)
    pacer.set_limit(5, 0)
    pacer.presume(S)
    pacer.count(0, 0, S // 2, 2 * S)
    assert pacer.held_permille == 1000
    pacer.dismiss()
    pacer.count(0, 0, S // 2, 3 * S)
    assert pacer.held_permille == 0
