"""The receiver of alarms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.insight.model.alarms import AlarmCondition


@dataclass(frozen=True, slots=True)
class Notice:
    """One alarm, as a receiver gets it.

    Args:
        sighting: what was seen last.
        began_ms: when it was seen first, in milliseconds since 1970.
        ended_ms: when it was over; None while it fires.
    """

    sighting: AlarmCondition
    began_ms: int
    ended_ms: int | None = None


class AlarmReceiver(Protocol):
    """Takes notices; the same one may come again, by another sidecar or after a failure."""

    async def tell(self, notices: Sequence[Notice]) -> None:
        """Hand notices over; returns when they were taken.

        Raises:
            ReceiverUnreachable: they were not taken, or the outcome is unknown.
        """
        ...
