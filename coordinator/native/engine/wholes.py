"""The limits of all brokers together, and the records in Pulsar that they need.

A native group's limit is the least of those of its groups. Its record is that limit with a margin, and if
wanted with headroom, so that it need not be written when limits are raised; the rest keeps both
(rest.py).

In a tree of groups (docs/trees.md) a group's limit is the most that it may ever have, and what it does
not use belongs to its siblings. So its record is of that limit, of which the rest keeps all but the
group's part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.core.model import Dimension, Rates
from coordinator.native.engine.entries import Record, record_of
from coordinator.native.engine.sets import GroupSet
from coordinator.native.engine.trim import MOST_PERMILLE, WHOLE
from coordinator.native.engine.turns import takes_turns, with_room


class Wholes:
    """The limits of all groups for the cluster.

    Args:
        margin_permille: by how much records are above the limits.
        headroom_permille: how much more than that they have room for.
    """

    def __init__(self, margin_permille: int, headroom_permille: int) -> None:
        self.record_permille = WHOLE + margin_permille
        #: With room for what makes up for losses (trim.py), also of a limit that takes all headroom.
        self._headroom_permille = (
            (WHOLE + headroom_permille) * MOST_PERMILLE // WHOLE if headroom_permille else WHOLE
        )
        #: Whether brokers read entries; the rest keeps no headroom at one that does not.
        self.are_read = True
        self._limits: dict[str, Rates] = {}
        self._in_trees: frozenset[str] = frozenset()

    def take(self, limits: Mapping[str, Rates], in_trees: Iterable[str]) -> None:
        """Take the limits of all groups, of observed ones none, and which of them belong to trees."""
        self._limits = dict(limits)
        self._in_trees = frozenset(in_trees)

    def is_of_a_tree(self, groups: GroupSet) -> bool:
        """Return whether any group that a native group counts against belongs to a tree."""
        return not self._in_trees.isdisjoint(groups)

    def of(self, groups: GroupSet) -> Rates:
        """Return a native group's limits for all brokers together, the least of its groups."""
        limits = [self._limits[group] for group in groups if group in self._limits]
        least: dict[Dimension, int | None] = {}
        for dimension in Dimension:
            rates = (each.of(dimension) for each in limits)
            least[dimension] = min((rate for rate in rates if rate is not None), default=None)
        return Rates.from_mapping(least)

    def room(self, groups: GroupSet) -> Rates:
        """Return the limits that a native group's record must allow: its limits, and the margin."""
        return _times(self.of(groups), self.record_permille)

    def takes_turns(self, groups: GroupSet, interval_s: int) -> bool:
        """Return whether quotas take turns: of a tree's groups always, as their parts may be small."""
        return self.is_of_a_tree(groups) or takes_turns(self.room(groups), interval_s)

    def record(self, groups: GroupSet, interval_s: int) -> Record:
        """Return a native group's record as it should be in Pulsar."""
        return self._record(groups, interval_s, self._headroom_permille if self.are_read else WHOLE)

    def least_record(self, groups: GroupSet, interval_s: int) -> Record:
        """Return the lowest record under which a native group's limits can be reached."""
        return self._record(groups, interval_s, WHOLE)

    def _record(self, groups: GroupSet, interval_s: int, permille: int) -> Record:
        room = self.room(groups)
        return with_room(record_of(_times(room, permille), interval_s), room, interval_s)


def _times(rates: Rates, permille: int) -> Rates:
    messages, size = rates.publish_messages, rates.publish_bytes
    return Rates(
        publish_messages=None if messages is None else messages * permille // WHOLE,
        publish_bytes=None if size is None else size * permille // WHOLE,
    )
