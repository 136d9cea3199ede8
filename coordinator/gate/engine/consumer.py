"""A consumer of a connection, and its permits that the gate withholds.

The gate passes permits on in *slices*, and sends the next slice when half of the last one is used. A
slice is worth one entry at first and doubles with every slice that is used, up to a part of the bucket;
the part shrinks as more consumers wait. So a consumer without a backlog keeps few permits, and a consumer
with a backlog gets enough of them for the round trip to the broker. A consumer of a non-persistent topic
gets all that the bucket allows, because the broker drops messages that find no permit.

A broker may be slow, for example when it reads a backlog from disks. It would then use up a slice long
before the next one takes effect. So several slices may be out at once, as tokens come: the *reach* of the
consumer. The reach begins with one slice and doubles with every slice that is used. It ends where all
consumers together have as many permits out as one alone may have.

An entry for which its limits give no credit (dispatch.py) is held, and so is what comes behind it
(deliveries.py). The consumer waits in the queue as for permits, pays in instalments until the first entry
passes, and asks for permits again when nothing is held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from coordinator.core.topics import NON_PERSISTENT, TopicName
from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD, Participant
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.dispatch import UNKNOWN, DispatchLimiter
from coordinator.gate.limits.group import Group
from coordinator.gate.limits.metering import MeteredLimiter, instalment_of
from coordinator.gate.limits.service_order import ClientTurns
from coordinator.gate.protocol.commands import PERMITS_MAX

ALLOWED_AT_FIRST: Final = 1_000
"""Commands or ids before its first message: clients that have just connected again acknowledge what their
receiver queue held, a thousand messages by default."""

_SLICES_AT_ONCE: Final = 2
"""Slices into which a full bucket is divided for a consumer that is alone."""

_REACH_NS: Final = 180_000_000
"""Permits may be out for the tokens of this time; a read from disks usually takes less."""


class Entries(NamedTuple):
    """Consecutive entries that go to a consumer; an entry is a message or a batch."""

    entries: int
    messages: int
    size: int
    most_messages: int
    largest: int


class HeldEntry(NamedTuple):
    """A frame for a consumer that has yet to pass: an entry, or news that came behind one.

    Args:
        frame: its bytes.
        entries: its cost; none of news.
        permits: that the broker has used for it.
        since_ns: when it came.
    """

    frame: bytes
    entries: Entries
    permits: int
    since_ns: int

    @property
    def is_news(self) -> bool:
        """Whether it is no entry, and costs nothing."""
        return not self.entries.entries

    @property
    def taken(self) -> int:
        """The memory that it takes, in bytes."""
        return len(self.frame) + HELD_FRAME_OVERHEAD

    @property
    def cost(self) -> tuple[int, int]:
        """Its messages and bytes."""
        return self.entries.messages, self.entries.size


class Consumer(Participant[DispatchLimiter]):
    """Counted and limited on dispatch; waits in the admission queue for permits, or for held entries.

    Args:
        topic: the topic that it consumes.
        subscription: the name of its subscription.
        client: the turns of its client.
        shared: whether its subscription is Shared or Key_Shared.
        grant: sends the broker a FLOW with this number of permits.
        deliver: takes a held entry that passes.
    """

    __slots__ = (
        "_deliver", "_entry_bytes", "_entry_messages", "_expected", "_grant", "_paid", "_persistent",
        "_promised", "_reach", "_slice", "allowed", "buffer_share", "buffered_bytes", "consumer_id",
        "held", "held_since_ns", "limited", "permits", "shared", "subscription", "withheld",
    )  # fmt: skip

    def __init__(
        self,
        consumer_id: int,
        topic: str,
        subscription: str,
        client: ClientTurns,
        *,
        shared: bool,
        grant: Callable[[int, int], None],
        deliver: Callable[[Consumer, HeldEntry], None],
    ) -> None:
        super().__init__(topic, client)
        self.consumer_id = consumer_id
        self._grant = grant
        self._deliver = deliver
        self.subscription = subscription
        self.shared = shared
        name = TopicName.parse(topic)
        self._persistent = name is None or name.domain != NON_PERSISTENT
        #: Whether permits may be withheld: a limit is set, or was set when they came.
        self.limited = False
        #: Permits that the broker has; below 0 after a batch that was larger than the permits left.
        self.permits = 0
        #: Commands or ids that its messages allow it; see ``consumer_pace``.
        self.allowed = ALLOWED_AT_FIRST
        #: Permits that the client gave and the broker does not have yet.
        self.withheld = 0
        #: Entries that one slice lets out, and entries that permits may be out for.
        self._slice = 1
        self._reach = 0
        #: Promised entries that have not come yet.
        self._expected = 0
        #: In order of arrival.
        self.held: deque[HeldEntry] = deque()
        #: The bytes of it that count in a share of the buffer for deliveries, and in which.
        self.buffered_bytes = 0
        self.buffer_share = ""
        #: Messages and bytes of the first held entry that are already paid for.
        self._paid = (0, 0)
        #: Messages and bytes expected of each promised entry.
        self._promised = (0, 0)
        #: Expected size of its entries: that of the largest recent one; 0 is unknown.
        self._entry_messages = 0
        self._entry_bytes = 0
        #: When what waits for tokens began to wait: permits, or the first held entry.
        self.held_since_ns = 0

    @property
    def waiting(self) -> bool:
        """Whether permits or entries wait for tokens."""
        return self.waits_for is not None

    @property
    def passes_next(self) -> bool:
        """Whether the next release gives permits or lets an entry pass, and is no instalment."""
        if not self.held:
            return True
        messages, size = self.next_cost()
        return (self._paid[0] + messages, self._paid[1] + size) == self.held[0].cost

    def attach(self, groups: tuple[Group, ...]) -> None:
        """Count for these groups from now on; the consumer must not wait if the groups differ."""
        if not self.counts_for(groups):
            self._give_back()
        super().attach(groups)
        self.limited = self.withheld > 0 or bool(self.held) or self._has_limit()

    @staticmethod
    def _limiter_of(group: Group) -> DispatchLimiter:
        return group.dispatch_limiter

    def _has_limit(self) -> bool:
        return any(limiter.limited for limiter in self.limiters)

    def withhold(self, permits: int) -> None:
        """Keep permits that the client gave; the broker's count is an int32 and ends there, too."""
        self.withheld = min(self.withheld + permits, PERMITS_MAX)

    def has_credit(self, entries: Entries, now_ns: int) -> bool:
        """Return whether entries that have come may pass: nothing is held, and all limits lend them."""
        if self.held:
            return False
        for limiter in self.limiters:
            if not limiter.has_credit(entries.messages, entries.size, now_ns):
                return False
        return True

    def waits_against(self, entries: Entries, now_ns: int) -> MeteredLimiter | None:
        """Return the limiter that it waits for, or would wait for with these entries."""
        if self.waits_for is not None:
            return self.waits_for
        cost = entries.messages, entries.size
        lacking = (each for each in self.limiters if not each.has_credit(*cost, now_ns))
        return next(lacking, next(iter(self.limiters), None))

    def hold(self, entry: HeldEntry) -> None:
        """Hold an entry behind those that are already held; its permits are used, its promise ends."""
        if not self.held:
            self.held_since_ns = entry.since_ns
        self.held.append(entry)
        self.permits -= entry.permits
        if entry.is_news:
            return
        self._learn(entry.entries)
        if self._expected:
            self._expected -= 1
            for limiter in self.limiters:
                limiter.keep(*self._promised)

    def drop_held(self) -> int:
        """Drop what is held, and give back what was paid of it; return the permits used for it."""
        self._give_back()
        permits = sum(entry.permits for entry in self.held)
        self.held.clear()
        return permits

    def _give_back(self) -> None:
        for limiter in self.limiters:
            limiter.give_back(*self._paid)
        self._paid = (0, 0)

    def passed(self, entries: Entries, now_ns: int) -> tuple[bool, bool]:
        """Count entries that pass to the client, and learn their size.

        Returned is whether they cost less than was promised, and whether they cost any limit more.
        """
        expected = min(entries.entries, self._expected)
        kept = (expected * self._promised[0], expected * self._promised[1])
        largest = (entries.most_messages, entries.largest)
        cost_more = False
        for limiter in self.limiters:
            limiter.passed(entries.messages, entries.size, largest, now_ns)
            limiter.keep(*kept)
            cost_more |= self._charge(limiter, entries, expected)
        self._expected -= expected
        self._learn(entries)
        return entries.messages < kept[0] or entries.size < kept[1], cost_more

    def _learn(self, entries: Entries) -> None:
        # Raise the estimate at once and lower it slowly: too small an estimate sends out too many
        # permits.
        messages, size = entries.most_messages, entries.largest
        self._entry_messages = max(messages, (3 * self._entry_messages + messages) >> 2)
        self._entry_bytes = max(size, (3 * self._entry_bytes + size) >> 2)

    def _charge(self, limiter: DispatchLimiter, entries: Entries, expected: int) -> bool:
        """Charge to its turn what entries cost beyond what was promised; return whether they do."""
        beyond_ns = limiter.beyond_ns(entries.messages, entries.size, expected, self._promised)
        if beyond_ns:
            self._served_beyond(limiter, beyond_ns)
        return beyond_ns > 0

    def _served_beyond(self, limiter: DispatchLimiter, beyond_ns: int) -> None:
        served_ns = self.served_until_ns.get(limiter, 0)
        self.served_until_ns[limiter] = self.client.add(limiter, served_ns, beyond_ns)

    def ask(self, queue: AdmissionQueue, now_ns: int) -> None:
        """Wait in the queue for what is held, or for the next slice of permits, if it is due."""
        if self.waiting:
            return
        if self.held:
            queue.wait(self, now_ns)
            return
        if not self.withheld:
            return
        if self.withheld <= -self.permits:
            self._pass_on(self.withheld)  # pays for a large batch and lets nothing out
            return
        if not self._is_due():
            return
        if self._persistent:
            self._slice = min(2 * self._slice, self._largest_slice(queue))
        else:
            self._slice = self._largest_slice(None)
        self._reach = max(self._slice, min(2 * self._reach, self._farthest_reach()))
        self.held_since_ns = now_ns
        queue.wait(self, now_ns)

    def _is_due(self) -> bool:
        return self._is_time() or not self._has_limit()

    def _is_time(self) -> bool:
        """Return whether at least half a slice is missing of the permits that may be out."""
        missing = self._permits_for(max(self._reach, self._slice)) - self.permits
        return 2 * missing >= self._permits_for(self._slice)

    def _farthest_reach(self) -> int:
        """Return the entries that permits may be out for, so that all consumers together stay bounded."""
        messages, size = self._entry()
        return min(
            (
                limiter.entries_within(_REACH_NS, messages, size) // limiter.counter.participants
                for limiter in self.limiters
            ),
            default=PERMITS_MAX,
        )

    def _largest_slice(self, queue: AdmissionQueue | None) -> int:
        """Return the entries that a nearly full bucket pays for; a part of them if others wait, too."""
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
        """Return the messages and bytes that the next entry is expected to have."""
        if self._entry_messages:
            return self._entry_messages, self._entry_bytes
        for limiter in self.limiters:
            if limiter.typical_entry is not None:
                return limiter.typical_entry
        return UNKNOWN, UNKNOWN

    def next_cost(self) -> tuple[int, int]:
        """Return the messages and bytes expected of the next slice, or those of a held entry.

        Of an entry that costs more than is lent, those of the next instalment.
        """
        if self.held:
            return instalment_of(self.limiters, self.held[0].cost, self._paid)
        messages, size = self._entry()
        entries = max(0, self._next_out() - self._expected)  # the others were promised before
        return messages * entries, size * entries

    def _pay(self) -> None:
        """Pay for the first held entry, and let it pass if it is all paid."""
        messages, size = self.next_cost()
        for limiter in self.limiters:
            limiter.pay(messages, size)
            # The queue has charged no more than a nearly full bucket.
            if beyond_ns := limiter.beyond_ns(messages, size, 1, (UNKNOWN, UNKNOWN)):
                self._served_beyond(limiter, beyond_ns)
        self._paid = (self._paid[0] + messages, self._paid[1] + size)
        if self._paid != self.held[0].cost:
            return
        entry = self.held.popleft()
        self._paid = (0, 0)
        for limiter in () if entry.is_news else self.limiters:
            limiter.passed_paid(*entry.cost)
        self._deliver(self, entry)
        if self.held:
            self.held_since_ns = self.held[0].since_ns

    def release(self) -> bool:
        """Pay for the first held entry, or pass on the next slice of permits: all without a limit."""
        if self.held:
            self._pay()
            return bool(self.held) or (self.withheld > 0 and self._is_due())
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
        """Return the entries that permits are out for once the next slice is sent."""
        return min(self._reach, self._entries_for(self.permits) + self._slice)

    def _entries_for(self, permits: int) -> int:
        """Return the entries that this number of permits lets out."""
        if not self.shared:
            return max(0, permits)
        return 0 if permits <= 0 else 1 + (permits - 1) // max(1, self._entry_messages)

    def _permits_for(self, entries: int) -> int:
        """Return the permits that let out this number of entries.

        For the only consumer of a subscription the broker reads one entry per permit, whatever its size;
        for several consumers it counts the messages that it sends.
        """
        return 1 + (entries - 1) * self._entry_messages if self.shared else entries

    def _pass_on(self, permits: int) -> None:
        self.withheld -= permits
        self.permits += permits
        self._grant(self.consumer_id, permits)
