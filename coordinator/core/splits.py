"""The splits of one moment: each is made once, whoever asks for it.

Both units of a class may come from one split. When MANY are due at once, since members changed or trouble
began, they are computed together, on arrays; the results are the same to the last unit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coordinator.core.allocation import Split, split_class, split_many
from coordinator.core.model import Dimension, Key, MonitoringClass, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.usage_map import UsageMap

MANY = 50
"""From so many splits on, arrays are faster."""


class Splits:
    """What the law says of every group, from facts that stay as they are meanwhile.

    Args:
        members: everybody alive.
        usage: what they say.
        settings: the reserve.
    """

    def __init__(self, members: Collection[str], usage: UsageMap, settings: CoreSettings) -> None:
        self._members = members
        self._usage = usage
        self._settings = settings
        self._made: dict[Key, dict[Dimension, Split]] = {}

    def prepare(self, wanted: Sequence[tuple[ResourceGroup, MonitoringClass]]) -> None:
        """These will be asked for."""
        if len(wanted) >= MANY:
            self._made |= split_many(wanted, self._members, self._usage, self._settings)

    def of(self, group: ResourceGroup, dimension: Dimension) -> Split:
        """The split of one dimension, which the group must limit."""
        key = (group.name, dimension.monitoring_class)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = split_class(
                group, dimension.monitoring_class, self._members, self._usage, self._settings
            )
        return made[dimension]
