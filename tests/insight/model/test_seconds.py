"""The last minute by seconds: question 1 of the managed service, answered."""

from __future__ import annotations

import random

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Dimension, MonitoringClass
from coordinator.core.traffic import Traffic
from coordinator.insight.model.seconds import MinuteView, TrafficSeconds

S = NANOS_PER_SECOND
MESSAGES = Dimension.PUBLISH_MESSAGES


def traffic(messages: int, *, held: bool = False) -> Traffic:
    """Publishes of orders, 10 bytes each."""
    held_ns = 1_000_000 if held else 0
    return Traffic(
        "orders", MonitoringClass.PUBLISH, messages, 10 * messages, messages_held_ns=held_ns
    )


@pytest.mark.shows("service-cluster/minute-average", "service-cluster/throttle-count")
def test_throttled_though_the_minutes_average_is_below_the_limit() -> None:
    """Two seconds of 1,000 in a minute are 33 a second on the average, and throttled all the same."""
    seconds = TrafficSeconds()
    for second in range(61):
        burst = second in (10, 40)
        seconds.add([traffic(1_000 if burst else 0, held=burst)], second * S)
    view = seconds.view("orders", MESSAGES, 60 * S)
    assert view == MinuteView(60, 33, 1_000, 2)
    assert view.sentence(1_000) == (
        "Clients waited in 2 of the last 60 s although the average of them, 33/s, is below the "
        "1,000/s: limits hold by the second, and in the busiest one 1,000 passed."
    )


def test_nothing_is_said_where_there_is_nothing_to_explain() -> None:
    """Without a limit, without waiting, or with an average that is at the limit."""
    assert MinuteView(60, 33, 1_000, 2).sentence(None) == ""
    assert MinuteView(60, 33, 1_000, 0).sentence(1_000) == ""
    assert MinuteView(60, 1_000, 1_000, 60).sentence(1_000) == ""


def test_the_second_under_way_does_not_count_yet() -> None:
    """It would look like an idle one."""
    seconds = TrafficSeconds()
    seconds.add([traffic(100)], 5 * S)
    assert seconds.view("orders", MESSAGES, 5 * S + 1) is None
    assert seconds.view("orders", MESSAGES, 6 * S) == MinuteView(1, 100, 100, 0)


def test_what_is_older_than_a_minute_is_forgotten_but_throttled_seconds_stay_counted() -> None:
    """The counter is for Prometheus."""
    seconds = TrafficSeconds()
    for _ in range(3):
        seconds.add([traffic(5, held=True)], 0)
    seconds.add([traffic(1)], 100 * S)
    assert seconds.view("orders", MESSAGES, 101 * S) == MinuteView(60, 0, 1, 0)
    assert seconds.throttled("orders", MESSAGES) == 1
    assert seconds.throttled("orders", Dimension.PUBLISH_BYTES) == 0
    assert seconds.throttled("other", MESSAGES) == 0


def test_a_group_that_is_deleted_is_forgotten() -> None:
    """There are never more of them than groups."""
    seconds = TrafficSeconds()
    seconds.add([traffic(5)], 0)
    seconds.keep(["other"])
    assert seconds.view("orders", MESSAGES, S) is None


def test_averages_and_peaks_are_those_of_a_plain_list_of_seconds() -> None:
    """Random traffic with gaps, also of more than a minute."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it when the test fails
    dice = random.Random(seed)
    seconds, plain, now_ns = TrafficSeconds(), dict[int, int](), 0
    for _ in range(3_000):
        now_ns += dice.choice([50_000_000, 50_000_000, 700_000_000, 3 * S, 80 * S])
        messages = dice.randint(0, 50)
        seconds.add([traffic(messages)], now_ns)
        plain[now_ns // S] = plain.get(now_ns // S, 0) + messages
        view = seconds.view("orders", MESSAGES, now_ns)
        last = range(max(min(plain), now_ns // S - 60), now_ns // S)
        if view is None:
            assert not last
            continue
        assert view.peak_second == max(plain.get(second, 0) for second in last)
        assert view.average_per_second == sum(plain.get(second, 0) for second in last) // len(last)
