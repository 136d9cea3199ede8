"""The common part of both classes' limiters: a meter for messages and one for bytes.

A meter is a token bucket that is settled afterwards. It is told the total that was reached at an earlier
moment, and returns the total that may be reached now, its *ceiling*; until the clock moves on, a decision
compares two sums. Consumption is dated back to its own time, so this neither loses nor gains tokens.

*Enough tokens.* A message needs as many tokens as it has messages and bytes, but never more than a nearly
full bucket: a larger message passes then and leaves a debt, of a few seconds at most (`DEBT_NS`), since
others of the group wait for it. What costs more is held until it is paid for, in instalments of a nearly
full bucket, between which others are served: a publish (engine/producer.py) and a delivery alike
(engine/consumer.py). So nothing that a client claims of a message stops others. Nearly full is one wake
interval short of the capacity, for accuracy: waiters wake up to that much late, and tokens that flow into
a full bucket would be lost.

*Credit.* A group may save up more than others (``Handling.burst_ns``). Its bucket holds that much then,
and passes it at once; enough tokens stay what they are without credit, so that a large message, or the
first permit of a consumer, need not wait until hours of credit are there.

A new limit neither fills a bucket nor forgives a debt; a new bucket starts empty. Nothing passes a leased
limit once the lease is over, whatever the buckets hold (lease.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple

from coordinator.core.handling import DEFAULT_HANDLING, Handling
from coordinator.core.limiting.tokens import MakeTokens, Tokens, new_bucket
from coordinator.core.model import NANOS_PER_SECOND, AnyRates, Rate, Rates
from coordinator.core.topics import tenant_of
from coordinator.gate.limits.counters import TrafficCounter
from coordinator.gate.limits.lease import GateLease
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.insight.model.gate_views import Debtor

BURST_NS: Final = 50_000_000
"""The most that a bucket saves up, as time: small, so that the sum over all brokers stays small."""

WAKE_INTERVAL_NS: Final = 5_000_000
"""The shortest time between two wake-ups of waiting producers; a tenth of the burst."""

PAUSE_NS: Final = 2 * WAKE_INTERVAL_NS
"""A limiter that leaves waiters unserved collects tokens for this time, a fifth of the burst.

