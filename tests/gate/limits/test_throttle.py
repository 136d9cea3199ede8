"""The reasons of PIP-322 beside the groups' limits: each acts, each is counted, all must be gone."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from coordinator.core.model import Dimension, Rates
from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD
from coordinator.gate.limits.publish_buffer import PublishBuffer
from coordinator.gate.limits.scopes import part_of
from coordinator.gate.limits.throttle import ThrottleReason
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench
from tests.gate.limits.test_admission import run

OTHER = "persistent://tenant/other/topic"
NEVER = Rates(publish_messages=0)


def sends(count: int) -> list[bytes]:
    """SENDs of producer 1."""
    return [peer.send(1, number) for number in range(count)]


@pytest.mark.shows("pip-322/pending-requests")
def test_publishes_without_an_answer_stop_the_connection(bench: Bench) -> None:
    """PIP-322: at the bound it is read no further, and again once half of them are answered."""
    client = bench.client(pending_requests_max=10)
    client.opens(peer.producer(TOPIC))
    frames = sends(15)

    assert client.sends(*frames, peer.PING) == frames[:10]
    assert client.session.paused
    client.is_sent(*(peer.receipt(1, number) for number in range(4)))
    assert client.broker_got() == []
    client.is_sent(peer.receipt(1, 4))
    assert client.broker_got() == [*frames[10:], peer.PING]
    assert client.session.throttle.counts == {ThrottleReason.PENDING_REQUESTS: 1}


def test_a_producer_that_ends_counts_for_no_pending_requests(bench: Bench) -> None:
    """Its publishes are never answered, and must not wedge the connection."""
    client = bench.client(pending_requests_max=2)
    client.opens(peer.producer(TOPIC), peer.producer(OTHER, 2, 2))
    client.sends(peer.send(1, 0), peer.send(1, 1), peer.send(2, 0))
    assert client.session.paused

    client.is_sent(peer.close_producer(1, 0))

    assert client.broker_got() == [peer.send(2, 0)]
    assert client.session.unanswered == 1


@pytest.mark.shows("pip-322/publish-buffer")
def test_the_publish_buffer_bounds_all_connections_together(bench: Bench) -> None:
    """A connection that would exceed its limit's half of the buffer is not read until half is free."""
    size = len(peer.send()) + HELD_FRAME_OVERHEAD
    bench.buffer = PublishBuffer(8 * size)
    bench.limited(0)
    first, second = bench.producing(), bench.producing()
    first.sends(*sends(4))

    assert second.sends(*sends(3)) == []

    assert (second.session.held_frames, second.session.paused) == (0, True)
    assert bench.counters.throttles[ThrottleReason.PUBLISH_BUFFER] == 1
    first.session.close(bench.now_ns)
    bench.limit("limited", None)
    bench.wait(5)
    assert second.broker_got() == sends(3)


@pytest.mark.shows("pip-322/five-reasons")
def test_a_connection_is_read_when_all_reasons_are_gone(bench: Bench) -> None:
    """One that is over does not hide another one that is not."""
    size = len(peer.send()) + HELD_FRAME_OVERHEAD
    bench.buffer = PublishBuffer(2 * size)
    bench.limited(0)
    holder, client = bench.producing(), bench.client(pending_requests_max=1)
    holder.sends(*sends(2))
    client.opens(peer.producer(TOPIC), peer.producer(OTHER, 2, 2))
    free, held = peer.send(2, 0), peer.send(1, 0)

    assert client.sends(free, peer.send(2, 1), held) == [free]
    client.is_sent(peer.receipt(2, 0))
    assert client.broker_got() == [peer.send(2, 1)]
    client.is_sent(peer.receipt(2, 1))

    assert client.session.throttle.pausing == {ThrottleReason.PUBLISH_BUFFER}
    assert client.session.throttle.counts == {
        ThrottleReason.PENDING_REQUESTS: 2,
        ThrottleReason.PUBLISH_BUFFER: 1,
    }


