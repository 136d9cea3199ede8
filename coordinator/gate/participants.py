"""Producers and consumers of a connection, what is held of a producer and withheld of a consumer.

A participant counts for the groups of its topic for as long as it is connected. Which groups those
are can change at any time; ``attach`` moves it over without ever counting it out of a group that it
stays in, so that nobody is told of a participant that left and one that came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from coordinator.gate.admission import AdmissionQueue, Limiter, Turn
from coordinator.gate.counters import TrafficCounter
from coordinator.gate.dispatch import UNKNOWN, DispatchLimiter
from coordinator.gate.groups import Group
from coordinator.gate.limiter import PublishLimiter
from coordinator.gate.throttle import ThrottleReason

_SLICES_AT_ONCE: Final = 2
"""A bucket is good for so many slices of a consumer that is alone."""

_SLICES_OUT_MAX: Final = 8
"""So many slices may be out for a consumer that is alone: what it gets in 180 ms, if bursts are 50 ms."""

PERMITS_MAX: Final = 0x7FFFFFFF
"""The most permits that a broker's consumer can count."""


class _HeldFrame(NamedTuple):
    """A frame that waits; a command that waits behind its producer's SENDs has 0 messages."""

    frame: bytes
    messages: int
    size: int
    since_ns: int


class Entries(NamedTuple):
    """Entries that go to a consumer one after the other, an entry being a message or a batch."""

    entries: int
    messages: int
    size: int
    most_messages: int
    largest: int


