"""Logs: one JSON object per line on standard error, at a level that can be changed at run time.

Tracebacks are plain: the pretty ones print local variables, and with them credentials. Events during a
request to the admin API carry that request's id. The libraries' logs have the same form. JSON in ASCII
escapes every character that a terminal would act upon, and a line feed in a name makes no second line:
whatever name a client has, one event is one line.

Logging never raises. Where standard error is a file on a full disk, or a pipe without a reader, lines are
dropped until it takes some again: no traffic, and no thread, may end for want of a log.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Callable
from typing import Any, TextIO, cast

import structlog

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class _Unfailing(io.TextIOBase):
    """A stream that drops lines that cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, or drop it on an error."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, or ignore the error."""
        with contextlib.suppress(OSError):
            self._stream.flush()


class LogLevel:
    """The lowest level that is logged.

    Args:
        name: the first one: debug, info, warning or error.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._followers: list[Callable[[str], None]] = []

    @property
    def name(self) -> str:
        """Return the present level."""
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
        """Call the function with every new level."""
        self._followers.append(follow)


def _log_libraries(stream: TextIO, said: list[Any], written: list[Any]) -> None:
    """Write the libraries' logs as the sidecar's own events."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*said, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *written],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def configure_logs(level: str) -> LogLevel:
    """Send structlog's events and the libraries' own logs to standard error.

    Args:
        level: debug, info, warning or error.

    Returns:
        The level, which can be changed later.
    """
    stream = cast("TextIO", _Unfailing(sys.stderr))
    said: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    written: list[Any] = [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(default=str, ensure_ascii=True),
    ]
    structlog.configure(
        processors=[*said, *written], logger_factory=structlog.WriteLoggerFactory(file=stream)
    )
    _log_libraries(stream, said, written)
    found = LogLevel(level)
    found.set(level)
    return found
