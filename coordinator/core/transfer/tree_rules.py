"""The rules of a definition in a tree of groups, and why a definition that breaks one is refused.

The law of a tree can keep every guarantee only if those below a group add up to no more than it may
have itself (allocation/tree.py), and room is made at every level only under one policy (tree_room.py);
the limit of a root may have books in addition (escrow/tree_quota.py). So a definition is checked
against those of the other groups before it is written.

Two writers can still break a rule together, each within it; a store can be written by other tools, too.
The core therefore relies on none of this: it cuts guarantees to what can be kept, and leaves a group
whose parent makes no tree alone (allocation/forest.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from coordinator.core.allocation.forest import can_share
from coordinator.core.allocation.laws import JOINT_LAW
from coordinator.core.allocation.tree import MAX_DEPTH, least_limit
from coordinator.core.demand.observing import ENFORCE, is_observed
from coordinator.core.handling import HOLD
from coordinator.core.model import Attachments, Dimension, ResourceGroup
from coordinator.core.owners import uses_of
from coordinator.core.transfer.policies import BALANCED, STRICT

MAX_WEIGHT: Final = 1_000
"""The largest weight of a group beside its siblings."""

GUARANTEE_FIELDS: Final[Mapping[Dimension, str]] = {
    dimension: dimension.value.replace("Rate", "Guarantee") for dimension in Dimension
}
"""The names of the guarantees outside, by dimension."""

_SIBLINGS_TOLD: Final = 10


class TreeFault(ValueError):
    """A definition breaks a rule of trees; the text names the field and the fix."""


def check_tree(
    changed: ResourceGroup, groups: Mapping[str, ResourceGroup], attachments: Attachments
) -> None:
    """Check a definition before it is written.

    Args:
        changed: the definition.
        groups: all others as defined; one of the same name is replaced.
        attachments: those of all groups.

    Raises:
        TreeFault: it breaks a rule.
    """
    if not 1 <= changed.weight <= MAX_WEIGHT:
        raise TreeFault(f"weight: must be from 1 to {MAX_WEIGHT}, but is {changed.weight}")
    if not changed.parent:
        _check_alone(changed)
    below = _children({**groups, changed.name: changed})
    if not changed.parent and changed.name not in below:
        return
    _check_settings(changed)
    if changed.name in below:
        _check_handling(changed)
        _check_whole(changed)
    way = _way_up(changed, groups)
    if changed.parent:
        _check_parent(groups[changed.parent], attachments)
        _check_handling(groups[changed.parent])
        _check_whole(groups[changed.parent])
    if len(way) - 1 + _height(changed.name, below) > MAX_DEPTH:
        raise _too_deep(changed)
    for dimension in Dimension:
        _check_guarantees(changed, way, below, dimension)


def children_of(name: str, groups: Iterable[ResourceGroup]) -> tuple[str, ...]:
    """Return the groups that share a group's limit, sorted."""
    return tuple(sorted(each.name for each in groups if each.parent == name))


def _children(groups: Mapping[str, ResourceGroup]) -> dict[str, list[ResourceGroup]]:
    below: dict[str, list[ResourceGroup]] = {}
    for group in groups.values():
        if group.parent:
            below.setdefault(group.parent, []).append(group)
    return below


def _check_alone(group: ResourceGroup) -> None:
    for dimension, field in GUARANTEE_FIELDS.items():
        if group.guarantees.of(dimension):
            raise TreeFault(
                f"{field}: is a part of a parent's limit; name the parent, or send 0 for none"
            )
    if group.weight != 1:
        raise TreeFault("weight: counts among the children of a parent; name the parent, or send 1")


def _check_settings(group: ResourceGroup) -> None:
    """Refuse settings that a tree cannot keep."""
    if group.parent and group.overshoot_policy == STRICT:
        raise TreeFault(
            f"overshootPolicy: {STRICT} is for the root of a tree, whose limit then holds for all groups "
            f"below it; use {BALANCED} here"
        )
    if group.overshoot_policy not in (BALANCED, STRICT):
        raise TreeFault(
            f"overshootPolicy: {group.overshoot_policy} is not possible in a tree of groups, where room "
            f"is made at every level before a limit is raised; use {BALANCED}, or {STRICT} at the root"
        )
    if group.law != JOINT_LAW:
        raise TreeFault(
            f"law: {group.law} is not possible in a tree of groups, which shares every limit by "
            f"{JOINT_LAW}; use {JOINT_LAW}"
        )
    if is_observed(group):
        raise TreeFault(
            "enforcement: a group that holds nothing back cannot be in a tree of groups, for its traffic "
            f"would take from the others; use {ENFORCE}"
        )


