"""Waiting for another process, with an end and an eye on what may die meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from deploy.local.errors import LocalClusterError

_POLL_S = 0.05
#: The longest that anything here may take: a broker's start on a busy machine is 20 to 30 s.
_WITHIN_S = 120.0


T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], trouble: str, attend: Callable[[], None] = lambda: None
) -> T:
    """Wait until a condition holds, and return what it then is.

    Args:
        condition: asked about twenty times a second; holds when its answer is true.
        trouble: what to say when it does not come to hold.
        attend: called between the questions; raises to end the wait.

    Raises:
        LocalClusterError: the condition still did not hold after two minutes.
    """
    deadline_s = time.monotonic() + _WITHIN_S
    while not (answer := condition()):
        if time.monotonic() >= deadline_s:
            raise LocalClusterError(f"{trouble} after {_WITHIN_S:.0f} s.")
        attend()
        time.sleep(_POLL_S)
    return answer


def wait_for(until_s: float, attend: Callable[[], None]) -> None:
    """Wait until this moment of CLOCK_MONOTONIC, in seconds, calling `attend` meanwhile."""
    while (left_s := until_s - time.monotonic()) > 0:
        attend()
        time.sleep(min(left_s, _POLL_S))
