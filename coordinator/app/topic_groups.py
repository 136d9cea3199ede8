"""The limits of scalable topics, as groups of the core.

The segments of a scalable topic are topics of their own at several brokers, and they change while it is
in use: a segment with much traffic is split, two with little are merged. A part for each segment would be
wrong after every change, and lost on a segment without traffic. So a scalable topic with a limit is a
group by itself, named by its full name. Its segments count against it by their names, whatever the layout
is, and the brokers that serve them share its limit by demand, as those of a resource group do: no sidecar
has to know the layout, and a split or merge moves demand and nothing else.

A topic group is defined by the topic's limit in the store and by nothing else: it has the law, the policy
and all other settings of a new resource group. No resource group can have its name, for that has slashes.
Only a gate tells segments apart, so a sidecar without a gate has no topic groups.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.core.model import ResourceGroup
from coordinator.core.topics import SCALABLE
from coordinator.ports import TopicLimit, TopicLimits


class TopicGroups:
    """The groups of all scalable topics with limits; empty before the first limits."""

    def __init__(self) -> None:
        self._limits: TopicLimits = {}
        #: A limit that stays keeps its object: the core looks for other objects only.
        self._groups: dict[str, ResourceGroup] = {}

    def set_limits(self, limits: TopicLimits) -> bool:
        """Take over the limits in the store; return whether a group is another one now."""
        former, before = self._groups, self._limits
        self._limits = {
            name: limit for name, limit in limits.items() if limit.topic.domain == SCALABLE
        }
        self._groups = {
            name: former[name] if before.get(name) == limit else _group_of(name, limit)
            for name, limit in self._limits.items()
        }
        return self._limits != before

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all groups."""
        return frozenset(self._groups)

    def __iter__(self) -> Iterator[ResourceGroup]:
        """Yield all groups."""
        yield from self._groups.values()


def _group_of(name: str, limit: TopicLimit) -> ResourceGroup:
    return ResourceGroup(name, limit.limits, configuration_version=limit.version or 0)
