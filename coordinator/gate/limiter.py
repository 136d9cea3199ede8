"""The publish limiter of one resource group: does it admit this message now?

Two token buckets, one for messages and one for bytes; a dimension without a limit has none. The gate
is pre-paid: it asks first (``admits``), and only when every limiter of a topic says yes does it take
the tokens from all of them (``consume``).

*How much is enough.* A message needs as many tokens as it has messages and bytes, but never more than
a nearly full bucket: one that is larger passes then and leaves a debt, which is bounded by the largest
frame. Nearly full is one wake interval short of the capacity, for the sake of accuracy: waiting
producers are woken up to that much late, and what flows into a full bucket would be lost.

*How a decision gets cheap.* Hundreds of frames come with one read and hence at one moment. At the first
one, ``_refresh`` asks the buckets and notes up to which total the group may go; until the clock moves
on, a decision compares two sums. The buckets learn afterwards what was consumed, dated back to the
moment when it was, so nothing is lost or gained by it. Where frames come singly, ``take`` is content
with what was noted in the last millisecond: tokens only grow in number, so whom that admits may pass, and
all that is gained by it is a burst that lasts that much longer.

A new limit neither fills a bucket nor forgives a debt; a bucket that appears starts empty. Of a leased
limit nothing passes once the lease is over, whatever the buckets hold (lease.py).
"""

from __future__ import annotations

from typing import Final

from coordinator.core.model import NANOS_PER_SECOND, Rates
from coordinator.core.windows import LimitMode, Tokens, tokens_of
from coordinator.gate.counters import TrafficCounter
from coordinator.gate.lease import Lease
from coordinator.gate.throttle import ThrottleReason

BURST_NS: Final = 50_000_000
"""What a bucket can save up, as time: small, so that the sum over all brokers stays small."""

WAKE_INTERVAL_NS: Final = 5_000_000
"""Waiting producers are looked after at most this often; a tenth of the burst."""

_FRESH_NS: Final = 1_000_000
"""How old a ceiling may be that admits a message; a fiftieth of the burst."""

_UNLIMITED: Final = 1 << 63


