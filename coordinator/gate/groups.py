"""The resource groups as the gate knows them: by name, with a limiter and two counters each.

A group exists here as soon as anybody mentions it. Limits and attachments come from different
places and in any order: a namespace may be attached to a group whose limits have not arrived yet, and
then its traffic is counted for that group and not limited.
"""

from __future__ import annotations

from coordinator.core.model import Attachments, MonitoringClass, Rates, Traffic
from coordinator.gate.counters import GateListener, TrafficCounter
from coordinator.gate.limiter import BURST_NS, PublishLimiter
from coordinator.gate.topics import TopicName


class Group:
    """One resource group at this gate."""

    __slots__ = ("dispatch", "limiter", "name", "publish")

    def __init__(self, name: str, listener: GateListener, burst_ns: int) -> None:
        self.name = name
        self.publish = TrafficCounter(name, MonitoringClass.PUBLISH, listener)
        self.dispatch = TrafficCounter(name, MonitoringClass.DISPATCH, listener)
        self.limiter = PublishLimiter(self.publish, burst_ns=burst_ns)


class GroupTable:
    """All groups, and which topic counts against which of them.

    Args:
        listener: told about participants and about throttling.
        burst_ns: how much a bucket can save up, as time at its rate.
    """

    def __init__(self, listener: GateListener, *, burst_ns: int = BURST_NS) -> None:
        self._listener = listener
        self._burst_ns = burst_ns
        self._groups: dict[str, Group] = {}
        #: Names of groups that have limits.
        self._limited: set[str] = set()
        self.attachments = Attachments()

    def group(self, name: str) -> Group:
        """The group of this name."""
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = Group(name, self._listener, self._burst_ns)
        return found

    def set_limits(self, name: str, limits: Rates, now_ns: int) -> PublishLimiter:
        """Limit a group from now on; return the limiter that changed."""
        self._limited.add(name)
        limiter = self.group(name).limiter
        limiter.set_limits(limits, now_ns)
        return limiter

    def remove_limits(self, name: str, now_ns: int) -> PublishLimiter:
        """Limit a group no more; return the limiter that changed."""
        limiter = self.set_limits(name, Rates(), now_ns)
        self._limited.discard(name)
        return limiter

    def resolve(self, topic: str) -> tuple[Group, ...]:
        """The groups that a topic counts against, narrowest first."""
        name = TopicName.parse(topic)
        if name is None or name.is_system:
            return ()
        return tuple(map(self.group, self.attachments.groups_of(name.tenant, name.namespace)))

    def collect(self, now_ns: int) -> tuple[Traffic, ...]:
        """What every counter has to say; groups that nobody mentions any more are forgotten."""
        collected: list[Traffic] = []
        for group in list(self._groups.values()):
            news = [
                traffic
                for counter in (group.publish, group.dispatch)
                if (traffic := counter.collect(now_ns)) is not None
            ]
            collected += news
            if not news and group.name not in self._limited:
                # Without news nobody is connected either, so nobody holds a reference.
                del self._groups[group.name]
        return tuple(collected)
