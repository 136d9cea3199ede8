"""ResourceGroup -> Broker -> Usage: the newest report of every broker (PIP-82).

Reports arrive late, twice, out of order and from departed brokers. The rules:

* A report counts only if its sender is a member under the very incarnation that the membership shows: the
  content of a report never outranks ZooKeeper. A report that is ahead of the membership waits outside
  (reports/early.py). Only the own reports are taken before the membership shows them.
* Of these, a report counts if it is newer, by sequence, than the last one of that broker. Copies of the
  last one come by the other bus topics and are no news.
* Silence is not idleness: a row stays as it is until its broker reports another one or the membership
  drops the broker.
* A row ends when the broker reports no participants any more (PIP-82's "usage of 0"), when a complete
  report does not list it, when the broker leaves or when the membership drops it.
* A report names the report since which it lists all news. A receiver that has not taken everything up to
  there has missed news. Until a repeat or the next complete report fills the gap (the sender is asked for
  one after a round), no raise relies on its rows. Nor does a raise rely on the rows of a broker that was
  not heard for STALE_ROUNDS of its rounds, which are believed up to ROUND_MAX_NS.

A broker that takes no part in a group holds its reserve, whatever the others report. So the map *follows*
the groups in which this broker takes part and those that it is told to: their rows are indexed by group,
and taking a report returns the followed groups to decide anew. All other rows are kept by broker, as
compactly as they came (rows.py), and looked up there on demand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum

from coordinator.core.invariants import holds
from coordinator.core.model import (
    NANOS_PER_SECOND,
    Member,
    MonitoringClass,
    TrafficKey,
    UsageReport,
)
from coordinator.core.usage.agreement import MODULUS
from coordinator.core.usage.columns import ColumnEntries
from coordinator.core.usage.rows import UsageRow, UsageRows

STALE_ROUNDS = 3

ROUND_MAX_NS = 600 * NANOS_PER_SECOND
"""Twice the longest round that can be configured: longer ones are not believed."""


class Verdict(Enum):
    """The result of taking a report."""

    TAKEN = "taken"
    COPY = "copy of the last one"
    LATE = "late"
    OLD_INCARNATION = "old incarnation"
    UNCONFIRMED = "incarnation that ZooKeeper does not show"
    STRANGER = "no member"
    FLOOD = "more reports than a sidecar sends"
    FAREWELL = "sent after its farewell"


NOT_OF_A_MEMBER = frozenset({Verdict.STRANGER, Verdict.UNCONFIRMED, Verdict.OLD_INCARNATION})
"""Verdicts on reports that no registration vouches for: they have no influence at all."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of taking a report, and the followed groups whose split may have changed."""

    verdict: Verdict
    groups: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Sender:
    """The state kept for one broker."""

    #: The newest report taken; older ones are dropped.
    incarnation: int
    sequence: int
    heard_ns: int
    #: The length of its rounds.
    elapsed_ns: int
    #: The last report up to which no report was missed; 0 before a complete one. Only after
    #: a complete one is a missing row a fact.
    whole: int = 0
    #: When the first report arrived after that.
    gap_ns: int = 0
    rows: Mapping[MonitoringClass, UsageRows] = field(
        default_factory=lambda: {of: UsageRows(of) for of in MonitoringClass}
    )
    #: Where it announced a ceiling in the newest report.
    raises: frozenset[TrafficKey] = frozenset()


