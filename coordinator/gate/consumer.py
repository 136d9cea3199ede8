"""A consumer of a connection, and the permits that are withheld of it.

Permits go out in *slices* of so many entries, and the next slice when half of the last one is used. A
slice begins with one entry and doubles with every one that is used, up to a part of the bucket that
is the smaller the more consumers wait. So a consumer without a backlog keeps few permits, and
one with a backlog gets enough of them for the way to the broker and back. A topic that is not
persistent gets all that the bucket is good for: its broker drops what finds no permit.

Where a broker takes its time (to read a backlog from disks, say), a slice would be used up long
before the next one brings anything. So there may be several out, as tokens come: its *reach*. It
begins with one slice, doubles as well with every one that is used, and ends where all consumers
together have as many out as one alone may have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from coordinator.gate.admission import AdmissionQueue
from coordinator.gate.dispatch import UNKNOWN, DispatchLimiter
from coordinator.gate.group import Group
from coordinator.gate.participant import Participant

_SLICES_AT_ONCE: Final = 2
"""A bucket is good for so many slices of a consumer that is alone."""

_REACH_NS: Final = 180_000_000
"""Permits may be out for what the limit allows in so long; a read from disks takes less as a rule."""

PERMITS_MAX: Final = 0x7FFFFFFF
"""The most permits that a broker's consumer can count."""


class Entries(NamedTuple):
    """Entries that go to a consumer one after the other, an entry being a message or a batch."""

    entries: int
    messages: int
    size: int
    most_messages: int
    largest: int


class Consumer(Participant[DispatchLimiter]):
    """Counted and limited on dispatch; waits in the admission queue for permits.

    Args:
        topic: what it consumes.
        subscription: by which subscription.
        shared: whether its subscription is Shared or Key_Shared.
        exempt: whether it replicates to another cluster, and so counts against no group.
        grant: sends the broker a FLOW with so many permits.
    """

    __slots__ = (
        "_entry_bytes", "_entry_messages", "_expected", "_grant", "_persistent", "_promised",
        "_reach", "_slice", "consumer_id", "held_since_ns", "limited", "permits", "shared",
        "subscription", "withheld",
    )  # fmt: skip

    def __init__(
        self,
        consumer_id: int,
        topic: str,
        subscription: str,
        *,
        shared: bool,
        exempt: bool,
        grant: Callable[[int, int], None],
    ) -> None:
        super().__init__(topic, exempt=exempt)
        self.consumer_id = consumer_id
        self._grant = grant
        self.subscription = subscription
        self.shared = shared
        self._persistent = not topic.startswith("non-persistent:")
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

    @property
    def waiting(self) -> bool:
        """Whether permits wait for tokens."""
        return self.waits_for is not None

    def attach(self, groups: tuple[Group, ...]) -> None:
        """Count for these groups from now on; must not be waiting if they are others."""
        super().attach(groups)
        self.limited = self.withheld > 0 or self._has_limit()

    @staticmethod
    def _limiter_of(group: Group) -> DispatchLimiter:
        return group.dispatch_limiter

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
        messages, size = self._entry()
        return min(
            (
                limiter.entries_within(_REACH_NS, messages, size) // limiter.counter.participants
                for limiter in self.limiters
            ),
            default=PERMITS_MAX,
        )

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
        if not self.shared:
            return max(0, permits)
        return 0 if permits <= 0 else 1 + (permits - 1) // max(1, self._entry_messages)

    def _permits_for(self, entries: int) -> int:
        """Permits that let out so many entries.

        For one consumer at a time the broker reads an entry per permit, whatever that holds; among
        several it counts the messages that it sends.
        """
        return 1 + (entries - 1) * self._entry_messages if self.shared else entries

    def _pass_on(self, permits: int) -> None:
        self.withheld -= permits
        self.permits += permits
        self._grant(self.consumer_id, permits)
