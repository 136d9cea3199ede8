"""The connections that the gate closed or refused by itself: counted, and logged."""

from __future__ import annotations

from collections import Counter

from coordinator.gate.engine.close_reason import CloseReason
from coordinator.gate.server.log_ration import LogRation
from coordinator.gate.server.upstream import Address


class Closes:
    """The closed connections since the start.

    Args:
        log: takes a line for each.
    """

    def __init__(self, log: LogRation) -> None:
        self._log = log
        #: Closed connections, by reason.
        self.counts: Counter[CloseReason] = Counter()

    def add(self, reason: CloseReason, peer: str, /, **details: str | bool) -> None:
        """Count and log a closed connection."""
        self.counts[reason] += 1
        self._log.warn(f"{reason.value}, connection closed", peer=peer, **details)


def peer_of(address: Address | None) -> str:
    """Return an address as a log shows it."""
    return "unknown" if address is None else f"{address[0]}:{address[1]}"
