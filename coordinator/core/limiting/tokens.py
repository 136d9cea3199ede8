"""The interface of limiters: whole tokens that come at a rate, and are taken when something passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

from coordinator.core.limiting.token_bucket import TokenBucket
from coordinator.core.model import Rate


class Tokens(Protocol):
    """The tokens of one rate: a bucket, or what replaces it (windows.py)."""

    #: Whether tokens that come while it is full are lost.
    runs_over: ClassVar[bool]
    #: Whether any number may be taken at once while there are tokens, and none of it is paid back.
    forgives: ClassVar[bool]

    @property
    def rate(self) -> Rate:
        """Return the rate, in tokens per second."""

    @property
    def capacity(self) -> int:
        """Return the most tokens that can be there at once."""

    def balance(self, now_ns: int) -> int:
        """Return the present tokens; negative is debt."""

    def consume(self, tokens: int, now_ns: int) -> None:
        """Take tokens, whether they are there or not."""

    def wait_ns(self, tokens: int, now_ns: int) -> int | None:
        """Return the time until there are ``min(tokens, capacity)``; 0 is now, None is never."""

    def set_rate(self, rate: Rate, capacity: int, now_ns: int) -> None:
        """Change the rate, and the capacity where there is one."""


MakeTokens = Callable[[Rate, int, int], Tokens]
"""Makes the tokens of a rate: tokens per second, the most that can be saved up, and the time."""


def new_bucket(rate: Rate, capacity: int, now_ns: int) -> Tokens:
    """Return a bucket that starts empty."""
    return TokenBucket(rate=rate, capacity=capacity, initial=0, now_ns=now_ns)
