"""The trees of groups that a sidecar records: what each group has, may have and is guaranteed.

Every sidecar computes the same parts, so the members take turns (turns.py). Recorded are the trees in
which a broker takes part, each whole, down from its root: a reader that adds up what a group's children
admitted needs no definition of another time. Trees are looked at on the coordinator's loop, in one go:
beyond ``GROUPS_PER_TURN`` only some are recorded, and others the next time.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.adapters.recorder.seconds import Second
from coordinator.adapters.recorder.turns import is_own_turn
from coordinator.core.model import DIMENSIONS_OF, MonitoringClass, TrafficKey
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.trees import TreeView, tree_view

GROUPS_PER_TURN = 100
"""The most groups whose trees are looked at at one moment, but for a tree that has more by itself: about
two milliseconds."""


class Trees:
    """Looks at the trees of one sidecar; see the module's head."""

    def __init__(self) -> None:
        self._next = 0

    def seen_at(self, second: Second, state: CoordinatorState) -> Iterator[TreeView]:
        """Yield the trees that are due at the end of a second, in each dimension with traffic."""
        if not state.decider.forest or not is_own_turn(second, state):
            return
        places, looked_at = list(_places(state)), 0
        for _ in places:
            root, monitoring_class = places[self._next % len(places)]
            groups = len(state.decider.forest.leaves_of[root])
            if looked_at and looked_at + groups > GROUPS_PER_TURN:
                return
            looked_at += groups
            self._next += 1
            for dimension in DIMENSIONS_OF[monitoring_class]:
                if (view := tree_view(state, root, dimension)) is not None:
                    yield view


def _places(state: CoordinatorState) -> Iterator[TrafficKey]:
    """Yield the trees and classes in which a broker takes part."""
    forest = state.decider.forest
    for root in sorted(forest.roots):
        for monitoring_class in MonitoringClass:
            if any(state.usage.rows(leaf, monitoring_class) for leaf in forest.leaves_of[root]):
                yield root, monitoring_class
