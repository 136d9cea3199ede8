"""The end of the lease of leased limits: one time for all of them, set by the core.

A limiter reads it whenever it asks its buckets. So a process that was stopped for a while, and does not
know it, passes nothing that others may use by now: the clock has moved on, so the first message after the
pause makes its limiter ask.
"""

from __future__ import annotations

from typing import Final

_NEVER_NS: Final = -(1 << 63)


class GateLease:
    """The end of the lease; over until it is held for the first time."""

    __slots__ = ("until_ns",)

    def __init__(self) -> None:
        self.until_ns = _NEVER_NS

    def is_over(self, now_ns: int) -> bool:
        """Return whether the lease is over, so that leased limits let nothing pass."""
        return now_ns >= self.until_ns