class UsageMap:
    """The newest rows of all brokers, with the state that keeps them true.

    Args:
        broker: this broker, whose own reports are taken in as well.
    """

    def __init__(self, broker: str) -> None:
        self._broker = broker
        #: Every member that was heard, and this broker before it is a member.
        self._senders: dict[str, _Sender] = {}
        self._members: dict[str, Member] = {}
        #: The followed groups: class to group to broker to row.
        self._followed: dict[MonitoringClass, dict[str, dict[str, UsageRow]]] = {
            monitoring_class: {} for monitoring_class in MonitoringClass
        }
        #: Those that are followed whether or not this broker takes part.
        self._wanted: frozenset[str] = frozenset()
        #: Those whose split depends on the counts as well.
        self._by_use: frozenset[str] = frozenset()

    def take(self, report: UsageReport, now_ns: int) -> Taken:
        """Take a report in, or return the reason why not."""
        verdict = self.verdict(report)
        if verdict is not Verdict.TAKEN:
            return Taken(verdict)
        changed: set[str] = set()
        sender = self._senders.get(report.broker)
        if sender is None or report.incarnation > sender.incarnation:
            changed |= self._forget(report.broker)
            sender = _Sender(report.incarnation, 0, 0, 0)
            self._senders[report.broker] = sender
        if sender.whole == sender.sequence:
            sender.gap_ns = now_ns
        everything = report.complete or report.leaving
        if everything or (sender.whole and report.since <= sender.whole):
            sender.whole = report.sequence
        sender.sequence = report.sequence
        sender.heard_ns = now_ns
        sender.elapsed_ns = min(report.elapsed_ns, ROUND_MAX_NS)
        sender.raises = _raises(report)
        if report.broker == self._broker:
            self._follow_all(_taking_part(report))
        changed |= self._replace(report, sender) if everything else self._merge(report, sender)
        if report.broker == self._broker:
            self._unfollow_idle(changed)
        return Taken(verdict, frozenset(changed))

    def follow(self, groups: Collection[str]) -> None:
        """Follow these groups, and no others in which this broker takes no part."""
        before = self._wanted
        self._wanted = frozenset(groups)
        self._follow_all(self._wanted - before)
        self._unfollow_idle(before - self._wanted)

    def split_by_use(self, groups: Collection[str]) -> None:
        """Note which groups are split by the counts as well: of no others is a new count a change."""
        self._by_use = frozenset(groups)

    def followed(self) -> list[str]:
        """Return the groups with indexed rows: this broker takes part, or was told to follow them."""
        return list(self._followed[MonitoringClass.PUBLISH])  # the same in both classes

    def set_members(self, members: dict[str, Member]) -> None:
        """Take over the membership: forget brokers that left or have another registration.

        A new session's first look may show an older one. Only this broker's own may be ahead of it.
        """
        for broker, sender in list(self._senders.items()):
            member = members.get(broker)
            own = broker == self._broker
            if member is None:
                outdated = not own or broker in self._members
            elif own:
                outdated = sender.incarnation < member.incarnation
            else:
                outdated = sender.incarnation != member.incarnation
            if outdated:
                self._forget(broker)
        self._members = dict(members)

    def rows(self, group: str, monitoring_class: MonitoringClass) -> Mapping[str, UsageRow]:
        """Return the rows of all members that take part, by broker, sorted."""
        rows = self._followed[monitoring_class].get(group)
        if rows is None:
            rows = self._look_up(group, monitoring_class)
        return {broker: rows[broker] for broker in sorted(rows) if broker in self._members}

    def row(self, broker: str, group: str, monitoring_class: MonitoringClass) -> UsageRow | None:
        """Return a member's row; None if it does not take part."""
        sender = self._senders.get(broker)
        if sender is None or broker not in self._members:
            return None
        return sender.rows[monitoring_class].get(group)

    def takes_part(self, group: str, monitoring_class: MonitoringClass) -> bool:
        """Return whether this broker takes part, as it reported."""
        return self._broker in self._followed[monitoring_class].get(group, ())

    def senders(self) -> list[str]:
        """Return every broker that was heard."""
        return list(self._senders)

    def mentioned(self, broker: str) -> set[str]:
        """Return the groups that a broker has reported on; it takes part in no others."""
        sender = self._senders.get(broker)
        rows = () if sender is None else sender.rows.values()
        return set[str]().union(*(of.groups() for of in rows))

    def raises(self, broker: str) -> frozenset[TrafficKey]:
        """Return the keys where a member announced ceilings in its newest report."""
        sender = self._senders.get(broker) if broker in self._members else None
        return frozenset() if sender is None else sender.raises

    def askers(self) -> list[str]:
        """Return every other member that announced a ceiling in its newest report."""
        return [
            broker
            for broker, sender in self._senders.items()
            if sender.raises and broker in self._members and broker != self._broker
        ]

    def newest(self, broker: str) -> tuple[int, int]:
        """Return incarnation and sequence of the newest report taken from a broker that was heard."""
        sender = self._senders[broker]
        return sender.incarnation, sender.sequence

    def heard_ns(self, broker: str) -> int | None:
        """Return when the newest report of a broker's present incarnation arrived."""
        sender = self._senders.get(broker)
        return sender.heard_ns if sender is not None else None

    def round_ns(self, broker: str) -> int:
        """Return the length of a broker's rounds, as it reports it; 0 if it was not heard."""
        sender = self._senders.get(broker)
        return sender.elapsed_ns if sender is not None else 0

    def digest(self, broker: str) -> int:
        """Return the digest of all rows kept for a broker (agreement.py)."""
        sender = self._senders.get(broker)
        if sender is None:
            return 0
        return sum(rows.digest for rows in sender.rows.values()) % MODULUS

    def is_complete(self, broker: str) -> bool:
        """Return whether all rows of a broker's present incarnation are known."""
        sender = self._senders.get(broker)
        return sender is not None and sender.whole > 0

    def knows_all(self) -> bool:
        """Return whether all rows of all other members are known."""
        return all(self.is_complete(each) for each in self._members if each != self._broker)

    def has_gap(self, broker: str, now_ns: int) -> bool:
        """Return whether news of a broker was missed and not repeated for a round."""
        sender = self._senders.get(broker)
        if sender is None or sender.whole == sender.sequence:
            return False
        return now_ns - sender.gap_ns >= sender.elapsed_ns

    def is_current(self, broker: str, now_ns: int) -> bool:
        """Return whether the rows of a broker can be relied on for raising a limit."""
        sender = self._senders.get(broker)
        if sender is None or sender.whole != sender.sequence:
            return False
        return now_ns - sender.heard_ns <= STALE_ROUNDS * sender.elapsed_ns

    def verdict(self, report: UsageReport) -> Verdict:
        """Return the result that taking a report would have; only a TAKEN one counts."""
        if report.broker != self._broker:
            member = self._members.get(report.broker)
            if member is None:
                return Verdict.STRANGER
            if report.incarnation != member.incarnation:
                older = report.incarnation < member.incarnation
                return Verdict.OLD_INCARNATION if older else Verdict.UNCONFIRMED
        sender = self._senders.get(report.broker)
        if sender is None or report.incarnation > sender.incarnation:
            return Verdict.TAKEN
        if report.incarnation < sender.incarnation:
            return Verdict.OLD_INCARNATION
        if report.sequence > sender.sequence:
            return Verdict.TAKEN
        return Verdict.COPY if report.sequence == sender.sequence else Verdict.LATE

    def validate(self, groups: Iterable[str] | None = None) -> None:
        """Check the senders, the index of these groups, and all digests if no groups are named.

        Raises:
            InvariantBroken: a statement does not hold.
        """
        for broker, sender in self._senders.items():
            member = self._members.get(broker)
            own = broker == self._broker
            holds(own or member is not None, "Only members have rows", broker=broker)
            holds(
                own or member is None or sender.incarnation == member.incarnation,
                "Rows belong to the incarnation that the membership shows",
                broker=broker,
                rows=sender.incarnation,
                member=member and member.incarnation,
            )
            holds(
                0 <= sender.whole <= sender.sequence,
                "Nothing is known to be whole beyond the newest report",
                broker=broker,
                whole=sender.whole,
                newest=sender.sequence,
            )
            if groups is None:
                for rows in sender.rows.values():
                    rows.validate(broker)
        followed = [set(of_class) for of_class in self._followed.values()]
        holds(followed[0] == followed[1], "A followed group is followed in both classes")
        for group in followed[0] if groups is None else followed[0] & set(groups):
            for monitoring_class, of_class in self._followed.items():
                holds(
                    of_class[group] == self._look_up(group, monitoring_class),
                    "The index of a followed group shows the rows of all brokers",
                    group=group,
                    monitoring_class=monitoring_class.value,
                    index=of_class[group],
                    rows=self._look_up(group, monitoring_class),
                )

    def _replace(self, report: UsageReport, sender: _Sender) -> set[str]:
        """End every row that the report does not list; return the groups that changed."""
        changed: set[str] = set()
        entries = report.groups
        for monitoring_class, rows in sender.rows.items():
            followed = self._followed[monitoring_class].keys()
            concerned = rows.among(followed)
            if isinstance(entries, ColumnEntries):
                rows.replace(entries.columns.get(monitoring_class), report.elapsed_ns)
            else:
                rows.replace(None, report.elapsed_ns)
                for entry in entries:
                    if monitoring_class in entry.usages:
                        rows.put(entry.group, entry.usages[monitoring_class], report.elapsed_ns)
            for group in concerned | rows.among(followed):
                if self._show(report.broker, group, monitoring_class, rows.get(group)):
                    changed.add(group)
        return changed

    def _merge(self, report: UsageReport, sender: _Sender) -> set[str]:
        """Keep every row that the report does not list; return the groups that changed."""
        changed: set[str] = set()
        for entry in report.groups:
            for monitoring_class, usage in entry.usages.items():
                rows = sender.rows[monitoring_class]
                rows.put(entry.group, usage, report.elapsed_ns)
                if entry.group in self._followed[monitoring_class] and self._show(
                    report.broker, entry.group, monitoring_class, rows.get(entry.group)
                ):
                    changed.add(entry.group)
        return changed

    def _show(
        self, broker: str, group: str, monitoring_class: MonitoringClass, row: UsageRow | None
    ) -> bool:
        """Index a row of a followed group, or its end; return whether a split can change by it."""
        shown = self._followed[monitoring_class][group]
        if row is None:
            return shown.pop(broker, None) is not None
        before = shown.get(broker)
        shown[broker] = row
        if before is None or group in self._by_use:
            return before != row
        return before.usage.decisive() != row.usage.decisive()

    def _follow_all(self, groups: AbstractSet[str]) -> None:
        for monitoring_class, followed in self._followed.items():
            for group in groups - followed.keys():
                followed[group] = self._look_up(group, monitoring_class)

    def _unfollow_idle(self, groups: Iterable[str]) -> None:
        """Stop following those of the groups in which this broker takes no part."""
        for group in groups:
            if group not in self._wanted and not any(
                self._broker in followed.get(group, ()) for followed in self._followed.values()
            ):
                for followed in self._followed.values():
                    followed.pop(group, None)

    def _look_up(self, group: str, monitoring_class: MonitoringClass) -> dict[str, UsageRow]:
        found = (
            (broker, sender.rows[monitoring_class].get(group))
            for broker, sender in self._senders.items()
        )
        return {broker: row for broker, row in found if row is not None}

    def _forget(self, broker: str) -> set[str]:
        """Forget all rows of a broker; return the followed groups in which it took part."""
        if self._senders.pop(broker, None) is None:
            return set()
        groups = {
            group
            for followed in self._followed.values()
            for group, shown in followed.items()
            if shown.pop(broker, None) is not None
        }
        if broker == self._broker:
            self._unfollow_idle(groups)
        return groups


def _taking_part(report: UsageReport) -> set[str]:
    return {
        entry.group
        for entry in report.groups
        if any(usage.participants for usage in entry.usages.values())
    }


def _raises(report: UsageReport) -> frozenset[TrafficKey]:
    if isinstance(report.groups, ColumnEntries):
        return frozenset[TrafficKey]().union(*(of.raises for of in report.groups.columns.values()))
    return frozenset(
        (entry.group, monitoring_class)
        for entry in report.groups
        for monitoring_class, usage in entry.usages.items()
        if usage.messages_ceiling is not None or usage.bytes_ceiling is not None
    )
