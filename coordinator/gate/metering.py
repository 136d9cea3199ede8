"""What the limiters of both classes have in common: a meter for messages and one for bytes.

A meter is a token bucket that learns afterwards. It is told which total was reached at an earlier moment,
and says which total may be reached now, its *ceiling*; until the clock moves on, a decision compares two
sums. Consumption is dated back to the moment when it was, so nothing is lost or gained by it.

*How much is enough.* A message needs as many tokens as it has messages and bytes, but never more than
a nearly full bucket: one that is larger passes then and leaves a debt, which is bounded by the largest
frame. Nearly full is one wake interval short of the capacity, for the sake of accuracy: those who wait
are woken up to that much late, and what flows into a full bucket would be lost.

A new limit neither fills a bucket nor forgives a debt; a bucket that appears starts empty. Of a leased
limit nothing passes once the lease is over, whatever the buckets hold (lease.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.windows import LimitMode, Tokens, tokens_of
from coordinator.gate.counters import TrafficCounter
from coordinator.gate.lease import Lease
from coordinator.gate.throttle import ThrottleReason

BURST_NS: Final = 50_000_000
"""What a bucket can save up, as time: small, so that the sum over all brokers stays small."""

WAKE_INTERVAL_NS: Final = 5_000_000
"""Waiting producers are looked after at most this often; a tenth of the burst."""

PAUSE_NS: Final = 2 * WAKE_INTERVAL_NS
"""A limiter that has others left to serve collects tokens for so long, a fifth of the burst.

Twice that, and a producer that has few publishes under way runs out of them, and gets less than its part
beside one that has many.
"""

_UNLIMITED: Final = 1 << 63


class Meter:
    """The bucket of one unit, and up to which total it allows the group to go.

    Args:
        mode: what stands in the bucket's place, if anything does (windows.py).
    """

    __slots__ = (
        "_bucket", "_given_back", "_mode", "_settled", "_shut", "ceiling", "enough", "rate",
    )  # fmt: skip

    def __init__(self, mode: LimitMode = LimitMode.BUCKET) -> None:
        self._mode = mode
        self._bucket: Tokens | None = None
        #: How much of the group's total the bucket knows of, and how much of that was given back.
        self._settled = 0
        self._given_back = 0
        self._shut = False
        #: Tokens per second; None is unlimited.
        self.rate: int | None = None
        #: The total that may be reached now.
        self.ceiling = _UNLIMITED
        #: The most tokens that a single message needs.
        self.enough = _UNLIMITED

    def set_rate(self, rate: int | None, total: int, burst_ns: int, now_ns: int) -> None:
        """Limit to a rate per second; the meter must be settled up to now."""
        self.rate = rate
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

    def tokens_within(self, span_ns: int) -> int:
        """How many tokens come in so long; without a rate, more than anybody needs."""
        rate = self.rate
        return _UNLIMITED if rate is None else rate * span_ns // NANOS_PER_SECOND

    def wait_ns(self, tokens: int, now_ns: int) -> int | None:
        """How long until so many tokens, or enough of them, are there; None is never."""
        if self._bucket is None:
            return 0
        missing = min(tokens, self.enough) - self._given_back
        never = self._shut or not self._bucket.rate
        return None if never else self._bucket.wait_ns(missing, now_ns)


class MeteredLimiter(ABC):
    """Limits one class of one group's traffic.

    Args:
        counter: where messages and bytes that passed are counted.
        burst_ns: how much a bucket can save up, as time at its rate.
        reason: whose limit it is.
    """

    __slots__ = (
        "_as_of_ns", "_burst_ns", "_lease", "contended", "counter", "idle_since_ns", "reason",
        "service_ns",
    )  # fmt: skip

    def __init__(
        self,
        counter: TrafficCounter,
        *,
        burst_ns: int = BURST_NS,
        reason: ThrottleReason = ThrottleReason.RESOURCE_GROUP,
    ) -> None:
        self.counter = counter
        self.reason = reason
        self._burst_ns = burst_ns
        self._lease: Lease | None = None
        #: The moment that the ceilings are for: all that was counted before is settled with the buckets.
        self._as_of_ns = 0
        #: The admission queue keeps these: whether anybody waits for this limiter, how far everybody was
        #: served, and since when nobody waits.
        self.contended = False
        self.service_ns = 0
        self.idle_since_ns = 0

    def binding(self, messages: int, size: int, now_ns: int) -> tuple[bool, bool]:
        """Whether messages, and whether bytes, are what has to be waited for longest."""
        of_messages, of_bytes = self._waits_ns(messages, size, now_ns)
        if of_messages is None or of_bytes is None:
            return of_messages is None, of_bytes is None
        return 0 < of_messages >= of_bytes, 0 < of_bytes >= of_messages

    def wait_ns(self, messages: int, size: int, now_ns: int) -> int | None:
        """How long until so much may pass if nothing else does; None is never."""
        of_messages, of_bytes = self._waits_ns(messages, size, now_ns)
        return None if of_messages is None or of_bytes is None else max(of_messages, of_bytes)

    def pause_ns(self, messages: int, size: int, now_ns: int) -> int | None:
        """How long until those are served who still wait when others were; None is never."""
        return self.wait_ns(messages, size, now_ns)

    @abstractmethod
    def _waits_ns(self, messages: int, size: int, now_ns: int) -> tuple[int | None, int | None]:
        """How long messages, and how long bytes, have to be waited for."""

    @abstractmethod
    def _shut(self) -> None:
        """Let nothing pass until the buckets are asked again."""

    def _look_at_lease(self, now_ns: int) -> None:
        if self._lease is not None and self._lease.is_over(now_ns):
            self._shut()
