"""A witness of the machine: how long it makes a process wait for a processor.

The story is of machines that have processors of their own. Where all of them stand on one, a process may
have to wait for its turn. Meanwhile nothing passes, and nothing for 50 ms is the 5 % of a window by which
a settled broker may be off its share. So a thread of the demo's own priority, which is that of the
sidecars and of the load, wants its turn a hundred times a second, and remembers when it came late.

It is a witness, not a judge: no window is left out and no target is lowered for what it saw. A
reader of a missed target is told whether the machine may be why.
"""

from __future__ import annotations

import time

from deploy.background import Background
from deploy.demo.recording import Wait

_PERIOD_S = 0.01
#: Two such waits in one window are more than the 5 % of it. Shorter ones are Python's own affair: its
#: threads hand over to each other every 5 ms.
_LATE_S = 0.03


class TurnWitness(Background):
    """Looks for waits while it is entered as a context; what it has seen can be read at any time."""

    def __init__(self) -> None:
        super().__init__({"turns": self._watch})
        self._waits: list[Wait] = []

    @property
    def waits(self) -> tuple[Wait, ...]:
        """All waits so far, in order."""
        return tuple(self._waits)

    def _watch(self) -> None:
        due_s = time.monotonic() + _PERIOD_S
        while not self._stop.wait(_PERIOD_S):
            now_s = time.monotonic()
            if now_s - due_s > _LATE_S:
                self._waits.append(Wait(due_s, now_s))
            due_s = now_s + _PERIOD_S
