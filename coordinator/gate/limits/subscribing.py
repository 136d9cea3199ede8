"""The rate at which each consumer may subscribe: one bucket each, as in Pulsar's SubscribeRateLimiter.

A consumer is a client's host, a consumer name and a consumer id. Behind a proxy a broker sees one host
for all clients; the gate sees the real one. A consumer that comes too often is refused, not held: clients
come back with growing pauses. A consumer that was not seen for long has a full bucket and need not be
remembered, so only the latest consumers are.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from coordinator.core.limiting.token_bucket import TokenBucket

CONSUMERS_MAX: Final = 10_000
"""The most consumers that are remembered; beyond it, the one that subscribed longest ago starts anew."""

ConsumerKey = tuple[str, str, int]
"""Host, consumer name and consumer id."""


class SubscribeRate:
    """A limit of subscriptions per consumer; none until one is set."""

    def __init__(self) -> None:
        #: Subscriptions per period, None is no limit, and the period; see ``set_rate``.
        self.rate: int | None = None
        self.period_s = 1
        self._buckets: OrderedDict[ConsumerKey, TokenBucket] = OrderedDict()

    def set_rate(self, rate: int | None, period_s: int) -> None:
        """Allow each consumer this many subscriptions per period; None is no limit, 0 allows none.

        Raises:
            ValueError: a negative rate, or a period of less than a second.
        """
        if rate is not None and rate < 0:
            raise ValueError(f"subscribe rate is {rate}: use 0 or more, or None for no limit")
        if period_s < 1:
            raise ValueError(f"period is {period_s} s: use 1 or more")
        self.rate = rate
        self.period_s = period_s
        self._buckets.clear()

    def admits(self, consumer: ConsumerKey, now_ns: int) -> bool:
        """Return whether a consumer may subscribe now, and count its subscription if so."""
        if self.rate is None:
            return True
        slow_ns = now_ns // self.period_s  # a bucket counts per second; here a period counts as one
        bucket = self._buckets.get(consumer)
        if bucket is None:
            bucket = self._buckets[consumer] = TokenBucket(
                rate=self.rate, capacity=max(1, self.rate), initial=self.rate, now_ns=slow_ns
            )
            if len(self._buckets) > CONSUMERS_MAX:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(consumer)
        admitted = bucket.contains_tokens(slow_ns)
        if admitted:
            bucket.consume(1, slow_ns)
        return admitted
