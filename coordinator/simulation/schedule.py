"""The order of things: one heap of moments, integer nanoseconds, first in first out within a moment.

Nothing in a simulation waits or runs by itself. Later actions are scheduled here, and time jumps from one
such moment to the next.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Schedule:
    """The actions to come, and the present time."""

    def __init__(self) -> None:
        #: The true time; every host's own clock is derived from it.
        self.now_ns = 0
        self._moments: list[tuple[int, int, Action]] = []
        self._count = 0

    def at(self, moment_ns: int, action: Action) -> None:
        """Let something happen at a moment; what is already past happens at once, in its turn."""
        self._count += 1
        heapq.heappush(self._moments, (max(moment_ns, self.now_ns), self._count, action))

    def after(self, delay_ns: int, action: Action) -> None:
        """Schedule an action after a delay."""
        self.at(self.now_ns + delay_ns, action)

    def run_until(self, end_ns: int) -> None:
        """Let everything before the end happen; what is due at the end itself has not happened yet."""
        moments = self._moments
        while moments and moments[0][0] < end_ns:
            self.now_ns, _, action = heapq.heappop(moments)
            action()
        self.now_ns = end_ns
