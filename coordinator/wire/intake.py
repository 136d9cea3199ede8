"""From what arrives on the bus to reports that can be read, in each sender's order.

A report tells groups by the versions of their definitions (columns.py), and the bus may be faster than
the watch that brings a definition. Such a report waits until the definition is here, and with it all
later ones of its sender, as if the bus were slow: the core is used to that. The other way round, a sender
may still follow a definition that was replaced or deleted here: RETIRED_MAX of those are remembered.

What waits takes at most WAITING_BYTES_MAX. When there is more, the oldest is dropped, as if the bus had
lost it: its sender is not relied on until it was asked for all that it has to say (usage_map.py).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

from coordinator.core.model import ResourceGroup, UsageReport, shared_versions
from coordinator.wire.columns import UnknownDefinition
from coordinator.wire.reports import decode

RETIRED_MAX = 10_000
WAITING_BYTES_MAX = 16 << 20


class Received(NamedTuple):
    """A report and how many bytes it came in."""

    report: UsageReport
    size: int


class Intake:
    """What one sidecar can read; told the definitions, asked to read payloads."""

    def __init__(self) -> None:
        #: The group of every definition that is or was in force, the latest last.
        self._names: dict[int, str] = {}
        #: The versions of the definitions that are in force.
        self._current: dict[str, int] = {}
        #: What was replaced or deleted, in that order.
        self._retired: deque[int] = deque()
        #: Sender and payload, in order of arrival.
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._waiting_of: Counter[str] = Counter()
        self._waiting_bytes = 0
        #: Reports that had to go because too much waited.
        self.dropped = 0

    def read(self, payload: bytes) -> Received | None:
        """The report that has arrived; None when it has to wait.

        Raises:
            BadReport: it is none.
        """
        try:
            report = decode(payload, self._names)
        except UnknownDefinition as error:
            self._wait(error.broker, payload)
            return None
        if self._waiting_of[report.broker]:
            self._wait(report.broker, payload)
            return None
        return Received(report, len(payload))

    def set_groups(self, groups: Iterable[ResourceGroup]) -> list[Received]:
        """Take over the definitions; returns what can be read now, in order of arrival."""
        versions = {group.name: group.configuration_version for group in groups}
        for name, version in self._current.items():
            if versions.get(name) != version:
                self._retired.append(version)
        self._current = versions
        self._names.update((version, name) for name, version in versions.items())
        for version in shared_versions(versions.values()):
            self._names.pop(version, None)
        while len(self._retired) > RETIRED_MAX:
            self._names.pop(self._retired.popleft(), None)
        waiting, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
        self._waiting_of.clear()
        return [found for _, payload in waiting if (found := self.read(payload)) is not None]

    def _wait(self, broker: str, payload: bytes) -> None:
        self._waiting.append((broker, payload))
        self._waiting_of[broker] += 1
        self._waiting_bytes += len(payload)
        while self._waiting_bytes > WAITING_BYTES_MAX:
            broker, oldest = self._waiting.popleft()
            self._waiting_of[broker] -= 1
            self._waiting_bytes -= len(oldest)
            self.dropped += 1
