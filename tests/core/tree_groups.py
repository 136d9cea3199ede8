"""Groups of trees, as definitions."""

from __future__ import annotations

from coordinator.core.model import Rates, ResourceGroup


def group(
    name: str, limit: int | None = None, parent: str = "", guarantee: int = 0
) -> ResourceGroup:
    """Return a group that limits and is guaranteed published messages."""
    return ResourceGroup(
        name,
        Rates(publish_messages=limit),
        parent=parent,
        guarantees=Rates(publish_messages=guarantee or None),
    )
