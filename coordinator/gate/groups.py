"""The resource groups as the gate knows them: by name, with a limiter and a counter per class.

A group exists here as soon as anybody mentions it. Limits and attachments come from different
places and in any order: a namespace may be attached to a group whose limits have not arrived yet, and
then its traffic is counted for that group and not limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from coordinator.core.backlog.guard import Block
from coordinator.core.gate_views import HoldView, TopicLimitView
from coordinator.core.model import (
    Attachments,
    Dimension,
    MonitoringClass,
    NamespaceKey,
    Rates,
    Traffic,
)
from coordinator.core.topics import TopicName
from coordinator.core.windows import LimitMode
from coordinator.gate.counters import GateListener, TrafficCounter
from coordinator.gate.delayed import DelayedMessages
from coordinator.gate.dispatch import DispatchLimiter
from coordinator.gate.lease import Lease
from coordinator.gate.limiter import PublishLimiter
from coordinator.gate.metering import BURST_NS
from coordinator.gate.namespaces import NOWHERE, NamespaceCounter, Namespaces
from coordinator.gate.partitions import Partitions
from coordinator.gate.subscribing import SubscribeRate
from coordinator.gate.throttle import ThrottleReason


@dataclass(frozen=True, slots=True)
class Modes:
    """How limits are enforced (windows.py).

    Args:
        groups: of resource groups and of the broker.
        topics: of topics and their partitions.
    """

    groups: LimitMode = LimitMode.BUCKET
    topics: LimitMode = LimitMode.BUCKET


DEFAULT_MODES: Final = Modes()


class Group:
    """One resource group at this gate, or what is limited like one: a topic, the whole broker."""

    __slots__ = ("dispatch", "dispatch_limiter", "name", "publish", "publish_limiter")

    def __init__(
        self,
        name: str,
        listener: GateListener,
        burst_ns: int,
        reason: ThrottleReason = ThrottleReason.RESOURCE_GROUP,
        mode: LimitMode = LimitMode.BUCKET,
    ) -> None:
        self.name = name
        self.publish = TrafficCounter(name, MonitoringClass.PUBLISH, listener)
        self.dispatch = TrafficCounter(name, MonitoringClass.DISPATCH, listener)
        self.publish_limiter = PublishLimiter(
            self.publish, burst_ns=burst_ns, reason=reason, mode=mode
        )
        self.dispatch_limiter = DispatchLimiter(
            self.dispatch, burst_ns=burst_ns, reason=reason, mode=mode
        )

    def holds(self) -> Iterator[HoldView]:
        """What was held back, if anything was."""
        for limiter in (self.publish_limiter, self.dispatch_limiter):
            counter = limiter.counter
            if any(counter.hold_times.counts) or any(counter.throttles.values()):
                yield HoldView(
                    limiter.reason.value,
                    self.name,
                    counter.monitoring_class,
                    tuple(counter.hold_times.counts),
                    counter.hold_times.total_ns,
                    counter.throttles,
                )

    def set_limits(self, limits: Rates, now_ns: int, lease: Lease | None = None) -> None:
        """Limit from now on, and let nothing pass when the lease is over, if there is one."""
        self.publish_limiter.set_limits(limits, now_ns, lease)
        self.dispatch_limiter.set_limits(limits, now_ns, lease)


_NOTHING = Rates(publish_messages=0)


class _Nobody:
    """Whoever wants to know about participants of a topic's or the broker's own limit."""

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, count: int
    ) -> None:
        """Nobody does."""


class Scopes:
    """The limits of the broker as a whole and of single topics, beside those of resource groups.

    The limit of a partitioned topic is meant for all its partitions together, unlike a broker's own: each
    gets its part, whole numbers that add up, the remainder one by one to the first partitions.

    Args:
        burst_ns: how much a bucket can save up, as time at its rate.
        modes: how limits are enforced.
    """

    def __init__(self, burst_ns: int, modes: Modes) -> None:
        self._burst_ns = burst_ns
        self._modes = modes
        self._broker: Group | None = None
        #: The rates of the whole broker.
        self.broker = Rates()
        #: Rates and number of partitions, by the topic's name without its partition.
        self._limits: dict[str, tuple[Rates, int]] = {}
        #: Those of their partitions that were asked for so far, by index.
        self._topics: dict[str, dict[int, Group]] = {}
        #: Topics, partitions by their own names, to which nobody may publish for now.
        self._blocks: dict[str, Group] = {}
        #: The limit that each partition has by default.
        self.partitions = Partitions(lambda name: self._make(name, ThrottleReason.PARTITION_LIMIT))

    def set_broker(self, rates: Rates, now_ns: int) -> tuple[Group, ...]:
        """Limit the whole broker; return what changed. Rates that are all unlimited end it."""
        changed = self._broker or self._make("broker", ThrottleReason.BROKER_LIMIT)
        changed.set_limits(rates, now_ns)
        self._broker = None if rates == Rates() else changed
        self.broker = rates
        return (changed,)

    def set_topic(
        self, topic: TopicName, rates: Rates, partitions: int, now_ns: int
    ) -> tuple[Group, ...]:
        """Limit a topic; return what changed. Rates that are all unlimited end it."""
        key = str(topic.split_partition()[0])
        if rates == Rates():
            self._limits.pop(key, None)
            parts = self._topics.pop(key, {})
        else:
            self._limits[key] = (rates, partitions)
            parts = self._topics.get(key, {})
        for index, group in parts.items():
            group.set_limits(part_of(rates, index, partitions), now_ns)
        return tuple(parts.values())

    def set_block(self, topic: str, block: Block | None, now_ns: int) -> tuple[Group, ...]:
        """Let nothing more be published to a topic, or let it again; return what changed."""
        former = self._blocks.pop(topic, None)
        if block is None:
            if former is not None:
                former.publish_limiter.refusal = ""
                former.set_limits(Rates(), now_ns)
            return () if former is None else (former,)
        # A new one: whoever waits for the former one is held or refused by this one from now on.
        group = self._make(topic, ThrottleReason.BACKLOG_QUOTA)
        group.set_limits(_NOTHING, now_ns)
        group.publish_limiter.refusal = block.reason if block.refused else ""
        self._blocks[topic] = group
        return (group,)

    def refusal_of(self, topic: str) -> str:
        """What whoever wants to publish to a topic is answered with; empty, and it may."""
        if not self._blocks:
            return ""
        name = TopicName.parse(topic)
        group = None if name is None else self._blocks.get(str(name))
        return "" if group is None else group.publish_limiter.refusal

    def of(self, topic: TopicName, now_ns: int) -> tuple[Group, ...]:
        """What a topic counts against beside its resource groups."""
        broker = () if self._broker is None else (self._broker,)
        if self._blocks:
            block = self._blocks.get(str(topic))
            broker = broker if block is None else (block, *broker)
        broker = (*self.partitions.of(topic, now_ns), *broker)
        if not self._limits:
            return broker
        base, index = topic.split_partition()
        key = str(base)
        if key not in self._limits:
            return broker
        rates, partitions = self._limits[key]
        parts = self._topics.setdefault(key, {})
        # Partitions that nobody told us of share a limiter, so that names cannot pile up here.
        index = min(index, partitions)
        group = parts.get(index)
        if group is None:
            group = parts[index] = self._make(key, ThrottleReason.TOPIC_LIMIT)
            group.set_limits(part_of(rates, index, partitions), now_ns)
        return (group, *broker)

    @property
    def topics(self) -> tuple[TopicLimitView, ...]:
        """All topics with limits, and what each partition that was asked for may pass."""
        return tuple(
            TopicLimitView(
                topic,
                rates,
                partitions,
                {index: part_of(rates, index, partitions) for index in self._topics.get(topic, {})},
            )
            for topic, (rates, partitions) in self._limits.items()
        )

    def groups(self) -> Iterator[Group]:
        """The broker's own and those of topics."""
        if self._broker is not None:
            yield self._broker
        yield from self._blocks.values()
        yield from self.partitions.groups()
        for parts in self._topics.values():
            yield from parts.values()

    def _make(self, name: str, reason: ThrottleReason) -> Group:
        of_topic = reason in (ThrottleReason.TOPIC_LIMIT, ThrottleReason.PARTITION_LIMIT)
        mode = self._modes.topics if of_topic else self._modes.groups
        return Group(name, _Nobody(), self._burst_ns, reason, mode)


