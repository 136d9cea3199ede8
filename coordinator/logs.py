"""Logs: one JSON object per line on standard error, at a level that can be changed while it runs.

Tracebacks are plain: the pretty ones print local variables, and with them credentials. What is logged
while a request to the admin API is answered carries that request's id.
"""

from __future__ import annotations

import logging
import sys

import structlog

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class LogLevel:
    """The level from which on something is logged.

    Args:
        name: the first one: debug, info, warning or error.
    """

    def __init__(self, name: str) -> None:
        self._name = name

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


def configure_logs(level: str) -> LogLevel:
    """Send structlog's events and the libraries' own logs to standard error.

    Args:
        level: debug, info, warning or error.

    Returns:
        What changes the level later.
    """
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
    found = LogLevel(level)
    found.set(level)
    return found
