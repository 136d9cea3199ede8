"""The resource groups of the gate: by name, with a limiter and a counter per class.

A group exists here as soon as limits or an attachment name it. Limits and attachments come from different
places and in any order: a namespace may be attached to a group whose limits have not arrived yet, and
then its traffic is counted for that group and not limited.

Counts are collected twenty times a second and most groups are silent, so silent groups are left out. A
group is *awake* from its creation, the end of its limits or a new participant on, until a collection
finds no participant and no new count. Counts of a group that is not awake are collected when it next is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from coordinator.core.handling import DEFAULT_HANDLING, Handling
from coordinator.core.model import AnyRates, Attachments, MonitoringClass, Rates, TrafficKey
from coordinator.core.owners import ANONYMOUS, group_of_role, subscription_key
from coordinator.core.topics import TopicName, names_scalable
from coordinator.core.traffic import NamespaceKey, Traffic
from coordinator.gate.limits.counters import GateListener
from coordinator.gate.limits.delayed import DelayedMessages
from coordinator.gate.limits.group import Group
from coordinator.gate.limits.known_contents import KnownContents
from coordinator.gate.limits.lease import GateLease
from coordinator.gate.limits.metering import BURST_NS
from coordinator.gate.limits.modes import DEFAULT_MODES, Modes
from coordinator.gate.limits.namespaces import NOWHERE, NamespaceCounter, Namespaces
from coordinator.gate.limits.roles import RoleCounters
from coordinator.gate.limits.scopes import Scopes
from coordinator.gate.limits.subscribing import SubscribeRate
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.gate.limits.unknown_topics import UnknownTopics
from coordinator.insight.model.gate_views import HoldView


class GroupTable:
    """All groups, and the groups that each topic counts against.

    Args:
        listener: told about participants and about throttling.
        burst_ns: how much a bucket can save up, as time at its rate.
        modes: how limits are enforced, and the groups that topics count against without an attachment.
        unknown_topics_pass: whether topics pass whose names are not known.
        reserved_topics: the topics that no client publishes to, by their full names.
    """

    def __init__(
        self,
        listener: GateListener,
        *,
        burst_ns: int = BURST_NS,
        modes: Modes = DEFAULT_MODES,
        unknown_topics_pass: bool = False,
        reserved_topics: Collection[str] = (),
    ) -> None:
        self.reserved_topics = frozenset(reserved_topics)
        self._listener = listener
        self._burst_ns = burst_ns
        self._groups: dict[str, Group] = {}
        #: The awake groups, in the order in which they woke.
        self._awake: dict[str, Group] = {}
        #: Names of groups that have limits, and of those whose limits are leased.
        self._limited: set[str] = set()
        self._leased: set[str] = set()
        self._lease = GateLease()
        #: By group, where it is not the default.
        self._handling: dict[str, Handling] = {}
        self.attachments = Attachments()
        #: Limits beside those of resource groups; their traffic is not reported.
        self._modes = modes
        #: Counts of messages with a time of delivery; None while they are not counted.
        self.delayed = DelayedMessages() if modes.delayed_group else None
        self.scopes = Scopes(burst_ns, modes)
        self.namespaces = Namespaces()
        #: The counters of exempt producers; no group counts these.
        self.replicated = Namespaces()
        self.roles = RoleCounters()
        self.subscribe_rate = SubscribeRate()
        self.unknown_topics = UnknownTopics(pass_=unknown_topics_pass)
        self.known_contents = KnownContents()

    def group(self, name: str) -> Group:
        """Return the group of this name."""
        found = self._groups.get(name)
        if found is None:
            reason = self._reason_of(name)
            is_topic = reason is ThrottleReason.TOPIC_LIMIT
            make = self._modes.topics if is_topic else self._modes.groups
            found = self._groups[name] = self._awake[name] = Group(
                name, self, self._burst_ns, reason, make, self._modes.debt_ns
            )
            if name in self._handling:
                found.set_handling(self._handling[name], 0)
        return found

    def _reason_of(self, name: str) -> ThrottleReason:
        if name == self._modes.delayed_group:
            return ThrottleReason.DELAYED_MESSAGES
        return ThrottleReason.TOPIC_LIMIT if names_scalable(name) else ThrottleReason.RESOURCE_GROUP

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, count: int
    ) -> None:
        """Pass on the news of a group to the listener; see ``GateListener``."""
        self._awake[group] = self._groups[group]
        self._listener.participants_changed(group, monitoring_class, count)

    def wake(self, groups: Iterable[Group]) -> None:
        """Collect the counts of groups that get some without a participant."""
        for group in groups:
            if self._groups.get(group.name) is group:
                self._awake[group.name] = group

    def set_limits(
        self,
        name: str,
        limits: AnyRates,
        now_ns: int,
        *,
        leased: bool = False,
    ) -> Group:
        """Limit a group from now on, by a leased limit until the lease ends; return the group."""
        self._limited.add(name)
        self._leased.discard(name)
        if leased:
            self._leased.add(name)
        group = self.group(name)
        group.set_limits(limits, now_ns, self._lease if leased else None)
        return group

    def set_handling(self, name: str, handling: Handling, now_ns: int) -> Group | None:
        """Handle a group's traffic in this way from now on; return the group if it exists here."""
        self._handling.pop(name, None)
        if handling != DEFAULT_HANDLING:
            self._handling[name] = handling
        group = self._groups.get(name)
        if group is not None:
            group.set_handling(handling, now_ns)
        return group

    def remove_limits(self, name: str, now_ns: int) -> Group:
        """Remove a group's limits; return the group."""
        group = self._awake[name] = self.set_limits(name, Rates(), now_ns)
        self._limited.discard(name)
        return group

    def hold_lease(self, until_ns: int, now_ns: int) -> tuple[Group, ...]:
        """Extend the lease to this time; return the groups that may let traffic pass again."""
        was_over = self._lease.is_over(now_ns)
        self._lease.until_ns = until_ns
        return tuple(map(self.group, sorted(self._leased))) if was_over else ()

    def resolve(
        self,
        topic: str,
        now_ns: int,
        role: str = ANONYMOUS,
        *,
        publishing: bool = False,
        subscription: str = "",
    ) -> tuple[Group, ...]:
        """Return the limits of a topic: its groups, narrowest first, its own limit, the broker's.

        A consumer's subscription has a group that comes first, and its role one after those of namespace
        and tenant. A scalable topic with a limit is the narrowest group, with all its segments.

        With ``publishing``, the groups include the one that limits delayed messages only; see
        ``Producer``.
        """
        name = TopicName.parse(topic)
        if name is None:
            of_all = _with(_with((), self._role_group(role)), self._modes.cluster_group)
            return (*map(self.group, of_all), *self.scopes.of_all_topics())
        names = _with(self._names_of(name), self._role_group(role))
        if subscription and self.attachments.subscriptions:
            key = subscription_key(name, subscription)
            names = _before(self.attachments.subscriptions.get(key, ""), names)
        if self.attachments.topics and (whole := str(name.whole)) in self.attachments.topics:
            names = (whole, *names)
        if publishing:
            names = _with(names, self._modes.delayed_group)
        return (*map(self.group, names), *self.scopes.of(name, now_ns))

    def of_replication(self, cluster: str) -> tuple[Group, ...]:
        """Return the group that limits what a remote cluster replicates; empty if none does."""
        group = self.attachments.clusters.get(cluster)
        return () if group is None else (self.group(group),)

    def passed_totals(self) -> dict[TrafficKey, tuple[int, int]]:
        """Return the messages and bytes that passed since the start, exempt ones included.

        By ``tenant/namespace`` and class.
        """
        totals: dict[TrafficKey, tuple[int, int]] = {}
        self.roles.settle()
        self.namespaces.add_totals(totals)
        self.replicated.add_totals(totals)
        return totals

    def replicated_namespace(self, topic: str) -> NamespaceCounter:
        """Return the namespace counter of an exempt producer's traffic."""
        name = TopicName.parse(topic)
        if name is None:
            return NOWHERE
        key = NamespaceKey(name.tenant, name.namespace, (), MonitoringClass.PUBLISH)
        return self.replicated.counter(key)

    def namespace(
        self, topic: str, monitoring_class: MonitoringClass, role: str = ANONYMOUS
    ) -> NamespaceCounter:
        """Return the namespace counter of a topic's traffic; the part of the role if any is attached."""
        whole = self._namespace(topic, monitoring_class)
        if not self.attachments.roles:
            return whole
        return self.roles.part(whole, role, self._role_group(role))

    def _namespace(self, topic: str, monitoring_class: MonitoringClass) -> NamespaceCounter:
        name = TopicName.parse(topic)
        if name is None:
            return self.unknown_topics.counter(topic, monitoring_class)
        groups = self._names_of(name)
        key = NamespaceKey(name.tenant, name.namespace, groups, monitoring_class)
        return self.namespaces.counter(key)

    def _role_group(self, role: str) -> str:
        """Return the resource group of a role; empty if it is not attached to one."""
        return group_of_role(self.attachments.roles, role) or ""

    def _names_of(self, name: TopicName) -> tuple[str, ...]:
        """Return the resource groups of all of a topic's traffic, narrowest first."""
        names = self.attachments.groups_of(name.tenant, name.namespace)
        return _with(names, self._modes.cluster_group)

    def holds(self, now_ns: int) -> Iterator[HoldView]:
        """Yield the hold times of every limit that had to hold something."""
        for group in (*self._groups.values(), *self.scopes.groups()):
            yield from group.holds(now_ns)

    def is_quiet(self) -> bool:
        """Whether nothing has passed and no participant has waited since the last collection."""
        return all(
            group.publish.is_quiet and group.dispatch.is_quiet for group in self._awake.values()
        )

    def collect(self, now_ns: int) -> tuple[Traffic, ...]:
        """Return the counts of all groups since the last call; forget groups that are not in use."""
        collected: list[Traffic] = []
        for name, group in list(self._awake.items()):
            news = [*group.collect(now_ns)]
            collected += news
            if news:
                continue
            del self._awake[name]
            if name not in self._limited:
                # Without news no participant is connected either, so the group is referenced nowhere
                # else.
                del self._groups[name]
        return tuple(collected)


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return the names with one more, unless it is empty or among them."""
    return (*names, name) if name and name not in names else names


def _before(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names with one before them, unless it is empty or among them."""
    return (name, *names) if name and name not in names else names