def test_connections_that_leave_are_not_kept_by_the_buffer(bench: Bench) -> None:
    """A limit of 0 never relieves the buffer, and reconnecting clients would pile up."""
    bench.buffer = PublishBuffer(10)
    bench.limited(0)
    bench.producing().sends(*sends(1))
    for _ in range(5):
        client = bench.producing()
        client.sends(*sends(1))
        client.session.close(bench.now_ns)

    assert bench.buffer.waiting == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "topic", "broker", "expected"),
    [(100, 200, 300, 100), (300, 100, 200, 100), (300, 200, 100, 100), (None, None, 100, 100)],
)
@pytest.mark.shows("pip-82/stricter-acts")
def test_the_strictest_limit_acts(
    bench: Bench, group: int | None, topic: int | None, broker: int, expected: int
) -> None:
    """Group, topic and broker must all admit."""
    bench.limited(group)
    bench.limit_topic(TOPIC, Rates(publish_messages=topic))
    bench.limit_broker(Rates(publish_messages=broker))

    (passed,) = run(bench, [bench.producing()], 5000)

    assert passed == pytest.approx(5 * expected, rel=0.02)


@pytest.mark.shows("pip-322/levels", "pip-322/broker-level")
def test_each_limit_is_counted_by_its_reason(bench: Bench) -> None:
    """Per connection and in all."""
    bench.attach(ns="limited")
    client = bench.producing()
    setters: list[tuple[Callable[[Rates], None], ThrottleReason]] = [
        (lambda rates: bench.set_limits("limited", rates), ThrottleReason.RESOURCE_GROUP),
        (lambda rates: bench.limit_topic(TOPIC, rates), ThrottleReason.TOPIC_LIMIT),
        (bench.limit_broker, ThrottleReason.BROKER_LIMIT),
    ]
    for set_limit, reason in setters:
        set_limit(NEVER)
        assert client.sends(peer.send(), peer.send()) == []
        set_limit(Rates())
        assert client.broker_got() == [peer.send(), peer.send()]
        assert client.session.throttle.counts[reason] == 1
        assert bench.counters.throttles[reason] == 1


def test_limits_of_topic_and_broker_bind_consumers_too(bench: Bench) -> None:
    """Permits wait for them as for those of groups, and go out when they end."""
    client = bench.client()
    client.opens(peer.subscribe(TOPIC))
    bench.limit_topic(TOPIC, Rates(dispatch_messages=0))

    assert client.sends(peer.flow(1, 100)) == []
    bench.limit_topic(TOPIC, Rates())

    assert client.broker_got() == [peer.flow(1, 100)]


@pytest.mark.parametrize(("rate", "partitions"), [(10, 3), (2, 4), (0, 2), (1_000_003, 7)])
def test_partitions_share_a_topics_limit_to_the_last_message(rate: int, partitions: int) -> None:
    """Whole numbers that add up; the largest remainder goes by index."""
    parts = [part_of(Rates(rate, None, rate), n, partitions) for n in range(partitions)]

    messages = [part.of(Dimension.PUBLISH_MESSAGES) or 0 for part in parts]
    assert sum(messages) == rate
    assert messages == sorted(messages, reverse=True)
    assert max(messages) - min(messages) <= 1
    assert all(part.publish_bytes is None for part in parts)


@pytest.mark.slow
def test_a_partitioned_topic_keeps_its_limit_as_a_whole(bench: Bench) -> None:
    """Each partition gets its part, not the whole limit as in Pulsar."""
    bench.limit_topic(TOPIC, Rates(publish_messages=100), partitions=3)
    clients = [bench.producing(f"{TOPIC}-partition-{n}") for n in range(3)]

    passed = run(bench, clients, 4000)

    assert passed == [pytest.approx(part, abs=4) for part in (136, 132, 132)]


def test_invented_partitions_pile_up_nothing(bench: Bench) -> None:
    """All requests for partitions that do not exist share one limiter."""
    bench.limit_topic(TOPIC, Rates(publish_messages=100), partitions=2)
    dice = random.Random(1)
    for _ in range(50):
        bench.producing(f"{TOPIC}-partition-{dice.randrange(2**31)}")

    assert len(bench.groups.scopes._topics) == 1


def test_a_frame_that_ends_costs_the_same_however_many_wait() -> None:
    """While there is no room none but the oldest may go on, and no other is looked at."""
    compared = 0

    class Owner:
        """A connection."""

        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return self is other

        def __call__(self) -> None:
            """Be told of room."""

    buffer, oldest, busy = PublishBuffer(1_000), Owner(), Owner()
    buffer.count_unfinished(oldest, 600)
    for _ in range(1_000):
        buffer.when_relieved_of_unfinished(Owner())
    for _ in range(10):
        buffer.count_unfinished(busy, 100)
        buffer.count_unfinished(busy, 0)

    assert compared < 100
