"""ResourceGroup -> Broker -> Usage: what every broker said last (PIP-82).

Reports arrive late, twice, out of order and from brokers that are gone. The rules:

* A report counts only if it is newer, by (incarnation, sequence), than the last one of that broker, and
  not of an older incarnation than membership knows. A copy of the last one is what the other bus topics
  bring, and no news to anybody.
* Silence is not idleness: a row stays as it is until its broker says otherwise or membership says that
  the broker is gone.
* A row ends when the broker reports no participants any more (PIP-82's "usage of 0"), when a complete
  report does not list it, when the broker leaves or when membership drops it.
* A gap in the sequence that is longer than a change is repeated means that something may have been
  missed: until the next complete report, for which the sender is asked, nobody raises on its rows. Nor
  does anybody raise on the rows of a broker that was not heard for STALE_ROUNDS of its rounds.
* A report may arrive before membership shows its sender: it is kept, but counts only once the sender is
  a member. There is room for MAX_STRANGERS of those; more are dropped.

Taking a report costs as much as the report is long, and tells which groups have to be decided anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from coordinator.core.agreement import MODULUS, usage_digest
from coordinator.core.model import (
    NANOS_PER_SECOND,
    Dimension,
    Key,
    Member,
    MonitoringClass,
    Usage,
    UsageReport,
)

MAX_STRANGERS = 256
STALE_ROUNDS = 3


class Verdict(Enum):
    """What became of a report."""

    TAKEN = "taken"
    COPY = "copy of the last one"
    LATE = "late"
    OLD_INCARNATION = "old incarnation"
    STRANGER = "too many unknown brokers"


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a report, and the groups whose split may be another one now."""

    verdict: Verdict
    groups: frozenset[str] = frozenset()


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
class _Sender:
    """All that is known of one broker."""

    #: The newest report taken; older ones are dropped.
    incarnation: int
    sequence: int
    heard_ns: int
    #: The length of its rounds.
    elapsed_ns: int
    #: Whether a complete report of this incarnation was taken: only then is a missing row a fact.
    complete: bool = False
    #: Whether so many reports were missed since then that a change may have been among them.
    gap: bool = False
    #: Where it has a row.
    keys: set[Key] = field(default_factory=set)
    #: Where it announced a ceiling in the newest report.
    raises: frozenset[Key] = frozenset()
    #: Of its rows (agreement.py).
    digest: int = 0


