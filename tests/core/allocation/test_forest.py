"""Definitions become trees: caps from above, entitlements, and nothing that a stranger can break."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.allocation.forest import Forest, parents, resolve
from coordinator.core.allocation.tree import MAX_DEPTH
from coordinator.core.model import Dimension, MonitoringClass, ResourceGroup
from tests.core.tree_groups import group


def published(found: ResourceGroup) -> tuple[int | None, int | None]:
    """Return the resolved limit of a group, and what it is entitled to."""
    entitled = None if found.entitled is None else found.entitled.publish_messages
    return found.limits.publish_messages, entitled


def test_groups_without_parents_stay_the_objects_that_they_are() -> None:
    """Nothing is derived, so nothing changes and nothing costs."""
    groups = [group("orders", 5), replace(group("web", 7), overshoot_policy="strict")]

    found, forest = resolve(groups)
    assert forest == Forest()
    assert not forest
    assert [found[each.name] is each for each in groups] == [True, True]
    assert (forest.kin("orders"), forest.is_inner("orders")) == (("orders",), False)
    assert forest.kin_of_all(["orders"]) == {"orders"}


def test_a_tree_hands_caps_and_entitlements_down() -> None:
    """A group without a limit has its parent's; what all have together is the root's limit."""
    found, forest = resolve(
        [
            group("shop", 1_000),
            group("orders", None, "shop", 600),
            group("web", 300, "shop"),
            group("night", 900, "web"),
            group("alone", 5),
        ]
    )

    assert {name: published(each) for name, each in found.items()} == {
        "shop": (1_000, 0),
        "orders": (1_000, 800),
        "web": (300, 0),
        "night": (300, 200),
        "alone": (5, None),
    }
    assert forest.leaves_of["shop"] == ("orders", "night")
    assert forest.above["night"] == ("night", "web", "shop")
    assert set(forest.kin("orders")) == {"orders", "night"}
    assert "alone" not in forest
    assert found["orders"].base_of(Dimension.PUBLISH_MESSAGES) == 800
    assert found["alone"].base_of(Dimension.PUBLISH_MESSAGES) == 5


@pytest.mark.parametrize(
    ("strange", "kept"),
    [
        ([group("a", 5, "gone")], {}),
        ([group("a", 5, "a")], {}),
        ([group("a", 5, "b"), group("b", 5, "a")], {}),
        ([group("a", 5, "b"), group("b", 5, "a"), group("c", 5, "b")], {}),
        ([replace(group("a", 5), overshoot_policy="eager"), group("b", 5, "a")], {}),
        ([group("a", 5), replace(group("b", 5, "a"), overshoot_policy="strict")], {}),
        ([group("a", 5), replace(group("b", 5, "a"), overshoot_policy="eager")], {}),
        ([group("a", 5), replace(group("b", 5, "a"), law="static")], {}),
        ([group("a", 5), replace(group("b", 5, "a"), enforcement="observe")], {}),
        ([group("a", 5), group("b", 5, "a"), group("c", 5, "gone")], {"b": "a"}),
    ],
)
def test_a_parent_that_makes_no_tree_is_no_parent(
    strange: list[ResourceGroup], kept: dict[str, str]
) -> None:
    """Other tools write to the store, too; such a group keeps its own limit, and others their trees."""
    found, _ = resolve(strange)

    assert parents({each.name: each for each in strange}) == kept
    assert {name for name, each in found.items() if each.entitled is not None} == {
        *kept,
        *kept.values(),
    }
    assert all(each.limits.publish_messages == 5 for each in found.values())


def test_what_is_below_the_deepest_level_is_in_no_tree() -> None:
    """A chain of a thousand is as deep as any other."""
    chain = [group("g0", 9), *(group(f"g{i}", 9, f"g{i - 1}") for i in range(1, 1_000))]

    found, forest = resolve(chain)
    assert len(forest.root_of) == MAX_DEPTH
    assert published(found[f"g{MAX_DEPTH}"]) == (9, None)


def test_guarantees_that_cannot_be_kept_are_cut() -> None:
    """Two admins may promise too much together; no group is entitled to more than there is."""
    found, forest = resolve(
        [group("shop", 100), group("a", None, "shop", 80), group("b", None, "shop", 80)]
    )

    assert published(found["a"])[1] == published(found["b"])[1] == 50
    root = forest.roots["shop"][MonitoringClass.PUBLISH]
    assert [child.guarantees[0] for child in root.children] == [50, 50]


def test_a_parent_that_makes_no_tree_is_a_cap_all_the_same() -> None:
    """A group without a limit of its own does not become unlimited when its parent becomes eager."""
    eager = replace(group("shop", 100), overshoot_policy="eager")
    found, forest = resolve([eager, group("web", None, "shop"), group("mail", 7, "web")])

    assert forest.root_of == {"web": "web", "mail": "web"}
    assert {name: published(each) for name, each in found.items()} == {
        "shop": (100, None),
        "web": (100, 0),
        "mail": (7, 7),
    }
    circle, _ = resolve([group("a", None, "b"), group("b", 9, "a")])
    assert {published(each) for each in circle.values()} == {(9, None)}


def test_a_root_may_be_strict_and_is_among_the_kin_of_its_leaves() -> None:
    """Its books follow from the facts of the leaves; no group below it may be strict."""
    strict = replace(group("shop", 100), overshoot_policy="strict")
    _, forest = resolve(
        [strict, group("web", None, "shop"), group("toys", 9), group("mail", 7, "toys")]
    )

    assert forest.strict == {"shop"}
    assert forest.kin_of_all({"web"}) == {"web", "shop"}
    assert forest.kin_of_all({"shop"}) == {"web", "shop"}
    assert forest.kin_of_all({"mail"}) == {"mail"}
    _, none = resolve([strict, replace(group("web", None, "shop"), overshoot_policy="strict")])
    assert not none
