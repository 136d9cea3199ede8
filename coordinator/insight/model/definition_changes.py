"""A change of a group's definition in words, for the event log and for operations."""

from __future__ import annotations

from coordinator.core.model import Dimension, ResourceGroup
from coordinator.core.rates import in_digits
from coordinator.core.transfer.tree_rules import GUARANTEE_FIELDS


def difference(before: ResourceGroup | None, after: ResourceGroup) -> str:
    """Return a change of a definition in words."""
    if before is None:
        return f"created: {_limits(after)}" + (f", below {after.parent}" if after.parent else "")
    changes = [
        f"{dimension.value} {_shown(before, dimension)} → {_shown(after, dimension)}"
        for dimension in Dimension
        if before.exact_limits.of(dimension) != after.exact_limits.of(dimension)
    ]
    changes += [
        f"{field} {before.guarantees.of(dimension) or 0:,} → {after.guarantees.of(dimension) or 0:,}"
        for dimension, field in GUARANTEE_FIELDS.items()
        if before.guarantees.of(dimension) != after.guarantees.of(dimension)
    ]
    if before.allowed_tenants != after.allowed_tenants:
        named = (", ".join(each.allowed_tenants) or "none" for each in (before, after))
        changes.append(f"allowed tenants {' → '.join(named)}")
    for name in (
        "law",
        "weights",
        "overshoot_policy",
        "partition_policy",
        "enforcement",
        "observes",
        "parent",
        "weight",
        "on_limit",
        "hold_millis",
        "burst_seconds",
    ):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            shown = (str(each) if each != "" else "none" for each in (old, new))
            changes.append(f"{name.replace('_', ' ')} {' → '.join(shown)}")
    return ", ".join(changes) or "written again, unchanged"


def _limits(group: ResourceGroup) -> str:
    limited = [
        f"{dimension.value} {in_digits(limit)}"
        for dimension in Dimension
        if (limit := group.exact_limits.of(dimension)) is not None
    ]
    return ", ".join(limited) or "nothing limited"


def _shown(group: ResourceGroup, dimension: Dimension) -> str:
    limit = group.exact_limits.of(dimension)
    return "unlimited" if limit is None else in_digits(limit)
