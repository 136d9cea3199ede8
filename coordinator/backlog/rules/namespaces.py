"""Counts by namespace and type of quota, of a bounded number of namespaces."""

from __future__ import annotations

from collections import Counter
from typing import Final

from coordinator.backlog.rules.model import QuotaType
from coordinator.core.topics import TopicName

NAMESPACES_MAX: Final = 10_000
"""Namespaces that are counted apart."""

OTHERS: Final = "(others)"
"""The name under which all further ones are counted together."""


class NamespaceCounts(Counter[tuple[str, QuotaType]]):
    """Counts that never fall, by tenant/namespace and type."""

    def add(self, namespace: str, quota_type: QuotaType, count: int = 1) -> None:
        """Count this many more of a namespace."""
        key = namespace, quota_type
        if key not in self and len(self) >= NAMESPACES_MAX * len(QuotaType):
            key = OTHERS, quota_type
        self[key] += count


def namespace_of(topic: str) -> str | None:
    """Return a topic's tenant/namespace; None if this is no topic's name."""
    name = TopicName.parse(topic)
    return None if name is None else f"{name.tenant}/{name.namespace}"
