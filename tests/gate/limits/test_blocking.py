"""Topics whose backlog exceeds its quota: publishes are held, or refused with the error for it."""

from __future__ import annotations

from coordinator.backlog.rules.guard import Block
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.gate.protocol.refusals import RefusalReason
from tests.gate import peer
from tests.gate.conftest import TOPIC, Bench

OTHER = "persistent://tenant/ns/other"
HELD = Block(refused=False, reason="backlog quota exceeded: 11 of 10 bytes")
REFUSED = Block(refused=True, reason="backlog quota exceeded: 11 of 10 bytes")


def block(bench: Bench, held: Block | None, topic: str = TOPIC) -> None:
    """As the gate does it."""
    bench._scope_changed(bench.groups.scopes.set_block(topic, held, bench.now_ns))


def refusal(producer_id: int, sequence_id: int) -> bytes:
    """SEND_ERROR with ProducerBlockedQuotaExceededException."""
    fields = ((1, producer_id), (2, sequence_id), (3, 8), (4, REFUSED.reason))
    return peer.command(8, *fields)


def test_publishes_of_a_connected_producer_are_held_until_the_quota_is_kept(bench: Bench) -> None:
    """They keep their order, and publishes to other topics go on."""
    client = bench.producing()
    client.opens(peer.producer(OTHER, 2, 2))
    assert client.sends(peer.send(1, 0)) == [peer.send(1, 0)]
    block(bench, HELD)
    assert client.sends(peer.send(1, 1), peer.send(2, 0), peer.send(1, 2)) == [peer.send(2, 0)]
    bench.wait(60_000)
    assert client.broker_got() == []
    assert client.session.throttle.counts[ThrottleReason.BACKLOG_QUOTA] == 1
    block(bench, None)
    assert client.broker_got() == [peer.send(1, 1), peer.send(1, 2)]
    assert client.sends(peer.send(1, 3)) == [peer.send(1, 3)]


def test_publishes_to_a_refused_topic_are_answered_with_the_error_for_it(bench: Bench) -> None:
    """No publish reaches the broker; the reason names the exceeded quota."""
    client = bench.producing()
    block(bench, REFUSED)
    sends = [peer.send(1, number) for number in (7, 8, 1_000_000)]
    assert client.sends(*sends) == []
    assert client.client_got() == [refusal(1, number) for number in (7, 8, 1_000_000)]
    assert bench.counters.refused_publishes == 3
    block(bench, None)
    assert client.sends(sends[0]) == [sends[0]]


def test_a_large_publish_is_refused_before_it_has_arrived(bench: Bench) -> None:
    """The gate swallows it to its end."""
    client = bench.producing()
    block(bench, REFUSED)
    large = peer.send(1, 0, content=b"x" * 100_000)
    client.sends_on(large[:200])
    assert client.client_got() == [refusal(1, 0)]
    assert client.sends(large[200:], peer.PING) == [peer.PING]


def test_who_wants_to_publish_to_a_refused_topic_is_told_the_same(bench: Bench) -> None:
    """Clients fail what they have not sent with just this exception then."""
    block(bench, REFUSED)
    client = bench.client()
    assert client.sends(peer.producer(TOPIC, 1, 5)) == []
    assert client.client_got() == [peer.command(14, (1, 5), (2, 8), (3, REFUSED.reason))]
    assert bench.counters.refusals == {RefusalReason.BACKLOG_QUOTA: 1}
    assert client.sends(peer.producer(OTHER, 2, 6)) == [peer.producer(OTHER, 2, 6)]


def test_what_is_held_already_is_refused_when_the_topic_is(bench: Bench) -> None:
    """The refusals keep the order, before those of later publishes."""
    bench.limited(1)
    client = bench.producing()
    client.sends(peer.send(1, 0), peer.send(1, 1))
    block(bench, REFUSED)
    client.sends_on(peer.send(1, 2))
    assert client.client_got() == [refusal(1, number) for number in range(3)]
    assert client.session.held_frames == 0


def test_from_held_to_refused_nothing_passes_in_between(bench: Bench) -> None:
    """The policy of a quota may change while it is exceeded."""
    client = bench.producing()
    block(bench, HELD)
    client.sends(peer.send(1, 0))
    block(bench, REFUSED)
    assert client.broker_got() == []
    assert client.client_got() == [refusal(1, 0)]


def test_one_partition_is_blocked_alone(bench: Bench) -> None:
    """Each has a backlog of its own."""
    client = bench.client()
    for index in (0, 1):
        client.opens(peer.producer(f"{TOPIC}-partition-{index}", index, index))
    block(bench, HELD, f"{TOPIC}-partition-1")
    assert client.sends(peer.send(0, 0), peer.send(1, 0)) == [peer.send(0, 0)]


def test_a_producer_of_geo_replication_is_never_blocked(bench: Bench) -> None:
    """It would hold up another cluster."""
    client = bench.replicating()
    block(bench, HELD)
    assert client.sends(peer.send(1, 0)) == [peer.send(1, 0)]


def test_to_unblock_what_is_not_blocked_changes_nothing(bench: Bench) -> None:
    """A second sidecar's second thought."""
    client = bench.producing()
    block(bench, None)
    assert client.sends(peer.send(1, 0)) == [peer.send(1, 0)]


def test_a_blocked_producer_that_goes_away_leaves_nothing_behind(bench: Bench) -> None:
    """The books of the bench balance after the test."""
    client = bench.producing()
    block(bench, HELD)
    client.sends(peer.send(1, 0), peer.send(1, 1))
    client.session.close(bench.now_ns)
    block(bench, None)
    assert client.broker_got() == []
