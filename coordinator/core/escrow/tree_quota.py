"""The quota of a tree whose root is strict: the root holds whatever is lost, late or cut off.

The groups of such a tree share the root's limit by the law (allocation/tree.py), and each is raised under
``balanced`` (tree_room.py), like those of any tree. In addition, the root has books (escrow/books.py): a
broker's *quota* of the root is its holding of the root's limit.

* *Bound.* Whatever the law and the raises allow, a broker's limits of all leaves together are at most
  its quota. The quotas of all brokers add up to at most the root's limit, so the limits in force of all
  leaves at all brokers do, too. The proof of books.py carries over as it stands: it asks nothing of the
  leaves, so brokers may know different trees.
* *Transfers.* A broker's target of the root is the sum of its targets in the leaves, which follow from
  demand and guarantees alone. A broker above it gives in the decision in which it lowers its leaves, so
  the quota follows a claim in the same reports as the room of ``balanced``, and not the use that comes
  after. A transfer within one broker needs no report.
* *Shortage.* Until the transfers have arrived the quota may be less than the targets. Then it is shared
  by the law as well, with guarantees in proportion: of a leaf that has a tenth of its part at this
  broker, a tenth of the guarantee comes first here.

Inner groups and leaves are as sure as in any tree. Only the root has books: quota moves between brokers,
never between groups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from coordinator.core.allocation.forest import Forest
from coordinator.core.allocation.parts import Parts
from coordinator.core.allocation.splits import Splits
from coordinator.core.allocation.tree import GroupNode, Limits, Want, share_tree
from coordinator.core.escrow.books import limit_of
from coordinator.core.escrow.quota import Quotas
from coordinator.core.model import Dimension, LimitKey, Rates, ResourceGroup, Unit

_UNIT = {Unit.MESSAGES: 0, Unit.BYTES: 1}


@dataclass(frozen=True, slots=True)
class TreeFacts:
    """The input of all quotas at one moment.

    Args:
        groups: all definitions, resolved.
        forest: the trees.
        splits: what the law gives each broker of each leaf.
        parts: what each group of a tree has.
        in_force: this broker's limits.
        members: all live brokers.
        now_ns: the time.
        active: this broker knows what the others know, and may give.
        lost: ZooKeeper ended the session.
    """

    groups: Mapping[str, ResourceGroup]
    forest: Forest
    splits: Splits
    parts: Parts
    in_force: Mapping[str, Rates]
    members: Collection[str]
    now_ns: int
    active: bool
    lost: bool


class TreeQuotas:
    """Keep this broker's quotas of all strict roots.

    Args:
        broker: this one.
        quotas: by the books.
    """

    def __init__(self, broker: str, quotas: Quotas) -> None:
        self._broker = broker
        self._quotas = quotas
        #: The latest quota of every root and dimension, per second.
        self.rates: dict[LimitKey, int] = {}

    def keep(self, roots: Collection[str]) -> None:
        """Forget the quotas of all but these roots: they are gone, or not strict any more."""
        self.rates = {place: rate for place, rate in self.rates.items() if place[0] in roots}

    def share(self, root: str, facts: TreeFacts) -> dict[LimitKey, int]:
        """Give what is above the target of a root; return the most that each leaf may have here."""
        shares: dict[LimitKey, int] = {}
        leaves = facts.forest.leaves_of[root]
        for dimension in Dimension:
            limit = facts.groups[root].limits.of(dimension)
            if limit is None:
                self.rates.pop((root, dimension), None)
                continue
            wants = {leaf: facts.in_force.get(leaf, Rates()).of(dimension) or 0 for leaf in leaves}
            quota = self._quotas.read(
                root,
                dimension,
                limit,
                sum(wants.values()),
                facts.members,
                facts.now_ns,
                lost=facts.lost,
            )
            rate = quota.rate
            if facts.active and quota.cause is None:
                splits = {leaf: facts.splits.of(facts.groups[leaf], dimension) for leaf in leaves}
                targets = {
                    broker: sum(each.target_of(broker) for each in splits.values())
                    for broker in quota.holdings
                }
                rate = limit_of(self._quotas.give(root, dimension, limit, quota, targets), limit)
                wants = {leaf: each.target_of(self._broker) for leaf, each in splits.items()}
            self.rates[root, dimension] = rate
            of = dimension.monitoring_class
            node, parts = facts.forest.roots[root][of], facts.parts.parts(root, of)
            for leaf, share in shares_of_quota(node, dimension, rate, wants, parts).items():
                shares[leaf, dimension] = share
        return shares


def shares_of_quota(
    root: GroupNode,
    dimension: Dimension,
    quota: int,
    wants: Mapping[str, int],
    parts: Mapping[str, Limits],
) -> dict[str, int]:
    """Return the most that each leaf may have of a broker's quota; all of them add up to no more.

    Args:
        root: the tree.
        dimension: one that the root limits.
        quota: the broker's quota of the root, per second.
        wants: what each leaf is to have at this broker, per second.
        parts: what each group has at all brokers together, per second.
    """
    here = _at_broker(root, _UNIT[dimension.unit], wants, parts)
    here = GroupNode(here.name, (quota, None), here.guarantees, here.weight, here.children)
    shared = share_tree(here, {leaf: Want((rate, None)) for leaf, rate in wants.items()})
    return {leaf: shared[leaf][0] or 0 for leaf in wants}


def _at_broker(
    node: GroupNode, unit: int, wants: Mapping[str, int], parts: Mapping[str, Limits]
) -> GroupNode:
    """Return a group as it is at one broker: one unit of it, and its guarantee in proportion."""
    children = tuple(_at_broker(child, unit, wants, parts) for child in node.children)
    wanted = sum(wants[leaf.name] for leaf in node.leaves())
    part = parts[node.name][unit] or 0
    guarantee = min(wanted, node.guarantees[unit] * wanted // part) if part else 0
    return GroupNode(node.name, (node.limits[unit], None), (guarantee, 0), node.weight, children)
