"""The settling of a group: whether all limits have reached their targets.

*Settled* means that no participant's limit in force is further from its target than `SETTLED_PERMILLE`
of C/N, the limit divided by the participants. It follows from the decision in force, which contains the
announcements of all participants, so every sidecar judges the whole group and not only its part. Where
this broker takes no part it has no decision, and the law is asked for the occasion.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from coordinator.core.allocation.splitting import Split
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import Dimension

if TYPE_CHECKING:  # the gate's process has the words of an operation, and no core
    from coordinator.core.state import CoordinatorState

SETTLED_PERMILLE = 50


class GroupStatus(Enum):
    """The status of a group."""

    UNLIMITED = "unlimited"
    IDLE = "idle"
    SETTLED = "settled"
    CONVERGING = "converging"
    DEGRADED = "degraded"


def in_force(state: CoordinatorState, group: str, dimension: Dimension) -> Mapping[str, int] | None:
    """Return the local limit of every participant; None if it is unknown."""
    split = _split(state, group, dimension)
    return None if split is None else _held(state, group, dimension, split)


def residual_permille(state: CoordinatorState, group: str, dimension: Dimension) -> int | None:
    """Return the distance of the participant furthest off from its target, in thousandths of C/N.

    Returns:
        0 without participants; None if it is unknown: the sidecar is learning or cut off, or the
        dimension is not limited.
    """
    split = _split(state, group, dimension)
    if split is None:
        return None
    held = _held(state, group, dimension, split)
    off = max((abs(limit - split.targets[name]) for name, limit in held.items()), default=0)
    return off * len(held) * 1000 // max(1, split.limit)


def _held(
    state: CoordinatorState, group: str, dimension: Dimension, split: Split
) -> Mapping[str, int]:
    """Return the limits in force: the own one as it is, the others as announced."""
    # The books of a strict group tell what others hold, too, who have no target.
    held = {name: limit for name, limit in split.in_force.items() if name in split.targets}
    own, decided = state.settings.broker, state.decider.decisions[group, dimension]
    if own in held and decided.local_limit is not None:
        held[own] = decided.local_limit
    return held


def _split(state: CoordinatorState, group: str, dimension: Dimension) -> Split | None:
    decision = state.decider.decisions.get((group, dimension))
    if decision is None or decision.split is not None:
        return None if decision is None else decision.split
    definition = (state.groups or {}).get(group)
    if state.lifecycle is not Lifecycle.ACTIVE or definition is None:
        return None
    if definition.limits.of(dimension) is None:
        return None
    return state.decider.split_now(
        definition, dimension, state.groups or {}, state.members, state.usage
    )
