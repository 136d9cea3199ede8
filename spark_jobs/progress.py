"""Lines on stderr with the progress of a long job; a short one writes none."""

from __future__ import annotations

import sys
import time

_EVERY_S = 5.0


class Progress:
    """Counts steps, and says every few seconds how many there are.

    Args:
        what: is counted.
        total: how many there will be.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._said_s = time.monotonic()

    def reached(self, done: int, step: str = "") -> None:
        """Say so, if it is time again; a step has a name where each is long."""
        now_s = time.monotonic()
        if now_s - self._said_s >= _EVERY_S:
            self._said_s = now_s
            after = f": {step}" if step else ""
            sys.stderr.write(f"{self._what}: {done:,} of {self._total:,}{after}\n")
            sys.stderr.flush()
