"""The dispatch limiter of one resource group: decide when the broker gets more of its consumers' permits.

A broker sends messages to a consumer while it has *permits*, which the consumer gives with FLOW. The gate
withholds permits and passes them on at the allowed rate. It cannot take a permit back, and a permit tells
little about its cost: it lets one *entry* out, which may be a batch of a thousand messages, at once or
never. So the limiter keeps two accounts:

* **Traffic that passed** is consumed from the buckets when it passes, by its real number of messages and
  bytes; a batch larger than expected leaves a debt that is paid back before the next permit goes out.
* **Promises**: a permit under way is consumed at the expected cost of its entry until that entry passes,
  and any excess is given back. A promise lasts for one or two windows of 20 ms. A permit that is unused
  by then belongs to a consumer without a backlog, and tokens must not wait for it. If it is used later,
  the debt is at most that entry.

An entry that would bring the group into debt for more than a few seconds does not pass: the gate holds
it until it is paid for, in instalments, in turns with all others that wait (engine/deliveries.py). So
neither a batch of a million messages, nor a thousand consumers that use permits that they had for hours,
exceed the limit for longer, or stop the others of their group.

So consumers that leave their permits unused take nothing from others, and however many ask at the same
moment, the permits that go out fit the tokens. Before the first entry of a group has passed, its cost is
unknown: until then one permit goes out at a time, for a nearly full bucket.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.limiting.tokens import MakeTokens, new_bucket
from coordinator.core.model import AnyRates, Dimension
from coordinator.gate.limits.counters import TrafficCounter
from coordinator.gate.limits.lease import GateLease
from coordinator.gate.limits.metering import BURST_NS, DEBT_NS, MeteredBucket, MeteredLimiter
from coordinator.gate.limits.throttle import ThrottleReason

PROMISE_WINDOW_NS: Final = 20_000_000
"""Windows that a promise counts in: its own and the next; brokers answer within a few ms."""

UNKNOWN: Final = 1 << 62
"""The cost of an entry of unknown size: more than any bucket holds, so all of it."""

_SMALLEST: Final = (1, 1)


class _Unit:
    """Messages or bytes: the bucket, and the tokens promised of it."""

    __slots__ = ("fresh", "meter", "paid", "stale")

    def __init__(self, make: MakeTokens, debt_ns: int) -> None:
        self.meter = MeteredBucket(make, debt_ns)
        #: Paid for entries that have not passed yet.
        self.paid = 0
        #: Promised in this window, and in the one before.
        self.fresh = 0
        self.stale = 0

    @property
    def promised(self) -> int:
        return self.fresh + self.stale

    def promise(self, tokens: int) -> None:
        if self.meter.rate is not None:
            self.fresh += min(tokens, self.meter.enough)

    def keep(self, tokens: int) -> None:
        """Remove this number of tokens from the promises, the oldest first."""
        self.stale -= tokens
        if self.stale < 0:
            self.fresh = max(0, self.fresh + self.stale)
            self.stale = 0

    def turn_window(self, windows: int) -> None:
        self.stale = self.fresh if windows == 1 else 0
        self.fresh = 0

    def taken(self, total: int) -> int:
        """Return what the bucket is to know of when this total has passed."""
        return total + self.promised + self.paid

    def has_credit(self, total: int, tokens: int) -> bool:
        """Return whether this many tokens may be taken in advance, beside what was taken before."""
        meter = self.meter
        if meter.rate is None:
            return True
        return not meter.is_shut and self.taken(total) + tokens - meter.ceiling <= meter.debt_max

    def pay(self, tokens: int) -> None:
        """Take tokens that were promised for an entry that has yet to pass."""
        self.keep(min(tokens, self.meter.enough))
        self.paid += tokens

    def admits(self, total: int, tokens: int) -> bool:
        taken, meter = self.taken(total), self.meter
        # Without a rate even entries of unknown size pass, which cost more than any ceiling.
        return (
            meter.rate is None
            or taken + tokens <= meter.ceiling
            or (tokens > meter.enough and taken + meter.enough <= meter.ceiling)
        )

    def wait_ns(self, tokens: int, window_left_ns: int, now_ns: int) -> int | None:
        wait_ns = self.meter.wait_ns(tokens, now_ns)
        if wait_ns is None or not self.promised:
            return wait_ns
        return min(wait_ns, window_left_ns) or window_left_ns


class DispatchLimiter(MeteredLimiter):
    """Admits the permits of one group's consumers.

    Args:
        counter: the counter of messages and bytes that passed.
        burst_ns: how much a bucket can save up, as time at its rate.
        reason: the kind of limit.
        make: makes a bucket, or what replaces it (modes.py).
        debt_ns: the most that is taken in advance, as time at the rate.
    """

    __slots__ = ("_bytes", "_messages", "_on_trial", "_window", "typical_entry")

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
        self._messages = _Unit(make, debt_ns)
        self._bytes = _Unit(make, debt_ns)
        self._window = 0
        #: Whether a permit went out whose cost is unknown.
        self._on_trial = False
        #: Messages and bytes of the last entry that passed; None until one has.
        self.typical_entry: tuple[int, int] | None = None

    @property
    def patience_ns(self) -> int | None:
        """None: permits are withheld until they pass, for no client waits for an answer to them."""
        return None

    @property
    def limited(self) -> bool:
        """Whether messages or bytes are limited."""
        return self._messages.meter.rate is not None or self._bytes.meter.rate is not None

    def set_limits(
        self,
        limits: AnyRates,
        now_ns: int,
        lease: GateLease | None = None,
    ) -> None:
        """Limit to these rates from now on; balances and promises are kept.

        If a lease is given, no permit goes out once it is over.
        """
        self._refresh(now_ns)
        self._lease = lease
        self._limits = limits
        for unit, dimension, total in (
            (self._messages, Dimension.DISPATCH_MESSAGES, self.counter.messages),
            (self._bytes, Dimension.DISPATCH_BYTES, self.counter.bytes),
        ):
            rate = limits.of(dimension)
            credit_ns = self.handling.burst_ns
            unit.meter.set_rate(rate, unit.taken(total), self._burst_ns, now_ns, credit_ns)
        self._look_at_lease(now_ns)

    def admits(self, messages: int, size: int, now_ns: int) -> bool:
        """Return whether permits for these messages and bytes may go out now."""
        if now_ns != self._as_of_ns:
            self._refresh(now_ns)
        counter = self.counter
        return self._messages.admits(counter.messages, messages) and self._bytes.admits(
            counter.bytes, size
        )

    def consume(self, messages: int, size: int) -> None:
        """Promise this number of messages and bytes, at the time of the last ``admits``."""
        self._on_trial = True
        self._messages.promise(messages)
        self._bytes.promise(size)

    def passed(self, messages: int, size: int, largest: tuple[int, int], now_ns: int) -> None:
        """Count entries that go to a consumer, and consume their tokens.

        Args:
            messages: messages of all entries.
            size: bytes of all entries.
            largest: most messages and most bytes of one entry.
            now_ns: the time.
        """
        if now_ns != self._as_of_ns:
            self._refresh(now_ns)
        self.counter.messages += messages
        self.counter.bytes += size
        self.typical_entry = largest

    def has_credit(self, messages: int, size: int, now_ns: int) -> bool:
        """Return whether entries of this cost may pass now, at the price of a debt.

        What was promised of them counts as well: the promise may be over.
        """
        if now_ns != self._as_of_ns:
            self._refresh(now_ns)
        counter = self.counter
        return self._messages.has_credit(counter.messages, messages) and self._bytes.has_credit(
            counter.bytes, size
        )

    def beyond_ns(self, messages: int, size: int, expected: int, promised: tuple[int, int]) -> int:
        """Return the time for which entries take up the limit beyond what was charged for them before.

        Args:
            messages: messages of all entries.
            size: bytes of all entries.
            expected: the number of entries that were promised.
            promised: the messages and bytes that were expected of each.
        """
        of_messages, of_bytes = self._messages.meter, self._bytes.meter
        count = max(1, expected)
        messages -= count * min(promised[0], of_messages.enough)
        size -= count * min(promised[1], of_bytes.enough)
        if messages <= 0 and size <= 0:
            return 0
        return max(of_messages.span_ns(max(0, messages)), of_bytes.span_ns(max(0, size)))

    @property
    def _meters(self) -> tuple[MeteredBucket, MeteredBucket]:
        return self._messages.meter, self._bytes.meter

    def pay(self, messages: int, size: int) -> None:
        """Consume tokens for an entry that has yet to pass; they were promised by ``consume``."""
        self._messages.pay(messages)
        self._bytes.pay(size)

    def passed_paid(self, messages: int, size: int) -> None:
        """Count an entry that passes now, all of which is paid for."""
        self.give_back(messages, size)
        self.passed(messages, size, (messages, size), self._as_of_ns)

    def give_back(self, messages: int, size: int) -> None:
        """Give back what was paid for an entry that does not pass after all."""
        self._messages.paid -= messages
        self._bytes.paid -= size

    def keep(self, messages: int, size: int) -> None:
        """End the promise of an entry of this expected cost, whatever its real cost."""
        self._messages.keep(messages)
        self._bytes.keep(size)

    def entries(self, messages: int, size: int) -> int:
        """Return the entries of this size that a nearly full bucket pays for, at least one."""
        of_messages = self._messages.meter.enough // max(1, messages)
        return max(1, min(of_messages, self._bytes.meter.enough // max(1, size)))

    def entries_within(self, span_ns: int, messages: int, size: int) -> int:
        """Return the entries of this size that the limit allows in this time."""
        of_messages = self._messages.meter.tokens_within(span_ns) // max(1, messages)
        return min(of_messages, self._bytes.meter.tokens_within(span_ns) // max(1, size))

    def span_ns(self, messages: int, size: int) -> int:
        """Return the time for which this much takes up the limit: at most that of a full bucket.

        That is all that is promised of it; what it costs beyond is charged when it has passed.
        """
        units = ((self._messages.meter, messages), (self._bytes.meter, size))
        return max(meter.span_ns(min(tokens, meter.enough)) for meter, tokens in units)

    @property
    def debt_ns(self) -> int:
        """The time for which the limit was taken in advance, as of the last decision."""
        messages, size = self._messages, self._bytes
        return max(
            messages.meter.debt_ns(messages.taken(self.counter.messages)),
            size.meter.debt_ns(size.taken(self.counter.bytes)),
        )

    def owed(self, now_ns: int) -> tuple[int, int]:
        """Return the messages and bytes that passed in advance and are not paid for yet."""
        self._refresh(now_ns)
        return self._messages.meter.owed(now_ns), self._bytes.meter.owed(now_ns)

    def _waits_ns(self, messages: int, size: int, now_ns: int) -> tuple[int | None, int | None]:
        self._refresh(now_ns)
        left_ns = (self._window + 1) * PROMISE_WINDOW_NS - now_ns
        return (
            self._messages.wait_ns(messages, left_ns, now_ns),
            self._bytes.wait_ns(size, left_ns, now_ns),
        )

    def _refresh(self, now_ns: int) -> None:
        window = now_ns // PROMISE_WINDOW_NS
        if window != self._window:
            self._turn_window(window)
        for unit, total in (
            (self._messages, self.counter.messages),
            (self._bytes, self.counter.bytes),
        ):
            unit.meter.settle(unit.taken(total), self._as_of_ns, now_ns)
        self._as_of_ns = now_ns
        self._look_at_lease(now_ns)

    def _shut(self) -> None:
        self._messages.meter.shut(self._messages.taken(self.counter.messages))
        self._bytes.meter.shut(self._bytes.taken(self.counter.bytes))

    def _turn_window(self, window: int) -> None:
        units = (self._messages, self._bytes)
        expired = window > self._window + 1 or any(unit.stale for unit in units)
        if self._on_trial and expired and self.typical_entry is None:
            # That permit's consumer has no backlog. The next ones need not wait for a full bucket.
            self.typical_entry = _SMALLEST
        for unit in units:
            unit.turn_window(window - self._window)
        self._window = window