def _check_handling(parent: ResourceGroup) -> None:
    """Refuse settings of traffic on a group that has none of its own."""
    if parent.burst_seconds:
        raise TreeFault(
            f"burstSeconds: {parent.name} shares its limit and has no traffic of its own that could save "
            "up credit; send 0, and set it on its children"
        )
    if parent.on_limit != HOLD:
        raise TreeFault(
            f"onLimit: {parent.name} shares its limit and has no publishes of its own that could be "
            f"refused; send {HOLD}, and set it on its children"
        )


def _check_whole(parent: ResourceGroup) -> None:
    for dimension, _ in parent.fractions:
        raise TreeFault(
            f"{dimension.value}: {parent.name} shares its limit in whole numbers; use a whole limit"
        )


def _check_parent(parent: ResourceGroup, attachments: Attachments) -> None:
    if not can_share(parent):
        raise TreeFault(
            f"parent: {parent.name} cannot share its limit; give it overshootPolicy {BALANCED}, or "
            f"{STRICT} if it has no parent, law {JOINT_LAW} and enforcement {ENFORCE} first"
        )
    if uses := uses_of(attachments, parent.name):
        more = f" and {len(uses) - 1} more" if len(uses) > 1 else ""
        raise TreeFault(
            f"parent: {uses[0]}{more} belong to {parent.name}, and a group that shares its limit has no "
            "traffic of its own; attach them to its children instead"
        )


def _way_up(changed: ResourceGroup, groups: Mapping[str, ResourceGroup]) -> list[ResourceGroup]:
    """Return the groups from this one up to its root."""
    way = [changed]
    while way[-1].parent:
        above = way[-1].parent
        if len(way) >= MAX_DEPTH:
            raise _too_deep(changed)
        if above in {each.name for each in way}:
            names = " -> ".join([*(each.name for each in way), above])
            raise TreeFault(f"parent: no group can be above itself: {names}")
        if above not in groups:
            raise TreeFault(f"parent: there is no resource group {above}; create it first")
        way.append(groups[above])
    return way


def _too_deep(group: ResourceGroup) -> TreeFault:
    return TreeFault(f"parent: {group.name} would be in a tree of more than {MAX_DEPTH} levels")


def _height(name: str, below: Mapping[str, list[ResourceGroup]]) -> int:
    """Return the number of levels from a group down, itself counted."""
    levels, names = 0, [name]
    while names and levels <= MAX_DEPTH:
        levels += 1
        names = [child.name for each in names for child in below.get(each, ())]
    return levels


def _check_guarantees(
    changed: ResourceGroup,
    way: list[ResourceGroup],
    below: Mapping[str, list[ResourceGroup]],
    dimension: Dimension,
) -> None:
    field, own = GUARANTEE_FIELDS[dimension], changed.guarantees.of(dimension) or 0
    caps = list(_caps(way, dimension))
    cap = caps[0]
    if own and cap is None:
        raise TreeFault(f"{field}: neither {changed.name} nor a group above it limits that; send 0")
    if cap is not None and own > cap:
        raise TreeFault(f"{field}: {own:,} is more than {changed.name} may have, which is {cap:,}")
    for group, most in zip(way, caps, strict=True):
        guaranteed = {
            child.name: _guaranteed(child, below, dimension) for child in below.get(group.name, ())
        }
        whole = sum(guaranteed.values())
        if most is not None and whole > most:
            named = sorted(guaranteed.items(), key=lambda each: (-each[1], each[0]))
            told = ", ".join(f"{name} {rate:,}" for name, rate in named[:_SIBLINGS_TOLD] if rate)
            raise TreeFault(
                f"{field}: the guarantees below {group.name} would add up to {whole:,} ({told}), and it "
                f"may have {most:,}"
            )


def _caps(way: list[ResourceGroup], dimension: Dimension) -> Iterator[int | None]:
    """Yield the most that each group of a way up may have: the least limit from it up."""
    for number in range(len(way)):
        cap = None
        for group in way[number:]:
            cap = least_limit(cap, group.limits.of(dimension))
        yield cap


def _guaranteed(
    group: ResourceGroup,
    below: Mapping[str, list[ResourceGroup]],
    dimension: Dimension,
    levels: int = MAX_DEPTH,
) -> int:
    """Return what a group is guaranteed: no less than its children together."""
    children = below.get(group.name, ()) if levels else ()
    total = sum(_guaranteed(child, below, dimension, levels - 1) for child in children)
    return max(group.guarantees.of(dimension) or 0, total)
