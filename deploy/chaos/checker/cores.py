"""The invariants of every sidecar's core hold after every event.

The sidecars check themselves (``check_invariants``) and report a contradiction as a failed task. The
report lasts as long as the sidecar's process: two looks a second find it unless the process ends first.
"""

from __future__ import annotations

from collections.abc import Iterator

from deploy.chaos.checker.history import Breach, History


def check(history: History) -> Iterator[Breach]:
    """Look at every word of every sidecar; yield each contradiction once."""
    found = dict.fromkeys(
        (sidecar, word.broken)
        for sweep in history.sweeps
        for sidecar, word in sweep.items()
        if word.broken
    )
    for sidecar, broken in found:
        yield Breach("invariants", f"The core of {sidecar} contradicts itself: {broken}")
