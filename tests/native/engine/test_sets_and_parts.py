"""Native groups follow from sets of groups, and their parts exceed no group's limit."""

from __future__ import annotations

from random import Random

from coordinator.core.model import Attachments
from coordinator.native.engine.parts import split
from coordinator.native.engine.sets import (
    Homes,
    name_of,
    sets_of,
    sets_of_remotes,
    sets_of_subscriptions,
)

SEED = 22


def test_a_namespace_counts_against_all_its_groups() -> None:
    """Its own, its tenant's and the cluster's; Pulsar's own against none, nor one of the old form."""
    attachments = Attachments({"acme": "gold"}, {"acme/a": "a", "other/x": "a"})
    found = sets_of(attachments, ["acme/a", "acme/b", "free/y", "pulsar/system", "acme/c/d"], "all")

    assert found == {
        "acme/a": ("a", "gold", "all"),
        "acme/b": ("gold", "all"),
        "free/y": ("all",),
        "other/x": ("a", "all"),
    }


def test_a_namespace_that_counts_against_no_group_is_detached() -> None:
    """None is before the attachments are known, nor any where all traffic counts against a group."""
    attachments = Attachments({"acme": "gold"}, {"other/x": "a", "gone/z": "a"})
    existing = ["acme/b", "free/y", "other/x", "other/y", "pulsar/system", "free/c/d"]
    homes = Homes("")
    assert homes.detached(existing) is None

    homes.set_attachments(attachments)
    assert homes.detached(existing) == frozenset({"free/y", "other/y"})

    everything = Homes("all")
    everything.set_attachments(attachments)
    assert everything.detached(existing) == frozenset()


def test_a_subscription_counts_against_its_group() -> None:
    """Once, if its namespace, its tenant or the cluster does, too; and one without rates not at all."""
    attachments = Attachments(
        {"acme": "tenant"},
        {"acme/a": "own"},
        subscriptions={
            "persistent/acme/a/t/s": "audit",
            "persistent/acme/a/t/r": "own",
            "persistent/acme/b/t/s": "tenant",
            "persistent/free/b/t/s": "all",
            "non-persistent/acme/a/t/s": "audit",
        },
    )
    assert sets_of_subscriptions(attachments, "all") == {"persistent/acme/a/t/s": ("audit",)}


def test_replication_to_a_remote_cluster_counts_against_its_group_alone() -> None:
    """Under a name that no namespace can have."""
    attachments = Attachments(clusters={"west": "wan", "east": "wan"})
    assert sets_of_remotes(attachments) == {"-->east": ("wan",), "-->west": ("wan",)}


def test_one_group_keeps_its_name_and_many_fit_into_one() -> None:
    """Pulsar's tools show a group that stands alone as they always did."""
    assert name_of(("gold",)) == "gold"
    assert name_of(("a", "gold")) == "all-of=a=gold"
    assert len(name_of(("a" * 250, "b" * 250))) < 100


def test_no_two_sets_have_the_same_name() -> None:
    """Names of groups may have the sign in them that joins names, and begin as the name of a set does."""
    sets = [
        ("a", "b", "c"),
        ("a=b", "c"),
        ("a", "b=c"),
        ("all-of=a=b=c",),
        ("all-of=a", "b", "c"),
        ("a" * 150, "b" * 100),
        ("a" * 150 + "=b", "b" * 98),
    ]
    assert len(set(map(name_of, sets))) == len(sets)


def test_a_set_alone_has_the_whole_limit() -> None:
    """Its demand does not matter: the surplus is headroom."""
    part = split({"g": 100}, {("g",): 3})[("g",)]
    assert part is not None
    assert part.rate == 100


def test_who_wants_less_leaves_the_rest_to_others() -> None:
    """The part names the limit that binds."""
    parts = split({"t": 100, "a": 30}, {("a", "t"): None, ("t",): None})
    assert parts == {("a", "t"): (30, "a"), ("t",): (70, "t")}


def test_what_is_not_limited_has_no_part() -> None:
    """An unlimited group does not bind another one."""
    assert split({}, {("g",): None}) == {("g",): None}
    part = split({"t": 5}, {("g", "t"): None})[("g", "t")]
    assert part == (5, "t")


def test_no_limit_is_exceeded_and_none_is_wasted() -> None:
    """A thousand random instances: every set is bound by a group that is used up."""
    random = Random(SEED)
    for _ in range(1_000):
        names = [f"g{number}" for number in range(random.randint(1, 5))]
        limits = {name: random.choice([0, 1, 7, 1_000, 10**9]) for name in names}
        sets = {tuple(random.sample(names, random.randint(1, len(names)))) for _ in range(6)}
        wants = {groups: random.choice([None, 0, 5, 10**6]) for groups in sets}
        parts = split(limits, wants)
        for name in names:
            users = [part.rate for groups, part in parts.items() if part and name in groups]
            assert sum(users) <= limits[name], f"seed {SEED}"
        for groups, part in parts.items():
            assert part is not None
            used = sum(p.rate for g, p in parts.items() if p and part.binding in g)
            sharers = sum(part.binding in g for g in parts)
            assert limits[part.binding] - used < sharers, f"seed {SEED}: {groups} could have more"
