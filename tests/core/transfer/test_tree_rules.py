"""A definition that makes no tree or promises more than there is, is refused by the field's name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.model import Attachments, Rates, ResourceGroup
from coordinator.core.transfer.tree_rules import TreeFault, check_tree, children_of
from tests.core.tree_groups import group

NOTHING = Attachments()


def by_name(*groups: ResourceGroup) -> dict[str, ResourceGroup]:
    """Return groups by name."""
    return {each.name: each for each in groups}


SHOP = by_name(
    group("shop", 1_000),
    group("orders", parent="shop", guarantee=600),
    group("web", 500, parent="shop", guarantee=300),
)


def fault(changed: ResourceGroup, groups: dict[str, ResourceGroup] = SHOP) -> str:
    """Return why a definition is refused."""
    with pytest.raises(TreeFault) as refused:
        check_tree(changed, groups, NOTHING)
    return str(refused.value)


def test_groups_alone_and_trees_that_can_be_kept_are_fine() -> None:
    """Guarantees may add up to all of the parent's limit."""
    check_tree(group("other", 5), SHOP, NOTHING)
    check_tree(replace(group("other", 5), overshoot_policy="strict"), SHOP, NOTHING)
    for each in SHOP.values():
        check_tree(each, SHOP, NOTHING)
    check_tree(group("batch", parent="shop", guarantee=100), SHOP, NOTHING)


def test_guarantees_above_the_parents_limit_are_refused_with_the_sum() -> None:
    """A parent cannot be lowered below its promises, either."""
    text = (
        "publishGuaranteeInMsgs: the guarantees below shop would add up to 1,001 (orders 600, "
        "web 300, batch 101), and it may have 1,000"
    )
    assert fault(group("batch", parent="shop", guarantee=101)) == text
    assert "would add up to 900 (orders 600, web 300), and it may have 899" in fault(
        group("shop", 899)
    )


def test_a_guarantee_counts_at_every_level_above() -> None:
    """A group without one is guaranteed what its children are."""
    tree = by_name(*SHOP.values(), group("batch", parent="shop"))

    check_tree(group("night", parent="batch", guarantee=100), tree, NOTHING)
    refused = fault(group("night", parent="batch", guarantee=101), tree)
    assert "below shop would add up to 1,001 (orders 600, web 300, batch 101)" in refused


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (group("web", 500, "shop", 501), "501 is more than web may have, which is 500"),
        (group("web", None, "shop", 1_001), "1,001 is more than web may have, which is 1,000"),
        (
            replace(group("web", parent="shop"), guarantees=Rates(dispatch_bytes=1)),
            "dispatchGuaranteeInBytes: neither web nor a group above it limits that",
        ),
        (group("web", 500, "", 1), "publishGuaranteeInMsgs: is a part of a parent's limit"),
        (replace(group("web", 500), weight=2), "weight: counts among the children of a parent"),
        (replace(group("web", 500, "shop"), weight=0), "weight: must be from 1 to 1000, but is 0"),
        (replace(group("web", 500, "shop"), weight=1_001), "weight: must be from 1 to 1000"),
        (group("web", 500, "gone"), "parent: there is no resource group gone; create it first"),
        (group("web", 500, "web"), "parent: no group can be above itself: web -> web"),
        (group("shop", 1_000, "web"), "parent: no group can be above itself: shop -> web -> shop"),
        (
            replace(group("web", 5, "shop"), overshoot_policy="strict"),
            "overshootPolicy: strict is for the root",
        ),
        (replace(group("shop", 1_000), overshoot_policy="eager"), "overshootPolicy: eager is not"),
        (replace(group("web", 5, "shop"), law="static"), "law: static is not possible"),
        (replace(group("web", 5, "shop"), enforcement="observe"), "enforcement: a group that"),
    ],
)
def test_what_makes_no_tree_is_refused_by_name(changed: ResourceGroup, reason: str) -> None:
    """The text begins with the field, and says what is wrong."""
    assert reason in fault(changed)


def test_a_parent_must_be_able_to_share_and_have_no_traffic_of_its_own() -> None:
    """The text names the parent, and what belongs to it."""
    eager = by_name(replace(group("shop", 1_000), overshoot_policy="eager"))
    assert fault(group("web", parent="shop"), eager).startswith("parent: shop cannot share its")
    strict = replace(group("shop", 1_000), overshoot_policy="strict")
    check_tree(group("web", parent="shop"), by_name(strict), NOTHING)
    below = by_name(group("top", 2_000), replace(strict, parent="top"))
    assert fault(group("web", parent="shop"), below).startswith("parent: shop cannot share its")

    attached = Attachments({"alice": "shop"}, {"bob/jobs": "shop"})
    with pytest.raises(TreeFault, match="alice and 1 more belong to shop, and a group that shares"):
        check_tree(group("batch", parent="shop"), SHOP, attached)
    check_tree(group("batch", parent="shop"), SHOP, Attachments({"alice": "orders"}))


def test_a_tree_has_at_most_eight_levels() -> None:
    """Counted from the root to the lowest group, also if a whole tree is put below another group."""
    chain = by_name(group("g1", 9), *(group(f"g{i}", parent=f"g{i - 1}") for i in range(2, 9)))

    check_tree(chain["g8"], chain, NOTHING)
    assert "more than 8 levels" in fault(group("g9", parent="g8"), chain)
    assert "more than 8 levels" in fault(
        group("g1", 9, parent="top"), chain | by_name(group("top"))
    )


def test_definitions_that_others_wrote_into_the_store_are_no_endless_way() -> None:
    """Circles and chains of a thousand groups below a sibling, which no check has let in."""
    chain = [group(f"g{i}", parent=f"g{i - 1}", guarantee=1) for i in range(1, 3_000)]
    strange = by_name(group("g0", 9), *chain, group("a", parent="b"), group("b", parent="a"))

    check_tree(group("other", parent="g0"), strange, NOTHING)
    assert "more than 8 levels" in fault(group("low", parent="g2999"), strange)
    assert "no group can be above itself" in fault(group("c", parent="a"), strange)


def test_the_children_of_a_group_are_those_that_name_it() -> None:
    """Sorted by name."""
    assert children_of("shop", SHOP.values()) == ("orders", "web")
    assert children_of("web", SHOP.values()) == ()
