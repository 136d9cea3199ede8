"""The roles that a group limits at one gate, in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.core.model import NANOS_PER_SECOND, Dimension, MonitoringClass
from coordinator.insight.model.gate_views import RoleView

ROLES_TOLD = 10
"""The most roles of a group that sentences tell of."""


def longest_held(found: Iterable[RoleView]) -> list[RoleView]:
    """Return roles by the time for which they were held, longest first, then by messages."""
    return sorted(found, key=lambda each: (-each.held_ns, -each.messages, each.role))


def role_sentences(found: Iterable[RoleView], group: str, dimension: Dimension) -> tuple[str, ...]:
    """Return the roles of a group in one dimension's class, longest held first, at most `ROLES_TOLD`."""
    monitoring_class = dimension.monitoring_class
    ours = [
        each for each in found if (each.group, each.monitoring_class) == (group, monitoring_class)
    ]
    told = [_sentence(each) for each in longest_held(ours)[:ROLES_TOLD]]
    more = len(ours) - len(told)
    if more:
        told.append("1 more role counts here." if more == 1 else f"{more} more roles count here.")
    return tuple(told)


def _sentence(view: RoleView) -> str:
    publishes = view.monitoring_class is MonitoringClass.PUBLISH
    who = "producer" if publishes else "consumer"
    connected = f"{view.participants:,} {who}{'' if view.participants == 1 else 's'}"
    held = f"held for {view.held_ns / NANOS_PER_SECOND:,.1f} s" if view.held_ns else "never held"
    return f"Role {view.role}: {connected}, {view.messages:,} messages, {held} at this gate."