With twice that time, a producer with few publishes under way would run out of them, and would get less
than its share beside a producer with many.
"""

DEBT_NS: Final = 5 * NANOS_PER_SECOND
"""The most that is taken in advance, as time at the rate: others of the group wait for that time."""

TOLD_NS: Final = NANOS_PER_SECOND
"""A debt of this time, or longer, is told with the client that made it."""

_UNLIMITED: Final = 1 << 63

_OF_TOPICS: Final = (
    ThrottleReason.TOPIC_LIMIT, ThrottleReason.PARTITION_LIMIT, ThrottleReason.BACKLOG_QUOTA,
)  # fmt: skip
"""The limits that are called by the name of a topic."""


class Advance(NamedTuple):
    """A publish or a delivery that took a limit in advance.

    Args:
        role: of its client.
        topic: the topic.
        messages: in it.
        size: in bytes.
        owed_ns: the debt of the group, as time at the limit.
    """

    role: str
    topic: str
    messages: int
    size: int
    owed_ns: int


class MeteredBucket:
    """The bucket of one unit, and the total that it allows the group to reach.

    Args:
        make: makes the bucket, or what replaces it (modes.py).
        debt_ns: the most that is taken in advance, as time at the rate.
    """

    __slots__ = (
        "_bucket", "_debt_ns", "_given_back", "_make", "_settled", "_shut", "ceiling", "enough", "most",
        "rate",
    )  # fmt: skip

    def __init__(self, make: MakeTokens = new_bucket, debt_ns: int = DEBT_NS) -> None:
        self._make = make
        self._debt_ns = debt_ns
        self._bucket: Tokens | None = None
        #: How much of the group's total the bucket was told, and how much of that was given back.
        self._settled = 0
        self._given_back = 0
        self._shut = False
        #: Tokens per second; None is unlimited.
        self.rate: Rate | None = None
        #: The total that may be reached now.
        self.ceiling = _UNLIMITED
        #: The most tokens that a single message needs, and the most that it may take.
        self.enough = _UNLIMITED
        self.most = _UNLIMITED

    def set_rate(
        self, rate: Rate | None, total: int, burst_ns: int, now_ns: int, credit_ns: int = 0
    ) -> None:
        """Limit to a rate per second; the meter must be settled up to now.

        Args:
            rate: tokens per second; None is no limit.
            total: the total reached by now.
            burst_ns: how much any bucket saves up, as time at its rate.
            now_ns: the time.
            credit_ns: how much this one saves up instead; 0 is the same.
        """
        self.rate = rate
        if rate is None:
            self._bucket = None
            self._given_back = 0
            self.ceiling = self.enough = self.most = _UNLIMITED
            return
        capacity = max(1, rate * (credit_ns or burst_ns) // NANOS_PER_SECOND)
        if self._bucket is None:
            self._settled = total
            self._bucket = self._make(rate, capacity, now_ns)
        else:
            self._bucket.set_rate(rate, capacity, now_ns)
        # Tokens that come while a waiter is waking up must not be lost.
        late, enough = 0, self._bucket.capacity
        if self._bucket.runs_over:
            late = -(-rate * WAKE_INTERVAL_NS // NANOS_PER_SECOND)
            enough = min(enough, max(1, rate * burst_ns // NANOS_PER_SECOND))
        self.enough = max(1, enough - late)
        # Without debts there are no instalments: all of them would be paid at one moment.
        self.most = _UNLIMITED if self._bucket.forgives else self.enough + self.debt_max
        self.settle(total, now_ns, now_ns)

    def settle(self, total: int, as_of_ns: int, now_ns: int) -> None:
        """Tell the bucket the total at an earlier moment, and ask it for the ceiling now."""
        if self._bucket is None:
            return
        self._bucket.consume(max(0, total - self._settled), as_of_ns)
        balance = self._bucket.balance(now_ns)
        # Tokens that were promised and not used come back, as far as the bucket has room for them.
        room = max(0, self._bucket.capacity - balance)
        self._given_back = min(max(0, self._settled - total), room)
        self._settled = total + self._given_back
        # A rate of 0 lets nothing pass, not even saved tokens.
        self.ceiling = self._settled + balance if self._bucket.rate else total + min(balance, 0)
        self._shut = False

    @property
    def debt_max(self) -> int:
        """The most tokens that are taken in advance; without a rate, more than any caller needs."""
        return self.tokens_within(self._debt_ns)

    def debt_ns(self, total: int) -> int:
        """Return the time for which a total was taken in advance, as of the last settlement."""
        return self.span_ns(total - self.ceiling) if total > self.ceiling else 0

    def owed(self, now_ns: int) -> int:
        """Return the tokens that were used in advance, as of the last settlement."""
        return 0 if self._bucket is None else max(0, -self._bucket.balance(now_ns))

    @property
    def is_shut(self) -> bool:
        """Whether nothing may pass until the next settlement."""
        return self._shut

    def shut(self, total: int) -> None:
        """Let nothing pass until the next settlement, if there is a limit; no token is lost."""
        if self._bucket is not None:
            self._shut = True
            self.ceiling = min(self.ceiling, total)

    def span_ns(self, tokens: int) -> int:
        """Return the time in which this number of tokens comes; 0 without a rate, or at rate 0."""
        rate = self.rate
        return tokens * NANOS_PER_SECOND // rate if rate else 0

    def tokens_within(self, span_ns: int) -> int:
        """Return the tokens that come in this time; without a rate, more than any caller needs."""
        rate = self.rate
        return _UNLIMITED if rate is None else rate * span_ns // NANOS_PER_SECOND

    def wait_ns(self, tokens: int, now_ns: int) -> int | None:
        """Return the time until these tokens, or enough of them, have come; None is never."""
        if self._bucket is None:
            return 0
        missing = min(tokens, self.enough) - self._given_back
        never = self._shut or not self._bucket.rate
        return None if never else self._bucket.wait_ns(missing, now_ns)


class MeteredLimiter(ABC):
    """Limits one class of one group's traffic.

    Args:
        counter: the counter of messages and bytes that passed.
        burst_ns: how much a bucket can save up, as time at its rate.
        reason: the kind of limit.
    """

    __slots__ = (
        "_as_of_ns", "_burst_ns", "_lease", "_limits", "buffer_share", "contended", "counter", "debtor",
        "handling", "idle_since_ns", "reason", "service_ns",
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
        #: The share of the publish buffer in which frames are that wait for it; see publish_buffer.py.
        self.buffer_share = f"{reason.value} {counter.group}"
        if reason in _OF_TOPICS:
            self.buffer_share = f"topics of {tenant_of(counter.group)}"
        self._burst_ns = burst_ns
        self._lease: GateLease | None = None
        self._limits: AnyRates = Rates()
        #: The credit that is saved up, and when publishes are refused.
        self.handling = DEFAULT_HANDLING
        #: Who took much of the limit in advance, the last time.
        self.debtor: Debtor | None = None
        #: The time of the ceilings: all earlier counts are settled with the buckets.
        self._as_of_ns = 0
        #: Kept by the admission queue: whether a waiter exists, how far the waiters were served, and
        #: the time since which there is none.
        self.contended = False
        self.service_ns = 0
        self.idle_since_ns = 0

    @property
    def patience_ns(self) -> int | None:
        """The time for which a waiter is held before it gives up; None is until it passes."""
        return self.handling.refuse_after_ns

    def set_handling(self, handling: Handling, now_ns: int) -> None:
        """Handle traffic in this way from now on; limits and balances are kept."""
        self.handling = handling
        self.set_limits(self._limits, now_ns, self._lease)

    @abstractmethod
    def set_limits(
        self,
        limits: AnyRates,
        now_ns: int,
        lease: GateLease | None = None,
    ) -> None:
        """Limit to these rates from now on; if a lease is given, let nothing pass once it is over."""

    @abstractmethod
    def admits(self, messages: int, size: int, now_ns: int) -> bool:
        """Return whether these messages and bytes may pass now."""

    @abstractmethod
    def consume(self, messages: int, size: int) -> None:
        """Take the tokens of messages that were admitted, at the time of the last ``admits``."""

    @abstractmethod
    def span_ns(self, messages: int, size: int) -> int:
        """Return the time, in nanoseconds, for which these messages and bytes take up the limit."""

    def binding(self, messages: int, size: int, now_ns: int) -> tuple[bool, bool]:
        """Return whether messages, and whether bytes, have the longest wait."""
        of_messages, of_bytes = self._waits_ns(messages, size, now_ns)
        if of_messages is None or of_bytes is None:
            return of_messages is None, of_bytes is None
        return 0 < of_messages >= of_bytes, 0 < of_bytes >= of_messages

    def wait_ns(self, messages: int, size: int, now_ns: int) -> int | None:
        """Return the time until this much may pass if nothing else does; None is never."""
        of_messages, of_bytes = self._waits_ns(messages, size, now_ns)
        return None if of_messages is None or of_bytes is None else max(of_messages, of_bytes)

    def pause_ns(self, messages: int, size: int, now_ns: int) -> int | None:
        """Return the time until the next wake-up when others were served before; None is never."""
        return self.wait_ns(messages, size, now_ns)

    @property
    @abstractmethod
    def _meters(self) -> tuple[MeteredBucket, MeteredBucket]:
        """The meters of messages and of bytes."""

    def lends(self, messages: int, size: int) -> bool:
        """Return whether a frame of this cost may pass at once, at the price of a debt."""
        of_messages, of_bytes = self._meters
        return messages <= of_messages.most and size <= of_bytes.most

    @property
    def instalment(self) -> tuple[int, int]:
        """The messages and bytes of an instalment of what costs more than that."""
        of_messages, of_bytes = self._meters
        return of_messages.enough, of_bytes.enough

    @property
    @abstractmethod
    def debt_ns(self) -> int:
        """The time for which the limit was taken in advance, as of the last decision."""

    @abstractmethod
    def owed(self, now_ns: int) -> tuple[int, int]:
        """Return the messages and bytes that were let pass in advance and are not paid for yet."""

    @abstractmethod
    def _waits_ns(self, messages: int, size: int, now_ns: int) -> tuple[int | None, int | None]:
        """Return the wait for messages, and the wait for bytes."""

    @abstractmethod
    def _shut(self) -> None:
        """Let nothing pass until the buckets are asked again."""

    def _look_at_lease(self, now_ns: int) -> None:
        if self._lease is not None and self._lease.is_over(now_ns):
            self._shut()


def instalment_of(
    limiters: Sequence[MeteredLimiter], cost: tuple[int, int], paid: tuple[int, int]
) -> tuple[int, int]:
    """Return what is to be paid next of a cost: all that is left, or an instalment if it is too much.

    Args:
        limiters: that must admit it.
        cost: in messages and bytes.
        paid: of it, already.
    """
    messages, size = cost[0] - paid[0], cost[1] - paid[1]
    if all(limiter.lends(*cost) for limiter in limiters):
        return messages, size
    for limiter in limiters:
        of_messages, of_bytes = limiter.instalment
        messages, size = min(messages, of_messages), min(size, of_bytes)
    return messages, size


def wake_up_ns(time_ns: int) -> int:
    """Return the first time that is not before this one on the grid that all wake-ups share."""
    return -(-time_ns // WAKE_INTERVAL_NS) * WAKE_INTERVAL_NS
