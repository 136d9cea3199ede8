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

So consumers that leave their permits unused take nothing from others, and however many ask at the same
moment, the permits that go out fit the tokens. Before the first entry of a group has passed, its cost is
unknown: until then one permit goes out at a time, for a nearly full bucket.
"""

from __future__ import annotations

from typing import Final

from coordinator.core.limiting.tokens import MakeTokens, new_bucket
from coordinator.core.model import Rates
from coordinator.gate.limits.counters import TrafficCounter
from coordinator.gate.limits.lease import GateLease
from coordinator.gate.limits.metering import BURST_NS, MeteredBucket, MeteredLimiter
from coordinator.gate.limits.throttle import ThrottleReason

PROMISE_WINDOW_NS: Final = 20_000_000
"""Windows that a promise counts in: its own and the next; brokers answer within a few ms."""

UNKNOWN: Final = 1 << 62
"""The cost of an entry of unknown size: more than any bucket holds, so all of it."""

_SMALLEST: Final = (1, 1)


class _Unit:
    """Messages or bytes: the bucket, and the tokens promised of it."""

    __slots__ = ("fresh", "meter", "stale")

    def __init__(self, make: MakeTokens) -> None:
        self.meter = MeteredBucket(make)
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

    def admits(self, total: int, tokens: int) -> bool:
        taken, meter = total + self.promised, self.meter
        return taken + tokens <= meter.ceiling or (
            tokens > meter.enough and taken + meter.enough <= meter.ceiling
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
    """

    __slots__ = ("_bytes", "_messages", "_on_trial", "_window", "typical_entry")

    def __init__(
        self,
        counter: TrafficCounter,
        *,
        burst_ns: int = BURST_NS,
        reason: ThrottleReason = ThrottleReason.RESOURCE_GROUP,
        make: MakeTokens = new_bucket,
    ) -> None:
        super().__init__(counter, burst_ns=burst_ns, reason=reason)
        self._messages = _Unit(make)
        self._bytes = _Unit(make)
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

    def set_limits(self, limits: Rates, now_ns: int, lease: GateLease | None = None) -> None:
        """Limit to these rates from now on; balances and promises are kept.

        If a lease is given, no permit goes out once it is over.
        """
        self._refresh(now_ns)
        self._lease = lease
        for unit, rate, total in (
            (self._messages, limits.dispatch_messages, self.counter.messages),
            (self._bytes, limits.dispatch_bytes, self.counter.bytes),
        ):
            taken, credit_ns = total + unit.promised, self.handling.burst_ns
            unit.meter.set_rate(rate, taken, self._burst_ns, now_ns, credit_ns)
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
        """Return the time for which this much takes up the limit; an unknown cost is a full bucket."""
        units = ((self._messages.meter, messages), (self._bytes.meter, size))
        return max(m.span_ns(m.enough if tokens >= UNKNOWN else tokens) for m, tokens in units)

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
            unit.meter.settle(total + unit.promised, self._as_of_ns, now_ns)
        self._as_of_ns = now_ns
        self._look_at_lease(now_ns)

    def _renew(self, now_ns: int) -> None:
        rates = Rates(
            dispatch_messages=self._messages.meter.rate, dispatch_bytes=self._bytes.meter.rate
        )
        self.set_limits(rates, now_ns, self._lease)

    def _shut(self) -> None:
        self._messages.meter.shut(self.counter.messages + self._messages.promised)
        self._bytes.meter.shut(self.counter.bytes + self._bytes.promised)

    def _turn_window(self, window: int) -> None:
        units = (self._messages, self._bytes)
        expired = window > self._window + 1 or any(unit.stale for unit in units)
        if self._on_trial and expired and self.typical_entry is None:
            # That permit's consumer has no backlog. The next ones need not wait for a full bucket.
            self.typical_entry = _SMALLEST
        for unit in units:
            unit.turn_window(window - self._window)
        self._window = window
