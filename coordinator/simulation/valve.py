"""How much of a step's traffic passes: the core's token bucket, asked once a step, not per message.

The gate admits frame by frame and wakes waiting producers every few milliseconds, so its bucket loses
nothing while producers wait and saves at most ``BURST_NS`` while they do not. A simulation that looks
only once a step must come to the same: the bucket has room for the burst and one step more, and what is
left above the burst after the step is spilled. While messages wait, everything that flows in is used;
while they do not, no more than the burst is saved.

A bucket starts empty, and a rate of 0 lets nothing pass, not even what had been saved: as in the gate.
"""

from __future__ import annotations

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.token_bucket import TokenBucket

BURST_NS = 50_000_000
"""What the gate's buckets save up, as time."""

STEP_NS = 50_000_000
"""The runner's tick: how often the gate's counts are brought to the core."""


class Valve:
    """The limiter of one group at one broker.

    Args:
        rate: messages per second.
        now_ns: the host's time.
    """

    __slots__ = ("_bucket", "_burst")

    def __init__(self, rate: int, now_ns: int) -> None:
        self._burst = _tokens(rate, BURST_NS)
        self._bucket = TokenBucket(
            rate=rate, capacity=self._room(rate), initial=0, now_ns=now_ns, resolution_ns=0
        )

    @property
    def rate(self) -> int:
        """Messages per second."""
        return self._bucket.rate

    def set_rate(self, rate: int, now_ns: int) -> None:
        """Let another rate pass from now on; neither refills nor forgives."""
        self._burst = _tokens(rate, BURST_NS)
        self._bucket.set_rate(rate, self._room(rate), now_ns)

    def admit(self, waiting: int, now_ns: int) -> int:
        """Let pass what may pass of the messages that waited in the step that ends now."""
        bucket = self._bucket
        if not bucket.rate:
            return 0
        balance = bucket.balance(now_ns)
        admitted = max(0, min(waiting, balance))
        spilled = max(0, balance - admitted - self._burst)
        if admitted or spilled:
            bucket.consume(admitted + spilled, now_ns)
        return admitted

    def _room(self, rate: int) -> int:
        return self._burst + _tokens(rate, STEP_NS) + 1


def _tokens(rate: int, duration_ns: int) -> int:
    return max(1, rate * duration_ns // NANOS_PER_SECOND)
