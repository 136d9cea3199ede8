"""The splits of one moment: each is computed once and shared by all callers.

Of a leaf of a tree, the part that it has of the tree now is split, instead of its limit (parts.py).

Both units of a class may come from one split. When at least MANY splits are due, because members changed
or the sidecar became degraded, they are computed together, on arrays; the results are equal to the last
unit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coordinator.core.allocation.parts import Parts
from coordinator.core.allocation.splitting import Split, split_class, split_many
from coordinator.core.model import Dimension, MonitoringClass, ResourceGroup, TrafficKey
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.map import UsageMap

MANY = 50
"""The number of splits from which arrays are faster."""


class Splits:
    """The splits of all groups, from facts that stay the same during the lifetime of this object.

    Args:
        members: all live brokers.
        usage: their reports.
        settings: the reserve.
        parts: of the leaves of trees; None if there are no trees.
    """

    def __init__(
        self,
        members: Collection[str],
        usage: UsageMap,
        settings: CoreSettings,
        parts: Parts | None = None,
    ) -> None:
        self._parts = parts
        self._members = members
        self._usage = usage
        self._settings = settings
        self._made: dict[TrafficKey, dict[Dimension, Split]] = {}

    def prepare(self, wanted: Sequence[tuple[ResourceGroup, MonitoringClass]]) -> None:
        """Compute the splits of these groups and classes in advance."""
        if len(wanted) >= MANY:
            wanted = [(self._part(group, of), of) for group, of in wanted]
            self._made |= split_many(wanted, self._members, self._usage, self._settings)

    def of(self, group: ResourceGroup, dimension: Dimension) -> Split:
        """Return the split of one dimension that the group limits."""
        key = (group.name, dimension.monitoring_class)
        made = self._made.get(key)
        if made is None:
            part = self._part(group, dimension.monitoring_class)
            made = self._made[key] = split_class(
                part, dimension.monitoring_class, self._members, self._usage, self._settings
            )
        return made[dimension]

    def _part(self, group: ResourceGroup, monitoring_class: MonitoringClass) -> ResourceGroup:
        """Return the group with what it has to split now as its limits."""
        if self._parts is None or group.entitled is None:
            return group
        return self._parts.of(group, monitoring_class)
