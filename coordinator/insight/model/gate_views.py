"""The figures of a gate: in total, of held messages, of its own limits, of each connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from coordinator.core.answer import Age, Limit, answer
from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass, Unit
from coordinator.insight.model.rates import Limits, RatesView

HOLD_BUCKETS_NS: Final = tuple(
    milliseconds * 1_000_000
    for milliseconds in (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
)
"""Upper bounds of the histogram of hold times; from the wake interval to a client's send timeout."""

SLOW_AFTER_S: Final = 2.0
"""An answer of the gate that takes longer is late: forty times the time between two collections."""


@dataclass(frozen=True, slots=True)
class GateFigures:
    """The gate at one moment, and its counts since its start.

    Args:
        connections: clients connected now.
        producers: producers connected now.
        consumers: consumers connected now.
        waiting_producers: producers that wait for tokens now.
        waiting_consumers: consumers whose permits wait for tokens now.
        withheld_permits: permits of consumers that the broker does not have yet.
        held_frames: frames held now.
        held_bytes: bytes held now.
        longest_hold_ns: for how long the oldest publish of them has been held; 0 while none is. Clients
            give up after their send timeout, 30 s by default.
        throttles: how often each reason began to hold something back, by its name.
        refused_publishes: SENDs answered with an error because a backlog quota is exceeded.
        refused_subscribes: SUBSCRIBEs refused because their consumer came too often.
        pauses: how often a connection was not read, whatever the reason.
        keep_alive_replies: PONGs that the gate sent on behalf of a paused peer.
        dropped_frames: held frames that were dropped because their producer or consumer was closed or
            has begun anew.
        replicated_messages: messages of geo-replication, which is exempt.
        replicated_bytes: bytes of geo-replication.
        upstream_failures: how often the broker could not be reached.
        malformed_closes: connections closed for a frame that is malformed or may not come, by reason.
        refusals: requests and publishes refused on connections that went on, by reason.
        unknown_commands: commands of a later Pulsar that passed, by the number of their type; 0 is all
            further types.
        closes: connections that the gate closed or did not let in, by reason.
    """

    connections: int = 0
    producers: int = 0
    consumers: int = 0
    waiting_producers: int = 0
    waiting_consumers: int = 0
    withheld_permits: int = 0
    held_frames: int = 0
    held_bytes: int = 0
    longest_hold_ns: int = 0
    throttles: Mapping[str, int] = field(default_factory=dict)
    refused_publishes: int = 0
    refused_subscribes: int = 0
    pauses: int = 0
    keep_alive_replies: int = 0
    dropped_frames: int = 0
    replicated_messages: int = 0
    replicated_bytes: int = 0
    upstream_failures: int = 0
    malformed_closes: Mapping[str, int] = field(default_factory=dict)
    refusals: Mapping[str, int] = field(default_factory=dict)
    unknown_commands: Mapping[int, int] = field(default_factory=dict)
    closes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GateSlowness:
    """The slow spells of a gate: one lasts from a first late answer until none is late.

    Args:
        spells: since the start, the present one included.
        is_slow: whether an answer is late now.
        lasts_ns: the length of the present spell; 0 without one.
    """

    spells: int = 0
    is_slow: bool = False
    lasts_ns: int = 0


@dataclass(frozen=True, slots=True)
class UnknownTopicsView:
    """The topics with names that the gate does not know, where it lets these pass.

    Args:
        participants: producers and consumers connected now.
        messages: messages that passed since the start, both ways.
        names: the latest names, in ASCII and cut to a bound.
    """

    participants: int = 0
    messages: int = 0
    names: tuple[str, ...] = ()


@answer
class ConnectionFigures:
    """One client connection at this moment."""

    peer: str
    """host:port of the client"""
    role: str
    """as the client proved it, anonymous if it proved none; (others) where the name cannot be shown"""
    producers: int
    consumers: int
    held_frames: int
    """publishes held until there are tokens"""
    held_bytes: int
    unanswered: int
    """publishes that the broker has not answered yet"""
    withheld_permits: int
    """permits of its consumers held back"""
    throttles: Mapping[str, int]
    """how often each reason held something back"""
    paused_for: tuple[str, ...]
    """why it is not read now"""


class Debtor(NamedTuple):
    """The client that took some time of a limit in advance.

    Args:
        peer: host and port.
        role: as it has proved it.
        topic: the topic that it published to, or consumed.
        messages: of the publish or the delivery.
        size: the same in bytes.
    """

    peer: str
    role: str
    topic: str
    messages: int
    size: int

    def sentence(self, what: str, owed_ns: int) -> str:
        """Return that this client made a debt, of a publish or a delivery."""
        return (
            f"{owed_ns / NANOS_PER_SECOND:.1f} s of the limit are taken in advance, last by a {what} of "
            f"{self.messages:,} messages and {self.size:,} bytes of {self.topic}: {self.peer}, role "
            f"{self.role}."
        )


@dataclass(frozen=True, slots=True)
class HoldView:
    """The messages that one limit has held since the start, of one class.

    Args:
        scope: the owner of the limit: a reason of gate/limits/throttle.py, such as "resource group"
            or "topic limit".
        name: of the group or the topic; "broker".
        monitoring_class: publishes; or permits of consumers and what is sent to them.
        counts: the number held, by hold time: one per `HOLD_BUCKETS_NS`, and the longer ones.
        held_ns: their hold times together.
        throttles: how often it began to hold, by the unit that was waited for longest.
        owed_ns: the time for which the limit is taken in advance now.
        debtor: who took much of it in advance, the last time; None if none did.
    """

    scope: str
    name: str
    monitoring_class: MonitoringClass
    counts: tuple[int, ...]
    held_ns: int
    throttles: Mapping[Unit, int]
    owed_ns: int = 0
    debtor: Debtor | None = None


@answer
class RoleView:
    """The traffic of one role at this gate since it was first seen; of roles while any is attached."""

    role: str
    """as clients proved it; (others) stands for further ones"""
    group: str
    """the group that limits it; empty = none"""
    monitoring_class: MonitoringClass
    """publishes, or messages that consumers were sent"""
    participants: int
    """producers or consumers connected now"""
    messages: int
    bytes: int
    held_ns: Age
    """how long at least one of its producers or consumers waited, for any limit"""


@answer
class TopicRatesView(RatesView):
    """A topic with limits of its own, for all its partitions or segments together."""

    topic: str


@answer
class PartitionRatesView(RatesView):
    """The limits of one partition of a topic at this gate."""

    partition: int


@answer
class TopicLimitView(TopicRatesView):
    """A topic's limits as this gate enforces them."""

    partitions: int
    """as far as this sidecar's broker has said; 1 = not partitioned"""
    parts: tuple[PartitionRatesView, ...] = ()
    """of partitions that were used at this gate"""


@answer
class GateLimits:
    """The limits beside those of groups and scalable topics; the strictest that applies acts."""

    broker: Limits
    """of everything that passes this gate"""
    subscribe_rate_per_consumer: Limit
    """per period; -1 = not limited"""
    subscribe_rate_period_s: int
    topics: tuple[TopicLimitView, ...]
    """the first ones by name"""
    topics_left_out: int = 0

    def first(self, most: int) -> Self:
        """Return the same with the first topics by name alone."""
        topics = sorted(self.topics, key=lambda view: view.topic)
        shown = tuple(topics[:most])
        return replace(self, topics=shown, topics_left_out=len(topics) - len(shown))
