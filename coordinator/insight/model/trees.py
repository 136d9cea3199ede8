"""Trees of groups as they stand: what each group has, is guaranteed, lends and borrows.

A group *borrows* what it uses beyond what it would have if all groups of its tree wanted everything: any
of them gets that back by its demand alone, in the same two rounds as any other change of demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from coordinator.core.allocation.tree import GroupNode
from coordinator.core.answer import Limit, answer
from coordinator.core.model import Dimension, Unit
from coordinator.core.state import CoordinatorState

_CHILDREN_TOLD = 5


@answer
class TreeGroupView:
    """One group of a tree."""

    group: str
    parent: str
    """empty for the root"""
    level: int
    """0 for the root"""
    weight: int
    """how many times it counts in what guarantees leave"""
    limit: Limit
    """the most that it may have: the least of its own limit and those above, per second"""
    guarantee: int
    """what it gets before others get more than theirs, per second"""
    part: Limit
    """what it has now, per second; its local limits follow within two rounds"""
    entitled: Limit
    """what it would have if all groups of the tree wanted everything, per second"""
    wants: int | None
    """the demand of its brokers together, per second; null = more than can be known"""
    admitted: int
    """by all brokers, per second"""
    borrowed: int
    """what it uses beyond that which it is entitled to, per second"""


@answer
class TreeView:
    """A tree of groups in one dimension, from the root down, children by name."""

    root: str
    dimension: Dimension
    groups: tuple[TreeGroupView, ...]


def roots(state: CoordinatorState) -> tuple[str, ...]:
    """Return the names of the groups that have children and no parent, sorted."""
    return tuple(sorted(state.decider.forest.roots))


def tree_view(state: CoordinatorState, name: str, dimension: Dimension) -> TreeView | None:
    """Return the tree that a group belongs to; None if it belongs to none."""
    forest = state.decider.forest
    if name not in forest:
        return None
    root = forest.roots[forest.root_of[name]][dimension.monitoring_class]
    todo, rows = [root], []
    while todo:
        node = todo.pop()
        rows.append(_row(state, node, dimension))
        todo += reversed(node.children)
    return TreeView(root.name, dimension, tuple(rows))


def tree_sentence(state: CoordinatorState, name: str, dimension: Dimension) -> str:
    """Return the place of a group in its tree, and what it lends or borrows; empty outside trees."""
    group, forest = (state.groups or {})[name], state.decider.forest
    if group.parent and len(forest.above.get(name, ())) <= 1:
        return f"Its parent {group.parent} does not count: see groups tree."
    if name not in forest:
        return ""
    nodes = {node.name: node for node in _way(state, name, dimension)}
    if children := [child.name for child in nodes[name].children]:
        said = _sharing(_row(state, nodes[name], dimension), children)
        if state.usage.rows(name, dimension.monitoring_class):
            said += " What belongs to it itself gets nothing: attach that to one of them."
    else:
        said = _lending(*(_row(state, nodes[each], dimension) for each in (name, group.parent)))
    return " ".join(filter(None, (said, _quota(state, name, dimension))))


def _quota(state: CoordinatorState, name: str, dimension: Dimension) -> str:
    """Return this broker's quota of the root of a group's tree; empty unless that is strict."""
    root = state.decider.forest.root_of[name]
    rate = state.decider.tree_quotas.rates.get((root, dimension))
    if rate is None:
        return ""
    return (
        f"This broker's quota of {root}, which is strict, is {rate:,}/s: its limits of all groups below "
        f"{root} add up to no more."
    )


def _way(state: CoordinatorState, name: str, dimension: Dimension) -> Iterator[GroupNode]:
    """Yield the nodes from the root down to a group."""
    forest = state.decider.forest
    *above, root = forest.above[name]
    node = forest.roots[root][dimension.monitoring_class]
    yield node
    for below in reversed(above):
        node = next(child for child in node.children if child.name == below)
        yield node


def _sharing(own: TreeGroupView, children: list[str]) -> str:
    if own.part is None:
        return ""
    named = names_of(children)
    return f"{own.group} has no traffic of its own: its {own.part:,}/s are shared among {named}."


def names_of(children: Sequence[str]) -> str:
    """Return the names of the first of some children, and how many more there are."""
    more = len(children) - _CHILDREN_TOLD
    return ", ".join(children[:_CHILDREN_TOLD]) + (f" and {more} more" if more > 0 else "")


def _lending(own: TreeGroupView, above: TreeGroupView) -> str:
    if own.part is None or above.part is None:
        return ""
    said = (
        f"{own.group} has {own.part:,}/s of the {above.part:,}/s of {above.group} now; it is "
        f"guaranteed {own.guarantee:,}/s, and would have {own.entitled:,}/s if all groups wanted "
        "everything."
    )
    if own.borrowed:
        return f"{said} {own.borrowed:,}/s are borrowed of {above.group}, claimable at once."
    lent = max(0, (own.entitled or 0) - own.part)
    return f"{said} It lends {lent:,}/s, and gets it back as it wants it." if lent else said


def _row(state: CoordinatorState, node: GroupNode, dimension: Dimension) -> TreeGroupView:
    forest, groups = state.decider.forest, state.groups or {}
    name, unit = node.name, 0 if dimension.unit is Unit.MESSAGES else 1
    parts = state.decider.parts_now(groups, state.members, state.usage)
    part = parts.parts(name, dimension.monitoring_class)[name][unit]
    above, due = forest.above[name], forest.entitled[name].of(dimension)
    wants, admitted = _traffic(state, forest.leaves_of[name], dimension)
    used = admitted if part is None else min(admitted, part)
    return TreeGroupView(
        group=name,
        parent=above[1] if len(above) > 1 else "",
        level=len(above) - 1,
        weight=node.weight,
        limit=groups[name].limits.of(dimension),
        guarantee=node.guarantees[unit],
        part=part,
        entitled=due,
        wants=wants,
        admitted=admitted,
        borrowed=0 if due is None or len(above) == 1 else max(0, used - due),
    )


def _traffic(
    state: CoordinatorState, leaves: Iterable[str], dimension: Dimension
) -> tuple[int | None, int]:
    """Return the demand and the admitted rate of some leaves together."""
    wants: int | None = 0
    admitted = 0
    for leaf in leaves:
        for row in state.usage.rows(leaf, dimension.monitoring_class).values():
            demand = row.usage.demand_of(dimension.unit)
            wants = None if wants is None or demand is None else wants + demand
            admitted += row.rate_of(dimension)
    return wants, admitted
