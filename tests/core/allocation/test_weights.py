"""Weights: how many times a broker counts, from the setting to the limits in force."""

from __future__ import annotations

import pytest

from coordinator.core.allocation.splitting import WEIGHTS
from coordinator.core.model import Dimension, Usage
from coordinator.insight.model.explain import explain
from tests.core.cluster import GROUP, Cluster


def saturated(**topics: int) -> Cluster:
    """A limit of 3,000 among brokers with these numbers of topics, all of which want everything."""
    cluster = Cluster(limit=3000)
    for broker, count in topics.items():
        cluster.topics[broker] = count
        cluster.start(broker, demand=5000)
    cluster.run(3)
    return cluster


def limits(cluster: Cluster) -> list[int]:
    """Return the limits in force, by broker."""
    return [cluster.limit_of(broker) for broker in sorted(cluster.states)]


@pytest.mark.parametrize(("topics", "weight"), [(0, 1), (1, 1), (40, 40)])
def test_a_broker_counts_once_per_topic_and_once_at_the_least(topics: int, weight: int) -> None:
    """With equal weights it counts once, however many topics it has."""
    usage = Usage(participants=1, topics=topics)

    assert WEIGHTS["topics"](usage) == weight
    assert WEIGHTS["equal"](usage) == 1


@pytest.mark.parametrize("policy", ["balanced", "eager", "strict"])
def test_changed_weights_settle_as_a_changed_limit_does(policy: str) -> None:
    """Within a round, by topics and back, and never more than the limit at any moment."""
    cluster = Cluster(limit=3000, policy=policy)
    for broker, topics in (("b1", 1), ("b2", 2), ("b3", 3)):
        cluster.topics[broker] = topics
        cluster.start(broker, demand=5000)
    cluster.run(3)
    assert limits(cluster) == pytest.approx([1000, 1000, 1000], abs=1)
    cluster.set_weights("topics")
    cluster.run(1)
    assert limits(cluster) == pytest.approx([500, 1000, 1500], abs=1)
    cluster.set_weights("equal")
    cluster.run(1)

    assert limits(cluster) == pytest.approx([1000, 1000, 1000], abs=1)
    if policy != "eager":
        assert max(sum(step.values()) for step in cluster.admitted) <= 3000


def test_a_new_topic_moves_the_limits_within_two_rounds() -> None:
    """The number is counted and reported like everything else, in large reports, too."""
    cluster = Cluster(limit=3000, weights="topics", small_report_entries=0)
    cluster.settle(5000, 5000)
    assert limits(cluster) == [1500, 1500]
    cluster.topics["b2"] = 2
    cluster.run(2)

    assert limits(cluster) == [1000, 2000]


def test_explain_shows_the_weights_and_counts_by_them() -> None:
    """One row a broker with its weight, and in the sentence whose part that is."""
    cluster = saturated(b1=1, b2=3)
    state = cluster.states["b1"]
    equal = explain(state, GROUP, Dimension.PUBLISH_MESSAGES, None, cluster.now_ns)
    cluster.set_weights("topics")
    cluster.run(1)
    by_topics = explain(state, GROUP, Dimension.PUBLISH_MESSAGES, None, cluster.now_ns)

    assert [want.weight for want in equal.wants] == [1, 1]
    assert "topic" not in equal.sentence
    assert [want.weight for want in by_topics.wants] == [1, 3]
    assert by_topics.sentence == (
        "2 brokers want more messages than there are, so each is cut at the same level per active "
        "topic, of which b1 has 1 of 4: b1 gets 750/s of the 3,000/s."
    )
