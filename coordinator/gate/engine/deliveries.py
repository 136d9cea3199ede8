"""Hold the entries of one connection's consumers for which their limits give no credit.

A permit that the broker has cannot be taken back. It may have been given for a cheaper entry, or for
none: hundreds of consumers of a topic without traffic have one each, and all use it when something is
published. So the limit is kept where entries pass:

* **An entry passes at once** while it brings none of its groups into debt for more than a few seconds,
  and its consumer holds nothing. Any other is held, and passes when it is paid for (consumer.py).
* **Order within a consumer** is that of arrival. What tells the client about a consumer, that it is
  active or that its topic has ended, waits behind its entries.
* **Held bytes are bounded** per connection and, by the limit that is waited for, on all of them together
  (publish_buffer.py), so that the consumers of one limit leave room to those of others. The first entry
  that a connection holds is counted apart, in a memory of the same size and under the same rule, unless
  it is large: a consumer that has many held does not close others at each of theirs. A consumer for
  whose entry there is no room is closed at both ends, as a broker closes one when its topic moves: the
  broker keeps what was not acknowledged, and the client subscribes again, with permits that come at the
  rate of the limit.
* **The entries of a consumer that ends** are dropped: the broker sends to another what no client
  acknowledges. They are dropped as well when the client asks for all that it has not acknowledged, since
  the broker then sends them again, and the permits used for them go back to the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coordinator.gate.engine.consumer import Consumer, Entries, HeldEntry
from coordinator.gate.engine.consumer_pace import ALLOWED_MAX, PER_MESSAGE
from coordinator.gate.engine.counters import GateCounters
from coordinator.gate.engine.participant import HELD_FRAME_OVERHEAD
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.publish_buffer import PublishBuffer, Reservation
from coordinator.gate.protocol.stream import FrameVerdict

FIRST_MAX: Final = 256 * 1024
"""The largest entry, with what holding takes, that is counted apart where its connection holds nothing
else: as much as one read brings."""

_NEWS: Final = Entries(0, 0, 0, 0, 0)
"""The cost of a frame that is no entry."""


class Deliveries:
    """The held entries of one connection's consumers.

    Args:
        queue: in which the consumers wait.
        counters: counts what happens on all connections.
        buffer: the held bytes of all connections, of which those of deliveries are used.
        bytes_max: the most held bytes; an entry fits when nothing else is held.
        answer: takes a frame for the client, to be sent between two others.
        passed: told of a consumer a held entry of which has passed, and of its messages and bytes.
        close: closes a consumer for which nothing more can be held.
        released: called when something has passed.
        now_ns: the time of the call that is being handled.
    """

    def __init__(  # noqa: PLR0913 - keyword-only, each one explained above
        self,
        *,
        queue: AdmissionQueue,
        counters: GateCounters,
        buffer: PublishBuffer,
        bytes_max: int,
        answer: Callable[[bytes], None],
        passed: Callable[[Consumer, int, int], None],
        close: Callable[[Consumer], None],
        released: Callable[[], None],
        now_ns: Callable[[], int],
    ) -> None:
        self._queue = queue
        self._counters = counters
        self._room = buffer.deliveries
        self._first_room = buffer.first_deliveries
        self._bytes_max = bytes_max
        self._answer = answer
        self._passed = passed
        self._close = close
        self._released = released
        self._now_ns = now_ns
        #: Bytes of what is held, with what holding takes beside them.
        self.held_bytes = 0
        #: How many of them are for an entry that has not arrived in full, in which share, and whether
        #: that is one of first entries.
        self.arriving = Reservation(self._count_arriving)
        self._arrives_first = False
        #: The held entry that counts among first entries, and in which share.
        self._first: HeldEntry | None = None
        self._first_share = ""
        #: Consumers of which held entries have passed since this read began: they go out behind it.
        self._behind: set[Consumer] = set()

    def begin_read(self) -> None:
        """Begin to decide what the broker has sent; all that has passed before goes out before it."""
        if self._behind:
            self._behind.clear()

    def must_wait(self, consumer: Consumer, entries: Entries) -> bool:
        """Return whether entries of a limited consumer must wait."""
        return consumer in self._behind or not consumer.has_credit(entries, self._now_ns())

    def hold(
        self,
        consumer: Consumer,
        data: bytes,
        start: int,
        frame_end: int,
        entries: Entries = _NEWS,
        permits: int = 0,
    ) -> FrameVerdict | int:
        """Hold a frame for a consumer; close the consumer if there is no room for it."""
        size = frame_end - start + HELD_FRAME_OVERHEAD
        has_its_room = size == self.arriving.size
        self.arriving.keep(0)
        if not has_its_room:
            self.count_by_limit(consumer, entries)
            self._arrives_first = self._fits_first(consumer, size)
            if not self._arrives_first and not self._has_room(consumer, size):
                self._close(consumer)
                return FrameVerdict.DISCARD
        if frame_end > len(data):
            self.arriving.keep(size, consumer.buffer_share)
            return frame_end
        now_ns = self._now_ns()
        entry = HeldEntry(data[start:frame_end], entries, permits, now_ns)
        if self._arrives_first:
            self._first, self._first_share = entry, consumer.buffer_share
        self._count(consumer, entry, size)
        consumer.hold(entry)
        consumer.ask(self._queue, now_ns)
        return FrameVerdict.TAKEN

    def hold_news(
        self, consumer: Consumer, data: bytes, start: int, frame_end: int
    ) -> FrameVerdict | int:
        """Hold a frame that tells about a consumer if entries are to go out before it."""
        if not consumer.held and consumer not in self._behind:
            return FrameVerdict.PASSES
        return self.hold(consumer, data, start, frame_end)

    def pass_on(self, consumer: Consumer, entry: HeldEntry) -> None:
        """Send the client an entry that is paid for."""
        self._end(consumer, entry)
        messages, size = entry.cost
        consumer.allowed = min(consumer.allowed + PER_MESSAGE * messages, ALLOWED_MAX)
        consumer.namespace.messages += messages
        consumer.namespace.bytes += size
        self._behind.add(consumer)
        self._answer(entry.frame)
        self._passed(consumer, messages, size)
        self._released()

    def drop(self, consumer: Consumer) -> int:
        """Drop what is held for a consumer; return the permits that the broker has used for it."""
        self._queue.withdraw(consumer, self._now_ns())
        for entry in consumer.held:
            self._end(consumer, entry)
        self._counters.dropped_frames += len(consumer.held)
        return consumer.drop_held()

    def redelivered(self, consumer: Consumer) -> None:
        """Drop what is held for a consumer, as the broker sends it again."""
        if consumer.held:
            consumer.withhold(self.drop(consumer))
            consumer.ask(self._queue, self._now_ns())

    def count_by_limit(self, consumer: Consumer, entries: Entries = _NEWS) -> None:
        """Count what is held for a consumer in the share of the limit that it waits for.

        Args:
            consumer: which waits, or would wait with these entries.
            entries: that have come for it.
        """
        limiter = consumer.waits_against(entries, self._now_ns())
        if limiter is None or limiter.buffer_share == consumer.buffer_share:
            return
        if self._room.move(consumer.buffer_share, limiter.buffer_share, consumer.buffered_bytes):
            consumer.buffer_share = limiter.buffer_share

    def _fits_first(self, consumer: Consumer, size: int) -> bool:
        if self.held_bytes or size > FIRST_MAX:
            return False
        return self._first_room.has_room(consumer.buffer_share, size)

    def _has_room(self, consumer: Consumer, size: int) -> bool:
        fits_here = not self.held_bytes or self.held_bytes + size <= self._bytes_max
        return fits_here and self._room.has_room(consumer.buffer_share, size)

    def _count(self, consumer: Consumer, entry: HeldEntry, size: int) -> None:
        """Count the bytes of an entry, among first entries or in its consumer's share."""
        self.held_bytes += size
        if entry is self._first:
            self._first_room.count(self._first_share, size)
        else:
            consumer.buffered_bytes += size
            self._room.count(consumer.buffer_share, size)

    def _count_arriving(self, share: str, size: int) -> None:
        self.held_bytes += size
        (self._first_room if self._arrives_first else self._room).count(share, size)

    def _end(self, consumer: Consumer, entry: HeldEntry) -> None:
        self._count(consumer, entry, -entry.taken)
        if entry is self._first:
            self._first = None
