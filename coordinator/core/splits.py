"""The splits of one moment: each is made once, whoever asks for it.

Both units of a class may come from one split, and several decisions look at the same one.
"""

from __future__ import annotations

from collections.abc import Collection

from coordinator.core.allocation import Split, split_class
from coordinator.core.model import Dimension, MonitoringClass, ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.usage_map import UsageMap


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
        self._made: dict[tuple[str, MonitoringClass], dict[Dimension, Split]] = {}

    def of(self, group: ResourceGroup, dimension: Dimension) -> Split:
        """The split of one dimension, which the group must limit."""
        key = (group.name, dimension.monitoring_class)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = split_class(
                group, dimension.monitoring_class, self._members, self._usage, self._settings
            )
        return made[dimension]
