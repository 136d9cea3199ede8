"""The parts that the leaves of trees have at one moment, from the reports of all brokers.

The demand of a leaf is the sum of the claims of all members: the demand of those that take part, as
they report it, and the reserves of all others. A leaf of which a broker is throttled wants as much
as it may have. Every sidecar has all reports, so equal views give equal parts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordinator.core.allocation.forest import Forest
from coordinator.core.allocation.splitting import reserve_in
from coordinator.core.allocation.tree import Limits, Want, share_tree
from coordinator.core.model import (
    DIMENSIONS_OF,
    MonitoringClass,
    Rates,
    ResourceGroup,
    TrafficKey,
    Unit,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.map import UsageMap
from coordinator.core.usage.rows import UsageRow


class Parts:
    """The parts of all groups of trees, from facts that stay the same during its lifetime.

    Args:
        forest: the trees.
        groups: all definitions, resolved.
        members: all live brokers.
        usage: their reports.
        settings: the reserve.
    """

    def __init__(
        self,
        forest: Forest,
        groups: Mapping[str, ResourceGroup],
        members: Collection[str],
        usage: UsageMap,
        settings: CoreSettings,
    ) -> None:
        self.forest = forest
        self._groups = groups
        self._members = members
        self._usage = usage
        self._settings = settings
        self._made: dict[TrafficKey, dict[str, Limits]] = {}

    def of(self, group: ResourceGroup, monitoring_class: MonitoringClass) -> ResourceGroup:
        """Return a group of a tree with its part as its limits; an inner group has none for itself."""
        messages, bytes_ = DIMENSIONS_OF[monitoring_class]
        part = self.parts(group.name, monitoring_class)[group.name]
        if self.forest.is_inner(group.name):
            part = (part[0] and 0, part[1] and 0)
        return replace(group, limits=Rates.from_mapping({messages: part[0], bytes_: part[1]}))

    def parts(self, name: str, monitoring_class: MonitoringClass) -> Mapping[str, Limits]:
        """Return the parts of all groups of the tree that a group belongs to."""
        root = self.forest.root_of[name]
        made = self._made.get((root, monitoring_class))
        if made is None:
            wants = {
                leaf: self.want(leaf, monitoring_class) for leaf in self.forest.leaves_of[root]
            }
            made = share_tree(self.forest.roots[root][monitoring_class], wants)
            self._made[root, monitoring_class] = made
        return made

    def want(self, leaf: str, monitoring_class: MonitoringClass) -> Want:
        """Return what all members want of a leaf together."""
        group, rows = self._groups[leaf], self._usage.rows(leaf, monitoring_class)
        demand: list[int | None] = []
        held: list[int] = []
        members = len(self._members)
        for dimension in DIMENSIONS_OF[monitoring_class]:
            reserve = reserve_in(group, dimension, members, self._settings)
            held.append(reserve * members)
            demand.append(_sum_of(rows, dimension.unit, reserve, members - len(rows)))
        sizes = [
            row.usage.message_size
            for row in rows.values()
            if row.usage.message_size
            and None in (row.usage.messages_demand, row.usage.bytes_demand)
        ]
        size = sum(sizes) // len(sizes) if sizes else 0
        return Want((demand[0], demand[1]), size, (held[0], held[1]))


def _sum_of(rows: Mapping[str, UsageRow], unit: Unit, reserve: int, idle: int) -> int | None:
    total = idle * reserve
    for row in rows.values():
        demand = row.usage.demand_of(unit)
        if demand is None:
            return None
        total += max(reserve, demand)
    return total
