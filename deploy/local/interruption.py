"""Ctrl-C and SIGTERM: they end a command, and never the stopping of what it has started."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first of the signals, and ignore those after it until the end."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    with _handled(interrupt):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold the signals back until the end; on other threads than the main one nothing interrupts."""
    held: dict[int, None] = {}
    if threading.current_thread() is threading.main_thread():
        with _handled(lambda number, _: held.update({number: None})):
            yield
    else:
        yield
    for number in held:
        signal.raise_signal(number)


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {each: signal.signal(each, handler) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, earlier in before.items():
            signal.signal(each, earlier)
