"""Two laws side by side: exact, of this moment, and without any effect."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from coordinator.core.allocation.laws import LAWS
from coordinator.core.model import Dimension
from coordinator.insight.model.explain import UnknownGroup
from coordinator.insight.model.shadow import compare
from coordinator.insight.model.views import ShadowOfBrokerView
from tests.core.cluster import GROUP, Cluster

MESSAGES = Dimension.PUBLISH_MESSAGES


def three(policy: str = "balanced", bytes_limit: int | None = None) -> Cluster:
    """A limit of 3,000 among a small broker and two that want all of it."""
    cluster = Cluster(limit=3_000, policy=policy, bytes_limit=bytes_limit)
    for broker, demand in {"b1": 500, "b2": 5_000, "b3": 5_000}.items():
        cluster.start(broker, demand)
    cluster.run(10)
    return cluster


def test_it_says_who_would_gain_and_who_would_lose() -> None:
    """Equal parts for all: the small one gets more than it wants, the others pay for it."""
    cluster = three()
    found = compare(cluster.states["b1"], GROUP, MESSAGES, "static")

    assert found is not None
    assert (found.law, found.candidate, found.limit) == ("max-min", "static", 3_000)
    now = {broker: cluster.limit_of(broker) for broker in cluster.states}
    assert found.brokers == tuple(
        ShadowOfBrokerView(broker, now[broker], 1_000) for broker in sorted(now)
    )
    assert found.moved == 1_000 - now["b1"]
    assert found.sentence("b2") == (
        f"Under static b2 would be due 1,000/s, not {now['b2']:,}/s; {found.moved:,} of 3,000/s "
        "would move."
    )


def test_all_sidecars_say_the_same() -> None:
    """The comparison is made from facts that all sidecars share."""
    cluster = three()
    answers = [compare(state, GROUP, MESSAGES, "static") for state in cluster.states.values()]

    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("law", LAWS)
def test_the_law_in_force_is_its_own_shadow(law: str) -> None:
    """No broker would gain or lose."""
    cluster = Cluster(limit=3_000, law=law)
    for broker, demand in {"b1": 500, "b2": 5_000, "b3": 5_000}.items():
        cluster.start(broker, demand)
    cluster.run(5)
    found = compare(cluster.states["b2"], GROUP, MESSAGES, law)

    assert found is not None
    assert found.moved == 0
    assert all(each.now == each.then for each in found.brokers)
    assert "as now" in found.sentence("b2")


@pytest.mark.parametrize("law", LAWS)
def test_what_it_says_comes_true(law: str) -> None:
    """At the moment when the law is changed the targets are those that were shown."""
    cluster = three(policy="eager")
    shown = compare(cluster.states["b1"], GROUP, MESSAGES, law)
    cluster.law = law
    cluster.set_limit(cluster.limit)

    assert shown is not None
    decided = cluster.states["b1"].decider.decisions[GROUP, MESSAGES].split
    assert decided is not None
    assert {each.broker: each.then for each in shown.brokers} == {
        broker: min(3_000, target) for broker, target in decided.targets.items()
    }


def test_of_two_units_both_are_compared_as_they_are_split() -> None:
    """Max-min splits them in one, static each for itself."""
    cluster = Cluster(limit=1_000, bytes_limit=1_000_000)
    cluster.sizes = {"b1": 100, "b2": 10_000}
    for broker in cluster.sizes:
        cluster.start(broker, demand=5_000)
    cluster.run(6)
    found = compare(cluster.states["b1"], GROUP, Dimension.PUBLISH_BYTES, "static")

    assert found is not None
    assert [each.then for each in found.brokers] == [500_000, 500_000]
    assert found.moved > 0


def test_who_takes_no_part_keeps_its_reserve() -> None:
    """Under any law; the others share what is left."""
    cluster = three()
    cluster.start("b4")
    cluster.run(3)
    found = compare(cluster.states["b4"], GROUP, MESSAGES, "static")

    assert found is not None
    assert found.of("b4") is None
    assert found.sentence("b4").startswith("Under static b4 takes no part: it would hold its res")


def test_what_cannot_be_compared() -> None:
    """No limit: nothing; no such group or law: an error that says so."""
    state = three().states["b1"]

    assert compare(state, GROUP, Dimension.DISPATCH_BYTES, "static") is None
    with pytest.raises(UnknownGroup):
        compare(state, "none", MESSAGES, "static")
    with pytest.raises(ValueError, match="there is no law grd; there are max-min"):
        compare(state, GROUP, MESSAGES, "grd")


@pytest.mark.parametrize("policy", ["balanced", "strict"])
def test_a_shadow_changes_no_limit_in_force(policy: str) -> None:
    """Two clusters with the same random story; in one, all laws are compared at every moment."""
    seed = 7
    dice, watched, alone = random.Random(seed), three(policy), three(policy)
    for state in watched.states.values():
        state.settings = replace(state.settings, shadow_law="static")
    for _ in range(60):
        broker, demand = dice.choice(("b1", "b2", "b3")), dice.choice((0, 10, 800, 5_000))
        for cluster in (watched, alone):
            cluster.want(broker, demand)
            cluster.run(0.5)
        for state in watched.states.values():
            for law in LAWS:
                compare(state, GROUP, MESSAGES, law)
        assert all(watched.limit_of(b) == alone.limit_of(b) for b in alone.states), f"seed {seed}"
    assert watched.reports == alone.reports
    assert watched.admitted == alone.admitted
