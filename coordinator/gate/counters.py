"""What passed, who took part and who had to wait: one counter per resource group and class.

Counts only ever grow; ``collect`` gives the difference to the last time. The hot path adds to
``messages`` and ``bytes`` itself, so they are plain attributes.

Waiting is time, not a number of events: a group is *held* on messages (or bytes) while at least one of
its producers waits and tokens of that unit are what the first in line waits for longest. A broker that
held producers has hidden demand, and the length of that time is what the coordinator goes by.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Protocol

from coordinator.core.gate_views import HOLD_BUCKETS_NS
from coordinator.core.model import MonitoringClass, Traffic, Unit


class GateListener(Protocol):
    """Who wants to know at once what happens at the gate; called on the event loop, must not block."""

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, count: int
    ) -> None:
        """The first participant of a group appeared at this broker, or its last one left."""
        ...


class Nobody:
    """A listener who does not want to know."""

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, count: int
    ) -> None:
        """Nothing is to be done."""


class Stopwatch:
    """How long something was so, in nanoseconds."""

    __slots__ = ("_since_ns", "_total_ns", "starts")

    def __init__(self) -> None:
        self._since_ns: int | None = None
        self._total_ns = 0
        #: How often it began.
        self.starts = 0

    @property
    def is_idle(self) -> bool:
        """Whether it is not so now, and was not since this was last asked for the time."""
        return self._since_ns is None and not self._total_ns

    def set(self, *, running: bool, now_ns: int) -> None:
        """It is so from now on, or not."""
        self.starts += running and self._since_ns is None
        self._total_ns += self._elapsed_ns(now_ns)
        self._since_ns = now_ns if running else None

    def take_ns(self, now_ns: int) -> int:
        """The time since this was last asked."""
        taken = self._total_ns + self._elapsed_ns(now_ns)
        self._total_ns = 0
        if self._since_ns is not None:
            self._since_ns = now_ns
        return taken

    def _elapsed_ns(self, now_ns: int) -> int:
        return 0 if self._since_ns is None else now_ns - self._since_ns


class HoldTimes:
    """A histogram of how long something was held; its buckets are `HOLD_BUCKETS_NS`."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(HOLD_BUCKETS_NS) + 1)
        self.total_ns = 0

    def add(self, held_ns: int) -> None:
        """Something was held so long."""
        self.counts[bisect_left(HOLD_BUCKETS_NS, held_ns)] += 1
        self.total_ns += held_ns


class TrafficCounter:
    """Traffic of one group and class at this broker."""

    __slots__ = (
        "_bytes_held", "_collected", "_listener", "_messages_held", "_topics",
        "bytes", "group", "hold_times", "messages", "monitoring_class", "participants",
    )  # fmt: skip

    def __init__(
        self, group: str, monitoring_class: MonitoringClass, listener: GateListener
    ) -> None:
        self.group = group
        self.monitoring_class = monitoring_class
        self._listener = listener
        #: Messages and bytes that passed since the start.
        self.messages = 0
        self.bytes = 0
        #: Producers or consumers connected now.
        self.participants = 0
        #: Of what had to wait for this counter's limit.
        self.hold_times = HoldTimes()
        self._collected = (0, 0)
        self._topics: dict[str, int] = {}
        self._messages_held = Stopwatch()
        self._bytes_held = Stopwatch()

    def join(self, topic: str) -> None:
        """A producer or consumer of a topic connected."""
        self._topics[topic] = self._topics.get(topic, 0) + 1
        self.participants += 1
        if self.participants == 1:
            self._listener.participants_changed(self.group, self.monitoring_class, 1)

    def leave(self, topic: str) -> None:
        """A producer or consumer of a topic is gone."""
        self._topics[topic] -= 1
        if not self._topics[topic]:
            del self._topics[topic]
        self.participants -= 1
        if not self.participants:
            self._listener.participants_changed(self.group, self.monitoring_class, 0)

    def hold(self, *, on_messages: bool, on_bytes: bool, now_ns: int) -> None:
        """Say what the first in line waits for from now on; neither is nobody waits."""
        self._messages_held.set(running=on_messages, now_ns=now_ns)
        self._bytes_held.set(running=on_bytes, now_ns=now_ns)

    @property
    def throttles(self) -> dict[Unit, int]:
        """How often waiting began, by what was waited for."""
        return {Unit.MESSAGES: self._messages_held.starts, Unit.BYTES: self._bytes_held.starts}

    def collect(self, now_ns: int) -> Traffic | None:
        """What happened since the last time; None when nothing did and nobody is connected."""
        if self.is_quiet and not self.participants:
            return None
        messages, size = self._collected
        self._collected = (self.messages, self.bytes)
        return Traffic(
            self.group,
            self.monitoring_class,
            messages=self.messages - messages,
            bytes=self.bytes - size,
            messages_held_ns=self._messages_held.take_ns(now_ns),
            bytes_held_ns=self._bytes_held.take_ns(now_ns),
            participants=self.participants,
            topics=len(self._topics),
        )

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has passed and nobody has waited since this was last collected."""
        return (
            (self.messages, self.bytes) == self._collected
            and self._messages_held.is_idle
            and self._bytes_held.is_idle
        )