class UsageMap:
    """The map, with what is needed to keep it true.

    Args:
        repeat_rounds: in how many more reports every sender repeats what has changed.
    """

    def __init__(self, repeat_rounds: int = 2) -> None:
        self._repeat_rounds = repeat_rounds
        #: Every sender; strangers included, at most MAX_STRANGERS of them.
        self._senders: dict[str, _Sender] = {}
        #: Group and class to broker to row; a key without rows is not there.
        self._rows: dict[Key, dict[str, UsageRow]] = {}
        self._members: dict[str, Member] = {}

    def take(self, report: UsageReport, now_ns: int) -> Taken:
        """Take a report in, or say why not."""
        verdict = self._verdict(report)
        if verdict is not Verdict.TAKEN:
            return Taken(verdict)
        changed: set[str] = set()
        sender = self._senders.get(report.broker)
        if sender is None or report.incarnation > sender.incarnation:
            changed |= self._forget(report.broker)
            sender = _Sender(report.incarnation, 0, 0, 0)
            self._senders[report.broker] = sender
        missed = report.sequence - sender.sequence - 1
        sender.gap = sender.gap or missed > self._repeat_rounds
        sender.sequence = report.sequence
        sender.heard_ns = now_ns
        sender.elapsed_ns = report.elapsed_ns
        sender.raises = frozenset(_raises(report))
        changed |= self._merge(report, sender)
        return Taken(verdict, frozenset(changed))

    def set_members(self, members: dict[str, Member]) -> None:
        """Membership is the last word on who is alive: forget whoever left or was reborn."""
        for broker, sender in list(self._senders.items()):
            member = members.get(broker)
            gone = member is None and broker in self._members
            reborn = member is not None and sender.incarnation < member.incarnation
            if gone or reborn:
                self._forget(broker)
        self._members = dict(members)

    def forget_strangers(self, before_ns: int) -> None:
        """Forget brokers that never became members and were last heard before this time."""
        for broker, sender in list(self._senders.items()):
            if broker not in self._members and sender.heard_ns < before_ns:
                self._forget(broker)

    def rows(self, group: str, monitoring_class: MonitoringClass) -> Mapping[str, UsageRow]:
        """The rows of all members that take part, by broker, sorted."""
        rows = self._rows.get((group, monitoring_class), {})
        return {broker: rows[broker] for broker in sorted(rows) if broker in self._members}

    def row(self, broker: str, group: str, monitoring_class: MonitoringClass) -> UsageRow | None:
        """A member's row, None when it does not take part."""
        if broker not in self._members:
            return None
        return self._rows.get((group, monitoring_class), {}).get(broker)

    def raises(self, broker: str) -> frozenset[Key]:
        """Where a member announced ceilings in its newest report."""
        sender = self._senders.get(broker) if broker in self._members else None
        return frozenset() if sender is None else sender.raises

    def newest(self, broker: str) -> tuple[int, int]:
        """Incarnation and sequence of the newest report taken from a broker that was heard."""
        sender = self._senders[broker]
        return sender.incarnation, sender.sequence

    def heard_ns(self, broker: str) -> int | None:
        """When the newest report of a broker's present incarnation arrived."""
        sender = self._senders.get(broker)
        return sender.heard_ns if sender is not None else None

    def round_ns(self, broker: str) -> int:
        """How long a broker's rounds are, as it says itself; 0 when nothing was heard."""
        sender = self._senders.get(broker)
        return sender.elapsed_ns if sender is not None else 0

    def digest(self, broker: str) -> int:
        """The digest of all rows that are kept for a broker (agreement.py)."""
        sender = self._senders.get(broker)
        return sender.digest if sender is not None else 0

    def is_complete(self, broker: str) -> bool:
        """Whether everything of a broker's present incarnation is known."""
        sender = self._senders.get(broker)
        return sender is not None and sender.complete

    def has_gap(self, broker: str) -> bool:
        """Whether a change of a broker may have been missed since its last complete report."""
        sender = self._senders.get(broker)
        return sender is not None and sender.gap

    def is_current(self, broker: str, now_ns: int) -> bool:
        """Whether what a broker said last can be relied on for raising a limit."""
        sender = self._senders.get(broker)
        if sender is None or sender.gap:
            return False
        return now_ns - sender.heard_ns <= STALE_ROUNDS * sender.elapsed_ns

    def _verdict(self, report: UsageReport) -> Verdict:
        member = self._members.get(report.broker)
        if member is not None and report.incarnation < member.incarnation:
            return Verdict.OLD_INCARNATION
        sender = self._senders.get(report.broker)
        if sender is None:
            strangers = sum(1 for broker in self._senders if broker not in self._members)
            full = member is None and strangers >= MAX_STRANGERS
            return Verdict.STRANGER if full else Verdict.TAKEN
        if report.incarnation < sender.incarnation:
            return Verdict.OLD_INCARNATION
        if report.incarnation > sender.incarnation or report.sequence > sender.sequence:
            return Verdict.TAKEN
        return Verdict.COPY if report.sequence == sender.sequence else Verdict.LATE

    def _merge(self, report: UsageReport, sender: _Sender) -> set[str]:
        changed: set[str] = set()
        listed: set[Key] = set()
        for entry in report.groups:
            for monitoring_class, usage in entry.usages.items():
                key = (entry.group, monitoring_class)
                listed.add(key)
                row = UsageRow(usage, report.elapsed_ns) if usage.participants else None
                if self._put(report.broker, sender, key, row):
                    changed.add(entry.group)
        if report.complete or report.leaving:
            sender.complete = True
            sender.gap = False
            for key in sender.keys - listed:
                self._put(report.broker, sender, key, None)
                changed.add(key[0])
        return changed

    def _put(self, broker: str, sender: _Sender, key: Key, row: UsageRow | None) -> bool:
        """Set or end a row; tell whether a split can differ for it."""
        rows = self._rows.setdefault(key, {})
        before = rows.get(broker)
        if row is None:
            rows.pop(broker, None)
            sender.keys.discard(key)
            if not rows:
                del self._rows[key]
        else:
            rows[broker] = row
            sender.keys.add(key)
            if before is not None and before.usage.decisive() == row.usage.decisive():
                return False
            sender.digest += usage_digest(key, row.usage)
        if before is not None:
            sender.digest -= usage_digest(key, before.usage)
        sender.digest %= MODULUS
        return row is not None or before is not None

    def _forget(self, broker: str) -> set[str]:
        sender = self._senders.pop(broker, None)
        if sender is None:
            return set()
        keys = set(sender.keys)
        for key in keys:
            self._put(broker, sender, key, None)
        return {group for group, _ in keys}


def _raises(report: UsageReport) -> Iterator[Key]:
    for entry in report.groups:
        for monitoring_class, usage in entry.usages.items():
            if usage.messages_ceiling is not None or usage.bytes_ceiling is not None:
                yield entry.group, monitoring_class
