"""The limit of a scalable topic of Pulsar 5, which its segments share by their hashes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.model import Dimension, Rates
from coordinator.core.topics import HashRange, TopicName
from coordinator.gate.limits.scopes import UNUSED_MAX, part_of
from tests.gate import peer
from tests.gate.conftest import Bench
from tests.gate.limits.test_admission import run

SCALABLE = "topic://tenant/ns/t"
PARENT = "segment://tenant/ns/t/0000-7fff-0"
OTHER = "segment://tenant/ns/t/8000-ffff-1"
CHILDREN = ("segment://tenant/ns/t/0000-3fff-2", "segment://tenant/ns/t/4000-7fff-3")
MERGED = "segment://tenant/ns/t/0000-7fff-4"


@given(
    rate=st.integers(0, 1 << 40),
    cuts=st.sets(st.integers(1, 0xFFFF), max_size=50),
)
def test_the_parts_of_any_layout_add_up_to_the_limit(rate: int, cuts: set[int]) -> None:
    """The active segments have every hash once, whatever was split and merged before."""
    edges = [0, *sorted(cuts), 0x10000]
    layout = [HashRange(a, b - 1) for a, b in pairwise(edges)]

    parts = [part_of(Rates(rate), part, 1).of(Dimension.PUBLISH_MESSAGES) or 0 for part in layout]

    assert sum(parts) == rate


@pytest.mark.slow
def test_a_scalable_topic_keeps_its_limit_as_a_whole(bench: Bench) -> None:
    """Segments of half and of a quarter of the hashes get half and a quarter of the limit."""
    bench.limit_topic(SCALABLE, Rates(publish_messages=100))
    clients = [bench.producing(topic) for topic in (OTHER, *CHILDREN)]

    passed = run(bench, clients, 4000)

    assert passed == [pytest.approx(part, abs=4) for part in (200, 100, 100)]


def parts(bench: Bench) -> dict[str, int | None]:
    """The limits that the segments used so far have at this gate."""
    (view,) = bench.groups.scopes.topics
    return {str(part): rates.publish_messages for part, rates in view.parts.items()}


def test_a_split_and_a_merge_move_no_part_of_the_limit(bench: Bench) -> None:
    """Children share the part of their parent, and what comes of their merge has it again."""
    bench.limit_topic(SCALABLE, Rates(publish_messages=101))
    for topic in (PARENT, OTHER, *CHILDREN, MERGED):
        bench.producing(topic)

    assert parts(bench) == {"0000-7fff": 50, "8000-ffff": 51, "0000-3fff": 25, "4000-7fff": 25}


def test_a_new_limit_reaches_the_segments_in_use(bench: Bench) -> None:
    """A held publish passes once the limit of the topic is lifted."""
    bench.limit_topic(SCALABLE, Rates(publish_messages=0))
    client = bench.producing(PARENT)
    assert client.sends(peer.send()) == []

    bench.limit_topic(SCALABLE, Rates(publish_messages=200))
    assert parts(bench) == {"0000-7fff": 100}
    bench.limit_topic(SCALABLE, Rates())

    assert client.broker_got() == [peer.send()]


@pytest.mark.parametrize(
    "spelling", ["0-7fff-0", "0000-7FFF-0", "00000-07fff-00", "0000-7fff-\u0660"]
)
def test_no_spelling_of_a_segment_gets_a_limiter_of_its_own(bench: Bench, spelling: str) -> None:
    """Brokers take them all for one segment, so a client could have its part several times."""
    bench.limit_topic(SCALABLE, Rates(publish_messages=0))
    bench.producing(PARENT)
    client = bench.producing(f"SEGMENT://tenant/ns/t/{spelling}")

    assert client.sends(peer.send()) == []
    assert list(parts(bench)) == ["0000-7fff"]


def test_segments_of_former_layouts_are_forgotten_once_there_are_many(bench: Bench) -> None:
    """A layout can change for years, and an invented segment is one more name."""
    bench.limit_topic(SCALABLE, Rates(publish_messages=1_000))
    client = bench.client()
    for number in range(UNUSED_MAX + 200):
        topic = f"segment://tenant/ns/t/{number:04x}-ffff-{number}"
        client.opens(peer.producer(topic, 1, number + 1))
        client.is_sent(peer.close_producer(1, 0))

    assert len(parts(bench)) <= UNUSED_MAX + 2


def test_a_used_segment_keeps_its_limiter_among_many_unused_ones(bench: Bench) -> None:
    """Otherwise a client could spend the part again by naming other segments."""
    bench.limit_topic(SCALABLE, Rates(publish_messages=0))
    holding = bench.producing(PARENT)
    assert holding.sends(peer.send()) == []
    client = bench.client()
    for number in range(UNUSED_MAX + 2):
        topic = f"segment://tenant/ns/t/{number:04x}-fffe-{number}"
        client.opens(peer.producer(topic, 1, number + 1))
        client.is_sent(peer.close_producer(1, 0))

    assert "0000-7fff" in parts(bench)


def test_the_dispatch_of_segments_is_limited_by_the_topics_limit(bench: Bench) -> None:
    """Each segment's permits wait for its part."""
    bench.limit_topic(SCALABLE, Rates(dispatch_messages=0))
    client = bench.client()
    client.opens(peer.subscribe(OTHER))

    assert client.sends(peer.flow(1, 100)) == []
    bench.limit_topic(SCALABLE, Rates())

    assert client.broker_got() == [peer.flow(1, 100)]


def test_a_topic_of_the_same_name_and_another_domain_has_no_part(bench: Bench) -> None:
    """Pulsar keeps topic://t/n/x and persistent://t/n/x apart."""
    bench.limit_topic(SCALABLE, Rates(publish_messages=0))
    client = bench.producing("persistent://tenant/ns/t")

    assert client.sends(peer.send()) == [peer.send()]


def test_a_scalable_topic_is_no_partition_whatever_its_name_ends_in() -> None:
    """Its limit is its own, and so is that of its segments."""
    topic = TopicName("topic", "a", "b", "c-partition-3")
    segment = TopicName.parse("segment://a/b/c-partition-3/0000-ffff-0")

    assert topic.whole == topic
    assert segment is not None
    assert segment.whole == topic
