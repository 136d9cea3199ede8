"""The broadcast of usage reports among sidecars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BusHealth:
    """State of the report bus: per bus topic whether it is connected, and what was lost."""

    connected: Mapping[str, bool]
    sent: int
    received: int
    dropped: int


class ReportBus(Protocol):
    """Broadcast of usage reports among sidecars: best effort, unordered, possibly duplicated."""

    def watch(self, listener: Callable[[bytes], None]) -> None:
        """Call the listener with every payload that arrives, the own ones included."""

    def publish(self, payload: bytes) -> None:
        """Send to all sidecars; returns at once, drops when not connected and counts what it dropped."""

    def health(self) -> BusHealth:
        """The state of the bus topics."""
