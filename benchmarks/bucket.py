"""The local decision: may this frame pass?

Ours is the gate's own ``AdmissionQueue.admit`` for a topic with one group that limits messages *and*
bytes; the peers check one rate each. Frames come many with one read, and the gate looks at the clock
once per read, so that is how it is measured, with as many small frames as a read brings under load. The
peers look at the clock at every decision, as their interfaces have it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping

import aiolimiter
import limits
import token_bucket

from benchmarks.figures import Figure, Measurement, median_seconds
from coordinator.core.model import MonitoringClass, Rates
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.counters import NoListener, TrafficCounter
from coordinator.gate.limits.limiter import PublishLimiter

FRAMES_PER_READ = 32
FRAME_BYTES = 1024
DECISIONS = 3200
REPETITIONS = 60
PLENTY = 100_000_000
"""A rate that no contender reaches: admission is measured, not refusal."""


def decisions() -> Iterator[Figure]:
    """Nanoseconds per admitted frame, medians of loops run by turns."""
    loop = asyncio.new_event_loop()
    try:
        contenders: dict[str, Callable[[], object]] = {
            "ours": _ours(),
            "token_bucket": _token_bucket(),
            "limits": _limits(),
            "aiolimiter": _aiolimiter(loop),
        }
        seconds = median_seconds(contenders, REPETITIONS)
    finally:
        loop.close()
    nanoseconds = {name: taken / DECISIONS * 1e9 for name, taken in seconds.items()}
    ours = nanoseconds.pop("ours")
    yield Figure("bucket/decision", ours, "ns", "lower", nanoseconds, target=300)
    ratios = {name: taken / ours for name, taken in nanoseconds.items()}
    yield Figure(
        "bucket/times-faster-than-the-fastest-peer", min(ratios.values()), "", "higher", target=1
    )


MEASUREMENTS: Mapping[str, Measurement] = {"bucket/": decisions}


def _ours() -> Callable[[], object]:
    queue = AdmissionQueue()
    limiter = PublishLimiter(TrafficCounter("group", MonitoringClass.PUBLISH, NoListener()))
    limiter.set_limits(Rates(publish_messages=PLENTY, publish_bytes=PLENTY * 100), _now_ns())
    limiters = (limiter,)
    time.sleep(0.1)  # a new bucket starts empty

    def run() -> None:
        for _ in range(DECISIONS // FRAMES_PER_READ):
            now_ns = _now_ns()
            for _ in range(FRAMES_PER_READ):
                if not queue.admit(limiters, 1, FRAME_BYTES, now_ns):
                    raise AssertionError("refused, so this measures something else")

    return run


def _token_bucket() -> Callable[[], object]:
    limiter = token_bucket.Limiter(PLENTY, PLENTY, token_bucket.MemoryStorage())

    def run() -> None:
        for _ in range(DECISIONS):
            if not limiter.consume("group"):
                raise AssertionError("refused, so this measures something else")

    return run


def _limits() -> Callable[[], object]:
    limiter = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
    rate = limits.RateLimitItemPerSecond(PLENTY)

    def run() -> None:
        for _ in range(DECISIONS):
            if not limiter.hit(rate, "group"):
                raise AssertionError("refused, so this measures something else")

    return run


def _aiolimiter(loop: asyncio.AbstractEventLoop) -> Callable[[], object]:
    limiter = aiolimiter.AsyncLimiter(PLENTY, 1)

    async def acquire_all() -> None:
        for _ in range(DECISIONS):
            await limiter.acquire()

    return lambda: loop.run_until_complete(acquire_all())


def _now_ns() -> int:
    return time.monotonic_ns()
