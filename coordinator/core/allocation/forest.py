"""The trees that the definitions make, and what follows from the definitions alone.

*Caps.* No group of a tree can have more than any group above it, so its limits are the least of its
own and theirs; a group without a limit of its own gets one from its parent.

*Entitlements.* A group is entitled to what it has when every group wants everything. At each inner
group the entitlements of the children add up to no more than its own. So whatever a broker may hold
unasked is a part of an entitlement: its arrival reserve (splitting.py), and an equal part when the
bus is silent (degradation.py). An inner group has no traffic of its own and is entitled to none.

Definitions come from a store that others write to, so a definition that makes no tree must not
break one: a parent that does not exist, cannot share its limit or would close a cycle is no parent,
nor is one below `MAX_DEPTH`. Its limit is a cap all the same, of each such group for itself: a group
without a limit of its own must not become unlimited because its parent became eager.

*Strict roots.* A root may be ``strict``: its limit then has books beside the tree
(escrow/tree_quota.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from coordinator.core.allocation.laws import JOINT_LAW
from coordinator.core.allocation.tree import (
    MAX_DEPTH,
    GroupNode,
    Limits,
    Want,
    least_limit,
    share_tree,
)
from coordinator.core.demand.observing import is_observed
from coordinator.core.model import (
    DIMENSIONS_OF,
    Dimension,
    MonitoringClass,
    Rates,
    ResourceGroup,
)

_UNBOUNDED = Want((None, None))

_BALANCED = ResourceGroup("any", Rates()).overshoot_policy
"""The default: the policy that makes room at every level (transfer/tree_room.py)."""

_STRICT = "strict"
"""The policy of a root that has books (escrow/tree_quota.py)."""


@dataclass(frozen=True, slots=True)
class Forest:
    """All trees of groups. A group without parent and children is in none.

    Args:
        roots: the tree of each class, by the name of its root.
        root_of: the root of every group of a tree.
        leaves_of: the leaves below every group of a tree; of a leaf, itself.
        above: the groups from a group up to its root, itself included.
        limits: of every group of a tree, as defined.
        entitled: what every group of a tree has when all want everything.
        strict: the roots whose limits have books.
    """

    roots: dict[str, dict[MonitoringClass, GroupNode]] = field(default_factory=dict)
    root_of: dict[str, str] = field(default_factory=dict)
    leaves_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    above: dict[str, tuple[str, ...]] = field(default_factory=dict)
    limits: dict[str, Rates] = field(default_factory=dict)
    entitled: dict[str, Rates] = field(default_factory=dict)
    strict: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.roots)

    def __contains__(self, group: str) -> bool:
        return group in self.root_of

    def is_inner(self, group: str) -> bool:
        """Return whether a group shares its limit among children."""
        return self.leaves_of.get(group, (group,)) != (group,)

    def kin(self, group: str) -> tuple[str, ...]:
        """Return the leaves that share a limit with a group, itself included; outside trees, itself."""
        root = self.root_of.get(group)
        return (group,) if root is None else self.leaves_of[root]

    def kin_of_all(self, groups: Collection[str]) -> set[str]:
        """Return the groups whose parts may change when the facts of these groups do."""
        if not self:
            return set(groups)
        kin = {each for group in groups for each in (group, *self.kin(group))}
        return kin | {root for group in groups if (root := self.strict_root(group)) is not None}

    def strict_root(self, group: str) -> str | None:
        """Return the root of a group's tree if that is strict; None otherwise, and outside trees."""
        root = self.root_of.get(group)
        return root if root in self.strict else None

    def leaves(self) -> Iterator[str]:
        """Yield the leaves of all trees."""
        for root in self.roots:
            yield from self.leaves_of[root]


def can_belong(group: ResourceGroup) -> bool:
    """Return whether a group's settings let it have a parent."""
    return group.law == JOINT_LAW and group.overshoot_policy == _BALANCED and not is_observed(group)


def can_share(group: ResourceGroup) -> bool:
    """Return whether a group's settings let it have children; a root may be strict."""
    may_be_strict = group.overshoot_policy == _STRICT and not group.parent
    return can_belong(replace(group, overshoot_policy=_BALANCED) if may_be_strict else group)


