"""Work on threads of its own, for as long as a context lasts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Self


class Background:
    """Works while it is entered as a context; leaving it waits for the work to end.

    Args:
        works: what each thread does, by the thread's name: over and over until ``_stop`` is set.
    """

    def __init__(self, works: Mapping[str, Callable[[], None]]) -> None:
        #: Set when the context is left; a work that pauses waits for this, no longer than it pauses.
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True) for name, work in works.items()
        ]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and wait until it has ended."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def alive(self) -> bool:
        """Whether every thread is at work."""
        return all(thread.is_alive() for thread in self._threads)
