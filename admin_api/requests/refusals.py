"""Requests that are refused before any route sees them: counted by reason, and logged at a bounded rate.

The reasons are: hosts and pages that may not ask, paths that are ambiguous or not UTF-8, requests beyond
a rate, connections that were ended or refused. Such requests may come in floods: for each reason one line
a second is logged, with the host and the text of the last refusal, and the number of refusals.

Refusals are counted in the API's thread, and read in the coordinator's: all reasons exist from the start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

REASONS: Final = (
    "host", "origin", "path", "rate", "connections", "idle connection for a new one", "handshake",
    "malformed", "head deadline", "body deadline", "answer not taken", "body after its answer",
)  # fmt: skip

_LOG_EVERY_S: Final = 1.0

_log = structlog.get_logger("admin_api")


class RefusalCounts:
    """Counts of refusals, by reason.

    Args:
        now_s: monotonic time.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._counts = dict.fromkeys(REASONS, 0)
        self._logged_s: dict[str, float] = {}

    def add(self, reason: str, host: str, words: str = "") -> None:
        """Count a refusal.

        Args:
            reason: one of `REASONS`.
            host: the refused host.
            words: the answer to it, if any.
        """
        self._counts[reason] += 1
        now_s, last_s = self._now_s(), self._logged_s.get(reason)
        if last_s is None or now_s - last_s >= _LOG_EVERY_S:
            self._logged_s[reason] = now_s
            count = self._counts[reason]
            _log.info("refused", reason=reason, host=host, words=words, count=count)

    def counts(self) -> Mapping[str, int]:
        """Return all counts."""
        return dict(self._counts)
