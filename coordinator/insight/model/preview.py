"""A change of a group before it is made: the present targets beside the targets after it.

Both are computed from the same facts, those of this moment, so the difference comes from the change
alone. Its effect on demand (a client that is throttled less sends more) cannot be known beforehand. Of a
group that shares its limit among children, the targets of all groups below it are added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from coordinator.core.allocation.forest import Forest, resolve
from coordinator.core.allocation.parts import Parts
from coordinator.core.allocation.splits import Splits
from coordinator.core.answer import ExactLimit, Limit, answer
from coordinator.core.model import Dimension, Rate, ResourceGroup
from coordinator.core.state import CoordinatorState


@answer
class BrokerPreview:
    """One broker's target now and after the change."""

    broker: str
    now: Limit
    """per second; -1 = not limited"""
    then: Limit
    """per second; -1 = not limited"""


@answer
class DimensionPreview:
    """The effect of a change on one dimension, which is limited before or after it."""

    dimension: Dimension
    limit_now: ExactLimit
    """for the cluster, per second; -1 = not limited"""
    limit_then: ExactLimit
    """for the cluster, per second; -1 = not limited"""
    admitted: int
    """by all brokers now, per second"""
    brokers: tuple[BrokerPreview, ...]


@dataclass(frozen=True, slots=True)
class _Definitions:
    """All groups, resolved, and their trees."""

    groups: Mapping[str, ResourceGroup]
    forest: Forest

    @classmethod
    def of(cls, state: CoordinatorState) -> Self:
        """Return those in force."""
        return cls(state.groups or {}, state.decider.forest)

    def with_group(self, changed: ResourceGroup) -> Self:
        """Return them after one of them has changed."""
        limits = self.forest.limits
        stored = {
            name: replace(group, limits=limits.get(name, group.limits), entitled=None)
            for name, group in self.groups.items()
        }
        return type(self)(*resolve({**stored, changed.name: changed}.values()))

    def limit(self, name: str, dimension: Dimension) -> Rate | None:
        """Return the most that a group may have, None if it does not exist or is not limited."""
        group = self.groups.get(name)
        return None if group is None else group.exact_limits.of(dimension)

    def leaves(self, name: str) -> tuple[str, ...]:
        """Return the groups whose traffic counts for a group."""
        return self.forest.leaves_of.get(name, (name,))

    def targets(
        self, state: CoordinatorState, name: str, dimension: Dimension
    ) -> Mapping[str, int]:
        """Return the target of every broker that takes part."""
        found = Counter[str]()
        if self.limit(name, dimension) is None:
            return found
        parts = None
        if name in self.forest:
            parts = Parts(self.forest, self.groups, state.members, state.usage, state.settings)
        splits = Splits(state.members, state.usage, state.settings, parts)
        for leaf in self.leaves(name):
            found.update(splits.of(self.groups[leaf], dimension).targets)
        return found


def preview(state: CoordinatorState, changed: ResourceGroup) -> tuple[DimensionPreview, ...]:
    """Return the targets if a group were defined like this; a new group counts as unlimited now."""
    name = changed.name
    before = _Definitions.of(state)
    after = before.with_group(changed)
    found = []
    for dimension in Dimension:
        now, then = before.limit(name, dimension), after.limit(name, dimension)
        if now is None and then is None:
            continue
        admitted = Counter[str]()
        for leaf in {*before.leaves(name), *after.leaves(name)}:
            rows = state.usage.rows(leaf, dimension.monitoring_class)
            admitted.update({broker: row.rate_of(dimension) for broker, row in rows.items()})
        targets_now = before.targets(state, name, dimension)
        targets_then = after.targets(state, name, dimension)
        found.append(
            DimensionPreview(
                dimension=dimension,
                limit_now=now,
                limit_then=then,
                admitted=admitted.total(),
                brokers=tuple(
                    BrokerPreview(
                        broker,
                        None if now is None else targets_now.get(broker),
                        None if then is None else targets_then.get(broker),
                    )
                    for broker in sorted(admitted)
                ),
            )
        )
    return tuple(found)
