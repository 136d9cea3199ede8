"""When to report and what: rounds, urgent reports, suppression.

A report is sent every round, so silence means a fault. A small report lists all groups. A large one lists
the groups that changed, in this round or the last ``repeat_rounds``, and names the report since which no
other group changed. A receiver that missed more reports than the repeats cover sees that, and asks for a
complete one. All groups are also listed every ``complete_report_rounds`` rounds (PIP-82: report when the
usage has changed significantly, and mandatorily once in N cycles), and whenever most of more than `MANY`
groups changed: a receiver takes a complete report as it is, but the rows of any other one by one, each at
ten times the price. Urgent changes are reported at once, at most every ``urgent_gap_ns``: a participant
appeared or left, a broker became saturated, a limit changed by much, quota was given, a member asks for a
complete report, a raise waits for answers, or a member waits for an answer of this broker
(transfer/raise_protocol.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from coordinator.core.demand.meters import Meters
from coordinator.core.escrow.escrow import Escrow
from coordinator.core.model import (
    DIMENSIONS_OF,
    Dimension,
    GroupUsage,
    MonitoringClass,
    Rates,
    ResourceGroup,
    TrafficKey,
    Unit,
    Usage,
    UsageReport,
    shared_versions,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.acknowledgements import Answers
from coordinator.core.transfer.raise_protocol import Raises
from coordinator.core.usage.columns import entries_in_columns
from coordinator.core.usage.rows import UsageRow

MANY: Final = 32
"""Changed groups, by class, up to which a report lists these alone.

