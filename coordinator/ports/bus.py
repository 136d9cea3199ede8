"""The broadcast of usage reports among sidecars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BusHealth:
    """State of the report bus: per bus topic whether it is connected, and what was lost.

    Args:
        connected: by bus topic, whether it is connected.
        sent: payloads that a broker took, counted per topic.
        received: payloads that arrived.
        dropped: payloads that no broker took, or for which there was no room.
        clients_ended: how often the client of the bus ended and was started again.
    """

    connected: Mapping[str, bool]
    sent: int
    received: int
    dropped: int
    clients_ended: int = 0


class ReportBus(Protocol):
    """Broadcast of usage reports among sidecars: best effort, unordered, possibly duplicated."""

    def watch(self, listener: Callable[[bytes], None]) -> None:
        """Call the listener with every payload that arrives, the own ones included."""

    def publish(self, payload: bytes) -> None:
        """Send to all sidecars; returns at once, drops when not connected and counts what it dropped."""

    def health(self) -> BusHealth:
        """The state of the bus topics."""