class Consumer:
    """A consumer, counted and limited on dispatch; waits in the admission queue for permits.

    Permits go out in *slices* of so many entries, and the next slice when half of the last one is used. A
    slice begins with one entry and doubles with every one that is used, up to a part of the bucket that
    is the smaller the more consumers wait. So a consumer without a backlog keeps few permits, and
    one with a backlog gets enough of them for the way to the broker and back. A topic that is not
    persistent gets all that the bucket is good for: its broker drops what finds no permit.

    Where a broker takes its time (to read a backlog from disks, say), a slice would be used up long
    before the next one brings anything. So there may be several out, as tokens come: its *reach*. It
    begins with one slice, doubles as well with every one that is used, and ends where all consumers
    together have as many out as one alone may have.

    Args:
        topic: what it consumes.
        shared: whether its subscription is Shared or Key_Shared.
        exempt: whether it replicates to another cluster, and so counts against no group.
        grant: sends the broker a FLOW with so many permits.
    """

    __slots__ = (
        "_entry_bytes", "_entry_messages", "_expected", "_grant", "_persistent", "_promised",
        "_reach", "_shared", "_slice", "consumer_id", "exempt", "held_since_ns", "limited", "limiters",
        "permits", "served_until_ns", "topic", "turn", "waits_for", "withheld",
    )  # fmt: skip

    def __init__(
        self,
        consumer_id: int,
        topic: str,
        *,
        shared: bool,
        exempt: bool,
        grant: Callable[[int, int], None],
    ) -> None:
        self.consumer_id = consumer_id
        self.topic = topic
        self.exempt = exempt
        self._grant = grant
        self._shared = shared
        self._persistent = not topic.startswith("non-persistent:")
        #: Who must admit a permit, one per group of the topic.
        self.limiters: tuple[DispatchLimiter, ...] = ()
        #: Whether permits may be withheld: there is a limit, or was one when they came.
        self.limited = False
        #: Permits that the broker has; below 0 once a batch was larger than what was left.
        self.permits = 0
        #: Permits that the client gave and the broker does not have yet.
        self.withheld = 0
        #: For how many entries permits go out at once, and for how many they may be out.
        self._slice = 1
        self._reach = 0
        #: How many entries they were promised for that have not come yet.
        self._expected = 0
        #: Messages and bytes that each of these was expected to have.
        self._promised = (0, 0)
        #: What its entries are like: as large as the largest of late. 0 is not known.
        self._entry_messages = 0
        self._entry_bytes = 0
        #: When permits began to wait for tokens.
        self.held_since_ns = 0
        self.turn: Turn = (0, 0)
        self.served_until_ns: dict[Limiter, int] = {}
        self.waits_for: Limiter | None = None

    @property
    def waiting(self) -> bool:
        """Whether permits wait for tokens."""
        return self.waits_for is not None

    def counts_for(self, groups: tuple[Group, ...]) -> bool:
        """Whether these are the groups that its messages count for now."""
        return self.limiters == self._limiters_of(groups)

    def attach(self, groups: tuple[Group, ...]) -> None:
        """Count for these groups from now on; must not be waiting if they are others."""
        before, self.limiters = self.limiters, self._limiters_of(groups)
        self.served_until_ns.clear()
        _move(
            self.topic,
            tuple(limiter.counter for limiter in before),
            tuple(limiter.counter for limiter in self.limiters),
        )
        self.limited = self.withheld > 0 or self._has_limit()

    def _limiters_of(self, groups: tuple[Group, ...]) -> tuple[DispatchLimiter, ...]:
        return () if self.exempt else tuple(group.dispatch_limiter for group in groups)

    def _has_limit(self) -> bool:
        return any(limiter.limited for limiter in self.limiters)

    def withhold(self, permits: int) -> None:
        """Keep permits that the client gave; the broker's count is an int32 and ends there, too."""
        self.withheld = min(self.withheld + permits, PERMITS_MAX)

    def passed(self, entries: Entries, now_ns: int) -> bool:
        """Entries go to the client: count them, learn from them; tell whether they cost less."""
        expected = min(entries.entries, self._expected)
        kept = (expected * self._promised[0], expected * self._promised[1])
        largest = (entries.most_messages, entries.largest)
        for limiter in self.limiters:
            limiter.passed(entries.messages, entries.size, largest, now_ns)
            limiter.keep(*kept)
        self._expected -= expected
        # Up at once, down slowly: what is taken too small goes out too often.
        self._entry_messages = max(largest[0], (3 * self._entry_messages + largest[0]) >> 2)
        self._entry_bytes = max(largest[1], (3 * self._entry_bytes + largest[1]) >> 2)
        return entries.messages < kept[0] or entries.size < kept[1]

    def ask(self, queue: AdmissionQueue, now_ns: int) -> None:
        """Line up for the next slice of permits, if it is time."""
        if not self.withheld or self.waiting:
            return
        if self.withheld <= -self.permits:
            self._pass_on(self.withheld)  # pays for a large batch and lets nothing out
            return
        if not self._is_time() and self._has_limit():
            return
        if self._persistent:
            self._slice = min(2 * self._slice, self._largest_slice(queue))
        else:
            self._slice = self._largest_slice(None)
        self._reach = max(self._slice, min(2 * self._reach, self._farthest_reach()))
        self.held_since_ns = now_ns
        queue.wait(self, now_ns)

    def _is_time(self) -> bool:
        """Whether at least half a slice is missing of what may be out."""
        missing = self._permits_for(max(self._reach, self._slice)) - self.permits
        return 2 * missing >= self._permits_for(self._slice)

    def _farthest_reach(self) -> int:
        """For how many entries permits may be out, so that those of all consumers stay bounded."""
        consumers = max((limiter.counter.participants for limiter in self.limiters), default=1)
        return _SLICES_OUT_MAX * self._largest_slice(None) // (_SLICES_AT_ONCE * consumers)

    def _largest_slice(self, queue: AdmissionQueue | None) -> int:
        """What a nearly full bucket is good for; a part of it, if the queue's other waiters matter."""
        messages, size = self._entry()
        if messages == UNKNOWN:
            if queue is not None:
                return 1
            messages = size = 1
        largest = PERMITS_MAX
        for limiter in self.limiters:
            parts = 1 if queue is None else _SLICES_AT_ONCE * (1 + queue.waiting_for(limiter))
            largest = min(largest, limiter.entries(messages, size) // parts)
        return max(1, largest)

    def _entry(self) -> tuple[int, int]:
        """Messages and bytes that the next entry is expected to have."""
        if self._entry_messages:
            return self._entry_messages, self._entry_bytes
        for limiter in self.limiters:
            if limiter.typical_entry is not None:
                return limiter.typical_entry
        return UNKNOWN, UNKNOWN

    def next_cost(self) -> tuple[int, int]:
        """Messages and bytes that the next slice is expected to let out."""
        messages, size = self._entry()
        entries = max(0, self._next_out() - self._expected)  # the others were promised before
        return messages * entries, size * entries

    def release(self) -> bool:
        """Pass on the permits of the next slice, or all that are withheld if there is no limit."""
        if not self._has_limit():
            self._pass_on(self.withheld)
            self.limited = False
            return False
        self._expected = self._next_out()
        self._promised = self._entry()
        wanted = self._permits_for(self._expected) - self.permits
        self._pass_on(max(1, min(self.withheld, wanted)))
        return self.withheld > 0 and self._is_time()

    def _next_out(self) -> int:
        """For how many entries permits are out once the next slice is."""
        return min(self._reach, self._entries_for(self.permits) + self._slice)

    def _entries_for(self, permits: int) -> int:
        """Entries that so many permits let out."""
        if not self._shared:
            return max(0, permits)
        return 0 if permits <= 0 else 1 + (permits - 1) // max(1, self._entry_messages)

    def _permits_for(self, entries: int) -> int:
        """Permits that let out so many entries.

        For one consumer at a time the broker reads an entry per permit, whatever that holds; among
        several it counts the messages that it sends.
        """
        return 1 + (entries - 1) * self._entry_messages if self._shared else entries

    def _pass_on(self, permits: int) -> None:
        self.withheld -= permits
        self.permits += permits
        self._grant(self.consumer_id, permits)


class Producer:
    """A producer, limited and counted on publish; waits in the admission queue while it holds frames.

    Args:
        topic: what it publishes to.
        exempt: whether it replicates from another cluster, and so counts against no group.
        forward: takes a frame that is released, and its messages; 0 is a command.
    """

    __slots__ = (
        "_forward", "exempt", "held", "held_bytes", "limiters", "producer_id", "served_until_ns",
        "topic", "turn", "unanswered", "waits_for",
    )  # fmt: skip

    def __init__(
        self, producer_id: int, topic: str, *, exempt: bool, forward: Callable[[bytes, int], None]
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
        self.turn: Turn = (0, 0)
        self.served_until_ns: dict[Limiter, int] = {}
        self.waits_for: Limiter | None = None

    @property
    def refusal(self) -> str:
        """What its publishes are answered with in place of being held; empty if they are held."""
        return next((limiter.refusal for limiter in self.limiters if limiter.refusal), "")

    @property
    def reason(self) -> ThrottleReason:
        """Whose limit it waits for."""
        assert self.waits_for is not None
        return self.waits_for.reason

    def counts_for(self, groups: tuple[Group, ...]) -> bool:
        """Whether these are the groups that must admit its messages now."""
        return self.limiters == self._limiters_of(groups)

    def attach(self, groups: tuple[Group, ...]) -> None:
        """Count for these groups from now on; must not be waiting."""
        before, self.limiters = self.limiters, self._limiters_of(groups)
        self.served_until_ns.clear()
        _move(
            self.topic,
            tuple(limiter.counter for limiter in before),
            tuple(limiter.counter for limiter in self.limiters),
        )

    def _limiters_of(self, groups: tuple[Group, ...]) -> tuple[PublishLimiter, ...]:
        return () if self.exempt else tuple(group.publish_limiter for group in groups)

    @property
    def held_since_ns(self) -> int:
        """When the first held message came."""
        return self.held[0].since_ns

    def hold(self, frame: bytes, messages: int, size: int, now_ns: int) -> None:
        """Keep a frame behind those that are already held."""
        self.held.append(_HeldFrame(frame, messages, size, now_ns))
        self.held_bytes += len(frame)

    def next_cost(self) -> tuple[int, int]:
        """Messages and bytes of the first held message."""
        _, messages, size, _ = self.held[0]
        return messages, size

    def release(self) -> bool:
        """Forward the first held message and the commands behind it; tell whether there are more."""
        self._forward_first()
        while self.held and not self.held[0].messages:
            self._forward_first()
        return bool(self.held)

    def _forward_first(self) -> None:
        frame, messages, _, _ = self.held.popleft()
        self.held_bytes -= len(frame)
        self.unanswered += messages > 0
        self._forward(frame, messages)

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
