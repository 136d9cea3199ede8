"""The metrics of roles: what their clients pass at this gate, and how long they wait.

There are none while no role is attached. The gate tells 1,000 roles apart, by group and class; further
ones, and those whose names no attachment could have, are the role ``(others)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from admin_api.metrics.families import FamilyTable, Texts
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.insight.model.gate_views import RoleView

_GAUGES: Final[Texts] = {
    "role_participants": "Producers or consumers connected by clients of a role.",
}
_COUNTERS: Final[Texts] = {
    "role_messages": "Messages of a role that passed the gate.",
    "role_bytes": "Bytes of a role that passed the gate.",
    "role_throttled_seconds": (
        "Time in which at least one producer or consumer of a role waited, for any limit."
    ),
}


def role_families(found: Iterable[RoleView]) -> FamilyTable:
    """Return the families of roles; the group is empty for roles that none limits."""
    families = FamilyTable(
        ["role", "group", "monitoring_class"],
        _GAUGES,
        _COUNTERS,
        with_units=("role_bytes", "role_throttled_seconds"),
    )
    for each in found:
        values = {
            "role_participants": each.participants,
            "role_messages": each.messages,
            "role_bytes": each.bytes,
            "role_throttled_seconds": each.held_ns / NANOS_PER_SECOND,
        }
        families.add([each.role, each.group, each.monitoring_class.value], values)
    return families
