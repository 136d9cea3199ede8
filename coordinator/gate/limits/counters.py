"""Counters of one resource group and class: traffic, participants and waiting.

``collect`` returns the difference to the last collection. The hot path adds to ``messages`` and ``bytes``
itself, so they are plain attributes. They only ever grow, but for what was charged and is given back: a
publish that never came in full (engine/requests.py) or was dropped when a part of it was paid
(engine/producer.py), and a request that the broker refused (engine/storing.py). If that was collected, it
is taken off later counts.

Waiting is measured as time, not as a number of events: a group is *held* on messages (or bytes) while at
least one of its producers waits and the first in line waits longest for tokens of that unit. A broker
that held producers has hidden demand; the coordinator judges it by the length of that time.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, Protocol

from coordinator.core.model import MonitoringClass, Unit
from coordinator.core.traffic import Traffic
from coordinator.insight.model.gate_views import HOLD_BUCKETS_NS

OTHERS: Final = "(others)"
"""Stands for all further names where they are bounded; no name in Pulsar has parentheses."""


class GateListener(Protocol):
    """Told at once of participants at the gate; called on the event loop, must not block."""

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, count: int
    ) -> None:
        """Take the news that a group's first participant appeared here, or that its last one left."""


class NoListener:
    """A listener that ignores all news."""

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, count: int
    ) -> None:
        """Do nothing."""


class Stopwatch:
    """Measures the total time, in nanoseconds, for which a condition holds."""

    __slots__ = ("_since_ns", "_total_ns", "starts")

    def __init__(self) -> None:
        self._since_ns: int | None = None
        self._total_ns = 0
        #: How often the condition began.
        self.starts = 0

    @property
    def is_idle(self) -> bool:
        """Whether it is stopped and has no time left to take."""
        return self._since_ns is None and not self._total_ns

    def set(self, *, running: bool, now_ns: int) -> None:
        """Start or stop the stopwatch."""
        self.starts += running and self._since_ns is None
        self._total_ns += self._elapsed_ns(now_ns)
        self._since_ns = now_ns if running else None

    def add_ns(self, span_ns: int) -> None:
        """Count this time as well."""
        self._total_ns += span_ns

    def take_ns(self, now_ns: int) -> int:
        """Return the time measured since the last call, in nanoseconds."""
        taken = self._total_ns + self._elapsed_ns(now_ns)
        self._total_ns = 0
        if self._since_ns is not None:
            self._since_ns = now_ns
        return taken

    def _elapsed_ns(self, now_ns: int) -> int:
        return 0 if self._since_ns is None else now_ns - self._since_ns


class SharedCounter:
    """Traffic that several participants pass, and how long at least one of them has waited."""

    __slots__ = ("_held", "_waiting", "bytes", "messages", "participants")

    def __init__(self) -> None:
        #: Messages and bytes that passed since the start; the hot path adds to them itself.
        self.messages = 0
        self.bytes = 0
        #: Producers or consumers connected now.
        self.participants = 0
        self._waiting = 0
        self._held = Stopwatch()

    def wait(self, now_ns: int) -> None:
        """Count one more participant that waits."""
        self._waiting += 1
        self._held.set(running=True, now_ns=now_ns)

    def go_on(self, now_ns: int) -> None:
        """Count one waiting participant less."""
        self._waiting -= 1
        self._held.set(running=self._waiting > 0, now_ns=now_ns)


class HoldTimes:
    """A histogram of hold times; its buckets are `HOLD_BUCKETS_NS`."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(HOLD_BUCKETS_NS) + 1)
        self.total_ns = 0

    def add(self, held_ns: int) -> None:
        """Count one hold of this length."""
        self.counts[bisect_left(HOLD_BUCKETS_NS, held_ns)] += 1
        self.total_ns += held_ns


class TrafficCounter:
    """Traffic of one group and class at this broker."""

    __slots__ = (
        "_bytes_held", "_collected", "_listener", "_messages_held", "_refused", "_topics",
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
        #: Hold times of frames and permits that waited for this counter's limit.
        self.hold_times = HoldTimes()
        self._collected = (0, 0)
        #: Messages and bytes refused since the last collection.
        self._refused = (0, 0)
        self._topics: dict[str, int] = {}
        self._messages_held = Stopwatch()
        self._bytes_held = Stopwatch()

    def join(self, topic: str) -> None:
        """Count one more producer or consumer of a topic."""
        self._topics[topic] = self._topics.get(topic, 0) + 1
        self.participants += 1
        if self.participants == 1:
            self._listener.participants_changed(self.group, self.monitoring_class, 1)

    def leave(self, topic: str) -> None:
        """Count one producer or consumer of a topic less."""
        self._topics[topic] -= 1
        if not self._topics[topic]:
            del self._topics[topic]
        self.participants -= 1
        if not self.participants:
            self._listener.participants_changed(self.group, self.monitoring_class, 0)

    def hold(self, *, on_messages: bool, on_bytes: bool, now_ns: int) -> None:
        """Record which unit blocks the head of the queue; both False means the queue is empty."""
        self._messages_held.set(running=on_messages, now_ns=now_ns)
        self._bytes_held.set(running=on_bytes, now_ns=now_ns)

    def refuse(self, messages: int, size: int, of_messages_ns: int, of_bytes_ns: int) -> None:
        """Count a refused frame.

        It counts as waiting for the time for which it would have taken up the limit: so the throttled
        part of the time shows the demand of clients that give up just as that of clients that wait.

        Args:
            messages: of the frame.
            size: of the frame, in bytes.
            of_messages_ns: the time for which it would have taken up the limit of messages.
            of_bytes_ns: the same of bytes.
        """
        self._refused = (self._refused[0] + messages, self._refused[1] + size)
        longer = self._messages_held if of_messages_ns >= of_bytes_ns else self._bytes_held
        longer.add_ns(max(of_messages_ns, of_bytes_ns))

    @property
    def throttles(self) -> dict[Unit, int]:
        """The number of times that waiting began, by the unit that was waited for."""
        return {Unit.MESSAGES: self._messages_held.starts, Unit.BYTES: self._bytes_held.starts}

    def collect(self, now_ns: int) -> Traffic | None:
        """Return the counts since the last call; None without news and without participants."""
        if self.is_quiet and not self.participants:
            return None
        messages, size = self._collected
        passed_messages = max(0, self.messages - messages)
        passed_bytes = max(0, self.bytes - size)
        self._collected = (messages + passed_messages, size + passed_bytes)
        (messages_refused, bytes_refused), self._refused = self._refused, (0, 0)
        return Traffic(
            self.group,
            self.monitoring_class,
            messages=passed_messages,
            bytes=passed_bytes,
            messages_held_ns=self._messages_held.take_ns(now_ns),
            bytes_held_ns=self._bytes_held.take_ns(now_ns),
            participants=self.participants,
            topics=len(self._topics),
            messages_refused=messages_refused,
            bytes_refused=bytes_refused,
        )

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has passed and no participant has waited since the last collection."""
        return (
            self.messages <= self._collected[0]
            and self.bytes <= self._collected[1]
            and self._messages_held.is_idle
            and self._bytes_held.is_idle
            and not self._refused[0]
        )
