"""The room for a raise in a tree of groups: ``balanced`` at every level.

The argument of policies.py holds for a tree as it stands, word for word, with one change: what is
summed up under an inner group are the limits of *all its leaves* at all brokers. So in a tree

* a *participant* is a broker that takes part in any leaf of the tree, and it answers for all of
  them: its answer lists its limits and ceilings in every leaf (acknowledgements.py);
* the *room* for a raise is the least of the rooms at the leaf itself and at every group above it:
  its limit less the ceilings of all other brokers in all leaves below it, less the reserves of the
  members that take no part, less what this broker itself holds in the other leaves.

So what is in force under an inner group never adds up to more than its limit, whatever is lost or
late. Lowering before raising frees the room: the part of a sibling shrinks at every broker as soon
as it hears of the claim, and each says so at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from coordinator.core.allocation.forest import Forest
from coordinator.core.allocation.splits import Splits
from coordinator.core.allocation.splitting import reserve_in
from coordinator.core.model import Dimension, LimitKey, MonitoringClass, Rates, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.map import UsageMap

Capped = Mapping[LimitKey, AbstractSet[str]]


class TreeRoom:
    """The room in all trees, from reports that stay the same during its lifetime.

    Args:
        forest: the trees.
        groups: all definitions, resolved.
        members: all live brokers.
        usage: their reports.
        splits: what each broker is due, for those whose announcements are capped.
        capped: those, by leaf.
        settings: this broker, and the reserve.
    """

    def __init__(
        self,
        forest: Forest,
        groups: Mapping[str, ResourceGroup],
        members: Collection[str],
        usage: UsageMap,
        splits: Splits,
        capped: Capped,
        settings: CoreSettings,
    ) -> None:
        self._forest = forest
        self._groups = groups
        self._members = members
        self._usage = usage
        self._splits = splits
        self._capped = capped
        self._settings = settings
        self._held: dict[LimitKey, int] = {}

    def peers(self, group: str, monitoring_class: MonitoringClass) -> set[str]:
        """Return the other brokers that take part in any leaf of a group's tree."""
        found = set[str]()
        for leaf in self._forest.kin(group):
            found.update(self._usage.rows(leaf, monitoring_class))
        return found - {self._settings.broker}

    def room(self, group: str, dimension: Dimension, own: Mapping[str, Rates]) -> int:
        """Return the highest limit of a leaf at this broker that is safe at every level.

        Args:
            group: a leaf.
            dimension: one that it limits.
            own: this broker's limits in force.
        """
        rooms = []
        for name in self._forest.above[group]:
            limit = self._forest.limits[name].of(dimension)
            if limit is None:
                continue
            for leaf in self._forest.leaves_of[name]:
                limit -= self._held_by_others(leaf, dimension)
                if leaf != group:
                    limit -= self._own(leaf, dimension, own)
            rooms.append(limit)
        return min(rooms)

    def _own(self, leaf: str, dimension: Dimension, own: Mapping[str, Rates]) -> int:
        if leaf in own:
            return own[leaf].of(dimension) or 0
        # It is about to hold its reserve.
        return reserve_in(self._groups[leaf], dimension, len(self._members), self._settings)

    def _held_by_others(self, leaf: str, dimension: Dimension) -> int:
        """Return the most that all other members may hold of a leaf before they report again."""
        held = self._held.get((leaf, dimension))
        if held is None:
            held = self._held[leaf, dimension] = self._sum(self._groups[leaf], dimension)
        return held

    def _sum(self, group: ResourceGroup, dimension: Dimension) -> int:
        cap = group.limits.of(dimension)
        assert cap is not None, "below a limited group every group is limited"
        members = len(self._members)
        reserve = reserve_in(group, dimension, members, self._settings)
        rows = self._usage.rows(group.name, dimension.monitoring_class)
        split = None
        if capped := self._capped.get((group.name, dimension), frozenset()):
            split = self._splits.of(group, dimension).with_caps(capped)
        total = 0
        for broker in self._members:
            if broker == self._settings.broker:
                continue
            row = rows.get(broker)
            if row is None:
                total += reserve
            elif split is not None and broker in capped:
                total += max(reserve, split.ceilings[broker])
            else:
                told = row.usage.limit_of(dimension.unit)
                # A broker that does not know this limit yet may admit any rate.
                limit = cap if told is None else told
                total += max(reserve, limit, row.usage.ceiling_of(dimension.unit) or 0)
        return total
