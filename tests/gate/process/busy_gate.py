"""A gate whose event loop is kept busy by one question, as a client's frames may keep it.

Run as a program in place of ``-m coordinator.gate.process``. Its first argument is a path: the loop is
busy until there is a file of this name.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from coordinator.gate.server.proxy import Gate
from coordinator.insight.model.gate_views import HoldView


def stay_busy(_: Gate) -> tuple[HoldView, ...]:
    """Answer once the file exists; let no other work of the loop come between."""
    while not RELEASED.exists():
        sum(range(1_000_000))  # one call in C, for longer than a thread waits for its turn
    return ()


if __name__ == "__main__":
    RELEASED = Path(sys.argv.pop(1))
    Gate.holds = stay_busy  # type: ignore[method-assign, assignment]
    runpy.run_module("coordinator.gate.process", run_name="__main__")
