"""One broker's newest rows on all groups: a complete report, and the news since then.

A large complete report is kept as the columns that it came in; later changes are kept as rows, and put
into columns again when there are too many. A broker's rows thus cost about 30 bytes each, and taking a
complete report costs next to nothing.
"""

from __future__ import annotations

from collections.abc import KeysView
from dataclasses import dataclass, replace

from coordinator.core.invariants import holds
from coordinator.core.model import MAX_COUNT, NANOS_PER_SECOND, Dimension, MonitoringClass, Usage
from coordinator.core.usage.columns import UsageColumns, in_columns, usage_digest

_NO_COLUMNS = {of: in_columns(of, ()) for of in MonitoringClass}

_ROWS_LEAST = 256
_ROWS_PART = 8
"""Rows are put into columns when they exceed this number and an eighth of the columns."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One broker's newest row on one group and class."""

    usage: Usage
    elapsed_ns: int

    def rate_of(self, dimension: Dimension) -> int:
        """Return the admitted rate, per second, rounded to the nearest and at most MAX_COUNT."""
        if self.elapsed_ns <= 0:
            return 0
        count = self.usage.count_of(dimension.unit)
        return _scaled(count, NANOS_PER_SECOND, self.elapsed_ns)

    def over(self, elapsed_ns: int) -> Usage:
        """Return the usage with the counts of the same rates over another time, to the nearest."""
        if elapsed_ns == self.elapsed_ns or self.elapsed_ns <= 0:
            return self.usage
        return replace(
            self.usage,
            messages=_scaled(self.usage.messages, elapsed_ns, self.elapsed_ns),
            bytes=_scaled(self.usage.bytes, elapsed_ns, self.elapsed_ns),
        )


def _scaled(count: int, to_ns: int, from_ns: int) -> int:
    """Return a count over another time, to the nearest and at most MAX_COUNT."""
    return min(MAX_COUNT, (count * to_ns + from_ns // 2) // from_ns)


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
        #: Rows that replace the columns; None means that the broker takes no part any more.
        self._news: dict[str, UsageRow | None] = {}

    def get(self, group: str) -> UsageRow | None:
        """Return the row of a group."""
        if group in self._news:
            return self._news[group]
        usage = self._columns.usage(group)
        if usage is None or not usage.participants:
            return None
        return UsageRow(usage, self._elapsed_ns)

    def among(self, groups: KeysView[str]) -> set[str]:
        """Return those of the groups that the broker has reported on."""
        found = groups & self._columns.places.keys() if self._columns.places else set[str]()
        return found | (groups & self._news.keys()) if self._news else found

    def groups(self) -> set[str]:
        """Return every group that the broker has reported on."""
        return self._columns.places.keys() | self._news.keys()

    def replace(self, columns: UsageColumns | None, elapsed_ns: int) -> None:
        """Forget everything and take over a complete report."""
        self._columns = _NO_COLUMNS[self._class] if columns is None else columns
        self.digest = self._columns.digest
        self._elapsed_ns = elapsed_ns
        self._news = {}

    def put(self, group: str, usage: Usage, elapsed_ns: int) -> None:
        """Take over the news of a group."""
        before = self.get(group)
        if before is not None:
            self.digest -= usage_digest(group, self._class, before.usage)
        if usage.participants:
            self.digest += usage_digest(group, self._class, usage)
        self._news[group] = UsageRow(usage, elapsed_ns) if usage.participants else None
        if len(self._news) > max(_ROWS_LEAST, len(self._columns.places) // _ROWS_PART):
            self._put_in_columns(elapsed_ns)

    def validate(self, broker: str) -> None:
        """Check that the digest, which is kept up to date row by row, is that of all rows.

        Raises:
            InvariantBroken: it is not.
        """
        rows = [(group, row) for group in self.groups() if (row := self.get(group)) is not None]
        digest = sum(usage_digest(group, self._class, row.usage) for group, row in rows)
        holds(
            self.digest == digest,
            "The digest of a broker's rows is the sum of their hashes",
            broker=broker,
            monitoring_class=self._class.value,
            kept=self.digest,
            rows=digest,
        )

    def _put_in_columns(self, elapsed_ns: int) -> None:
        found = ((group, self.get(group)) for group in self.groups())
        rows = [(group, 0, row.over(elapsed_ns)) for group, row in found if row is not None]
        self.replace(in_columns(self._class, rows), elapsed_ns)
