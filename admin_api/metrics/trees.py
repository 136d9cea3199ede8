"""The metrics of groups in a tree: for the whole cluster, as this sidecar knows it."""

from __future__ import annotations

from typing import Final

from admin_api.metrics.families import FamilyTable, Texts
from coordinator.insight.model.trees import TreeView

_GAUGES: Final[Texts] = {
    "tree_part_{unit}_per_second": (
        "The part of its parent's limit that a group has, all brokers together."
    ),
    "tree_guaranteed_{unit}_per_second": (
        "The part of its parent's limit that a group gets before its siblings."
    ),
    "tree_borrowed_{unit}_per_second": (
        "Use of a group beyond its part if all groups of the tree wanted everything."
    ),
}


def tree_families() -> FamilyTable:
    """Return the families, without samples."""
    return FamilyTable(["group", "monitoring_class", "parent"], _GAUGES, {})


def add_tree(families: FamilyTable, tree: TreeView) -> None:
    """Add the groups of one dimension that are limited in it."""
    dimension = tree.dimension
    for row in tree.groups:
        if row.part is not None:
            values = dict(zip(_GAUGES, (row.part, row.guarantee, row.borrowed), strict=True))
            labels = [row.group, dimension.monitoring_class.value, row.parent]
            families.add(labels, values, dimension.unit)
