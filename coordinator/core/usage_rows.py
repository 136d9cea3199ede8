"""One broker's last words on all groups: a complete report, and what it said anew since then.

A large complete report is kept as the columns that it came in; what changed since then is kept as rows,
and put into columns again when there is too much of it. So a broker's rows cost about 30 bytes each, and
taking a complete report in costs next to nothing.
"""

from __future__ import annotations

from collections.abc import KeysView
from dataclasses import dataclass, replace

from coordinator.core.columns import UsageColumns, in_columns, usage_digest
from coordinator.core.model import NANOS_PER_SECOND, Dimension, MonitoringClass, Usage

_NO_COLUMNS = {of: in_columns(of, ()) for of in MonitoringClass}

_ROWS_LEAST = 256
_ROWS_PART = 8
"""Rows are put into columns when they are more than this and more than an eighth of the columns."""


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

    def over(self, elapsed_ns: int) -> Usage:
        """The usage with the counts that the same rates make in another time, to the nearest."""
        if elapsed_ns == self.elapsed_ns or self.elapsed_ns <= 0:
            return self.usage
        return replace(
            self.usage,
            messages=(self.usage.messages * elapsed_ns + self.elapsed_ns // 2) // self.elapsed_ns,
            bytes=(self.usage.bytes * elapsed_ns + self.elapsed_ns // 2) // self.elapsed_ns,
        )


class UsageRows:
    """One broker's rows of one class of traffic; a group in which it takes no part has none."""

    __slots__ = ("_class", "_columns", "_elapsed_ns", "_news", "digest")

    def __init__(self, monitoring_class: MonitoringClass) -> None:
        #: The sum of the hashes of all rows (agreement.py).
        self.digest = 0
        self._class = monitoring_class
        self._columns = _NO_COLUMNS[monitoring_class]
        #: The time that the counts in the columns cover.
        self._elapsed_ns = 0
        #: What is true instead of the columns; None is that the broker takes no part any more.
        self._news: dict[str, UsageRow | None] = {}

    def get(self, group: str) -> UsageRow | None:
        """The row of a group."""
        if group in self._news:
            return self._news[group]
        usage = self._columns.usage(group)
        if usage is None or not usage.participants:
            return None
        return UsageRow(usage, self._elapsed_ns)

    def among(self, groups: KeysView[str]) -> set[str]:
        """Those of the groups that something was said about."""
        found = groups & self._columns.places.keys() if self._columns.places else set[str]()
        return found | (groups & self._news.keys()) if self._news else found

    def groups(self) -> set[str]:
        """Every group that something was said about."""
        return self._columns.places.keys() | self._news.keys()

    def replace(self, columns: UsageColumns | None, elapsed_ns: int) -> None:
        """Forget everything and take over what a complete report says."""
        self._columns = _NO_COLUMNS[self._class] if columns is None else columns
        self.digest = self._columns.digest
        self._elapsed_ns = elapsed_ns
        self._news = {}

    def put(self, group: str, usage: Usage, elapsed_ns: int) -> None:
        """Take over what is new of a group."""
        before = self.get(group)
        if before is not None:
            self.digest -= usage_digest(group, self._class, before.usage)
        if usage.participants:
            self.digest += usage_digest(group, self._class, usage)
        self._news[group] = UsageRow(usage, elapsed_ns) if usage.participants else None
        if len(self._news) > max(_ROWS_LEAST, len(self._columns.places) // _ROWS_PART):
            self._put_in_columns(elapsed_ns)

    def _put_in_columns(self, elapsed_ns: int) -> None:
        found = ((group, self.get(group)) for group in self.groups())
        rows = [(group, 0, row.over(elapsed_ns)) for group, row in found if row is not None]
        self.replace(in_columns(self._class, rows), elapsed_ns)