def parents(groups: Mapping[str, ResourceGroup]) -> dict[str, str]:
    """Return the parent of every group that has one, as far as they make trees."""
    claimed = {
        name: group.parent
        for name, group in groups.items()
        if group.parent in groups and can_belong(group) and can_share(groups[group.parent])
    }
    found = {}
    for name, parent in claimed.items():
        way = [name]
        while way[-1] in claimed and len(way) <= MAX_DEPTH:
            way.append(claimed[way[-1]])
        if len(way) <= MAX_DEPTH:  # longer ways are cycles, or too deep
            found[name] = parent
    return found


def resolve(groups: Iterable[ResourceGroup]) -> tuple[dict[str, ResourceGroup], Forest]:
    """Return the groups with what follows from their trees, and the trees."""
    found = {group.name: group for group in groups}
    if not any(group.parent for group in found.values()):
        return found, Forest()
    parent_of = parents(found)
    for name in [name for name, group in found.items() if group.parent and name not in parent_of]:
        found[name] = replace(found[name], limits=_capped(name, found))
    children: dict[str, list[str]] = {}
    for name in sorted(parent_of):
        children.setdefault(parent_of[name], []).append(name)
    forest = Forest()
    for root in sorted(children.keys() - parent_of.keys()):
        trees = {of: _node(root, of, found, children) for of in MonitoringClass}
        entitled: dict[str, dict[Dimension, int | None]] = {}
        for monitoring_class, tree in trees.items():
            parts = share_tree(tree, {leaf.name: _UNBOUNDED for leaf in tree.leaves()})
            trees[monitoring_class] = _kept(tree, parts)
            for name, part in parts.items():
                both = zip(DIMENSIONS_OF[monitoring_class], part, strict=True)
                entitled.setdefault(name, {}).update(both)
        forest.roots[root] = trees
        if found[root].overshoot_policy == _STRICT:
            forest.strict.add(root)
        _plant(trees[MonitoringClass.PUBLISH], (), Rates(), found, forest)
        for name, rates in entitled.items():
            forest.entitled[name] = Rates.from_mapping(rates)
            inner = name in children
            own = {dimension: 0 if inner and rate else rate for dimension, rate in rates.items()}
            found[name] = replace(found[name], entitled=Rates.from_mapping(own))
    return found, forest


def _capped(name: str, groups: Mapping[str, ResourceGroup]) -> Rates:
    """Return the least of a group's limits and those of the groups that it names above it."""
    caps = groups[name].limits
    for _ in range(MAX_DEPTH):
        name = groups[name].parent
        if name not in groups:
            break
        caps = _least(caps, groups[name].limits)
    return caps


def _least(one: Rates, other: Rates) -> Rates:
    return Rates.from_mapping(
        {each: least_limit(one.of(each), other.of(each)) for each in Dimension}
    )


def _node(
    name: str,
    monitoring_class: MonitoringClass,
    groups: Mapping[str, ResourceGroup],
    children: Mapping[str, list[str]],
) -> GroupNode:
    group = groups[name]
    messages, bytes_ = DIMENSIONS_OF[monitoring_class]
    return GroupNode(
        name,
        (group.limits.of(messages), group.limits.of(bytes_)),
        (group.guarantees.of(messages) or 0, group.guarantees.of(bytes_) or 0),
        group.weight,
        tuple(_node(each, monitoring_class, groups, children) for each in children.get(name, ())),
    )


def _kept(node: GroupNode, parts: Mapping[str, Limits]) -> GroupNode:
    """Return a tree whose guarantees can be kept, even if those of the definitions add up to more."""
    messages, bytes_ = parts[node.name]
    guarantees = (
        min(node.guarantees[0], messages or 0),
        min(node.guarantees[1], bytes_ or 0),
    )
    children = tuple(_kept(child, parts) for child in node.children)
    return replace(node, guarantees=guarantees, children=children)


def _plant(
    node: GroupNode,
    above: tuple[str, ...],
    caps: Rates,
    groups: dict[str, ResourceGroup],
    forest: Forest,
) -> None:
    """Note a group and all below it, and give them the caps of those above."""
    name, own = node.name, groups[node.name].limits
    forest.limits[name] = own
    forest.above[name] = (name, *above)
    forest.root_of[name] = forest.above[name][-1]
    forest.leaves_of[name] = tuple(leaf.name for leaf in node.leaves())
    caps = _least(caps, own)
    groups[name] = replace(groups[name], limits=caps)
    for child in node.children:
        _plant(child, forest.above[name], caps, groups, forest)
