"""Python's garbage collector, and its pauses on an event loop."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_collecting() -> Iterator[None]:
    """Postpone garbage collection: to be put around code that loads libraries.

    Loading makes next to no garbage, and the collector would scan all objects dozens of times,
    which is a sixth of the time that loading a sidecar takes.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def keep_what_is_loaded() -> None:
    """Exempt all present objects from garbage collection: to be called when all is loaded.

    Otherwise the collector scans them all, and its process stands still meanwhile: at the gate
    traffic, for 20 ms at a time; at the coordinator rounds, for 200 ms while a large answer is
    written, in place of 12 ms. Present garbage stays, too: there is next to none, and a search for
    it would hold up rounds for 60 ms.
    """
    gc.freeze()
