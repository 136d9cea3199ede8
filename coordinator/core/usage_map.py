"""ResourceGroup -> Broker -> Usage: what every broker said last (PIP-82).

Reports arrive late, twice, out of order and from brokers that are gone. The rules:

* A report counts only if it is newer, by (incarnation, sequence), than the last one of that broker, and
  not of an older incarnation than membership knows.
* Silence is not idleness: a row stays as it is until its broker says otherwise or membership says that
  the broker is gone.
* A row ends when the broker reports no participants any more (PIP-82's "usage of 0"), when a complete
  report does not list it, when the broker leaves or when membership drops it.
* A report may arrive before membership shows its sender: it is kept, but counts only once the sender is
  a member. There is room for MAX_STRANGERS of those; more are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from coordinator.core.model import (
    NANOS_PER_SECOND,
    Dimension,
    GroupUsage,
    Member,
    MonitoringClass,
    Usage,
    UsageReport,
)

MAX_STRANGERS = 256


class Verdict(Enum):
    """What became of a report."""

    TAKEN = "taken"
    DUPLICATE = "duplicate or late"
    OLD_INCARNATION = "old incarnation"
    STRANGER = "too many unknown brokers"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One broker's last word on one group and class."""

    usage: Usage
    elapsed_ns: int

    def rate_of(self, dimension: Dimension) -> int:
        """The admitted rate, per second, rounded to the nearest."""
        if self.elapsed_ns <= 0:
            return 0
        count = self.usage.count_of(dimension.unit)
        return (count * NANOS_PER_SECOND + self.elapsed_ns // 2) // self.elapsed_ns


@dataclass(slots=True)
class BrokerRows:
    """All that is known of one broker."""

    #: The newest report taken; older ones are dropped.
    incarnation: int
    sequence: int
    heard_ns: int
    #: Whether a complete report of this incarnation was taken: only then is a missing row a fact.
    complete: bool = False
    rows: dict[tuple[str, MonitoringClass], UsageRow] = field(default_factory=dict)


class UsageMap:
    """The map, with what is needed to keep it true."""

    def __init__(self) -> None:
        #: Broker id to its rows; strangers included, at most MAX_STRANGERS of them.
        self._brokers: dict[str, BrokerRows] = {}
        self._members: dict[str, Member] = {}

    def take(self, report: UsageReport, now_ns: int) -> Verdict:
        """Take a report in, or say why not."""
        member = self._members.get(report.broker)
        if member is not None and report.incarnation < member.incarnation:
            return Verdict.OLD_INCARNATION
        known = self._brokers.get(report.broker)
        if known is None:
            if member is None and self._strangers() >= MAX_STRANGERS:
                return Verdict.STRANGER
        elif report.incarnation < known.incarnation:
            return Verdict.OLD_INCARNATION
        elif report.incarnation == known.incarnation and report.sequence <= known.sequence:
            return Verdict.DUPLICATE
        if known is None or report.incarnation > known.incarnation:
            known = BrokerRows(report.incarnation, report.sequence, now_ns)
            self._brokers[report.broker] = known
        self._merge(known, report, now_ns)
        return Verdict.TAKEN

    def set_members(self, members: dict[str, Member]) -> None:
        """Membership is the last word on who is alive: forget whoever left or was reborn."""
        for broker, rows in list(self._brokers.items()):
            member = members.get(broker)
            gone = member is None and broker in self._members
            reborn = member is not None and rows.incarnation < member.incarnation
            if gone or reborn:
                del self._brokers[broker]
        self._members = dict(members)

    def forget_strangers(self, before_ns: int) -> None:
        """Forget brokers that never became members and were last heard before this time."""
        for broker, rows in list(self._brokers.items()):
            if broker not in self._members and rows.heard_ns < before_ns:
                del self._brokers[broker]

    def row(self, broker: str, group: str, monitoring_class: MonitoringClass) -> UsageRow | None:
        """A member's row, None when it does not take part."""
        rows = self._brokers.get(broker)
        if rows is None or broker not in self._members:
            return None
        return rows.rows.get((group, monitoring_class))

    def groups_of(self, broker: str) -> Iterator[tuple[str, MonitoringClass]]:
        """The groups and classes in which a broker takes part."""
        rows = self._brokers.get(broker)
        return iter(rows.rows if rows is not None else ())

    def heard_ns(self, broker: str) -> int | None:
        """When the newest report of a broker's present incarnation arrived."""
        rows = self._brokers.get(broker)
        return rows.heard_ns if rows is not None else None

    def is_complete(self, broker: str) -> bool:
        """Whether everything of a broker's present incarnation is known."""
        rows = self._brokers.get(broker)
        return rows is not None and rows.complete

    def _strangers(self) -> int:
        return sum(1 for broker in self._brokers if broker not in self._members)

    @staticmethod
    def _merge(known: BrokerRows, report: UsageReport, now_ns: int) -> None:
        known.sequence = report.sequence
        known.heard_ns = now_ns
        if report.complete or report.leaving:
            known.complete = True
            known.rows.clear()
        if report.leaving:
            return
        for entry in report.groups:
            _merge_group(known, entry, report.elapsed_ns)


def _merge_group(known: BrokerRows, entry: GroupUsage, elapsed_ns: int) -> None:
    for monitoring_class, usage in entry.usages.items():
        key = (entry.group, monitoring_class)
        if usage.participants:
            known.rows[key] = UsageRow(usage, elapsed_ns)
        else:
            known.rows.pop(key, None)
