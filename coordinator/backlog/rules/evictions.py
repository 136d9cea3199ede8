"""The number of evictions since the start: those of this sidecar, and those of the broker's own check.

The broker counts its evictions by topic from the moment at which it loaded the topic, so its counter
starts again when the topic is unloaded. What is counted here never falls: each reading adds the increase
since the reading before, and a counter that has fallen has started again at 0. The first reading after
the start is where counting begins; a topic that appears later was loaded later, so all of its count is
new.

`TOPICS_MAX` topics that had an eviction have a count of their own; of more, the one that was evicted
longest ago loses it. The counts by namespace and of the broker include all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from coordinator.backlog.rules.model import QuotaType
from coordinator.backlog.rules.namespaces import NamespaceCounts, namespace_of

TOPICS_MAX: Final = 10_000
"""Topics whose evictions are counted apart."""

Counted = Mapping[tuple[str, QuotaType], int]
"""Evictions by topic, or by namespace where the broker does not tell topics apart, and type."""


class EvictionCounts:
    """Counts of evictions that never fall."""

    def __init__(self) -> None:
        #: By topic and type; the topic that was evicted last comes last.
        self.topics: dict[tuple[str, QuotaType], int] = {}
        #: By tenant/namespace and type.
        self.namespaces = NamespaceCounts()
        #: By type.
        self.broker: Counter[QuotaType] = Counter()
        #: The broker's counters at the last reading; None before the first.
        self._read: Counted | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the broker's counters were read at least once."""
        return self._read is not None

    def add(self, topic: str, quota_type: QuotaType, count: int = 1) -> None:
        """Count evictions of a topic, or of a namespace by its name."""
        namespace = namespace_of(topic)
        self.namespaces.add(namespace or topic, quota_type, count)
        self.broker[quota_type] += count
        if namespace is None:
            return
        key = topic, quota_type
        self.topics[key] = self.topics.pop(key, 0) + count
        if len(self.topics) > TOPICS_MAX:
            del self.topics[next(iter(self.topics))]

    def read(self, counted: Counted) -> None:
        """Take the broker's counters."""
        before, self._read = self._read, dict(counted)
        if before is None:
            return
        for (topic, quota_type), count in counted.items():
            known = before.get((topic, quota_type), 0)
            increase = count - known if count >= known else count
            if increase:
                self.add(topic, quota_type, increase)
