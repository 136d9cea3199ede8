"""Limits by windows pass the examples of a managed Pulsar and differ from the bucket as documented."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from coordinator.core.limiting.token_bucket import TokenBucket
from coordinator.core.limiting.tokens import Tokens
from coordinator.core.limiting.windows import CHECK_NS, SoftWindow, WindowBucket
from coordinator.core.model import NANOS_PER_SECOND, Rate

MS = 1_000_000


def admitted(tokens: Tokens, now_ns: int, wanted: int) -> int:
    """Return how many of these single messages pass at a moment."""
    passed = 0
    while passed < wanted and tokens.wait_ns(1, now_ns) == 0:
        tokens.consume(1, now_ns)
        passed += 1
    return passed


@pytest.mark.shows("service-cluster/window")
def test_after_100_messages_in_400_ms_the_101st_waits_600_ms() -> None:
    """The service's own example of its limit of 100 messages a second."""
    window = WindowBucket(rate=100, now_ns=0)
    for number in range(100):
        assert admitted(window, number * 4 * MS, 1) == 1
    assert window.wait_ns(1, 400 * MS) == 600 * MS
    assert admitted(window, 999 * MS, 1) == 0
    assert admitted(window, 1_000 * MS, 1_000) == 100


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2, 3), Fraction(4, 3)])
def test_windows_of_a_fraction_add_up_to_it(rate: Fraction) -> None:
    """A minute has sixty times the rate, and no window more than a whole message beyond it."""
    window = WindowBucket(rate=rate, now_ns=0)
    passed = [admitted(window, second * NANOS_PER_SECOND, 10) for second in range(1, 61)]

    assert abs(sum(passed) - 60 * rate) < 2
    assert max(passed) <= rate + 1


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2, 3), Fraction(4, 3), 2])
def test_who_waits_as_long_as_it_is_told_finds_a_token(rate: Rate) -> None:
    """Nothing looks at the windows in between, and a minute still has sixty times the rate."""
    window, now_ns, passed = WindowBucket(rate=rate, now_ns=0), 0, 0
    while now_ns < 60 * NANOS_PER_SECOND:
        wait_ns = window.wait_ns(1, now_ns)
        assert wait_ns is not None
        now_ns += wait_ns
        assert admitted(window, now_ns, 1) == 1
        passed += 1

    assert -2 <= passed - 60 * rate <= 2


def test_each_window_has_the_whole_rate_and_no_more() -> None:
    """A window loses the tokens that it did not use."""
    window = WindowBucket(rate=100, now_ns=7)
    assert admitted(window, 7 + 10 * NANOS_PER_SECOND, 1_000) == 100


def test_a_message_larger_than_a_window_passes_at_the_beginning_of_one_and_is_owed() -> None:
    """The following windows pay for it, so the rate holds."""
    window = WindowBucket(rate=100, now_ns=0)
    window.consume(1, 0)
    assert window.wait_ns(250, 0) == 1_000 * MS
    window.consume(250, 1_000 * MS)
    assert window.wait_ns(1, 1_000 * MS) == 2_000 * MS
    assert admitted(window, 3_000 * MS, 1_000) == 50


def test_a_new_rate_holds_at_once_and_what_was_taken_stays_taken() -> None:
    """It holds for the present window, too."""
    window = WindowBucket(rate=100, now_ns=0)
    assert admitted(window, 0, 80) == 80
    window.set_rate(90, 1, 0)
    assert admitted(window, 0, 80) == 10
    window.set_rate(50, 1, 0)
    assert window.wait_ns(1, 0) == 1_000 * MS


def test_at_a_rate_of_0_nothing_ever_passes() -> None:
    """A rate of 0 means here what it means everywhere else."""
    for tokens in (WindowBucket(rate=0, now_ns=0), SoftWindow(rate=0, now_ns=0)):
        assert tokens.wait_ns(1, 5 * NANOS_PER_SECOND) is None


def test_a_window_admits_exactly_its_rate_in_every_second_under_any_load() -> None:
    """Counted by window; around the turn of one, up to twice as much in a second."""
    for seed in range(50):
        dice = random.Random(seed)
        rate = dice.randint(1, 500)
        window, by_window, now_ns = WindowBucket(rate=rate, now_ns=0), dict[int, int](), 0
        while now_ns < 20 * NANOS_PER_SECOND:
            number = now_ns // NANOS_PER_SECOND
            by_window[number] = by_window.get(number, 0) + admitted(window, now_ns, 600)
            now_ns += dice.randint(1, 400) * MS
        assert max(by_window.values()) <= rate, f"seed {seed}"


def test_a_soft_limit_lets_pass_what_comes_before_the_next_look_and_pauses_until_the_second_ends() -> (
    None
):
    """A look every 50 ms; a pause of up to 1 s."""
    soft = SoftWindow(rate=100, now_ns=0)
    assert admitted(soft, 10 * MS, 5_000) == 5_000
    assert admitted(soft, 49 * MS, 100) == 100
    assert soft.wait_ns(1, 50 * MS) == 950 * MS
    assert admitted(soft, 999 * MS, 1) == 0
    assert admitted(soft, 1_000 * MS, 10) == 10


def test_a_soft_limit_that_is_just_kept_never_pauses() -> None:
    """Traffic up to the quota passes."""
    soft = SoftWindow(rate=100, now_ns=0)
    for tick in range(100):
        assert admitted(soft, tick * 10 * MS, 1) == 1
    assert soft.wait_ns(1, 999 * MS) == 0


def test_a_higher_rate_ends_a_pause() -> None:
    """A client does not wait for tokens that the new rate grants."""
    soft = SoftWindow(rate=100, now_ns=0)
    soft.consume(150, 0)
    assert soft.wait_ns(1, CHECK_NS) is not None
    soft.set_rate(200, 1, CHECK_NS)
    assert soft.wait_ns(1, CHECK_NS) == 0


def test_the_difference_between_the_three_under_the_same_load() -> None:
    """20 times the limit of 1,000 for 10 s: bucket and window keep it, soft passes 50 ms' worth."""
    limit, step_ns = 1_000, 1 * MS
    kinds: dict[str, Tokens] = {
        "bucket": TokenBucket(rate=limit, capacity=limit // 20, initial=0, now_ns=0),
        "window": WindowBucket(rate=limit, now_ns=0),
        "soft": SoftWindow(rate=limit, now_ns=0),
    }
    busiest = {}
    for name, tokens in kinds.items():
        seconds = [0] * 10
        for now_ns in range(0, 10 * NANOS_PER_SECOND, step_ns):
            seconds[now_ns // NANOS_PER_SECOND] += admitted(tokens, now_ns, 20)
        busiest[name] = max(seconds)
    assert busiest["bucket"] <= 1.05 * limit
    assert busiest["window"] == limit
    # A window's quota is used up in 50 ms; the look at their end comes when just that has passed, and the
    # next one 50 ms later finds it exceeded.
    assert busiest["soft"] == 2 * limit


@pytest.mark.shows("service-partition/check")
@pytest.mark.parametrize("check_ms", [5, 50, 200])
def test_the_interval_of_a_soft_limit_decides_how_much_exceeds_it(check_ms: int) -> None:
    """A token every millisecond, of 100 a second: all pass until the first check after the 101st."""
    soft = SoftWindow(rate=100, now_ns=0, check_ns=check_ms * MS)
    passed = 0
    for at in range(1000):
        if soft.wait_ns(1, at * MS) == 0:
            soft.consume(1, at * MS)
            passed += 1

    assert passed == -(-101 // check_ms) * check_ms
