"""The usage of many groups in a report, as columns: some 40 bytes a group with both classes of traffic.

A number stands for a group's name: the configuration version that the sender follows, which is the
number of the store's transaction that wrote the definition. The number is unique, and every sidecar has
read it in the store. So the wire needs no table of numbers and groups, one number identifies group and
definition, and in ascending order the differences take a byte or two. A sidecar that has not read that
definition yet cannot read the report yet (intake.py). If a process other than ours writes several
definitions in one transaction, they share a number and are identified by name.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate

from coordinator.core.model import GroupUsage, MonitoringClass
from coordinator.core.usage.columns import (
    OPTIONALS,
    WIDEST,
    ColumnEntries,
    UsageColumns,
    entries_in_columns,
    narrow,
)
from coordinator.wire import resource_usage_pb2 as pb
from coordinator.wire.fields import (
    MAX_GROUPS,
    BadReport,
    checked_count,
    checked_length,
    checked_permille,
)

COLUMNS: Mapping[str, str] = {
    "messages": "messagesPerPeriod",
    "bytes": "bytesPerPeriod",
    "messages_throttled_permille": "messagesThrottledPermille",
    "bytes_throttled_permille": "bytesThrottledPermille",
    "messages_demand": "messagesDemandPlusOne",
    "bytes_demand": "bytesDemandPlusOne",
    "messages_limit": "messagesLimitPlusOne",
    "bytes_limit": "bytesLimitPlusOne",
    "messages_ceiling": "messagesCeilingPlusOne",
    "bytes_ceiling": "bytesCeilingPlusOne",
    "participants": "participants",
    "topics": "topics",
    "message_size": "messageSize",
}
"""The column's name of each field of Usage."""

THROTTLED = ("messages_throttled_permille", "bytes_throttled_permille")


class UnknownDefinition(LookupError):
    """A report names a definition that this sidecar has not read from the store, or not yet.

    Args:
        broker: the sender.
        version: the definition's configuration version.
    """

    def __init__(self, broker: str, version: int) -> None:
        super().__init__(f"{broker} reports on definition {version}, which is not known here")
        self.broker = broker
        self.version = version


def encode_columns(groups: Sequence[GroupUsage], message: pb.ResourceUsageInfo) -> None:
    """Put entries into a message; each has a configuration version of its own."""
    entries = groups if isinstance(groups, ColumnEntries) else entries_in_columns(groups)
    publish = entries.columns.get(MonitoringClass.PUBLISH)
    dispatch = entries.columns.get(MonitoringClass.DISPATCH)
    if publish is not None:
        _encode_class(publish, publish.versions, message.publish)
    if dispatch is not None:
        as_published = publish is not None and publish.versions == dispatch.versions
        _encode_class(dispatch, () if as_published else dispatch.versions, message.dispatch)


def decode_columns(message: pb.ResourceUsageInfo, names: Mapping[int, str]) -> ColumnEntries:
    """Decode the entries of a message.

    Args:
        message: the message.
        names: the group of every known definition, by its configuration version.

    Raises:
        BadReport: they are not in order; checked before the definitions are.
        UnknownDefinition: they are in order and cannot be read yet.
    """
    told: dict[MonitoringClass, tuple[list[int], dict[str, array[int]]]] = {}
    versions: list[int] = []
    for monitoring_class, where, source in (
        (MonitoringClass.PUBLISH, "publish", message.publish),
        (MonitoringClass.DISPATCH, "dispatch", message.dispatch),
    ):
        if not message.HasField(where):
            continue
        if source.definitions or not versions:
            versions = _versions(where, source.definitions)
        told[monitoring_class] = versions, _fields(where, source, len(versions))
    columns: dict[MonitoringClass, UsageColumns] = {}
    places: dict[str, int] = {}
    of: list[int] = []
    for monitoring_class, (versions, fields) in told.items():
        if versions is not of:
            of, places = versions, _places(versions, names, message.broker)
        columns[monitoring_class] = UsageColumns(monitoring_class, places, narrow(versions), fields)
    return ColumnEntries(columns)


def _encode_class(columns: UsageColumns, versions: Sequence[int], target: pb.UsageColumns) -> None:
    target.SetInParent()
    target.definitions.extend(
        version - before for before, version in zip((0, *versions), versions, strict=False)
    )
    for field, name in COLUMNS.items():
        getattr(target, name).extend(columns.fields[field])


def _versions(where: str, differences: Sequence[int]) -> list[int]:
    checked_length(f"{where}.definitions", differences, MAX_GROUPS)
    if not differences:
        raise BadReport(f"{where}.definitions is empty: figures of no group")
    if not min(differences):
        raise BadReport(f"{where}.definitions has a difference of 0: they must be ascending")
    versions = list(accumulate(differences))
    checked_count(f"{where}.definitions", versions[-1])
    return versions


def _fields(where: str, source: pb.UsageColumns, length: int) -> dict[str, array[int]]:
    fields = {
        field: _column(f"{where}.{name}", getattr(source, name), length, field in OPTIONALS)
        for field, name in COLUMNS.items()
    }
    for field in THROTTLED:
        checked_permille(where, max(fields[field], default=0))
    return fields


def _column(field: str, values: Sequence[int], length: int, plus: int) -> array[int]:
    if values and len(values) != length:
        text = f"{field} has {len(values)} numbers, one per definition is {length}"
        raise BadReport(text, f"{field} has another length than definitions")
    column = narrow(values)
    if column.typecode == WIDEST:
        checked_count(field, max(column) - plus)
    return column


def _places(versions: Sequence[int], names: Mapping[int, str], broker: str) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, version in enumerate(versions):
        name = names.get(version)
        if name is None:
            raise UnknownDefinition(broker, version)
        places[name] = place
    if len(places) < len(versions):
        raise BadReport("definitions has two versions of one group")
    return places
