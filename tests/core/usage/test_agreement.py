"""View agreement: equal views have equal digests, others do not, and lasting differences are told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from coordinator.core.model import (
    GroupUsage,
    Member,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Usage,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.agreement import MODULUS, Agreement, Matter, digest_of
from coordinator.core.usage.map import UsageMap
from coordinator.insight.model import explain
from tests.core.cluster import SECOND_NS, Cluster

SETTINGS = CoreSettings(broker="b1")
PUBLISH = MonitoringClass.PUBLISH

names = st.text("abcdef", min_size=1, max_size=4)
definitions = st.dictionaries(names, st.integers(1, 2**40), max_size=6)
incarnations = st.dictionaries(names, st.integers(1, 2**40), max_size=6)


def groups_of(versions: dict[str, int]) -> dict[str, ResourceGroup]:
    """Definitions with these configuration versions."""
    return {
        name: ResourceGroup(name, Rates(), configuration_version=version)
        for name, version in versions.items()
    }


def views(history: list[dict[str, int]], members: dict[str, int]) -> Agreement:
    """Return the view digest of a sidecar that has seen these definitions, one after the other."""
    agreement = Agreement(SETTINGS)
    before: dict[str, ResourceGroup] = {}
    for versions in history:
        agreement.set_groups(before, groups_of(versions))
        before = groups_of(versions)
    agreement.set_members({name: Member(name, number) for name, number in members.items()})
    return agreement


@given(st.lists(definitions, max_size=4), st.lists(definitions, max_size=4), definitions)
def test_definitions_have_one_digest_whatever_came_before(
    one: list[dict[str, int]], other: list[dict[str, int]], last: dict[str, int]
) -> None:
    """Two sidecars that end at the same definitions by different ways agree."""
    assert views([*one, last], {}).digest(0) == views([*other, last], {}).digest(0)


def test_the_hash_of_an_entry_has_32_bits() -> None:
    """A report carries no more of it."""
    hashes = [digest_of("group", version) for version in range(100)]

    assert max(hashes) < MODULUS <= 2**8 * max(hashes)


@pytest.mark.parametrize("definitions", [{"g": 1}, {"g": 2}])
@pytest.mark.parametrize("members", [{"b1": 1, "b2": 1}, {"b1": 1, "b2": 2}])
def test_a_peer_sees_the_same_once_it_has_reported_it(
    definitions: dict[str, int], members: dict[str, int]
) -> None:
    """Definitions and members apart; of a peer that was not heard nothing is known."""
    own = views([{"g": 1}], {"b1": 1, "b2": 1})
    assert not own.same_definitions("b2")
    assert not own.same_members("b2")

    own.heard("b2", views([definitions], members).digest(0), 0, now_ns=0)

    assert own.same_definitions("b2") == (definitions == {"g": 1})
    assert own.same_members("b2") == (members == {"b1": 1, "b2": 1})


@given(definitions, definitions)
def test_one_other_definition_is_another_digest(one: dict[str, int], other: dict[str, int]) -> None:
    """A group more, a group less, or another version."""
    assume(one != other)
    assert views([one], {}).digest(0) != views([other], {}).digest(0)


@given(incarnations, incarnations)
def test_one_other_member_is_another_digest(one: dict[str, int], other: dict[str, int]) -> None:
    """Another incarnation of the same broker is another member."""
    assert (views([], one).digest(0) == views([], other).digest(0)) is (one == other)


def report(sequence: int, rates: dict[str, int], *, complete: bool = False) -> UsageReport:
    """A report of b2 that lists these groups; a demand of 0 is a farewell."""
    entries = tuple(
        GroupUsage(name, 1, {PUBLISH: Usage(messages_demand=rate, participants=int(rate > 0))})
        for name, rate in rates.items()
    )
    return UsageReport("b2", 7, sequence, SECOND_NS, entries, complete=complete)


def map_after(reports: list[UsageReport]) -> UsageMap:
    """Return the usage map of a sidecar that has taken these reports."""
    usage = UsageMap("b1")
    usage.set_members({"b2": Member("b2", 7)})
    for taken in reports:
        usage.take(taken, 0)
    return usage


stories = st.lists(
    st.tuples(st.dictionaries(names, st.integers(0, 3), max_size=4), st.booleans()), max_size=8
)


@given(stories, st.data())
def test_usage_digests_are_equal_exactly_when_the_rows_are(
    story: list[tuple[dict[str, int], bool]], data: st.DataObject
) -> None:
    """The digest shows a missing row after any loss and repetition."""
    told = [report(n + 1, rates, complete=full) for n, (rates, full) in enumerate(story)]
    heard = [each for each in told if data.draw(st.booleans())]
    sender, receiver = map_after(told), map_after(heard)

    groups = {name for rates, _ in story for name in rates}
    same = all(sender.rows(name, PUBLISH) == receiver.rows(name, PUBLISH) for name in groups)
    assert (sender.digest("b2") == receiver.digest("b2")) is same


def test_a_difference_counts_when_it_has_lasted_and_only_while_it_lasts() -> None:
    """For three rounds it may be a report that was made before the news; then it is told."""
    mine, other = views([{"orders": 2}], {}), views([{"orders": 1}], {})
    mine.heard("b2", other.digest(0), 0, now_ns=SECOND_NS)

    assert mine.disagreements({}, now_ns=4 * SECOND_NS) == []
    (found,) = mine.disagreements({}, now_ns=4 * SECOND_NS + 1)
    assert (found.peer, found.matter, found.since_ns) == ("b2", Matter.DEFINITIONS, SECOND_NS)
    assert mine.disagreements({"b2": 5 * SECOND_NS}, now_ns=4 * SECOND_NS + 1) == []

    other.set_groups(groups_of({"orders": 1}), groups_of({"orders": 2}))
    mine.heard("b2", other.digest(0), 0, now_ns=5 * SECOND_NS)
    assert mine.disagreements({}, now_ns=99 * SECOND_NS) == []


def test_a_busy_healthy_cluster_agrees() -> None:
    """Demands change in every round, and no sidecar disagrees."""
    cluster = Cluster(limit=3_000)
    for broker in ("b1", "b2", "b3"):
        cluster.start(broker, demand=500)
    for number in range(12):
        cluster.want("b2", 300 + 97 * (number % 5))
        cluster.run(1.0)
        assert not any(
            explain.health(state, cluster.now_ns).disagreements for state in cluster.states.values()
        )


def test_who_goes_by_another_definition_is_named() -> None:
    """One sidecar has missed a change of the store: all others say which one."""
    cluster = Cluster(limit=3_000)
    cluster.settle(500, 500, 500)
    known = cluster.states["b3"].groups
    assert known is not None
    changed = replace(known["orders"], configuration_version=99)
    cluster.states["b3"].agreement.set_groups(known, {"orders": changed})
    cluster.run(5.0)

    for broker, peers in (("b1", ["b3"]), ("b2", ["b3"]), ("b3", ["b1", "b2"])):
        found = explain.health(cluster.states[broker], cluster.now_ns).disagreements
        assert [(each.peer, each.matter) for each in found] == [
            (peer, Matter.DEFINITIONS) for peer in peers
        ]
