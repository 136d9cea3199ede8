"""The publish limiter of one group."""

from __future__ import annotations

import random

import pytest

from coordinator.core.limiting.token_bucket import TokenBucket
from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass, Rates
from coordinator.gate.limits.counters import TrafficCounter
from coordinator.gate.limits.limiter import PublishLimiter
from tests.gate.conftest import MILLISECOND_NS, START_NS, Story


@pytest.fixture
def limiter() -> PublishLimiter:
    """Without any limit."""
    return PublishLimiter(TrafficCounter("group", MonitoringClass.PUBLISH, Story()))


def passed(limiter: PublishLimiter, messages: int, size: int, now_ns: int) -> int:
    """Return the number of messages of this cost that pass at a moment; 1,000 means no bound."""
    for count in range(1000):
        if not limiter.admits(messages, size, now_ns):
            return count
        limiter.consume(messages, size)
    return 1000


def test_no_limit_admits_everything(limiter: PublishLimiter) -> None:
    """The counter counts it."""
    limiter.set_limits(Rates(), START_NS)

    assert passed(limiter, 10, 10**9, START_NS) == 1000
    assert (limiter.counter.messages, limiter.counter.bytes) == (10_000, 10**12)


def test_a_new_limit_starts_empty_and_saves_up_50_ms(limiter: PublishLimiter) -> None:
    """No free burst on change, and a small one after a rest."""
    limiter.set_limits(Rates(publish_messages=1000), START_NS)

    assert passed(limiter, 1, 100, START_NS) == 0
    assert passed(limiter, 1, 100, START_NS + 10 * MILLISECOND_NS) == 10
    assert passed(limiter, 1, 100, START_NS + 10 * NANOS_PER_SECOND) == 50


def test_to_take_is_to_ask_and_to_consume() -> None:
    """One call admits and counts random messages at random moments like two."""
    rolls = random.Random(7)
    asked, taken = (
        PublishLimiter(TrafficCounter("group", MonitoringClass.PUBLISH, Story())) for _ in range(2)
    )
    now_ns = START_NS
    for limiter in (asked, taken):
        limiter.set_limits(Rates(publish_messages=1000, publish_bytes=100_000), now_ns)
    outcomes = set()
    for _ in range(2000):
        now_ns += rolls.choice((0, 0, MILLISECOND_NS))
        messages, size = rolls.choice((1, 2, 60)), rolls.choice((10, 300, 9000))
        admitted = asked.admits(messages, size, now_ns)
        if admitted:
            asked.consume(messages, size)
        assert taken.take(messages, size, now_ns) == admitted
        assert (taken.counter.messages, taken.counter.bytes) == (
            asked.counter.messages,
            asked.counter.bytes,
        )
        outcomes.add(admitted)

    assert outcomes == {True, False}


def test_frames_that_come_singly_get_no_more_than_the_rate_and_a_burst(
    limiter: PublishLimiter,
) -> None:
    """A message every 10 us, with a rest now and then: in no window more than rate and burst."""
    rolls = random.Random(11)
    rate = 20_000
    limiter.set_limits(Rates(publish_messages=rate), START_NS)
    now_ns, passed_at = START_NS, []
    for _ in range(30_000):
        now_ns += rolls.choices((10_000, 200 * MILLISECOND_NS), (10_000, 1))[0]
        if limiter.take(1, 100, now_ns):
            passed_at.append(now_ns)

    burst = rate * 51 // 1000 + 1
    for index, first_ns in enumerate(passed_at[::100]):
        for last in range(index * 100, len(passed_at), 997):
            elapsed_ns = passed_at[last] - first_ns
            assert last - index * 100 <= rate * elapsed_ns / NANOS_PER_SECOND + burst
    assert len(passed_at) > 1000


@pytest.mark.parametrize("gap_ns", [10_000, 49_000, 300_000, 1_700_000])
def test_frames_that_come_singly_get_all_of_the_rate(limiter: PublishLimiter, gap_ns: int) -> None:
    """However far apart they come: less than the limit passes whole, more of it up to the rate."""
    rate = 20_000
    limiter.set_limits(Rates(publish_messages=rate), START_NS)
    offered = NANOS_PER_SECOND // gap_ns
    passed_count = sum(limiter.take(1, 100, START_NS + i * gap_ns) for i in range(1, offered + 1))

    assert passed_count == pytest.approx(min(rate, offered), abs=2)


def test_nothing_is_taken_before_those_who_wait(limiter: PublishLimiter) -> None:
    """However many tokens there are."""
    limiter.contended = True

    assert not limiter.take(1, 1, START_NS)
    assert limiter.counter.messages == 0


@pytest.mark.shows("pip-322/messages-and-bytes")
def test_messages_and_bytes_must_both_be_there(limiter: PublishLimiter) -> None:
    """The scarcer one decides, and what it refuses costs nothing of the other."""
    limiter.set_limits(Rates(publish_messages=1000, publish_bytes=1000), START_NS)
    now_ns = START_NS + NANOS_PER_SECOND

    assert passed(limiter, 1, 10, now_ns) == 5
    assert limiter.binding(1, 10, now_ns) == (False, True)
    assert limiter.admits(45, 0, now_ns)


