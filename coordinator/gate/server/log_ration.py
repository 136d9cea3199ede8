"""A log that ten thousand bad clients cannot flood.

Metrics count the events of connections; the log tells of them in a readable number: the first `LINES_MAX`
of one event within `WINDOW_SWEEPS` have a line each, and a line at the end of that time tells how many
more there were.

A line may repeat text of a peer. It is cut, and control characters that a terminal would obey are written
as escapes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import structlog

from coordinator.gate.engine.deadlines import SWEEP_S

LINES_MAX: Final = 5
WINDOW_SWEEPS: Final = 10
TEXT_MAX: Final = 500

_log = structlog.get_logger(__name__)


class LogRation:
    """Logs a bounded number of the events of connections."""

    def __init__(self) -> None:
        self._told: Counter[str] = Counter()
        self._sweeps = 0

    def warn(self, event: str, /, **details: Any) -> None:
        """Log a warning about a connection."""
        if self._has_room(event):
            _log.warning(event, **_printable(details))

    def tell(self, event: str, /, **details: Any) -> None:
        """Log information about a connection."""
        if self._has_room(event):
            _log.info(event, **_printable(details))

    def sweep(self) -> None:
        """Count one sweep; call it every `SWEEP_S`."""
        self._sweeps += 1
        if self._sweeps < WINDOW_SWEEPS:
            return
        more = {event: told - LINES_MAX for event, told in self._told.items() if told > LINES_MAX}
        self._sweeps = 0
        self._told.clear()
        if more:
            _log.warning("more of the same, not told one by one", seconds=self.window_s, more=more)

    @property
    def window_s(self) -> float:
        """The time window in which the lines of an event are counted, in seconds."""
        return WINDOW_SWEEPS * SWEEP_S

    def _has_room(self, event: str) -> bool:
        self._told[event] += 1
        return self._told[event] <= LINES_MAX


def _printable(details: dict[str, Any]) -> dict[str, Any]:
    return {
        key: printable(value) if isinstance(value, str) else value for key, value in details.items()
    }


def printable(text: str) -> str:
    """Return a text without control characters, cut to a readable length."""
    told = text[:TEXT_MAX]
    if told.isprintable():
        return told
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in told)
