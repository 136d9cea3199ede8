"""The usage of many groups at one broker, field by field instead of row by row.

A broker of a large cluster hears of hundreds of thousands of rows, and reads few of them. As objects
they would cost 500 bytes each and be slow to make; as columns, each an array of the narrowest numbers
that hold its largest value, they cost about 30. A row object is made when it is read.

A column is empty when all its values are zero. Demands and limits are stored plus one, with 0 for None,
so that every column holds whole numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, repeat
from struct import Struct
from typing import Any, overload
from zlib import crc32

from coordinator.core.model import GroupUsage, MonitoringClass, TrafficKey, Usage

COUNTS = (
    "messages", "bytes", "messages_throttled_permille", "bytes_throttled_permille", "participants",
    "topics", "message_size",
)  # fmt: skip
"""Fields of Usage that are stored as they are."""

OPTIONALS = (
    "messages_demand", "bytes_demand", "messages_limit", "bytes_limit", "messages_ceiling",
    "bytes_ceiling",
)  # fmt: skip
"""Fields of Usage that are stored plus one, with 0 for None."""

_DECISIVE = (*OPTIONALS, "topics", "message_size")
_FIGURES = Struct("<8Q")
_CODES = "BHIQ"
WIDEST = _CODES[-1]
"""The type of a column with a value of more than 32 bits."""
_EMPTY = array("B")


@dataclass(frozen=True)
class UsageColumns:
    """One class of traffic of many groups.

    Args:
        monitoring_class: the class.
        places: the index of each group in the columns, by name; may be shared with other columns.
        versions: the configuration version that the sender uses, by index.
        fields: a column for every field of Usage, by its name.
    """

    monitoring_class: MonitoringClass
    places: Mapping[str, int]
    versions: array[int]
    fields: Mapping[str, array[int]]

    def usage(self, group: str) -> Usage | None:
        """Return a group's usage, made once; None when it is not in the columns."""
        usage = self._looked_at.get(group)
        if usage is None and group in self.places:
            usage = self._looked_at[group] = self.usage_at(self.places[group])
        return usage

    def usage_at(self, place: int) -> Usage:
        """Return the usage at an index."""
        values: dict[str, Any] = {
            name: column[place] if column else 0 for name, column in self.fields.items()
        }
        for name in OPTIONALS:
            values[name] = values[name] - 1 if values[name] else None
        return Usage(**values)

    @cached_property
    def raises(self) -> frozenset[TrafficKey]:
        """Return the keys with an announced raise."""
        ceilings = [self.fields[name] for name in ("messages_ceiling", "bytes_ceiling")]
        return frozenset(
            (group, self.monitoring_class)
            for group, place in (self.places.items() if any(ceilings) else ())
            if any(column and column[place] for column in ceilings)
        )

    def ended(self) -> list[str]:
        """Return the groups listed because the sender no longer takes part."""
        participants = self.fields["participants"]
        if participants and 0 not in participants:
            return []
        return [
            group
            for group, place in self.places.items()
            if not (participants and participants[place])
        ]

    @cached_property
    def _looked_at(self) -> dict[str, Usage]:
        return {}

    @cached_property
    def digest(self) -> int:
        """Return the sum of the hashes of all rows with participants."""
        # As `usage_digest` of each row, without a step of the interpreter for any of them.
        seeds = repeat(_seed(self.monitoring_class))
        columns = (self.fields[name] or repeat(0) for name in _DECISIVE)
        names = map(crc32, map(str.encode, self.places), seeds)
        rows = map(crc32, map(_FIGURES.pack, *columns), names)
        return sum(compress(rows, self.fields["participants"]))


def usage_digest(group: str, monitoring_class: MonitoringClass, usage: Usage) -> int:
    """Return the hash of one row: all fields that a split uses; the same on every machine."""
    optionals = (getattr(usage, name) for name in OPTIONALS)
    figures = (0 if figure is None else figure + 1 for figure in optionals)
    row = _FIGURES.pack(*figures, usage.topics, usage.message_size)
    return crc32(row, crc32(group.encode(), _seed(monitoring_class)))


def _seed(monitoring_class: MonitoringClass) -> int:
    return crc32(monitoring_class.value.encode())


class ColumnEntries(Sequence[GroupUsage]):
    """A report's entries in columns, by class; an entry is made when it is read."""

    def __init__(self, columns: Mapping[MonitoringClass, UsageColumns]) -> None:
        self.columns = columns
        places = (of.places for of in columns.values())
        self._names = tuple(dict.fromkeys(chain.from_iterable(places)))

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> GroupUsage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[GroupUsage]: ...
    def __getitem__(self, index: int | slice) -> GroupUsage | Sequence[GroupUsage]:
        if isinstance(index, slice):
            return [self._entry(name) for name in self._names[index]]
        return self._entry(self._names[index])

    def __iter__(self) -> Iterator[GroupUsage]:
        return map(self._entry, self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # equal to other sequences, which have none

    def _entry(self, name: str) -> GroupUsage:
        usages = {}
        version = 0
        for monitoring_class, columns in self.columns.items():
            place = columns.places.get(name)
            if place is not None:
                version = columns.versions[place] if columns.versions else 0
                usages[monitoring_class] = columns.usage_at(place)
        return GroupUsage(name, version, usages)


def entries_in_columns(entries: Iterable[GroupUsage]) -> ColumnEntries:
    """Put entries into columns, in the order of their configuration versions."""
    rows: dict[MonitoringClass, list[tuple[str, int, Usage]]] = {of: [] for of in MonitoringClass}
    for entry in sorted(entries, key=lambda entry: entry.configuration_version):
        for monitoring_class, usage in entry.usages.items():
            rows[monitoring_class].append((entry.group, entry.configuration_version, usage))
    return ColumnEntries({of: in_columns(of, found) for of, found in rows.items() if found})


def in_columns(
    monitoring_class: MonitoringClass, rows: Sequence[tuple[str, int, Usage]]
) -> UsageColumns:
    """Put rows of (group, configuration version, usage) into columns; each group appears once."""
    usages = [usage for _, _, usage in rows]
    fields = {name: narrow([getattr(usage, name) for usage in usages]) for name in COUNTS}
    for name in OPTIONALS:
        values = [getattr(usage, name) for usage in usages]
        fields[name] = narrow([0 if value is None else value + 1 for value in values])
    places = {name: place for place, (name, _, _) in enumerate(rows)}
    versions = narrow([version for _, version, _ in rows])
    return UsageColumns(monitoring_class, places, versions, fields)


def narrow(values: Sequence[int]) -> array[int]:
    """Return the values in an array of the narrowest numbers that hold them; empty if all are zero.

    Raises:
        OverflowError: a value is negative or has more than 64 bits.
    """
    values = list(values)  # a field of Protocol Buffers makes its numbers anew each time
    largest = max(values, default=0)
    if not largest:
        return _EMPTY
    code = next((code for code in _CODES if largest >> 8 * array(code).itemsize == 0), WIDEST)
    return array(code, values)
