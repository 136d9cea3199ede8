"""Waiting for another process, with an end and an eye on what may die meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from deploy.local.errors import HopelessError, LocalClusterError

_POLL_S = 0.05
#: The longest that anything here may take: a broker's start on a busy machine is 20 to 30 s.
_WITHIN_S = 120.0


T = TypeVar("T")


def wait_until(
    condition: Callable[[], T],
    trouble: str,
    attend: Callable[[], None] = lambda: None,
    within_s: float = _WITHIN_S,
) -> T:
    """Wait until a condition holds, and return what it then is.

    Args:
        condition: asked about twenty times a second; holds when its answer is true. One that raises
            LocalClusterError does not hold yet: servers that have just come back refuse for a while.
        trouble: what to say when it does not come to hold.
        attend: called between the questions; raises to end the wait.
        within_s: the longest wait, in seconds; a condition is asked at least once.

    Raises:
        HopelessError: the condition did: it is not asked again.
        LocalClusterError: the condition did not hold in time; the text ends with its last error.
    """
    deadline_s = time.monotonic() + within_s
    while True:
        refusal = None
        try:
            if answer := condition():
                return answer
        except HopelessError:
            raise
        except LocalClusterError as error:
            refusal = error
        if time.monotonic() >= deadline_s:
            seen = f": {refusal}" if refusal else "."
            raise LocalClusterError(f"{trouble} after {within_s:.0f} s{seen}") from refusal
        attend()
        time.sleep(_POLL_S)


def insist(
    do: Callable[[], object],
    trouble: str,
    attend: Callable[[], None] = lambda: None,
    within_s: float = _WITHIN_S,
) -> None:
    """Do something until it raises no LocalClusterError; all else is as in `wait_until`."""

    def is_done() -> bool:
        do()
        return True

    wait_until(is_done, trouble, attend, within_s)


def wait_for(until_s: float, attend: Callable[[], None]) -> None:
    """Wait until this moment of CLOCK_MONOTONIC, in seconds, calling `attend` meanwhile."""
    while (left_s := until_s - time.monotonic()) > 0:
        attend()
        time.sleep(min(left_s, _POLL_S))
