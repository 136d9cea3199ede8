"""The members' turns at recording what all of them know alike: one of them a second is enough.

The turn goes by the second and a member's place among the members' names, so nothing has to be agreed on.
A second whose member has just died has no rows: readers take the row before.
"""

from __future__ import annotations

from coordinator.adapters.recorder.seconds import Second
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.state import CoordinatorState


def is_own_turn(second: Second, state: CoordinatorState) -> bool:
    """Return whether this sidecar records a second for all members."""
    members, own = sorted(state.members), state.settings.broker
    return (
        own in state.members and members[second.start_ns // NANOS_PER_SECOND % len(members)] == own
    )
