"""Topics whose names the gate does not know: those of a domain that a later Pulsar may bring.

Such a name has no tenant and no namespace that the gate could read, so no group of theirs limits its
traffic. It is refused, unless the operator lets it pass (`unknown_topics = "pass"`): then it counts
against the group of all traffic and the broker's own limit, and here: the condition UnknownTopics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coordinator.core.model import MonitoringClass
from coordinator.core.traffic import NamespaceKey
from coordinator.gate.limits.namespaces import NamespaceCounter
from coordinator.insight.model.gate_views import UnknownTopicsView

NAMES_MAX: Final = 10
"""The latest names that are kept."""

LETTERS_MAX: Final = 100
"""The letters of a name that are kept; clients choose them."""


class UnknownTopics:
    """Counts the traffic of all topics with unknown names together.

    Args:
        pass_: whether it passes.
    """

    def __init__(self, *, pass_: bool) -> None:
        self.pass_ = pass_
        self._counters = {
            each: NamespaceCounter(NamespaceKey("", "", (), each)) for each in MonitoringClass
        }
        #: The latest names, the oldest one first.
        self._names: dict[str, None] = {}

    def counter(self, topic: str, monitoring_class: MonitoringClass) -> NamespaceCounter:
        """Return the counter of the traffic of a participant that the broker has accepted."""
        name = ascii(topic[:LETTERS_MAX])
        self._names.pop(name, None)
        self._names[name] = None
        if len(self._names) > NAMES_MAX:
            del self._names[next(iter(self._names))]
        return self._counters[monitoring_class]

    def view(self) -> UnknownTopicsView:
        """Return the counts."""
        counters: Iterable[NamespaceCounter] = self._counters.values()
        return UnknownTopicsView(
            participants=sum(counter.participants for counter in counters),
            messages=sum(counter.messages for counter in counters),
            names=tuple(self._names),
        )
