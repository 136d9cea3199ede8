"""Scalable topics of Pulsar 5 are limited like any other, with the client and brokers of 5.0.0-M1.

The cluster is this module's own, whatever version all other tests run on, and small.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest

from tests.clients.release_world import Readings, ReleaseWorld, world_of
from tests.clients.releases import JAVA_V5, all_releases
from tests.clients.sample import BURST_S, LIMIT, SAMPLE
from tests.integration.world import eventually

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.own_cluster,
    pytest.mark.timeout(300),
    pytest.mark.verify,
]

(CLIENT,) = (each for each in all_releases() if each.family == "java-v5")
(PULSAR,) = JAVA_V5


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReleaseWorld]:
    """A cluster of two brokers with sidecars; the client is fetched first, which may take a minute."""
    CLIENT.launch()
    with world_of(PULSAR, tmp_path_factory.mktemp("five")) as started:
        yield started


@pytest.mark.parametrize("holds", SAMPLE, ids=lambda check: check.__name__)
def test_what_every_release_does(
    world: ReleaseWorld, holds: Callable[[ReleaseWorld], None]
) -> None:
    """A sample: limits of classic clients on publishing and dispatch, and their explanation."""
    holds(world)


def hold_together(world: ReleaseWorld, burst: int = 0) -> None:
    """Hold a namespace with a group of 50/s to it, within 2 % and a burst.

    The client of Pulsar 5 publishes to a scalable and a classic topic, and a classic client to another.
    """
    namespace = world.namespace()
    world.limit_namespace(namespace, publishRateInMsgs=LIMIT)
    with ThreadPoolExecutor() as pool:
        playing = pool.submit(world.play, CLIENT, namespace, "steady_together")
        for domain in ("segment", "persistent"):
            eventually(partial(world.has_published, namespace, domain), f"a message to {domain}://")
        time.sleep(5.0)
        world.comes_to(namespace, LIMIT, within=0.02, burst=burst)
        outcomes = playing.result()
    assert [each.why for each in outcomes if each.failed] == []


def test_a_group_holds_scalable_and_classic_topics_together(world: ReleaseWorld) -> None:
    """A group of 50/s, through the gates."""
    hold_together(world)


def test_brokers_hold_scalable_and_classic_topics_together_natively(
    world: ReleaseWorld, tmp_path: Path
) -> None:
    """The same by the brokers' own limiters, with nothing between them and the clients.

    Each interval of a second they let half of the limit pass at once.
    """
    with world.natively(tmp_path):
        hold_together(world, burst=LIMIT // 2)


def test_one_segment_gets_the_whole_limit_if_the_others_want_nothing(world: ReleaseWorld) -> None:
    """All messages have one key; the broker of the other segment leaves its part, and explain says so."""
    namespace = world.namespace()
    topic = f"topic://{namespace}/hot"
    world.limit_topic(namespace, "hot", 100)
    with ThreadPoolExecutor() as pool:
        playing = pool.submit(world.play, CLIENT, namespace, "hot_key")
        eventually(partial(world.has_published, namespace), "a message at the brokers")
        time.sleep(5.0)
        rate = world.rate(namespace, 10.0)
        limits = world.local_limits(topic)
        sentence = world.explained(topic, "broker-1")["sentence"]
        outcomes = playing.result()

    assert [each.why for each in outcomes if each.failed] == []
    assert rate == pytest.approx(100, rel=0.05)
    assert sum(limits.values()) <= 100
    assert max(limits.values()) >= 90
    assert sentence


def test_a_split_and_a_merge_lose_nothing_and_keep_order_and_limit(world: ReleaseWorld) -> None:
    """100/s for all segments together, in every run of readings.

    The client checks that everything acknowledged came, and that keys stay in order.
    """
    namespace = world.namespace()
    world.limit_topic(namespace, "rescaled", 100)
    with Readings(world, namespace) as readings:
        outcomes = world.play(CLIENT, namespace, "rescaled")
        assert readings.alive, "the readings have stopped"

    assert [(each.scene, each.why) for each in outcomes] == [("rescaled", "")]
    seen = [each for each in readings.seen if each.messages]
    for before, after in combinations(seen, 2):
        passed, took_s = after.messages - before.messages, after.answered_s - before.asked_s
        assert passed <= 100 * (took_s + BURST_S), f"{passed} in {took_s:.2f} s"
    assert seen[-1].messages >= 0.6 * 100 * 20, "the limit let less than its part pass"


def test_every_consumer_of_a_scalable_topic_is_limited(world: ReleaseWorld) -> None:
    """60 messages at 20/s take a stream, a queue and a checkpoint consumer their time."""
    namespace = world.namespace()
    world.limit_namespace(namespace, dispatchRateInMsgs=20)

    outcomes = world.play(
        CLIENT, namespace, "scalable_stream", "scalable_queue", "scalable_checkpoint"
    )

    assert [each.why for each in outcomes if each.failed] == []
    assert all(each.seconds >= 60 / 20 - BURST_S for each in outcomes), outcomes


def test_brokers_know_the_segments_of_the_layout_alone(world: ReleaseWorld) -> None:
    """So a client gets nothing by inventing segments, and every spelling is one that they know."""
    namespace = world.namespace()
    topic = f"topic://{namespace}/real"
    world.scale(topic)
    segments = topic.replace("topic://", "segment://")

    for invented in ("0000-ffff-9", "0000-ffff-0", "0000-7fff-1"):
        assert world.accepted_producers(f"{segments}/{invented}") == 0
    for spelling in ("0000-7fff-0", "0-7FFF-00"):
        assert world.accepted_producers(f"{segments}/{spelling}") == 1


def test_a_domain_of_a_later_release_is_refused(world: ReleaseWorld) -> None:
    """The gate answers in the broker's place."""
    namespace = world.namespace()

    assert world.accepted_producers(f"shelf://{namespace}/books") == 0
