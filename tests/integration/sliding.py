"""Rates in windows that slide: a condition is judged in seconds that may begin at any time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping

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
