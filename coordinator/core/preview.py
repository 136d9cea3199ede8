"""What a change of a group would do, before it is made: the targets of now beside those of then.

Both are computed from the same facts, those of this moment, so the difference is the change's alone.
What a change does to demand (a client that is throttled less sends more) nobody can know beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.core.allocation import split
from coordinator.core.model import Dimension, ResourceGroup
from coordinator.core.state import CoordinatorState


@dataclass(frozen=True, slots=True)
class BrokerPreview:
    """One broker's target, per second; None is not limited."""

    broker: str
    now: int | None
    then: int | None


@dataclass(frozen=True, slots=True)
class DimensionPreview:
    """One dimension that is limited before or after the change.

    Args:
        dimension: which.
        limit_now: for the cluster, per second; None is not limited.
        limit_then: after the change.
        admitted: by all brokers now, per second.
        brokers: everyone that takes part.
    """

    dimension: Dimension
    limit_now: int | None
    limit_then: int | None
    admitted: int
    brokers: tuple[BrokerPreview, ...]


def preview(state: CoordinatorState, changed: ResourceGroup) -> tuple[DimensionPreview, ...]:
    """What would follow if a group were defined so; a group that is not there yet counts as unlimited."""
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
