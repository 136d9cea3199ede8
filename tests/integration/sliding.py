"""Rates in windows that slide: a condition is judged in seconds that may begin at any time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping

WINDOW_S = 10

Counted = Mapping[str, tuple[int, float]]
"""By name, a count and the moment of its reading."""


def sliding(
    count: Callable[[], Counted], window_s: float, step_s: float
) -> Iterator[dict[str, float]]:
    """Yield rates per second by name, in one window after the other, without an end.

    Args:
        count: reads the counts.
        window_s: the length of a window.
        step_s: from the beginning of one to that of the next.
    """
    seen = deque([count()], maxlen=round(window_s / step_s) + 1)
    while True:
        time.sleep(step_s)
        seen.append(count())
        if len(seen) == seen.maxlen:
            before, after = seen[0], seen[-1]
            yield {
                name: (after[name][0] - was) / (after[name][1] - began_s)
                for name, (was, began_s) in before.items()
            }


def come_to(
    count: Callable[[], Counted],
    wanted: Mapping[str, float],
    within: float,
    *,
    window_s: float = WINDOW_S,
    timeout_s: float = 120.0,
) -> dict[str, float]:
    """Wait until each of these rates is passed for a window, which may begin at any second; return them.

    Args:
        count: reads the counts.
        wanted: the rates per second.
        within: of its rate, how far each may be off.
        window_s: the length of a window.
        timeout_s: for how long to wait.
    """
    deadline = time.monotonic() + timeout_s
    windows = sliding(count, window_s, 1.0)
    while True:
        found = next(windows)
        if all(abs(found[name] - rate) <= within * rate for name, rate in wanted.items()):
            return found
        assert time.monotonic() < deadline, f"{found} is not {wanted}"
