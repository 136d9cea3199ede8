"""Producers and consumers of a connection, and what is held of a producer.

A participant counts for the groups of its topic for as long as it is connected. Which groups those
are can change at any time; ``attach`` moves it over without ever counting it out of a group that it
stays in, so that nobody is told of a participant that left and one that came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from coordinator.gate.counters import TrafficCounter
from coordinator.gate.groups import Group
from coordinator.gate.limiter import PublishLimiter


class _HeldFrame(NamedTuple):
    """A frame that waits; a command that waits behind its producer's SENDs has 0 messages."""

    frame: bytes
    messages: int
    size: int


class Consumer:
    """A consumer, counted on dispatch.

    Args:
        topic: what it consumes.
        exempt: whether it replicates to another cluster, and so counts against no group.
    """

    __slots__ = ("consumer_id", "counters", "exempt", "topic")

    def __init__(self, consumer_id: int, topic: str, *, exempt: bool) -> None:
        self.consumer_id = consumer_id
        self.topic = topic
        self.exempt = exempt
        #: One per group of the topic.
        self.counters: tuple[TrafficCounter, ...] = ()

    def attach(self, groups: tuple[Group, ...]) -> None:
        """Count for these groups from now on."""
        counters = () if self.exempt else tuple(group.dispatch for group in groups)
        _move(self.topic, self.counters, counters)
        self.counters = counters


class Producer:
    """A producer, limited and counted on publish; waits in the admission queue while it holds frames.

    Args:
        topic: what it publishes to.
        exempt: whether it replicates from another cluster, and so counts against no group.
        forward: takes a frame that is released.
    """

    __slots__ = (
        "_forward", "exempt", "held", "held_bytes", "limiters", "producer_id", "topic",
        "turn", "unanswered", "waits_for",
    )  # fmt: skip

    def __init__(
        self, producer_id: int, topic: str, *, exempt: bool, forward: Callable[[bytes], None]
    ) -> None:
        self.producer_id = producer_id
        self.topic = topic
        self.exempt = exempt
        self._forward = forward
        #: Who must admit a message, one per group of the topic.
        self.limiters: tuple[PublishLimiter, ...] = ()
        #: In order of arrival; the first one is a SEND.
        self.held: deque[_HeldFrame] = deque()
        self.held_bytes = 0
        #: SENDs that went to the broker and have no receipt yet.
        self.unanswered = 0
        self.turn = 0
        self.waits_for: PublishLimiter | None = None

    def counts_for(self, groups: tuple[Group, ...]) -> bool:
        """Whether these are the groups that must admit its messages now."""
        return self.limiters == self._limiters_of(groups)

    def attach(self, groups: tuple[Group, ...]) -> None:
        """Count for these groups from now on; must not be waiting."""
        before, self.limiters = self.limiters, self._limiters_of(groups)
        _move(
            self.topic,
            tuple(limiter.counter for limiter in before),
            tuple(limiter.counter for limiter in self.limiters),
        )

    def _limiters_of(self, groups: tuple[Group, ...]) -> tuple[PublishLimiter, ...]:
        return () if self.exempt else tuple(group.limiter for group in groups)

    def hold(self, frame: bytes, messages: int, size: int) -> None:
        """Keep a frame behind those that are already held."""
        self.held.append(_HeldFrame(frame, messages, size))
        self.held_bytes += len(frame)

    def next_cost(self) -> tuple[int, int]:
        """Messages and bytes of the first held message."""
        first = self.held[0]
        return first.messages, first.size

    def release(self) -> bool:
        """Forward the first held message and the commands behind it; tell whether there are more."""
        self._forward_first()
        while self.held and not self.held[0].messages:
            self._forward_first()
        return bool(self.held)

    def _forward_first(self) -> None:
        frame, messages, _ = self.held.popleft()
        self.held_bytes -= len(frame)
        self.unanswered += messages > 0
        self._forward(frame)

    def drop_held(self) -> list[bytes]:
        """Forget the held messages; give back the commands that waited behind them."""
        commands = [held.frame for held in self.held if not held.messages]
        self.held.clear()
        self.held_bytes = 0
        return commands


def _move(
    topic: str, before: tuple[TrafficCounter, ...], after: tuple[TrafficCounter, ...]
) -> None:
    for counter in after:
        if counter not in before:
            counter.join(topic)
    for counter in before:
        if counter not in after:
            counter.leave(topic)
