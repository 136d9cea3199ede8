"""The changes that would change a limit are exact, because the law computes them."""

from __future__ import annotations

import pytest

from coordinator.core.model import Dimension
from coordinator.insight.model.preview import preview
from coordinator.insight.model.what_if import would_change
from tests.core.cluster import GROUP, Cluster

MESSAGES = Dimension.PUBLISH_MESSAGES


def three(**topics: int) -> Cluster:
    """A limit of 3,000 among three brokers that want all of it."""
    cluster = Cluster(limit=3000, topics=topics)
    for broker in ("b1", "b2", "b3"):
        cluster.start(broker, demand=5000)
    cluster.run(3)
    return cluster


def test_a_broker_that_is_cut_is_told_what_would_help() -> None:
    """A higher limit, less demand elsewhere, other weights: each with what it would give."""
    cluster = three(b1=1, b2=5, b3=6)

    assert would_change(cluster.states["b1"], GROUP, MESSAGES, "b2") == (
        "a higher publishRateInMsgs (+300/s gives this broker +100/s)",
        "less demand elsewhere (without b3 it would be 1,497/s)",
        "weights topics (would give 1,250/s)",
    )


def test_less_demand_elsewhere_comes_true() -> None:
    """With the largest other one gone, what was named is in force."""
    cluster = three()
    told = would_change(cluster.states["b1"], GROUP, MESSAGES, "b2")
    cluster.want("b3", 0)
    cluster.run(5)

    assert told[1] == f"less demand elsewhere (without b3 it would be {cluster.limit_of('b2'):,}/s)"


@pytest.mark.parametrize(("broker", "expected"), [("b1", 1100), ("b2", 1100), ("b3", 1100)])
def test_what_it_promises_comes_true(broker: str, expected: int) -> None:
    """With the limit raised by what was named, the broker has what was named."""
    cluster = three()
    told = would_change(cluster.states["b1"], GROUP, MESSAGES, broker)
    assert told[0] == "a higher publishRateInMsgs (+300/s gives this broker +100/s)"
    cluster.set_limit(3300)
    cluster.run(2)

    assert cluster.limit_of(broker) == expected


def test_of_two_units_the_one_that_binds_is_named() -> None:
    """More bytes help no broker that messages limit; a preview of the change says the same."""
    cluster = Cluster(limit=1000, bytes_limit=5_000_000)
    cluster.sizes = {"b1": 100, "b2": 10_000}
    for broker in cluster.sizes:
        cluster.start(broker, demand=5000)
    cluster.run(6)
    state = cluster.states["b1"]
    told = would_change(state, GROUP, MESSAGES, None)
    cluster.limit = 1100
    messages, _ = preview(state, cluster.group())
    ((now, then),) = [(each.now, each.then) for each in messages.brokers if each.broker == "b1"]

    assert now is not None
    assert then is not None
    assert then > now
    assert told[0] == f"a higher publishRateInMsgs (+100/s gives this broker +{then - now:,}/s)"


def test_nothing_is_said_where_nothing_is_cut() -> None:
    """This holds for a broker whose demand is met, an unlimited dimension, and an unknown group."""
    cluster = Cluster(limit=3000)
    cluster.start("b1", demand=300)
    cluster.start("b2", demand=5000)
    cluster.run(5)
    state = cluster.states["b1"]

    assert would_change(state, GROUP, MESSAGES, "b1") == ()
    assert would_change(state, GROUP, Dimension.DISPATCH_BYTES, "b2") == ()
    assert would_change(state, "none", MESSAGES, None) == ()
