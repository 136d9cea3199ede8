"""Limits by windows of a second, as a managed Pulsar has them, beside the token bucket (PIP-322).

Both have the interface `Tokens`, so that the gate can use them in place of a bucket.

*WindowBucket* is that service's limit of a cluster: each second has the whole quota, however it is spent.
Of 100 messages a second, sent in its first 400 ms, the 101st waits 600 ms. Clients see longer pauses than
with a bucket of the same rate, and may send the quota of two seconds around the turn of one. A message
larger than the rest of the quota passes, and the next windows pay its debt.

*SoftWindow* is its limit of a partition: it admits everything, checks every 50 ms whether the quota of
the second was exceeded, and if so blocks for the rest of the second. The clients decide how much passes
between two checks, and so by how much the limit is exceeded; the next window forgives the excess.

Windows are counted from the construction, not from the full second of some clock: otherwise all brokers
would turn, and send, at the same moment.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Final

from coordinator.core.limiting.tokens import MakeTokens, new_bucket
from coordinator.core.model import NANOS_PER_SECOND, Rate

WINDOW_NS: Final = NANOS_PER_SECOND
"""The statistics window."""

CHECK_NS: Final = 50_000_000
"""The interval between checks of a soft limit, unless another one is set."""

_UNLIMITED: Final = 1 << 62


class LimitMode(Enum):
    """The way in which a rate is enforced."""

    BUCKET = "bucket"
    WINDOW = "window"
    SOFT = "soft"


class WindowBucket:
    """A limiter with the whole rate available at the beginning of each second.

    Args:
        rate: tokens per second, >= 0.
        now_ns: when the first window begins.
    """

    __slots__ = ("_origin_ns", "_rate", "_tokens", "_window")
    runs_over: ClassVar[bool] = False
    forgives: ClassVar[bool] = False

    def __init__(self, *, rate: Rate, now_ns: int) -> None:
        _check(rate)
        self._rate = rate
        self._origin_ns = now_ns
        self._window = 0
        self._tokens: Rate = rate

    @property
    def rate(self) -> Rate:
        """Return the rate, in tokens per second."""
        return self._rate

    @property
    def capacity(self) -> int:
        """Return the tokens of a window, at least one, so that the largest message finds a full one."""
        return int(max(1, self._rate))

    def balance(self, now_ns: int) -> int:
        """Return the tokens left of the window; negative is debt."""
        self._turn(now_ns)
        return self._tokens // 1

    def consume(self, tokens: int, now_ns: int) -> None:
        """Take tokens of the window, whether they are there or not.

        Raises:
            ValueError: a negative number of tokens.
        """
        if tokens < 0:
            raise ValueError(f"tokens must be >= 0, got {tokens}")
        self._turn(now_ns)
        self._tokens -= tokens

    def wait_ns(self, tokens: int, now_ns: int) -> int | None:
        """Return the time until a window has ``min(tokens, capacity)``; 0 is now, None is never."""
        required = min(tokens, self.capacity)
        if required <= self.balance(now_ns):
            return 0
        if self._rate == 0:
            return None
        # In debt even a request for 0 tokens waits: the window needs at least one token.
        windows = -(-(max(1, required) - self._tokens) // self._rate)
        return self._origin_ns + (self._window + windows) * WINDOW_NS - now_ns

    def set_rate(self, rate: Rate, capacity: int, now_ns: int) -> None:  # noqa: ARG002
        """Change the rate of the windows, including the present one; tokens taken stay taken."""
        _check(rate)
        self._turn(now_ns)
        self._tokens += rate - self._rate
        self._rate = rate

    def _turn(self, now_ns: int) -> None:
        window = (now_ns - self._origin_ns) // WINDOW_NS
        if window > self._window:
            # Debt goes on into the next window, and of a rate that is no whole number the fraction that
            # is left; the windows between two looks count as if each had been looked at.
            left = self._tokens + (window - self._window - 1) * self._rate
            self._tokens = self._rate + (left if left < 0 else left % 1)
            self._window = window


class SoftWindow:
    """Admit everything; check every 50 ms; once over quota, block for the rest of the second.

    Args:
        rate: tokens per second, >= 0; with 0 nothing passes, without waiting for a check.
        now_ns: when the first window begins.
        check_ns: the interval between two checks.
    """

    __slots__ = ("_check_ns", "_looked_ns", "_origin_ns", "_paused", "_rate", "_spent", "_window")
    runs_over: ClassVar[bool] = False
    forgives: ClassVar[bool] = True

    def __init__(self, *, rate: Rate, now_ns: int, check_ns: int = CHECK_NS) -> None:
        _check(rate)
        self._check_ns = check_ns
        self._rate = rate
        self._origin_ns = now_ns
        self._window = 0
        self._spent = 0
        self._paused = False
        #: The time of the last check.
        self._looked_ns = now_ns

    @property
    def rate(self) -> Rate:
        """Return the rate, in tokens per second."""
        return self._rate

    @property
    def capacity(self) -> int:
        """Return the tokens of a second; between two checks the number of tokens is unbounded."""
        return int(max(1, self._rate))

    def balance(self, now_ns: int) -> int:
        """Return an unbounded number, or none while blocked."""
        self._look(now_ns)
        return 0 if self._paused or not self._rate else _UNLIMITED

    def consume(self, tokens: int, now_ns: int) -> None:
        """Count tokens of the window.

        Raises:
            ValueError: a negative number of tokens.
        """
        if tokens < 0:
            raise ValueError(f"tokens must be >= 0, got {tokens}")
        self._look(now_ns)
        self._spent += tokens

    def wait_ns(self, tokens: int, now_ns: int) -> int | None:  # noqa: ARG002
        """Return the rest of the block; 0 is now, None is never."""
        if self.balance(now_ns) > 0:
            return 0
        if self._rate == 0:
            return None
        return self._origin_ns + (self._window + 1) * WINDOW_NS - now_ns

    def set_rate(self, rate: Rate, capacity: int, now_ns: int) -> None:  # noqa: ARG002
        """Change the rate; a block that it would not have caused ends with the next check."""
        _check(rate)
        self._look(now_ns)
        self._rate = rate
        self._paused = self._paused and self._spent > rate

    def _look(self, now_ns: int) -> None:
        """Make the checks that were due until now."""
        window = (now_ns - self._origin_ns) // WINDOW_NS
        if window > self._window:
            self._window, self._spent, self._paused = window, 0, False
        passed_ns = now_ns - self._origin_ns
        looked_ns = self._origin_ns + passed_ns // self._check_ns * self._check_ns
        if looked_ns > self._looked_ns:
            self._looked_ns = looked_ns
            self._paused = self._spent > self._rate


def maker_of(mode: LimitMode, check_ns: int = CHECK_NS) -> MakeTokens:
    """Return the constructor of the limiters of a mode.

    Args:
        mode: the way in which a rate is enforced.
        check_ns: the interval between two checks of a soft limit.
    """
    match mode:
        case LimitMode.BUCKET:
            return new_bucket
        case LimitMode.WINDOW:
            return lambda rate, _, now_ns: WindowBucket(rate=rate, now_ns=now_ns)
        case LimitMode.SOFT:
            return lambda rate, _, now_ns: SoftWindow(rate=rate, now_ns=now_ns, check_ns=check_ns)


def _check(rate: Rate) -> None:
    if rate < 0:
        raise ValueError(f"rate must be >= 0 tokens per second, got {rate}")
