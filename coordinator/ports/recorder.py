"""The keeping of what happened, for later analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from coordinator.core.events import Event
from coordinator.core.model import Dimension, UsageReport
from coordinator.core.traffic import NamespaceTraffic

if TYPE_CHECKING:  # the gate's process has the ports, and no core
    from coordinator.core.decision import Decision
    from coordinator.core.state import CoordinatorState


@dataclass(frozen=True, slots=True)
class RecorderHealth:
    """The state of recording: counts since the start, and the reason if nothing can be written now.

    Args:
        recording: whether the last attempt to write succeeded.
        reason: of the failure; empty while recording.
        failures: attempts to write that failed.
        rows_written: rows that stand in files.
        rows_waiting: rows in memory.
        rows_dropped: rows that found no room.
        files_written: files.
        bytes_written: their size.
    """

    recording: bool
    reason: str = ""
    failures: int = 0
    rows_written: int = 0
    rows_waiting: int = 0
    rows_dropped: int = 0
    files_written: int = 0
    bytes_written: int = 0


class Recorder(Protocol):
    """Keeps what happened for later analysis.

    No method blocks or raises; rows that cannot be kept are counted.
    """

    def report_sent(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        """This sidecar published a report."""
        ...

    def report_received(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        """A report arrived from the bus, possibly an own one."""
        ...

    def limits_set(self, group: str, decisions: Mapping[Dimension, Decision], now_ns: int) -> None:
        """The local limits of a group came into force, for these reasons."""
        ...

    def namespaces_counted(self, counted: Sequence[NamespaceTraffic], now_ns: int) -> None:
        """Traffic of each namespace passed since the last call; counting begins with the first."""
        ...

    def handled(self, event: Event, state: CoordinatorState, now_ns: int) -> None:
        """The core handled an event; the state is only read."""
        ...

    def health(self) -> RecorderHealth:
        """Return the state of recording."""
        ...
