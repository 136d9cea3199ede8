"""When to tell the others, and what: rounds, urgent reports, suppression.

A report is sent every round, so that silence means something. While it is small it lists everything. A
large one lists the groups that changed, in this round or the last ``repeat_rounds``, and all of them
every ``complete_report_rounds`` rounds (PIP-82: report when the usage has changed significantly, and
mandatorily once in N cycles). What cannot wait is reported at once, at most every ``urgent_gap_ns``: a
participant appeared or left, a broker became saturated, a limit changed by much, quota was given,
somebody asks for a complete report, a raise waits for answers or somebody waits for one (raising.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coordinator.core.ledgers import Ledgers
from coordinator.core.meters import Meters
from coordinator.core.model import (
    DIMENSIONS_OF,
    GroupUsage,
    Key,
    LedgerStatement,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Usage,
    UsageReport,
)
from coordinator.core.raising import Answers, Raises
from coordinator.core.settings import CoreSettings


class Reporter:
    """Builds this broker's reports and remembers what the others were told."""

    def __init__(self, settings: CoreSettings, ledgers: Ledgers, raises: Raises) -> None:
        self._settings = settings
        self._ledgers = ledgers
        self._raises = raises
        self._sequence = 0
        self._told: dict[Key, Usage] = {}
        self._urgent: set[Key] = set()
        #: Keys that are reported in the coming rounds as well, and in how many.
        self._repeats: dict[Key, int] = {}
        self._round_due = False
        self._complete_due = True
        self._reply_due = False
        self._rounds_since_complete = 0
        self._last_report_ns: int | None = None

    def restart(self) -> None:
        """A new incarnation has told nobody anything yet."""
        self._sequence = 0
        self._told.clear()
        self._urgent.clear()
        self._repeats.clear()
        self._complete_due = True

    def require(self, key: Key) -> None:
        """This group and class cannot wait for the end of the round."""
        self._urgent.add(key)
        self._repeats[key] = self._settings.repeat_rounds

    def require_complete(self) -> None:
        """Everything is to be reported at once: somebody knows nothing yet."""
        self._complete_due = True

    def reply(self) -> None:
        """Somebody waits for an answer."""
        self._reply_due = True

    def forget(self, group: str) -> None:
        """The group is gone; the next complete report will not list it."""
        for monitoring_class in MonitoringClass:
            self._told.pop((group, monitoring_class), None)
            self._urgent.discard((group, monitoring_class))
            self._repeats.pop((group, monitoring_class), None)

    def close_round(
        self, meters: Meters, limits: dict[str, Rates], groups: dict[str, ResourceGroup]
    ) -> None:
        """Mark what changed in the round that just ended."""
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
            elif self._changed(self._told.get(key), self._usage(meters, key, limits)):
                self.require(key)

    def due(self, now_ns: int) -> bool:
        """Whether something must be said now."""
        due = self._urgent or self._complete_due or self._round_due or self._reply_due
        if not (due or self._ledgers.due() or self._raises.due(now_ns)):
            return False
        last_ns = self._last_report_ns
        return last_ns is None or now_ns - last_ns >= self._settings.urgent_gap_ns

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
        """The report that is due."""
        everything = {key for key, _ in meters}
        complete = self._complete_due or len(everything) <= self._settings.small_report_entries
        keys = everything
        if not complete:
            keys = self._urgent | self._raises.keys() | set(answers.keys)
        usages: dict[str, dict[MonitoringClass, Usage]] = {}
        for key in sorted(keys, key=lambda key: (key[0], key[1].value)):
            if key[0] not in groups or meters.get(key) is None:
                continue
            usage = self._usage(meters, key, limits)
            usages.setdefault(key[0], {})[key[1]] = usage
            self._told[key] = usage
        report = self._report(
            incarnation,
            tuple(
                GroupUsage(name, groups[name].configuration_version, by_class)
                for name, by_class in usages.items()
            ),
            elapsed_ns,
            ledgers=self._ledgers.statements(complete=complete),
            complete=complete,
            learning=learning,
            asks=asks,
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
        """The last report: this broker goes, everything it had is free."""
        return self._report(incarnation, (), 0, leaving=True)

    def _report(  # noqa: PLR0913  # one per field of a report
        self,
        incarnation: int,
        entries: tuple[GroupUsage, ...],
        elapsed_ns: int,
        *,
        ledgers: tuple[LedgerStatement, ...] = (),
        complete: bool = False,
        learning: bool = False,
        leaving: bool = False,
        asks: tuple[str, ...] = (),
        waiting: bool = False,
        answers: Mapping[int, int] | None = None,
    ) -> UsageReport:
        self._sequence += 1
        return UsageReport(
            broker=self._settings.broker,
            incarnation=incarnation,
            sequence=self._sequence,
            elapsed_ns=elapsed_ns,
            groups=entries,
            complete=complete,
            learning=learning,
            leaving=leaving,
            asks=asks,
            ledgers=ledgers,
            waiting=waiting,
            answers=answers or {},
        )

    def _changed(self, told: Usage | None, usage: Usage) -> bool:
        if told is None:
            return True
        moved = self._settings.moved
        return (
            (told.participants > 0) != (usage.participants > 0)
            or told.messages_limit != usage.messages_limit
            or told.bytes_limit != usage.bytes_limit
            or told.message_size != usage.message_size
            or told.messages_ceiling != usage.messages_ceiling
            or told.bytes_ceiling != usage.bytes_ceiling
            or moved(told.topics, usage.topics)
            or moved(told.messages, usage.messages)
            or moved(told.bytes, usage.bytes)
            or moved(told.messages_demand, usage.messages_demand)
            or moved(told.bytes_demand, usage.bytes_demand)
        )

    def _usage(self, meters: Meters, key: Key, limits: dict[str, Rates]) -> Usage:
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