def part_of(rates: Rates, index: int, partitions: int) -> Rates:
    """One partition's part of a topic's rates: the largest remainder goes by index."""
    return Rates.from_mapping(
        {
            dimension: None if rate is None else rate // partitions + (index < rate % partitions)
            for dimension in Dimension
            for rate in (rates.of(dimension),)
        }
    )


class GroupTable:
    """All groups, and which topic counts against which of them.

    Args:
        listener: told about participants and about throttling.
        burst_ns: how much a bucket can save up, as time at its rate.
        modes: how limits are enforced.
        cluster_group: the group that everything counts against, if there is one.
        delayed_group: the group whose limit is on delayed messages only, whatever topic they are for, if
            there is one.
    """

    def __init__(
        self,
        listener: GateListener,
        *,
        burst_ns: int = BURST_NS,
        modes: Modes = DEFAULT_MODES,
        cluster_group: str = "",
        delayed_group: str = "",
    ) -> None:
        self._listener = listener
        self._burst_ns = burst_ns
        self._groups: dict[str, Group] = {}
        #: Names of groups that have limits, and of those whose limits are leased.
        self._limited: set[str] = set()
        self._leased: set[str] = set()
        self._lease = Lease()
        self.attachments = Attachments()
        #: Limits beside those of resource groups; their traffic is not reported.
        self._modes = modes
        self._cluster_group = cluster_group
        self._delayed_group = delayed_group
        #: What was published with a time of delivery; None is that nobody looks.
        self.delayed = DelayedMessages() if delayed_group else None
        self.scopes = Scopes(burst_ns, modes)
        self.namespaces = Namespaces()
        self.subscribe_rate = SubscribeRate()

    def group(self, name: str) -> Group:
        """The group of this name."""
        found = self._groups.get(name)
        if found is None:
            is_delayed = name == self._delayed_group
            reason = (
                ThrottleReason.DELAYED_MESSAGES if is_delayed else ThrottleReason.RESOURCE_GROUP
            )
            found = self._groups[name] = Group(
                name, self._listener, self._burst_ns, reason, self._modes.groups
            )
        return found

    def set_limits(self, name: str, limits: Rates, now_ns: int, *, leased: bool = False) -> Group:
        """Limit a group from now on, leased limits until the end of the lease; return it."""
        self._limited.add(name)
        self._leased.discard(name)
        if leased:
            self._leased.add(name)
        group = self.group(name)
        group.set_limits(limits, now_ns, self._lease if leased else None)
        return group

    def remove_limits(self, name: str, now_ns: int) -> Group:
        """Limit a group no more; return it."""
        group = self.set_limits(name, Rates(), now_ns)
        self._limited.discard(name)
        return group

    def hold_lease(self, until_ns: int, now_ns: int) -> tuple[Group, ...]:
        """Leased limits hold until then; return the groups that may let something pass again."""
        was_over = self._lease.is_over(now_ns)
        self._lease.until_ns = until_ns
        return tuple(map(self.group, sorted(self._leased))) if was_over else ()

    def resolve(self, topic: str, now_ns: int, *, publishing: bool = False) -> tuple[Group, ...]:
        """What a topic counts against: its groups, narrowest first, then its own limit, the broker's.

        Publishing does against one more, but for delayed messages only; see ``Producer``.
        """
        name = TopicName.parse(topic)
        if name is None or name.is_system:
            return ()
        names = self._names_of(name)
        if publishing and self._delayed_group and self._delayed_group not in names:
            names = (*names, self._delayed_group)
        return (*map(self.group, names), *self.scopes.of(name, now_ns))

    def namespace(self, topic: str, monitoring_class: MonitoringClass) -> NamespaceCounter:
        """Where a topic's traffic is counted for its namespace."""
        name = TopicName.parse(topic)
        if name is None or name.is_system:
            return NOWHERE
        groups = self._names_of(name)
        key = NamespaceKey(name.tenant, name.namespace, groups, monitoring_class)
        return self.namespaces.counter(key)

    def _names_of(self, name: TopicName) -> tuple[str, ...]:
        """The resource groups of all of a topic's traffic, narrowest first."""
        names = self.attachments.groups_of(name.tenant, name.namespace)
        if self._cluster_group and self._cluster_group not in names:
            return (*names, self._cluster_group)
        return names

    def holds(self) -> Iterator[HoldView]:
        """What every limit has held back, if anything."""
        for group in (*self._groups.values(), *self.scopes.groups()):
            yield from group.holds()

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
