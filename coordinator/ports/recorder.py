"""The keeping of what happened, for later analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from coordinator.core.answer import answer
from coordinator.core.events import Event
from coordinator.core.model import Dimension, UsageReport
from coordinator.core.traffic import NamespaceTraffic

if TYPE_CHECKING:  # the gate's process has the ports, and no core
    from coordinator.core.decisions.decision import Decision
    from coordinator.core.state import CoordinatorState


@answer
class RecordingView:
    """The state of recording: whether anything can be written now, and counts since the start."""

    recording: bool
    """whether the last attempt to write succeeded"""
    reason: str = ""
    """why it did not; empty while recording"""
    failures: int = 0
    """attempts to write that failed, since the start"""
    rows_written: int = 0
    """since the start"""
    rows_waiting: int = 0
    """in memory, to be written"""
    rows_dropped: int = 0
    """for want of room, since the start"""


@dataclass(frozen=True, slots=True)
class RecorderHealth(RecordingView):
    """The same, with the number of files written since the start, and their size."""

    files_written: int = 0
    bytes_written: int = 0


class Recorder(Protocol):
    """Keeps what happened for later analysis.

    No method blocks or raises; rows that cannot be kept are counted.
    """

    def report_sent(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        """This sidecar published a report."""

    def report_received(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        """A report arrived from the bus, possibly an own one."""

    def limits_set(self, group: str, decisions: Mapping[Dimension, Decision], now_ns: int) -> None:
        """The local limits of a group came into force, for these reasons."""

    def namespaces_counted(self, counted: Sequence[NamespaceTraffic], now_ns: int) -> None:
        """Traffic of each namespace passed since the last call; counting begins with the first."""

    def handled(self, event: Event, state: CoordinatorState, now_ns: int) -> None:
        """The core handled an event; the state is only read."""

    def health(self) -> RecorderHealth:
        """Return the state of recording."""
