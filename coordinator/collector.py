"""Python's garbage collector, and what it does to whoever waits on the event loop."""

from __future__ import annotations

import gc


def keep_what_is_loaded() -> None:
    """Tell the collector that what there is by now stays: to be called when all is loaded.

    It looks through all of it otherwise, and the gate, on the same loop, stands still meanwhile: 200 ms
    at a time while a large answer is written, 12 ms without. What is garbage by now stays, too: there is
    next to none, and to look for it would hold up a gate that has opened meanwhile for 60 ms.
    """
    gc.freeze()
