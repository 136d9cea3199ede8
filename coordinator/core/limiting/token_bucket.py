"""The token bucket of PIP-322, on integers, told the time.

Follows the final formulas of Pulsar's AsyncTokenBucket (apache/pulsar#24012): whole tokens are added
for the time that passed, and the part of a token that has come as well is carried over, so slow rates
stay exact. The balance may go negative: consuming never fails, and the debt is paid back before
anything else passes. A balance of exactly 0 counts as "no tokens".

Differences to upstream, on purpose:

* One thread owns a bucket, so tokens are added at every look and consumption is subtracted at once:
  no pending adder, and the balance does not lag. Upstream adds tokens at most every 16 ms to spare
  contended updates, and pauses a producer until as many have come; here a caller waits for what it needs.
* ``set_rate`` keeps the balance and the part of a token: a new rate neither refills the bucket
  (upstream's refill at every recalculation doubles the traffic of that second), nor forgives debt, nor
  makes a slow rate begin anew.
* A rate of 0 lets nothing pass; upstream reads it as "no limit".
* The debt is bounded by the caller: the gate consumes one frame at a time and only when the bucket
  holds ``min(frame, capacity)``, so the debt never exceeds the largest frame.
"""

from __future__ import annotations

from typing import ClassVar

from coordinator.core.model import NANOS_PER_SECOND, Rate


class TokenBucket:
    """A bucket of whole tokens.

    Args:
        rate: tokens per second, >= 0; of a small limit it may be a fraction.
        capacity: the most that can be saved up, >= 1.
        initial: the balance at the start; may be negative.
        now_ns: the time of construction.
    """

    __slots__ = ("_capacity", "_last_ns", "_part", "_rate", "_tokens")
    runs_over: ClassVar[bool] = True
    forgives: ClassVar[bool] = False

    def __init__(
        self,
        *,
        rate: Rate,
        capacity: int,
        initial: int,
        now_ns: int,
    ) -> None:
        _check(rate, capacity)
        self._rate = rate
        self._capacity = capacity
        self._tokens = initial
        self._last_ns = now_ns
        #: The part of a token that has come, in billionths of one.
        self._part: Rate = 0

    @property
    def rate(self) -> Rate:
        """Return the rate, in tokens per second."""
        return self._rate

    @property
    def capacity(self) -> int:
        """Return the most tokens that the bucket holds."""
        return self._capacity

    def balance(self, now_ns: int) -> int:
        """Return the present tokens; negative is debt."""
        self._refill(now_ns)
        return self._tokens

    def consume(self, tokens: int, now_ns: int) -> None:
        """Take tokens, whether they are there or not.

        Raises:
            ValueError: a negative number of tokens.
        """
        if tokens < 0:
            raise ValueError(f"tokens must be >= 0, got {tokens}")
        self._refill(now_ns)
        self._tokens -= tokens

    def contains_tokens(self, now_ns: int) -> bool:
        """Return whether there is at least one token."""
        return self.balance(now_ns) > 0

    def wait_ns(self, tokens: int, now_ns: int) -> int | None:
        """Return the time until the bucket holds ``min(tokens, capacity)``; 0 is now, None is never."""
        required = min(tokens, self._capacity)
        missing = required - self.balance(now_ns)
        if missing <= 0:
            return 0
        if self._rate == 0:
            return None
        return max(1, int(-((self._part - missing * NANOS_PER_SECOND) // self._rate)))

    def set_rate(self, rate: Rate, capacity: int, now_ns: int) -> None:
        """Change rate and capacity; keep the balance up to the new capacity, and keep debt."""
        _check(rate, capacity)
        self._refill(now_ns)
        self._rate = rate
        self._capacity = capacity
        self._tokens = min(self._tokens, capacity)

    def _refill(self, now_ns: int) -> None:
        elapsed_ns = now_ns - self._last_ns
        if elapsed_ns <= 0:
            return
        self._last_ns = now_ns
        added, self._part = divmod(elapsed_ns * self._rate + self._part, NANOS_PER_SECOND)
        if added:
            self._tokens = min(self._tokens + added, self._capacity)


def _check(rate: Rate, capacity: int) -> None:
    if rate < 0:
        raise ValueError(f"rate must be >= 0 tokens per second, got {rate}")
    if capacity < 1:
        raise ValueError(f"capacity must be >= 1 token, got {capacity}")
