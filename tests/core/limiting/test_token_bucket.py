"""The token bucket passes PIP-322's acceptance cases A1-A8 (AsyncTokenBucketTest) and our own."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.limiting.token_bucket import TokenBucket

MS = 1_000_000
S = 1_000 * MS
START = 100 * S


class Timeline:
    """A bucket on a clock that the test moves."""

    def __init__(self, capacity: int, rate: int, initial: int) -> None:
        self.now = START
        self.bucket = TokenBucket(rate=rate, capacity=capacity, initial=initial, now_ns=START)

    def after(self, elapsed_ns: int) -> int:
        """Move on and read the balance."""
        self.now += elapsed_ns
        return self.bucket.balance(self.now)

    def consume(self, tokens: int) -> None:
        """Take tokens now."""
        self.bucket.consume(tokens, self.now)


@pytest.mark.shows("pip-322/token-bucket", "pip-322/no-scheduler")
def test_a1_tokens_accrue_up_to_the_capacity() -> None:
    """Tokens accrue with time, stop at the capacity, and are there again after they were taken."""
    line = Timeline(100, 10, 0)

    assert [line.after(5 * S), line.after(S), line.after(4 * S), line.after(5 * S)] == [
        50,
        60,
        100,
        100,
    ]
    line.consume(100)
    assert line.after(0) == 0
    assert line.after(S) == 10


@pytest.mark.shows("pip-322/negative", "pip-322/pause")
def test_a2_the_pause_covers_the_debt_and_the_target() -> None:
    """A debt of 50 at 10 per second, and one token to go on with, take 5.1 seconds."""
    line = Timeline(100, 10, 0)
    line.after(5 * S)
    line.consume(100)

    assert line.after(0) == -50
    assert line.bucket.wait_ns(1, line.now) == 5_100 * MS


def test_a3_a_tenth_of_a_second_is_worth_one_token() -> None:
    """At 10 per second there is one token after 100 ms."""
    assert Timeline(100, 10, 0).after(100 * MS) == 1


def test_a4_the_remainder_is_carried_between_looks() -> None:
    """Looking every millisecond loses nothing of the time in between."""
    line = Timeline(100, 10, 0)
    balances = [line.after(MS) for _ in range(150)]

    assert balances[-1] == 1
    assert [line.after(150 * MS), line.after(MS), line.after(99 * MS)] == [3, 3, 4]


def test_a5_a_slow_rate_is_exact() -> None:
    """At one token per second the first one is there after exactly one second."""
    line = Timeline(100, 1, 0)

    assert {line.after(MS) for _ in range(150)} == {0}
    steps = [line.after(150 * MS), line.after(699 * MS), line.after(MS), line.after(1000 * MS)]
    assert steps == [0, 0, 1, 2]


def test_a6_consumption_as_fast_as_the_rate_neither_gains_nor_loses() -> None:
    """Ten thousand times 500 tokens in 50 seconds at 10 per second leave no debt."""
    line = Timeline(100, 10, 0)
    line.after(0)
    for _ in range(10_000):
        line.consume(500)
        line.now += 50 * S

    assert line.after(9 * S) == 90


def test_a7_debt_beyond_the_rate_is_paid_back_by_pauses() -> None:
    """600 tokens every 50 s and an extra pause of 100 s every tenth time end without debt."""
    line = Timeline(100, 10, 0)
    for i in range(100):
        line.consume(600)
        line.now += 50 * S
        if (i + 1) % 10 == 0:
            line.now += 100 * S

    assert line.after(9 * S) == 90


@pytest.mark.shows("pip-322/resolution")
def test_a8_a_balance_in_the_middle_stays_there() -> None:
    """One token a millisecond at 1,000 per second keeps half-full half-full."""
    line = Timeline(100_000, 1000, 500)
    for _ in range(100_000):
        line.now += MS
        line.consume(1)

    assert line.after(0) == 500


def test_a_balance_of_exactly_zero_counts_as_no_tokens() -> None:
    """PIP-322: a bucket with a balance of 0 throttles."""
    bucket = TokenBucket(rate=10, capacity=10, initial=10, now_ns=START)

    bucket.consume(10, START)

    assert bucket.balance(START) == 0
    assert not bucket.contains_tokens(START)


def test_a_new_rate_neither_refills_nor_forgives() -> None:
    """The balance, be it saved up or debt, is the same before and after a change of the rate."""
    for balance in (-500, 0, 7):
        bucket = TokenBucket(rate=100, capacity=10, initial=balance, now_ns=START)
        bucket.set_rate(5_000, 50, START)

        assert bucket.balance(START) == balance


def test_a_smaller_capacity_keeps_no_more_than_fits() -> None:
    """Tokens beyond the new capacity are lost."""
    bucket = TokenBucket(rate=100, capacity=100, initial=100, now_ns=START)
    bucket.set_rate(10, 1, START)

    assert bucket.balance(START) == 1


def test_a_rate_of_zero_lets_nothing_pass() -> None:
    """An empty bucket with rate 0 stays empty, and the wait for a token has no end."""
    bucket = TokenBucket(rate=0, capacity=1, initial=0, now_ns=START)

    assert bucket.balance(START + 1_000 * S) == 0
    assert bucket.wait_ns(1, START + 1_000 * S) is None


@pytest.mark.parametrize("between", [0, 1_000, Fraction(1, 7)])
def test_another_rate_in_between_adds_its_own_part_of_a_token_and_takes_none(
    between: int | Fraction,
) -> None:
    """Five sixths of a token have come when the rate is another one for 0.1 ms."""
    bucket = TokenBucket(rate=Fraction(1, 6), capacity=1, initial=0, now_ns=0)
    bucket.set_rate(between, 1, 5 * S)
    bucket.set_rate(Fraction(1, 6), 1, 5 * S + S // 10_000)

    missing = 1 - Fraction(5, 6) - Fraction(between) / 10_000
    assert bucket.wait_ns(1, 5 * S + S // 10_000) == ceil(missing * 6 * S)


def test_more_than_the_capacity_waits_for_a_full_bucket_only() -> None:
    """A message larger than the bucket passes when the bucket is full."""
    bucket = TokenBucket(rate=100, capacity=10, initial=0, now_ns=START)

    assert bucket.wait_ns(1_000, START) == 100 * MS
    assert bucket.wait_ns(1_000, START + 100 * MS) == 0


@pytest.mark.parametrize(
    ("rate", "capacity", "message"),
    [(-1, 1, "rate must be >= 0"), (1, 0, "capacity must be >= 1")],
)
def test_impossible_buckets_are_refused(rate: int, capacity: int, message: str) -> None:
    """A negative rate and a bucket without room are errors that say so."""
    with pytest.raises(ValueError, match=message):
        TokenBucket(rate=rate, capacity=capacity, initial=0, now_ns=START)


def test_a_negative_number_of_tokens_is_refused() -> None:
    """Consuming less than nothing is an error, not a refill."""
    bucket = TokenBucket(rate=1, capacity=1, initial=0, now_ns=START)

    with pytest.raises(ValueError, match="tokens must be >= 0"):
        bucket.consume(-1, START)


@given(
    rate=st.integers(1, 1_000_000),
    burst=st.integers(1, 100_000),
    steps=st.lists(st.tuples(st.integers(0, 50 * MS), st.integers(1, 100)), max_size=60),
)
def test_waiting_for_tokens_admits_no_more_than_rate_and_capacity(
    rate: int, burst: int, steps: list[tuple[int, int]]
) -> None:
    """A client that waits until wait_ns is 0 gets at most capacity + rate * time + one overdraft."""
    bucket = TokenBucket(rate=rate, capacity=burst, initial=0, now_ns=START)
    now, taken, largest = START, 0, 0
    for pause_ns, tokens in steps:
        now += pause_ns
        if bucket.wait_ns(tokens, now) == 0:
            bucket.consume(tokens, now)
            taken += tokens
            largest = max(largest, tokens)

        assert taken <= rate * (now - START) / S + max(0, largest - burst) + 1e-6


@given(
    rate=st.integers(1, 100_000),
    tokens=st.integers(1, 1_000),
    looks=st.lists(st.integers(1, 20 * MS), max_size=20),
)
def test_after_the_wait_the_tokens_are_there(rate: int, tokens: int, looks: list[int]) -> None:
    """wait_ns is neither too short nor, by more than a token's time, too long."""
    bucket = TokenBucket(rate=rate, capacity=1_000, initial=0, now_ns=START)
    now = START
    for pause_ns in looks:
        now += pause_ns
        bucket.balance(now)
    wait_ns = bucket.wait_ns(tokens, now)

    assert wait_ns is not None
    assert bucket.balance(now + wait_ns) >= min(tokens, 1_000)


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2, 3), Fraction(29, 7)])
def test_a_rate_that_is_no_whole_number_is_exact(rate: Fraction) -> None:
    """Looked at 50 times a second for a minute; neither the wait nor the sum is a nanosecond off."""
    bucket = TokenBucket(rate=rate, capacity=1, initial=0, now_ns=START)
    passed = 0
    for step in range(1, 60 * 50 + 1):
        now_ns = START + step * 20 * MS
        if bucket.wait_ns(1, now_ns) == 0:
            bucket.consume(1, now_ns)
            passed += 1

    assert passed in {int(60 * rate), int(60 * rate) - 1}
    bucket = TokenBucket(rate=rate, capacity=1, initial=0, now_ns=START)
    assert bucket.wait_ns(1, START) == -(-S // rate)
