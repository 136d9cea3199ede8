"""A change of a group before it is made: the present targets beside the targets after it.

Both are computed from the same facts, those of this moment, so the difference comes from the change
alone. Its effect on demand (a client that is throttled less sends more) cannot be known beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.allocation.splitting import split
from coordinator.core.model import Dimension, ResourceGroup
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.answer import Limit, answer


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
    limit_now: Limit
    """for the cluster, per second; -1 = not limited"""
    limit_then: Limit
    """for the cluster, per second; -1 = not limited"""
    admitted: int
    """by all brokers now, per second"""
    brokers: tuple[BrokerPreview, ...]


def preview(state: CoordinatorState, changed: ResourceGroup) -> tuple[DimensionPreview, ...]:
    """Return the targets if a group were defined like this; a new group counts as unlimited now."""
    present = (state.groups or {}).get(changed.name)
    found = []
    for dimension in Dimension:
        now = None if present is None else present.limits.of(dimension)
        then = changed.limits.of(dimension)
        if now is None and then is None:
            continue
        rows = state.usage.rows(changed.name, dimension.monitoring_class)
        targets_now = {} if present is None else _targets(state, present, dimension)
        targets_then = _targets(state, changed, dimension)
        found.append(
            DimensionPreview(
                dimension=dimension,
                limit_now=now,
                limit_then=then,
                admitted=sum(row.rate_of(dimension) for row in rows.values()),
                brokers=tuple(
                    BrokerPreview(name, targets_now.get(name), targets_then.get(name))
                    for name in rows
                ),
            )
        )
    return tuple(found)


def _targets(
    state: CoordinatorState, group: ResourceGroup, dimension: Dimension
) -> Mapping[str, int]:
    if group.limits.of(dimension) is None:
        return {}
    return split(group, dimension, state.members, state.usage, state.settings).targets