def test_a_rate_of_zero_lets_nothing_pass(limiter: PublishLimiter) -> None:
    """Saved tokens do not pass either, and the wait has no known end."""
    limiter.set_limits(Rates(publish_messages=1000), START_NS)
    now_ns = START_NS + NANOS_PER_SECOND
    limiter.set_limits(Rates(publish_messages=0), now_ns)

    assert passed(limiter, 1, 0, now_ns + NANOS_PER_SECOND) == 0
    assert limiter.wait_ns(1, 0, now_ns + NANOS_PER_SECOND) is None


def test_a_change_of_rate_keeps_the_balance(limiter: PublishLimiter) -> None:
    """No refill, and debt stays debt."""
    limiter.set_limits(Rates(publish_messages=1000), START_NS)
    now_ns = START_NS + NANOS_PER_SECOND
    assert passed(limiter, 500, 0, now_ns) == 1  # 450 in debt

    limiter.set_limits(Rates(publish_messages=100_000), now_ns)

    assert limiter.wait_ns(1, 0, now_ns) == 451 * 10_000


@pytest.mark.shows("pip-322/messages-and-bytes")
def test_pulsars_publish_limiter_cases() -> None:
    """PublishRateLimiterTest: 10 messages and 100 bytes a second, and buckets of a second.

    Pulsar throttles after a message that took too much, the gate in front of the next one.
    """
    limiter = PublishLimiter(
        TrafficCounter("group", MonitoringClass.PUBLISH, Story()), burst_ns=NANOS_PER_SECOND
    )
    limiter.set_limits(Rates(publish_messages=10, publish_bytes=100), START_NS)
    now_ns = START_NS + NANOS_PER_SECOND
    throttled = []
    for messages, size in ((5, 50), (11, 100), (9, 110)):
        assert limiter.take(messages, size, now_ns)
        throttled.append(limiter.wait_ns(1, 1, now_ns) != 0)
        now_ns += NANOS_PER_SECOND
    assert throttled == [False, True, True]

    limiter.set_limits(Rates(publish_messages=20, publish_bytes=200), now_ns)
    now_ns += NANOS_PER_SECOND
    assert limiter.take(11, 110, now_ns)
    assert limiter.wait_ns(1, 1, now_ns) == 0

    limiter.set_limits(Rates(), now_ns)
    assert limiter.take(2**31 - 1, 2**31 - 1, now_ns)
    assert limiter.wait_ns(1, 1, now_ns) == 0


def test_a_large_message_passes_when_the_bucket_is_nearly_full(limiter: PublishLimiter) -> None:
    """One wake interval short of full, so that a late wake-up costs nothing."""
    limiter.set_limits(Rates(publish_messages=1000), START_NS)

    assert limiter.wait_ns(5_000, 0, START_NS) == 45 * MILLISECOND_NS
    assert passed(limiter, 5_000, 0, START_NS + 45 * MILLISECOND_NS) == 1
    assert limiter.wait_ns(1, 0, START_NS + 45 * MILLISECOND_NS) == 4_956 * MILLISECOND_NS


def test_the_first_message_of_a_slow_limit_waits_for_one_token(limiter: PublishLimiter) -> None:
    """A bucket holds at least one message, however low the rate."""
    limiter.set_limits(Rates(publish_messages=2), START_NS)

    assert passed(limiter, 1, 0, START_NS + 499 * MILLISECOND_NS) == 0
    assert passed(limiter, 1, 0, START_NS + 500 * MILLISECOND_NS) == 1


@pytest.mark.parametrize("seed", range(20))
def test_noting_totals_is_as_exact_as_asking_the_bucket_each_time(seed: int) -> None:
    """The shortcut of the hot path decides like the bucket alone, on random traffic and changes."""
    dice = random.Random(seed)
    limiter = PublishLimiter(TrafficCounter("group", MonitoringClass.PUBLISH, Story()))
    rate = 1000
    limiter.set_limits(Rates(publish_messages=rate), START_NS)
    bucket = TokenBucket(rate=rate, capacity=50, initial=0, now_ns=START_NS)
    now_ns = START_NS
    for _ in range(2000):
        now_ns += dice.choice([0, 0, 0, dice.randrange(3 * MILLISECOND_NS)])
        if dice.random() < 0.01:
            rate = dice.randrange(100, 10_000)
            limiter.set_limits(Rates(publish_messages=rate), now_ns)
            bucket.set_rate(rate, rate // 20, now_ns)
        messages = dice.choice([1, 1, 1, 3, 400])
        enough = max(1, bucket.capacity + -rate // 200)
        admitted = bucket.balance(now_ns) >= min(messages, enough)
        assert limiter.admits(messages, 100, now_ns) is admitted
        if admitted:
            bucket.consume(messages, now_ns)
            limiter.consume(messages, 100)
