"""Until when leased limits may be used: one moment for all of them, set by the core.

A limiter looks at it whenever it asks its buckets, so a process that was stopped for a while, and goes on
without knowing, lets nothing through that is not its own any more: the clock has moved on, so the first
message after the pause makes its limiter ask.
"""

from __future__ import annotations

from typing import Final

_NEVER_NS: Final = -(1 << 63)


class Lease:
    """The end of the lease; over until it is held for the first time."""

    __slots__ = ("until_ns",)

    def __init__(self) -> None:
        self.until_ns = _NEVER_NS

    def is_over(self, now_ns: int) -> bool:
        """Whether nothing may pass of what is leased."""
        return now_ns >= self.until_ns
