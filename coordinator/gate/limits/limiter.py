"""The publish limiter of one resource group: decide whether a message passes now.

The gate is pre-paid: it asks first (``admits``), and takes tokens (``consume``) only when every limiter
of a topic admits the message.

*Cheap decisions.* One read brings hundreds of frames at one moment. At the first frame, ``_refresh`` asks
the buckets and records the total that the group may reach (metering.py). Where frames come singly,
``take`` uses a ceiling recorded within the last millisecond: tokens only increase, so a message that it
admits may pass, and the only effect is a burst that lasts up to a millisecond longer.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.limiting.tokens import MakeTokens, new_bucket
from coordinator.core.model import AnyRates, Dimension
from coordinator.gate.limits.counters import TrafficCounter
from coordinator.gate.limits.lease import GateLease
from coordinator.gate.limits.metering import (
    BURST_NS,
    DEBT_NS,
    PAUSE_NS,
    MeteredBucket,
    MeteredLimiter,
)
from coordinator.gate.limits.throttle import ThrottleReason

_FRESH_NS: Final = 1_000_000
"""The greatest age of a ceiling that admits a message; a fiftieth of the burst."""


class PublishLimiter(MeteredLimiter):
    """Admits the publishes of one group.

    Args:
        counter: the counter of admitted messages and bytes.
        burst_ns: how much a bucket can save up, as time at its rate.
        reason: the kind of limit.
        make: makes a bucket, or what replaces it (modes.py).
        debt_ns: the most that is taken in advance, as time at the rate.
    """

    __slots__ = ("_bytes", "_messages", "refusal")

    def __init__(
        self,
        counter: TrafficCounter,
        *,
        burst_ns: int = BURST_NS,
        reason: ThrottleReason = ThrottleReason.RESOURCE_GROUP,
        make: MakeTokens = new_bucket,
        debt_ns: int = DEBT_NS,
    ) -> None:
        super().__init__(counter, burst_ns=burst_ns, reason=reason)
        #: The error that answers a publish that is not admitted; empty to hold it.
        self.refusal = ""
        self._messages = MeteredBucket(make, debt_ns)
        self._bytes = MeteredBucket(make, debt_ns)

    def set_limits(
        self,
        limits: AnyRates,
        now_ns: int,
        lease: GateLease | None = None,
    ) -> None:
        """Limit to these rates from now on; if a lease is given, let nothing pass once it is over."""
        self._refresh(now_ns)
        self._lease = lease
        self._limits = limits
        for meter, dimension, total in (
            (self._messages, Dimension.PUBLISH_MESSAGES, self.counter.messages),
            (self._bytes, Dimension.PUBLISH_BYTES, self.counter.bytes),
        ):
            rate = limits.of(dimension)
            meter.set_rate(rate, total, self._burst_ns, now_ns, self.handling.burst_ns)
        self._look_at_lease(now_ns)

    @property
    def _meters(self) -> tuple[MeteredBucket, MeteredBucket]:
        return self._messages, self._bytes

    def admits(self, messages: int, size: int, now_ns: int) -> bool:
        """Return whether a frame of this number of messages and bytes may pass now."""
        if now_ns != self._as_of_ns:
            self._refresh(now_ns)
        counter = self.counter
        meter = self._messages
        if counter.messages + messages > meter.ceiling and not (
            meter.enough < messages <= meter.most
            and counter.messages + meter.enough <= meter.ceiling
        ):
            return False
        meter = self._bytes
        return counter.bytes + size <= meter.ceiling or (
            meter.enough < size <= meter.most and counter.bytes + meter.enough <= meter.ceiling
        )

    def take(self, messages: int, size: int, now_ns: int) -> bool:
        """Admit and count a message at once; False when it has to wait, for tokens or for others.

        The same as ``admits`` followed by ``consume``, in one call, because this is the only limiter of
        almost every message.
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
        """Return whether several messages may pass one after the other; there must be no waiter.

        Unlike ``admits``, a full bucket alone does not suffice: each message needs all its tokens.
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
        """Count a message that was admitted, at the time of the last ``admits``."""
        self.counter.messages += messages
        self.counter.bytes += size

    def span_ns(self, messages: int, size: int) -> int:
        """Return the time, in nanoseconds, for which these messages and bytes take up the limit."""
        return max(self._messages.span_ns(messages), self._bytes.span_ns(size))

    def refuse(self, messages: int, size: int) -> None:
        """Count a message that was refused."""
        self.counter.refuse(
            messages, size, self._messages.span_ns(messages), self._bytes.span_ns(size)
        )

    def pause_ns(self, messages: int, size: int, now_ns: int) -> int | None:
        """Return the time until this much may pass, and as much as comes in a pause."""
        return self.wait_ns(
            max(messages, self._messages.tokens_within(PAUSE_NS)),
            max(size, self._bytes.tokens_within(PAUSE_NS)),
            now_ns,
        )

    @property
    def debt_ns(self) -> int:
        """The time for which the limit was taken in advance, as of the last decision."""
        counter = self.counter
        return max(self._messages.debt_ns(counter.messages), self._bytes.debt_ns(counter.bytes))

    def owed(self, now_ns: int) -> tuple[int, int]:
        """Return the messages and bytes that were let pass in advance and are not paid for yet."""
        self._refresh(now_ns)
        return self._messages.owed(now_ns), self._bytes.owed(now_ns)

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
