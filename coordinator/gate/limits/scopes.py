"""The limits of the broker as a whole and of single topics, beside those of resource groups."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.backlog.rules.guard import Block
from coordinator.core.model import Dimension, Rates
from coordinator.core.topics import TopicName
from coordinator.gate.limits.counters import GateListener, NoListener
from coordinator.gate.limits.group import Group
from coordinator.gate.limits.modes import Modes
from coordinator.gate.limits.partitions import Partitions
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.insight.model.gate_views import PartitionRatesView, TopicLimitView

_NOTHING = Rates(publish_messages=0)
_NO_LISTENER = NoListener()


class Scopes:
    """The limits of the broker as a whole and of single topics, beside those of resource groups.

    The limit of a partitioned topic holds for all its partitions together, unlike a broker's own: each
    gets its part, whole numbers that add up, the remainder one by one to the first partitions.

    The limit of a scalable topic is a group's (coordinator/app/topic_groups.py): its segments share it by
    their demand, wherever they are, and no gate has to know the layout.

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
        #: Limiters of the partitions that were asked for so far, by index.
        self._topics: dict[str, dict[int, Group]] = {}
        #: Blocked topics, by partition: publishes to them are held or refused.
        self._blocks: dict[str, Group] = {}
        #: The limit that each partition has by default.
        self.partitions = Partitions(
            lambda name, listener: self._make(name, ThrottleReason.PARTITION_LIMIT, listener)
        )

    def set_broker(self, rates: Rates, now_ns: int) -> tuple[Group, ...]:
        """Limit the whole broker; return the changed groups. Unlimited rates remove the limit."""
        changed = self._broker or self._make("broker", ThrottleReason.BROKER_LIMIT)
        changed.set_limits(rates, now_ns)
        self._broker = None if rates == Rates() else changed
        self.broker = rates
        return (changed,)

    def set_topic(
        self, topic: TopicName, rates: Rates, partitions: int, now_ns: int
    ) -> tuple[Group, ...]:
        """Limit a topic; return the changed groups. Unlimited rates remove the limit."""
        key = str(topic.whole)
        if rates == Rates():
            self._limits.pop(key, None)
            parts = self._topics.pop(key, {})
        else:
            self._limits[key] = (rates, partitions)
            parts = self._topics.get(key, {})
        for part, group in parts.items():
            group.set_limits(part_of(rates, part, partitions), now_ns)
        return tuple(parts.values())

    def set_block(self, topic: str, block: Block | None, now_ns: int) -> tuple[Group, ...]:
        """Block publishes to a topic, or unblock it with None; return the changed groups."""
        former = self._blocks.pop(topic, None)
        if block is None:
            if former is not None:
                former.publish_limiter.refusal = ""
                former.set_limits(Rates(), now_ns)
            return () if former is None else (former,)
        # A new one: producers that wait for the former one are held or refused by this one.
        group = self._make(topic, ThrottleReason.BACKLOG_QUOTA)
        group.set_limits(_NOTHING, now_ns)
        group.publish_limiter.refusal = block.reason if block.refused else ""
        self._blocks[topic] = group
        return (group,)

    def refusal_of(self, topic: str) -> str:
        """Return the error that answers publishes to a blocked topic; empty if they are allowed."""
        if not self._blocks:
            return ""
        name = TopicName.parse(topic)
        group = None if name is None else self._blocks.get(str(name))
        return "" if group is None else group.publish_limiter.refusal

    def of_all_topics(self) -> tuple[Group, ...]:
        """Return the limit that every topic counts against; empty if there is none."""
        return () if self._broker is None else (self._broker,)

    def of(self, topic: TopicName, now_ns: int) -> tuple[Group, ...]:
        """Return the limits that a topic counts against beside its resource groups."""
        broker = self.of_all_topics()
        if self._blocks:
            block = self._blocks.get(str(topic))
            broker = broker if block is None else (block, *broker)
        broker = (*self.partitions.of(topic, now_ns), *broker)
        if not self._limits:
            return broker
        key = str(topic.whole)
        if key not in self._limits:
            return broker
        rates, partitions = self._limits[key]
        parts = self._topics.setdefault(key, {})
        # Unannounced partitions share a limiter, so that names cannot pile up here.
        part = min(topic.split_partition()[1], partitions)
        group = parts.get(part)
        if group is None:
            group = parts[part] = self._make(key, ThrottleReason.TOPIC_LIMIT)
            group.set_limits(part_of(rates, part, partitions), now_ns)
        return (group, *broker)

    @property
    def topics(self) -> tuple[TopicLimitView, ...]:
        """Return all topics with limits, and the part of each partition that was asked for."""
        return tuple(
            TopicLimitView.limits(
                rates,
                topic=topic,
                partitions=partitions,
                parts=tuple(
                    PartitionRatesView.limits(part_of(rates, part, partitions), partition=part)
                    for part in sorted(self._topics.get(topic, ()))
                ),
            )
            for topic, (rates, partitions) in self._limits.items()
        )

    def groups(self) -> Iterator[Group]:
        """Yield the limits of the broker and of topics."""
        if self._broker is not None:
            yield self._broker
        yield from self._blocks.values()
        yield from self.partitions.groups()
        for parts in self._topics.values():
            yield from parts.values()

    def _make(
        self, name: str, reason: ThrottleReason, listener: GateListener = _NO_LISTENER
    ) -> Group:
        of_topic = reason in (ThrottleReason.TOPIC_LIMIT, ThrottleReason.PARTITION_LIMIT)
        make = self._modes.topics if of_topic else self._modes.groups
        return Group(name, listener, self._burst_ns, reason, make, self._modes.debt_ns)


def part_of(rates: Rates, part: int, partitions: int) -> Rates:
    """Return one partition's part of a topic's rates; the remainder goes by index."""
    return Rates.from_mapping(
        {
            dimension: None if rate is None else _share(rate, part, partitions)
            for dimension in Dimension
            for rate in (rates.of(dimension),)
        }
    )


def _share(rate: int, part: int, partitions: int) -> int:
    return rate // partitions + (part < rate % partitions)
