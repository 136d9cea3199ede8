"""Usage reports as Protocol Buffers, compatible with Pulsar's ResourceUsageInfo (PIP-82).

Any process with access to the bus can put bytes there: ``decode`` accepts only what this project's
sidecars send and answers everything else with ``BadReport``, which names the field. Counts are per
``elapsedNanos``, as Pulsar's are per period; receivers turn them into rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from coordinator.core.model import (
    Account,
    Closure,
    Dimension,
    EscrowStatement,
    GroupUsage,
    MonitoringClass,
    Parts,
    Usage,
    UsageReport,
    ViewDigest,
)
from coordinator.core.usage.columns import OPTIONALS
from coordinator.wire import resource_usage_pb2 as pb
from coordinator.wire.columns import COLUMNS, THROTTLED, decode_columns, encode_columns
from coordinator.wire.fields import (
    MAX_GRANTS,
    MAX_NAMED_GROUPS,
    BadReport,
    checked_count,
    checked_length,
    checked_name,
    checked_permille,
)

__all__ = ["BadReport", "Head", "decode", "encode", "head_of"]

_FIELDS = {field: name.removesuffix("PlusOne") for field, name in COLUMNS.items()}
"""The name of each field of Usage for a group that is told by name."""

_ALWAYS_TOLD = ("messages", "bytes")


class Head(NamedTuple):
    """The sender that a report claims, and the time of its clock; 0 is not told."""

    broker: str
    incarnation: int
    sequence: int
    sent_ms: int = 0


def head_of(payload: bytes) -> Head:
    """Read the claimed sender of a report, and no more of it.

    Raises:
        BadReport: the bytes are no message, or name no sender.
    """
    message = pb.ReportHead()
    try:
        message.ParseFromString(payload)
    except DecodeError as error:
        raise BadReport(f"not a usage report: {error}") from error
    for name in ("incarnation", "sequence"):
        if not message.HasField(name):
            raise BadReport(f"{name} is missing: not sent by a sidecar of this project")
    return Head(
        checked_name("broker", message.broker),
        checked_count("incarnation", message.incarnation),
        checked_count("sequence", message.sequence),
        checked_count("sentMillis", message.sentMillis),
    )


def encode(report: UsageReport, sent_ms: int = 0) -> bytes:
    """Encode a report; fields with their default value are left out.

    Args:
        report: to be sent.
        sent_ms: the present time of the sender's clock; 0 does not tell it.
    """
    message = pb.ResourceUsageInfo(
        broker=report.broker,
        incarnation=report.incarnation,
        sequence=report.sequence,
        elapsedNanos=report.elapsed_ns,
        since=report.since,
    )
    if sent_ms:
        message.sentMillis = sent_ms
    if report.complete:
        message.complete = True
    if report.learning:
        message.learning = True
    if report.leaving:
        message.leaving = True
    message.asks.extend(report.asks)
    if report.view is not None:
        message.definitionsDigest = report.view.definitions
        message.membersDigest = report.view.members
        message.usageDigest = report.view.usage
    if report.bus_silent:
        message.busSilent = True
    if report.named:
        _encode_by_name(report.groups, message)
    else:
        encode_columns(report.groups, message)
    if report.waiting:
        message.waiting = True
    message.answeredIncarnations.extend(report.answers.keys())
    message.answeredSequences.extend(report.answers.values())
    for statement in report.escrow:
        _encode_statement(statement, message.escrow.add())
    return message.SerializeToString()


def decode(payload: bytes, names: Mapping[int, str]) -> UsageReport:
    """Decode a report.

    Args:
        payload: the bytes.
        names: the group of every known definition, by its configuration version.

    Raises:
        BadReport: the bytes are no usage report, or a field is missing or out of bounds.
        UnknownDefinition: the report is in order but cannot be read yet.
    """
    message = pb.ResourceUsageInfo()
    try:
        message.ParseFromString(payload)
    except DecodeError as error:
        raise BadReport(f"not a usage report: {error}") from error
    for name in ("incarnation", "sequence", "elapsedNanos", "since"):
        if not message.HasField(name):
            raise BadReport(f"{name} is missing: not sent by a sidecar of this project")
    _check_lengths(message)
    if message.usageMap and (message.HasField("publish") or message.HasField("dispatch")):
        raise BadReport("usageMap and columns in one report: groups are told by one of them")
    head = UsageReport(
        broker=checked_name("broker", message.broker),
        incarnation=checked_count("incarnation", message.incarnation),
        sequence=checked_count("sequence", message.sequence),
        elapsed_ns=checked_count("elapsedNanos", message.elapsedNanos),
        groups=tuple(_decode_group(row) for row in message.usageMap),
        since=checked_count("since", message.since),
        named=bool(message.usageMap),
        complete=message.complete,
        learning=message.learning,
        leaving=message.leaving,
        asks=tuple(checked_name("asks", broker) for broker in message.asks),
        escrow=tuple(_decode_statement(statement) for statement in message.escrow),
        view=_decode_view(message),
        bus_silent=message.busSilent,
        waiting=message.waiting,
        answers=_decode_answers(message),
    )
    if not message.HasField("publish") and not message.HasField("dispatch"):
        return head
    return replace(head, groups=decode_columns(message, names))


def _check_lengths(message: pb.ResourceUsageInfo) -> None:
    checked_length("usageMap", message.usageMap, MAX_NAMED_GROUPS)
    checked_length("asks", message.asks)
    checked_length("answeredIncarnations", message.answeredIncarnations)
    checked_length("escrow", message.escrow)
    accounts = [account for each in message.escrow for account in (each.grants, each.closures)]
    if sum(map(len, accounts)) > MAX_GRANTS:
        raise BadReport(f"escrow has more grants and closures than {MAX_GRANTS}")


def _encode_by_name(groups: Sequence[GroupUsage], message: pb.ResourceUsageInfo) -> None:
    for entry in groups:
        row = message.usageMap.add(
            owner=entry.group, configurationVersion=entry.configuration_version
        )
        for monitoring_class, usage in entry.usages.items():
            target = row.publish if monitoring_class is MonitoringClass.PUBLISH else row.dispatch
            _encode_usage(usage, target)


def _decode_answers(message: pb.ResourceUsageInfo) -> dict[int, int]:
    incarnations, sequences = message.answeredIncarnations, message.answeredSequences
    if len(incarnations) != len(sequences):
        told, needed = len(sequences), len(incarnations)
        text = f"answeredSequences has {told} numbers, one per incarnation is {needed}"
        raise BadReport(text, "answeredSequences has another length than answeredIncarnations")
    return {
        checked_count("answeredIncarnations", incarnation): checked_count(
            "answeredSequences", sequence
        )
        for incarnation, sequence in zip(incarnations, sequences, strict=True)
    }


def _decode_view(message: pb.ResourceUsageInfo) -> ViewDigest | None:
    if not message.HasField("definitionsDigest"):
        return None  # another release, which does not say
    return ViewDigest(message.definitionsDigest, message.membersDigest, message.usageDigest)


def _encode_usage(usage: Usage, target: pb.NetworkUsage) -> None:
    for field, name in _FIELDS.items():
        value = getattr(usage, field)
        if value or field in _ALWAYS_TOLD or (value is not None and field in OPTIONALS):
            setattr(target, name, value)


def _encode_statement(statement: EscrowStatement, target: pb.EscrowStatement) -> None:
    target.group = statement.group
    target.generation = statement.generation
    target.version = statement.version
    target.holding.extend(statement.holding)
    for account, issued in statement.grants.items():
        target.grants.add(broker=account.broker, incarnation=account.incarnation, issued=issued)
    for account, closure in statement.closures.items():
        target.closures.add(
            broker=account.broker,
            incarnation=account.incarnation,
            received=closure.received,
            issued=closure.issued,
        )


def _decode_statement(statement: pb.EscrowStatement) -> EscrowStatement:
    return EscrowStatement(
        group=checked_name("escrow.group", statement.group),
        generation=checked_count("escrow.generation", statement.generation),
        version=checked_count("escrow.version", statement.version),
        holding=_parts("escrow.holding", statement.holding),
        grants={
            _account("escrow.grants", grant): _parts("escrow.grants.issued", grant.issued)
            for grant in statement.grants
        },
        closures={
            _account("escrow.closures", closure): Closure(
                _parts("escrow.closures.received", closure.received),
                _parts("escrow.closures.issued", closure.issued),
            )
            for closure in statement.closures
        },
    )


def _account(where: str, message: pb.Grant | pb.Closure) -> Account:
    return Account(
        checked_name(f"{where}.broker", message.broker),
        checked_count(f"{where}.incarnation", message.incarnation),
    )


def _parts(field: str, values: Sequence[int]) -> Parts:
    if len(values) != len(Dimension):
        text = f"{field} has {len(values)} numbers, one per dimension is {len(Dimension)}"
        raise BadReport(text, f"{field} has not one number per dimension")
    amounts = [checked_count(field, value) for value in values]
    return (amounts[0], amounts[1], amounts[2], amounts[3])


def _decode_group(row: pb.ResourceUsage) -> GroupUsage:
    usages: dict[MonitoringClass, Usage] = {}
    if row.HasField("publish"):
        usages[MonitoringClass.PUBLISH] = _decode_usage("publish", row.publish)
    if row.HasField("dispatch"):
        usages[MonitoringClass.DISPATCH] = _decode_usage("dispatch", row.dispatch)
    return GroupUsage(
        group=checked_name("owner", row.owner),
        configuration_version=checked_count("configurationVersion", row.configurationVersion),
        usages=usages,
    )


def _decode_usage(where: str, usage: pb.NetworkUsage) -> Usage:
    told = {each.name: value for each, value in usage.ListFields()}
    values: dict[str, Any] = {}
    for field, name in _FIELDS.items():
        if field in OPTIONALS and name not in told:
            values[field] = None
        elif field in THROTTLED:
            values[field] = checked_permille(where, told.get(name, 0))
        else:
            values[field] = checked_count(f"{where}.{name}", told.get(name, 0))
    return Usage(**values)
