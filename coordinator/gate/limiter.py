"""The publish limiter of one resource group: does it admit this message now?

The gate is pre-paid: it asks first (``admits``), and only when every limiter of a topic says yes does it
take the tokens from all of them (``consume``).

*How a decision gets cheap.* Hundreds of frames come with one read and hence at one moment. At the first
one, ``_refresh`` asks the buckets and notes up to which total the group may go (metering.py). Where
frames come singly, ``take`` is content with what was noted in the last millisecond: tokens only grow in
number, so whom that admits may pass, and all that is gained by it is a burst that lasts that much longer.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.model import Rates
from coordinator.core.windows import LimitMode
from coordinator.gate.counters import TrafficCounter
from coordinator.gate.lease import Lease
from coordinator.gate.metering import BURST_NS, PAUSE_NS, Meter, MeteredLimiter
from coordinator.gate.throttle import ThrottleReason

_FRESH_NS: Final = 1_000_000
"""How old a ceiling may be that admits a message; a fiftieth of the burst."""


class PublishLimiter(MeteredLimiter):
    """Admits the publishes of one group.

    Args:
        counter: where admitted messages and bytes are counted.
        burst_ns: how much a bucket can save up, as time at its rate.
        reason: whose limit it is.
        mode: how it is enforced.
    """

    __slots__ = ("_bytes", "_messages", "refusal")

    def __init__(
        self,
        counter: TrafficCounter,
        *,
        burst_ns: int = BURST_NS,
        reason: ThrottleReason = ThrottleReason.RESOURCE_GROUP,
        mode: LimitMode = LimitMode.BUCKET,
    ) -> None:
        super().__init__(counter, burst_ns=burst_ns, reason=reason)
        #: What a publish that it does not admit is answered with; empty, and it is held.
        self.refusal = ""
        self._messages = Meter(mode)
        self._bytes = Meter(mode)

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

    def pause_ns(self, messages: int, size: int, now_ns: int) -> int | None:
        """How long until so much may pass, and as much as comes in a pause."""
        return self.wait_ns(
            max(messages, self._messages.tokens_within(PAUSE_NS)),
            max(size, self._bytes.tokens_within(PAUSE_NS)),
            now_ns,
        )

    def _waits_ns(self, messages: int, size: int, now_ns: int) -> tuple[int | None, int | None]:
        self._refresh(now_ns)
        return self._messages.wait_ns(messages, now_ns), self._bytes.wait_ns(size, now_ns)

    def _refresh(self, now_ns: int) -> None:
        self._messages.settle(self.counter.messages, self._as_of_ns, now_ns)
        self._bytes.settle(self.counter.bytes, self._as_of_ns, now_ns)
        self._as_of_ns = now_ns
        self._look_at_lease(now_ns)

    def _shut(self) -> None:
        self._messages.shut(self.counter.messages)
        self._bytes.shut(self.counter.bytes)
