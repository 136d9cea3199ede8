"""The metrics of groups in a tree: for the whole cluster, as this sidecar knows it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from coordinator.core.model import Unit
from coordinator.insight.model.trees import TreeView

_FAMILIES = {
    "tree_part": "The part of its parent's limit that a group has, all brokers together.",
    "tree_guaranteed": "The part of its parent's limit that a group gets before its siblings.",
    "tree_borrowed": "Use of a group beyond its part if all groups of the tree wanted everything.",
}


class TreeFamilies:
    """Collects samples tree by tree; iterating yields the families."""

    def __init__(self) -> None:
        self._families = {
            (name, unit): GaugeMetricFamily(
                f"pulsar_quota_{name}_{unit.value}_per_second",
                text,
                labels=["group", "monitoring_class", "parent"],
            )
            for name, text in _FAMILIES.items()
            for unit in Unit
        }

    def add(self, tree: TreeView) -> None:
        """Take the groups of one dimension that are limited in it."""
        dimension = tree.dimension
        for row in tree.groups:
            if row.part is None:
                continue
            labels = [row.group, dimension.monitoring_class.value, row.parent]
            values = zip(_FAMILIES, (row.part, row.guarantee, row.borrowed), strict=True)
            for name, value in values:
                self._families[name, dimension.unit].add_metric(labels, value)

    def __iter__(self) -> Iterator[Metric]:
        """Yield each family once."""
        yield from self._families.values()