class Meter:
    """The bucket of one unit, and up to which total it allows the group to go.

    Args:
        mode: what stands in the bucket's place, if anything does (windows.py).
    """

    __slots__ = ("_bucket", "_given_back", "_mode", "_settled", "_shut", "ceiling", "enough")

    def __init__(self, mode: LimitMode = LimitMode.BUCKET) -> None:
        self._mode = mode
        self._bucket: Tokens | None = None
        #: How much of the group's total the bucket knows of, and how much of that was given back.
        self._settled = 0
        self._given_back = 0
        self._shut = False
        #: The total that may be reached now.
        self.ceiling = _UNLIMITED
        #: The most tokens that a single message needs.
        self.enough = _UNLIMITED

    @property
    def rate(self) -> int | None:
        """Tokens per second; None is unlimited."""
        return None if self._bucket is None else self._bucket.rate

    def set_rate(self, rate: int | None, total: int, burst_ns: int, now_ns: int) -> None:
        """Limit to a rate per second; the meter must be settled up to now."""
        if rate is None:
            self._bucket = None
            self._given_back = 0
            self.ceiling = self.enough = _UNLIMITED
            return
        capacity = max(1, rate * burst_ns // NANOS_PER_SECOND)
        if self._bucket is None:
            self._settled = total
            self._bucket = tokens_of(self._mode, rate, capacity, now_ns)
        else:
            self._bucket.set_rate(rate, capacity, now_ns)
        # Only a bucket runs over while somebody is on the way to it.
        late = -(-rate * WAKE_INTERVAL_NS // NANOS_PER_SECOND)
        late = late if self._mode is LimitMode.BUCKET else 0
        self.enough = max(1, self._bucket.capacity - late)
        self.settle(total, now_ns, now_ns)

    def settle(self, total: int, as_of_ns: int, now_ns: int) -> None:
        """Tell the bucket what was consumed at an earlier moment, and ask what it allows now."""
        if self._bucket is None:
            return
        self._bucket.consume(max(0, total - self._settled), as_of_ns)
        balance = self._bucket.balance(now_ns)
        # Tokens that were promised and not needed come back, as far as the bucket has room for them.
        room = max(0, self._bucket.capacity - balance)
        self._given_back = min(max(0, self._settled - total), room)
        self._settled = total + self._given_back
        # A rate of 0 lets nothing pass, not even what had been saved up before.
        self.ceiling = self._settled + balance if self._bucket.rate else total + min(balance, 0)
        self._shut = False

    def shut(self, total: int) -> None:
        """Let nothing pass until it is settled again, if there is a limit; no token is lost by it."""
        if self._bucket is not None:
            self._shut = True
            self.ceiling = min(self.ceiling, total)

    def span_ns(self, tokens: int) -> int:
        """How long so many tokens take to come; nobody waits for them without a rate, or at 0."""
        rate = self.rate
        return tokens * NANOS_PER_SECOND // rate if rate else 0

    def wait_ns(self, tokens: int, now_ns: int) -> int | None:
        """How long until so many tokens, or enough of them, are there; None is never."""
        if self._bucket is None:
            return 0
        missing = min(tokens, self.enough) - self._given_back
        never = self._shut or not self._bucket.rate
        return None if never else self._bucket.wait_ns(missing, now_ns)


class PublishLimiter:
    """Admits the publishes of one group.

    Args:
        counter: where admitted messages and bytes are counted.
        burst_ns: how much a bucket can save up, as time at its rate.
        reason: whose limit it is.
        mode: how it is enforced.
    """

    __slots__ = (
        "_as_of_ns", "_burst_ns", "_bytes", "_lease", "_messages", "contended", "counter",
        "idle_since_ns", "reason", "refusal", "service_ns",
    )  # fmt: skip

    def __init__(
        self,
        counter: TrafficCounter,
        *,
        burst_ns: int = BURST_NS,
        reason: ThrottleReason = ThrottleReason.RESOURCE_GROUP,
        mode: LimitMode = LimitMode.BUCKET,
    ) -> None:
        self.counter = counter
        self.reason = reason
        #: What a publish that it does not admit is answered with; empty, and it is held.
        self.refusal = ""
        self._burst_ns = burst_ns
        self._messages = Meter(mode)
        self._bytes = Meter(mode)
        self._lease: Lease | None = None
        #: The moment that the ceilings are for.
        self._as_of_ns = 0
        #: The admission queue keeps these: whether producers wait for this limiter, how far everybody was
        #: served, and since when nobody waits.
        self.contended = False
        self.service_ns = 0
        self.idle_since_ns = 0

    def set_limits(self, limits: Rates, now_ns: int, lease: Lease | None = None) -> None:
        """Limit to these rates from now on, and to nothing when the lease is over, if there is one."""
        self._refresh(now_ns)
        self._lease = lease
        counter = self.counter
        self._messages.set_rate(limits.publish_messages, counter.messages, self._burst_ns, now_ns)
        self._bytes.set_rate(limits.publish_bytes, counter.bytes, self._burst_ns, now_ns)
        self._look_at_lease(now_ns)

    def admits(self, messages: int, size: int, now_ns: int) -> bool:
        """Whether a message of so many messages and bytes may pass now."""
        if now_ns != self._as_of_ns:
            self._refresh(now_ns)
        counter = self.counter
        meter = self._messages
        if counter.messages + messages > meter.ceiling and (
            messages <= meter.enough or counter.messages + meter.enough > meter.ceiling
        ):
            return False
        meter = self._bytes
        return counter.bytes + size <= meter.ceiling or (
            size > meter.enough and counter.bytes + meter.enough <= meter.ceiling
        )

    def take(self, messages: int, size: int, now_ns: int) -> bool:
        """Admit and count a message at once; False when it has to wait, for tokens or for others.

        The same as asking ``admits`` and then calling ``consume``, in one call as almost every message
        has this limiter only.
        """
        if self.contended:
            return False
        if now_ns - self._as_of_ns >= _FRESH_NS:
            self._refresh(now_ns)
        counter = self.counter
        messages_then = counter.messages + messages
        bytes_then = counter.bytes + size
        if (
            messages_then > self._messages.ceiling or bytes_then > self._bytes.ceiling
        ) and not self.admits(messages, size, now_ns):
            return False
        counter.messages = messages_then
        counter.bytes = bytes_then
        return True

    def has_room(self, messages: int, size: int, now_ns: int) -> bool:
        """Whether several messages, so much together, may pass one after the other; nobody waits.

        Unlike ``admits``, never for a full bucket alone: each message has to find its tokens.
        """
        if self.contended:
            return False
        if now_ns - self._as_of_ns >= _FRESH_NS:
            self._refresh(now_ns)
        if self._fits(messages, size):
            return True
        if now_ns != self._as_of_ns:
            self._refresh(now_ns)
        return self._fits(messages, size)

    def _fits(self, messages: int, size: int) -> bool:
        counter = self.counter
        return (
            counter.messages + messages <= self._messages.ceiling
            and counter.bytes + size <= self._bytes.ceiling
        )

    def consume(self, messages: int, size: int) -> None:
        """Count a message that was admitted, at the moment for which that was asked."""
        self.counter.messages += messages
        self.counter.bytes += size

    def span_ns(self, messages: int, size: int) -> int:
        """How long the limit is taken up by so much."""
        return max(self._messages.span_ns(messages), self._bytes.span_ns(size))

    def binding(self, messages: int, size: int, now_ns: int) -> tuple[bool, bool]:
        """Whether messages, and whether bytes, are what a message has to wait for longest."""
        of_messages, of_bytes = self._waits_ns(messages, size, now_ns)
        if of_messages is None or of_bytes is None:
            return of_messages is None, of_bytes is None
        return 0 < of_messages >= of_bytes, 0 < of_bytes >= of_messages

    def wait_ns(self, messages: int, size: int, now_ns: int) -> int | None:
        """How long until a message may pass if nothing else does; None is never."""
        longest = 0
        for wait_ns in self._waits_ns(messages, size, now_ns):
            if wait_ns is None:
                return None
            longest = max(longest, wait_ns)
        return longest

    def _waits_ns(self, messages: int, size: int, now_ns: int) -> tuple[int | None, int | None]:
        self._refresh(now_ns)
        return self._messages.wait_ns(messages, now_ns), self._bytes.wait_ns(size, now_ns)

    def _refresh(self, now_ns: int) -> None:
        self._messages.settle(self.counter.messages, self._as_of_ns, now_ns)
        self._bytes.settle(self.counter.bytes, self._as_of_ns, now_ns)
        self._as_of_ns = now_ns
        self._look_at_lease(now_ns)

    def _look_at_lease(self, now_ns: int) -> None:
        if self._lease is not None and self._lease.is_over(now_ns):
            self._messages.shut(self.counter.messages)
            self._bytes.shut(self.counter.bytes)
