"""A scalable topic of Pulsar 5 is one group, which all its segments count against."""

from __future__ import annotations

import pytest

from coordinator.core.limiting.windows import LimitMode, maker_of
from coordinator.core.model import MonitoringClass, Rates
from coordinator.core.topics import TopicName
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.modes import Modes
from coordinator.gate.limits.throttle import ThrottleReason
from tests.gate import peer
from tests.gate.conftest import Bench
from tests.gate.limits.test_admission import delivered, run

SCALABLE = "topic://tenant/ns/t"
PARENT = "segment://tenant/ns/t/0000-7fff-0"
OTHER = "segment://tenant/ns/t/8000-ffff-1"
CHILDREN = ("segment://tenant/ns/t/0000-3fff-2", "segment://tenant/ns/t/4000-7fff-3")
MERGED = "segment://tenant/ns/t/0000-7fff-4"


def limit(bench: Bench, rates: Rates) -> None:
    """Limit the scalable topic at this gate, as the core does."""
    bench.set_limits(SCALABLE, rates)
    bench.attach_topics(SCALABLE)


def published(bench: Bench) -> int:
    """The messages that the topic's group has counted since the last call."""
    return sum(
        traffic.messages
        for traffic in bench.groups.collect(bench.now_ns)
        if traffic.group == SCALABLE and traffic.monitoring_class is MonitoringClass.PUBLISH
    )


@pytest.mark.slow
def test_segments_share_the_limit_by_their_demand(bench: Bench) -> None:
    """A segment that wants little leaves the rest to the others, whatever hashes it has."""
    limit(bench, Rates(publish_messages=100))
    clients = [bench.producing(topic) for topic in (OTHER, *CHILDREN)]

    assert sum(run(bench, clients, 4000)) == pytest.approx(400, abs=6)
    bench.wait(2000)  # what the others still hold passes
    delivered(clients[0])
    assert run(bench, clients[:1], 4000) == [pytest.approx(400, abs=6)]


def test_every_segment_of_every_layout_counts_for_the_topic(bench: Bench) -> None:
    """The gate does not have to know which ones are active."""
    limit(bench, Rates())
    for topic in (PARENT, OTHER, *CHILDREN, MERGED):
        assert bench.producing(topic).sends(peer.send())

    assert published(bench) == 5


def test_a_new_limit_reaches_the_segments_in_use(bench: Bench) -> None:
    """A held publish passes once the limit of the topic is lifted."""
    limit(bench, Rates(publish_messages=0))
    client = bench.producing(PARENT)
    assert client.sends(peer.send()) == []

    bench.set_limits(SCALABLE, Rates())

    assert client.broker_got() == [peer.send()]


@pytest.mark.parametrize(
    "spelling", ["0-7fff-0", "0000-7FFF-0", "00000-07fff-00", "0000-7fff-\u0660"]
)
def test_no_spelling_of_a_segment_leaves_the_limit(bench: Bench, spelling: str) -> None:
    """Brokers take them all for one segment."""
    limit(bench, Rates(publish_messages=0))
    client = bench.producing(f"SEGMENT://tenant/ns/t/{spelling}")

    assert client.sends(peer.send()) == []


def test_the_dispatch_of_segments_is_limited_by_the_topics_limit(bench: Bench) -> None:
    """Permits for any segment wait for it."""
    limit(bench, Rates(dispatch_messages=0))
    client = bench.client()
    client.opens(peer.subscribe(OTHER))

    assert client.sends(peer.flow(1, 100)) == []
    bench.set_limits(SCALABLE, Rates())

    assert client.broker_got() == [peer.flow(1, 100)]


def test_a_topic_of_the_same_name_and_another_domain_has_no_part(bench: Bench) -> None:
    """Pulsar keeps topic://t/n/x and persistent://t/n/x apart."""
    limit(bench, Rates(publish_messages=0))
    client = bench.producing("persistent://tenant/ns/t")

    assert client.sends(peer.send()) == [peer.send()]


def test_a_scalable_topic_is_limited_in_the_mode_of_topics() -> None:
    """Its holds are counted as those of a topic's limit."""

    class Listener:
        def participants_changed(self, *_: object) -> None:
            pass

    table = GroupTable(Listener(), modes=Modes(topics=maker_of(LimitMode.SOFT)))

    assert table.group(SCALABLE).publish_limiter.reason is ThrottleReason.TOPIC_LIMIT
    assert table.group("orders").publish_limiter.reason is ThrottleReason.RESOURCE_GROUP


def test_a_scalable_topic_is_no_partition_whatever_its_name_ends_in() -> None:
    """Its limit is its own, and so is that of its segments."""
    topic = TopicName("topic", "a", "b", "c-partition-3")
    segment = TopicName.parse("segment://a/b/c-partition-3/0000-ffff-0")

    assert topic.whole == topic
    assert segment is not None
    assert segment.whole == topic
