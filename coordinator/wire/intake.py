"""Read reports from bytes, in each sender's order, as soon as their definitions are known.

A report identifies groups by the versions of their definitions (columns.py), and the bus may be faster
than the watch that brings a definition. Such a report waits until the definition is here, and all later
ones of its sender wait with it, as if the bus were slow; the core allows for that. Conversely, a sender
may still follow a definition that was replaced or deleted here: RETIRED_MAX of those are remembered.

No report waits for ever: after WAITING_NS it is dropped, and the reports behind it are tried. It is not
read in part, since a report that leaves a group out says that its sender holds nothing of it. Waiting
reports take at most WAITING_BYTES_MAX, and WAITING_OF_ONE_MAX reports of one sender; beyond it, the
oldest report of the sender with most bytes is dropped. All of that is as if the bus had lost the report:
its sender is not relied on until it has answered a request for all its state (core/usage/map.py).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

from coordinator.core.model import (
    NANOS_PER_SECOND,
    ResourceGroup,
    UsageReport,
    shared_versions,
)
from coordinator.wire.columns import UnknownDefinition
from coordinator.wire.fields import BadReport
from coordinator.wire.reports import decode
from coordinator.wire.senders import Opened

RETIRED_MAX = 10_000
WAITING_BYTES_MAX = 16 << 20
WAITING_OF_ONE_MAX = 256
WAITING_NS = 10 * NANOS_PER_SECOND

TOO_LONG = "definition not known for too long"
NO_ROOM = "too much waits for definitions"


class ReceivedReport(NamedTuple):
    """A report and its size in bytes."""

    report: UsageReport
    size: int


class _Waiting(NamedTuple):
    opened: Opened
    since_ns: int


class Intake:
    """Reads the reports of one sidecar; told the definitions."""

    def __init__(self) -> None:
        #: The group of every definition that is or was in force, the latest last.
        self._names: dict[int, str] = {}
        #: The versions of the definitions that are in force.
        self._current: dict[str, int] = {}
        #: Replaced or deleted definitions, in that order.
        self._retired: deque[int] = deque()
        #: Waiting reports by sender, in order of arrival; no queue is empty.
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._waiting_bytes: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()

    def read(self, opened: Opened, now_ns: int) -> ReceivedReport | None:
        """Return the report that has arrived; None if it has to wait.

        Raises:
            BadReport: the bytes are no report.
        """
        if opened.broker not in self._waiting:
            try:
                return ReceivedReport(decode(opened.report, self._names), opened.size)
            except UnknownDefinition:
                pass
        self._wait(_Waiting(opened, now_ns))
        return None

    def set_groups(self, groups: Iterable[ResourceGroup]) -> list[ReceivedReport]:
        """Take over the definitions; return the reports that can be read now, in each sender's order."""
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
        return [found for broker in list(self._waiting) for found in self._try_again(broker)]

    def expire(self, now_ns: int) -> list[ReceivedReport]:
        """Drop reports that have waited too long; return the reports that waited behind them."""
        found: list[ReceivedReport] = []
        for broker in list(self._waiting):
            while self._has_expired(broker, now_ns):
                self._drop_oldest(broker, TOO_LONG)
                found += self._try_again(broker)
        return found

    def dropped(self) -> list[tuple[str, int]]:
        """Return the waiting reports dropped since the last call: reason and number."""
        found = list(self._dropped.items())
        self._dropped.clear()
        return found

    def _has_expired(self, broker: str, now_ns: int) -> bool:
        waiting = self._waiting.get(broker)
        return waiting is not None and now_ns - waiting[0].since_ns > WAITING_NS

    def _try_again(self, broker: str) -> list[ReceivedReport]:
        """Return the waiting reports of a sender up to the first that still cannot be read."""
        found: list[ReceivedReport] = []
        while broker in self._waiting:
            opened = self._waiting[broker][0].opened
            try:
                found.append(ReceivedReport(decode(opened.report, self._names), opened.size))
            except UnknownDefinition:
                break
            except BadReport as error:
                self._drop_oldest(broker, error.reason)
                continue
            self._pop_oldest(broker)
        return found

    def _wait(self, waiting: _Waiting) -> None:
        broker = waiting.opened.broker
        self._waiting.setdefault(broker, deque()).append(waiting)
        self._waiting_bytes[broker] += len(waiting.opened.report)
        if len(self._waiting[broker]) > WAITING_OF_ONE_MAX:
            self._drop_oldest(broker, NO_ROOM)
        while self._waiting_bytes.total() > WAITING_BYTES_MAX:
            self._drop_oldest(self._waiting_bytes.most_common(1)[0][0], NO_ROOM)

    def _drop_oldest(self, broker: str, reason: str) -> None:
        self._dropped[reason] += 1
        self._pop_oldest(broker)

    def _pop_oldest(self, broker: str) -> None:
        self._waiting_bytes[broker] -= len(self._waiting[broker].popleft().opened.report)
        if not self._waiting[broker]:
            del self._waiting[broker], self._waiting_bytes[broker]
