"""Python's garbage collector, and what it does to whoever waits on an event loop."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_collecting() -> Iterator[None]:
    """Leave garbage for afterwards: to be put around what loads libraries.

    That makes next to none, and the collector would look through all of it dozens of times, which is a
    sixth of what it takes to load a sidecar.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def keep_what_is_loaded() -> None:
    """Tell the collector that what there is by now stays: to be called when all is loaded.

    It looks through all of it otherwise, and whatever else its process does stands still meanwhile: at
    the gate traffic, for 20 ms at a time; at the coordinator rounds, for 200 ms while a large answer is
    written, in place of 12 ms. What is garbage by now stays, too: there is next to none, and to look for
    it would hold up rounds for 60 ms.
    """
    gc.freeze()
