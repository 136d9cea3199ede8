"""The gate refuses a consumer that subscribes too often as a broker does, and no other one."""

from __future__ import annotations

import pytest

from coordinator.gate.limits.subscribing import CONSUMERS_MAX, SubscribeRate
from tests.gate import peer
from tests.gate.conftest import START_NS, TOPIC, Bench

SECOND_NS = 1_000_000_000


@pytest.mark.shows("pip-322/subscribe")
def test_who_subscribes_too_often_is_refused(bench: Bench) -> None:
    """ERROR NotAllowedError answers that request; the broker does not hear of it."""
    bench.groups.subscribe_rate.set_rate(2, 30)
    client = bench.client()
    again = [peer.subscribe(TOPIC, 1, request) for request in (1, 2, 3)]

    assert client.sends(*again) == again[:2]
    refusal = "Subscribe limited by subscribe rate limit per consumer."
    assert client.client_got() == [peer.command(14, (1, 3), (2, 22), (3, refusal))]
    client.is_sent(peer.success(1), peer.success(2))
    assert bench.counters.refused_subscribes == 1
    assert client.session.consumers == 1  # the one that it had goes on
    other = peer.subscribe(TOPIC, 2, 4)
    assert client.sends(other) == [other]


def test_a_bucket_fills_over_its_period() -> None:
    """Two per 30 s: the next one 15 s later."""
    rate = SubscribeRate()
    rate.set_rate(2, 30)
    consumer = ("host", "name", 1)

    assert [rate.admits(consumer, START_NS) for _ in range(3)] == [True, True, False]
    assert not rate.admits(consumer, START_NS + 14 * SECOND_NS)
    assert rate.admits(consumer, START_NS + 15 * SECOND_NS)


def test_strangers_are_forgotten_in_time() -> None:
    """Invented names fill no memory."""
    rate = SubscribeRate()
    rate.set_rate(1, 1)
    for number in range(CONSUMERS_MAX + 100):
        rate.admits(("host", f"name-{number}", 1), START_NS)

    assert len(rate._buckets) == CONSUMERS_MAX


@pytest.mark.parametrize(("rate", "period_s", "message"), [(-1, 1, "is -1"), (1, 0, "is 0 s")])
def test_a_rate_that_means_nothing_is_refused(rate: int, period_s: int, message: str) -> None:
    """The rate in force stays."""
    limit = SubscribeRate()
    limit.set_rate(0, 1)

    with pytest.raises(ValueError, match=message):
        limit.set_rate(rate, period_s)

    assert not limit.admits(("host", "name", 1), START_NS)
