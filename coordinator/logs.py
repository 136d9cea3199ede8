"""Logs: one JSON object per line on standard error, at a level that can be changed while it runs.

Tracebacks are plain: the pretty ones print local variables, and with them credentials. What is logged
while a request to the admin API is answered carries that request's id.

Logging never raises. Where standard error is a file on a full disk, or a pipe that nobody reads any more,
lines are dropped until it takes some again: no traffic, and no thread, may end for want of a log.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Callable
from typing import TextIO, cast

import structlog

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class _Unfailing(io.TextIOBase):
    """A stream that drops what cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write it if it can be written."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand on what can be handed on."""
        with contextlib.suppress(OSError):
            self._stream.flush()


class LogLevel:
    """The level from which on something is logged.

    Args:
        name: the first one: debug, info, warning or error.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._followers: list[Callable[[str], None]] = []

    @property
    def name(self) -> str:
        """The present level."""
        return self._name

    def set(self, name: str) -> None:
        """Log from this level on; every logger follows at once.

        Raises:
            KeyError: there is no such level.
        """
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(LEVELS[name]))
        self._name = name
        for follow in self._followers:
            follow(name)

    def watch(self, follow: Callable[[str], None]) -> None:
        """Tell of every new level."""
        self._followers.append(follow)


def configure_logs(level: str) -> LogLevel:
    """Send structlog's events and the libraries' own logs to standard error.

    Args:
        level: debug, info, warning or error.

    Returns:
        What changes the level later.
    """
    stream = cast("TextIO", _Unfailing(sys.stderr))
    logging.basicConfig(level=logging.WARNING, stream=stream, format="%(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=stream),
    )
    found = LogLevel(level)
    found.set(level)
    return found