To merge 32 rows one by one takes a receiver no more time than to verify two signatures.
"""


class _Told(NamedTuple):
    """The last report of a group and class, and the sequence of the first report with this content."""

    row: UsageRow
    sequence: int


class Reporter:
    """Build this broker's reports and remember their content."""

    def __init__(self, settings: CoreSettings, escrow: Escrow, raises: Raises) -> None:
        self._settings = settings
        self._escrow = escrow
        self._raises = raises
        self._sequence = 0
        #: Ordered by sequence.
        self._told: dict[TrafficKey, _Told] = {}
        self._urgent: set[TrafficKey] = set()
        #: Keys to repeat, with the number of rounds.
        self._repeats: dict[TrafficKey, int] = {}
        #: Versions that identify no single definition.
        self._shared: frozenset[int] = frozenset()
        self._round_due = False
        self._complete_due = True
        self._reply_due = False
        self._rounds_since_complete = 0
        self._last_report_ns: int | None = None

    def restart(self) -> None:
        """Begin a new incarnation, which has reported nothing yet."""
        self._sequence = 0
        self._told.clear()
        self._urgent.clear()
        self._repeats.clear()
        self._complete_due = True

    def require(self, key: TrafficKey) -> None:
        """Report this group and class before the end of the round."""
        self._urgent.add(key)
        self._repeats[key] = self._settings.repeat_rounds

    def require_complete(self) -> None:
        """Report everything at once: a member knows nothing yet."""
        self._complete_due = True

    def reply(self) -> None:
        """Report at once: a member waits for an answer."""
        self._reply_due = True

    def limits_changed(
        self, group: str, before: Rates | None, after: Rates, meters: Meters
    ) -> None:
        """Report a local limit at once if it moved by much: the others wait for the room."""
        old = Rates() if before is None else before
        if not any(self._settings.moved(old.of(each), after.of(each)) for each in Dimension):
            return
        for monitoring_class in MonitoringClass:
            if meters.get((group, monitoring_class)) is not None:
                self.require((group, monitoring_class))

    def set_groups(self, groups: Mapping[str, ResourceGroup]) -> None:
        """Take over the definitions."""
        self._shared = shared_versions(group.configuration_version for group in groups.values())

    def forget(self, group: str) -> None:
        """Forget a deleted group; the next complete report does not list it."""
        for monitoring_class in MonitoringClass:
            if self._told.pop((group, monitoring_class), None) is not None:
                self._complete_due = True
            self._urgent.discard((group, monitoring_class))
            self._repeats.pop((group, monitoring_class), None)

    def close_round(
        self,
        meters: Meters,
        limits: dict[str, Rates],
        groups: dict[str, ResourceGroup],
        elapsed_ns: int,
    ) -> None:
        """Mark the keys that changed in the round that just ended."""
        self._round_due = True
        for key in list(self._repeats):
            self._urgent.add(key)
            self._repeats[key] -= 1
            if not self._repeats[key]:
                del self._repeats[key]
        self._rounds_since_complete += 1
        if self._rounds_since_complete >= self._settings.complete_report_rounds:
            self._complete_due = True
        for key, meter in meters:
            if key[0] not in groups:
                continue
            if meter.farewells:
                meter.farewells -= 1
                self._urgent.add(key)
            elif self._changed(key, self._usage(meters, key, limits), elapsed_ns):
                self.require(key)

    def due(self, now_ns: int) -> bool:
        """Return whether a report must be sent now."""
        if not (self._has_news() or self._raises.due(now_ns)):
            return False
        last_ns = self._last_report_ns
        return last_ns is None or now_ns - last_ns >= self._settings.urgent_gap_ns

    def is_pending(self) -> bool:
        """Return whether a report must be sent, now or after the urgent gap."""
        return self._has_news() or self._raises.is_pending()

    def _has_news(self) -> bool:
        return bool(
            self._urgent
            or self._complete_due
            or self._round_due
            or self._reply_due
            or self._escrow.due()
        )

    def build(  # noqa: PLR0913  # all that a report is made from
        self,
        incarnation: int,
        meters: Meters,
        limits: dict[str, Rates],
        groups: dict[str, ResourceGroup],
        elapsed_ns: int,
        now_ns: int,
        *,
        learning: bool,
        asks: tuple[str, ...],
        answers: Answers,
    ) -> UsageReport:
        """Return the report that is due."""
        everything = {key for key, _ in meters}
        keys = self._urgent | self._raises.keys() | set(answers.keys)
        complete = (
            self._complete_due
            or len(everything) <= self._settings.small_report_entries
            or len(keys) > max(MANY, len(everything) // 2)
        )
        if complete:
            keys = everything
        usages: dict[str, dict[MonitoringClass, Usage]] = {}
        listed: set[TrafficKey] = set()
        for key in sorted(keys, key=lambda key: (key[0], key[1].value)):
            if key[0] not in groups or meters.get(key) is None:
                continue
            usage = self._usage(meters, key, limits)
            if complete or self._changed(key, usage, elapsed_ns):
                self._told.pop(key, None)
                self._told[key] = _Told(UsageRow(usage, elapsed_ns), self._sequence + 1)
            # A repeat has the same content, so that either may get lost: the same rates, whatever time
            # this report covers.
            usages.setdefault(key[0], {})[key[1]] = self._told[key].row.over(elapsed_ns)
            listed.add(key)
        entries = tuple(
            GroupUsage(name, groups[name].configuration_version, by_class)
            for name, by_class in usages.items()
        )
        self._sequence += 1
        report = UsageReport(
            broker=self._settings.broker,
            incarnation=incarnation,
            sequence=self._sequence,
            elapsed_ns=elapsed_ns,
            # As the receiver of a complete report keeps it.
            groups=entries_in_columns(entries) if complete else entries,
            since=0 if complete else self._since(listed),
            named=any(groups[name].configuration_version in self._shared for name in usages),
            complete=complete,
            learning=learning,
            asks=asks,
            escrow=self._escrow.statements(complete=complete),
            waiting=self._raises.waits(now_ns),
            answers=answers.sequences,
        )
        self._raises.announced(report.sequence, now_ns)
        if complete:
            self._rounds_since_complete = 0
        self._complete_due = self._round_due = self._reply_due = False
        self._urgent.clear()
        self._last_report_ns = now_ns
        return report

    def farewell(self, incarnation: int) -> UsageReport:
        """Return the last report: this broker leaves, and its quota is free."""
        self._sequence += 1
        return UsageReport(
            self._settings.broker,
            incarnation,
            self._sequence,
            elapsed_ns=0,
            groups=(),
            leaving=True,
        )

    def _since(self, listed: Collection[TrafficKey]) -> int:
        """Return the latest report that had news of a key that is not listed."""
        untouched = (told for key, told in reversed(self._told.items()) if key not in listed)
        latest = next(untouched, None)
        return 0 if latest is None else latest.sequence

    def _changed(self, key: TrafficKey, usage: Usage, elapsed_ns: int) -> bool:
        if key not in self._told:
            return True
        told = self._told[key].row.over(elapsed_ns)
        return (
            (told.participants > 0) != (usage.participants > 0)
            or told.message_size != usage.message_size
            or told.messages_ceiling != usage.messages_ceiling
            or told.bytes_ceiling != usage.bytes_ceiling
            or self._settings.moved(told.topics, usage.topics)
            or any(self._changed_in(unit, told, usage) for unit in Unit)
        )

    def _changed_in(self, unit: Unit, told: Usage, usage: Usage) -> bool:
        limit = usage.limit_of(unit)
        return (
            told.limit_of(unit) != limit
            or self._settings.moved(told.count_of(unit), usage.count_of(unit), limit)
            or self._settings.moved(told.demand_of(unit), usage.demand_of(unit), limit)
        )

    def _usage(self, meters: Meters, key: TrafficKey, limits: dict[str, Rates]) -> Usage:
        meter = meters.get(key)
        assert meter is not None
        rates = limits.get(key[0], Rates())
        messages, bytes_ = DIMENSIONS_OF[key[1]]
        messages_ceiling, bytes_ceiling = self._raises.ceilings(key)
        return replace(
            meter.usage(rates.of(messages), rates.of(bytes_)),
            messages_ceiling=messages_ceiling,
            bytes_ceiling=bytes_ceiling,
        )
