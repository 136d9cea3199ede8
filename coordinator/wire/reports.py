"""Usage reports as Protocol Buffers, compatible with Pulsar's ResourceUsageInfo (PIP-82).

Whatever arrives on the bus is somebody else's bytes: ``decode`` accepts only what this project's
sidecars send and answers everything else with ``BadReport``, which names the field. Counts are per
``elapsedNanos``, as Pulsar's are per period; receivers make rates of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from google.protobuf.message import DecodeError

from coordinator.core.model import (
    Account,
    Closure,
    Dimension,
    GroupUsage,
    LedgerStatement,
    MonitoringClass,
    Parts,
    Usage,
    UsageReport,
    ViewDigest,
)
from coordinator.wire import resource_usage_pb2 as pb

MAX_NAME_LENGTH = 255
MAX_COUNT = 2**63 - 1


class BadReport(ValueError):
    """A payload on the bus is not a usage report of a sidecar; the message names the field."""


def encode(report: UsageReport) -> bytes:
    """A report as bytes; fields with their default value are left out."""
    message = pb.ResourceUsageInfo(
        broker=report.broker,
        incarnation=report.incarnation,
        sequence=report.sequence,
        elapsedNanos=report.elapsed_ns,
    )
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
    for entry in report.groups:
        row = message.usageMap.add(
            owner=entry.group, configurationVersion=entry.configuration_version
        )
        for monitoring_class, usage in entry.usages.items():
            target = row.publish if monitoring_class is MonitoringClass.PUBLISH else row.dispatch
            _encode_usage(usage, target)
    if report.waiting:
        message.waiting = True
    message.answeredIncarnations.extend(report.answers.keys())
    message.answeredSequences.extend(report.answers.values())
    for statement in report.ledgers:
        _encode_statement(statement, message.ledgers.add())
    return message.SerializeToString()


def decode(payload: bytes) -> UsageReport:
    """A report from bytes.

    Raises:
        BadReport: the bytes are no usage report, or a field is missing or out of bounds.
    """
    message = pb.ResourceUsageInfo()
    try:
        message.ParseFromString(payload)
    except DecodeError as error:
        raise BadReport(f"not a usage report: {error}") from error
    for name in ("incarnation", "sequence", "elapsedNanos"):
        if not message.HasField(name):
            raise BadReport(f"{name} is missing: not sent by a sidecar of this project")
    return UsageReport(
        broker=_name("broker", message.broker),
        incarnation=_count("incarnation", message.incarnation),
        sequence=_count("sequence", message.sequence),
        elapsed_ns=_count("elapsedNanos", message.elapsedNanos),
        groups=tuple(_decode_group(row) for row in message.usageMap),
        complete=message.complete,
        learning=message.learning,
        leaving=message.leaving,
        asks=tuple(_name("asks", broker) for broker in message.asks),
        ledgers=tuple(_decode_statement(statement) for statement in message.ledgers),
        view=_decode_view(message),
        waiting=message.waiting,
        answers=_decode_answers(message),
    )


def _decode_answers(message: pb.ResourceUsageInfo) -> dict[int, int]:
    incarnations, sequences = message.answeredIncarnations, message.answeredSequences
    if len(incarnations) != len(sequences):
        raise BadReport(
            f"answeredSequences has {len(sequences)} numbers, one per incarnation is "
            f"{len(incarnations)}"
        )
    return {
        _count("answeredIncarnations", incarnation): _count("answeredSequences", sequence)
        for incarnation, sequence in zip(incarnations, sequences, strict=True)
    }


def _decode_view(message: pb.ResourceUsageInfo) -> ViewDigest | None:
    if not message.HasField("definitionsDigest"):
        return None  # another release, which does not say
    return ViewDigest(message.definitionsDigest, message.membersDigest, message.usageDigest)


def _encode_usage(usage: Usage, target: pb.NetworkUsage) -> None:
    target.bytesPerPeriod = usage.bytes
    target.messagesPerPeriod = usage.messages
    if usage.bytes_limit is not None:
        target.bytesLimit = usage.bytes_limit
    if usage.messages_limit is not None:
        target.messagesLimit = usage.messages_limit
    if usage.bytes_throttled_permille:
        target.bytesThrottledPermille = usage.bytes_throttled_permille
    if usage.bytes_demand is not None:
        target.bytesDemand = usage.bytes_demand
    if usage.messages_demand is not None:
        target.messagesDemand = usage.messages_demand
    if usage.messages_throttled_permille:
        target.messagesThrottledPermille = usage.messages_throttled_permille
    if usage.participants:
        target.participants = usage.participants
    if usage.topics:
        target.topics = usage.topics
    if usage.message_size:
        target.messageSize = usage.message_size
    _encode_ceilings(usage, target)


def _encode_ceilings(usage: Usage, target: pb.NetworkUsage) -> None:
    if usage.bytes_ceiling is not None:
        target.bytesCeiling = usage.bytes_ceiling
    if usage.messages_ceiling is not None:
        target.messagesCeiling = usage.messages_ceiling


def _encode_statement(statement: LedgerStatement, target: pb.LedgerStatement) -> None:
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


def _decode_statement(statement: pb.LedgerStatement) -> LedgerStatement:
    return LedgerStatement(
        group=_name("ledgers.group", statement.group),
        generation=_count("ledgers.generation", statement.generation),
        version=_count("ledgers.version", statement.version),
        holding=_parts("ledgers.holding", statement.holding),
        grants={
            _account("ledgers.grants", grant): _parts("ledgers.grants.issued", grant.issued)
            for grant in statement.grants
        },
        closures={
            _account("ledgers.closures", closure): Closure(
                _parts("ledgers.closures.received", closure.received),
                _parts("ledgers.closures.issued", closure.issued),
            )
            for closure in statement.closures
        },
    )


def _account(where: str, message: pb.Grant | pb.Closure) -> Account:
    return Account(
        _name(f"{where}.broker", message.broker),
        _count(f"{where}.incarnation", message.incarnation),
    )


def _parts(field: str, values: Sequence[int]) -> Parts:
    if len(values) != len(Dimension):
        raise BadReport(f"{field} has {len(values)} numbers, one per dimension is {len(Dimension)}")
    amounts = [_count(field, value) for value in values]
    return (amounts[0], amounts[1], amounts[2], amounts[3])


def _decode_group(row: pb.ResourceUsage) -> GroupUsage:
    usages: dict[MonitoringClass, Usage] = {}
    if row.HasField("publish"):
        usages[MonitoringClass.PUBLISH] = _decode_usage("publish", row.publish)
    if row.HasField("dispatch"):
        usages[MonitoringClass.DISPATCH] = _decode_usage("dispatch", row.dispatch)
    return GroupUsage(
        group=_name("owner", row.owner),
        configuration_version=_count("configurationVersion", row.configurationVersion),
        usages=usages,
    )


def _decode_usage(where: str, usage: pb.NetworkUsage) -> Usage:
    return Usage(
        messages=_count(f"{where}.messagesPerPeriod", usage.messagesPerPeriod),
        bytes=_count(f"{where}.bytesPerPeriod", usage.bytesPerPeriod),
        messages_throttled_permille=_permille(where, usage.messagesThrottledPermille),
        bytes_throttled_permille=_permille(where, usage.bytesThrottledPermille),
        messages_demand=_optional(where, usage, "messagesDemand"),
        bytes_demand=_optional(where, usage, "bytesDemand"),
        messages_limit=_optional(where, usage, "messagesLimit"),
        bytes_ceiling=_optional(where, usage, "bytesCeiling"),
        messages_ceiling=_optional(where, usage, "messagesCeiling"),
        bytes_limit=_optional(where, usage, "bytesLimit"),
        participants=usage.participants,
        topics=usage.topics,
        message_size=_count(f"{where}.messageSize", usage.messageSize),
    )


def _name(field: str, value: str) -> str:
    if not value or len(value) > MAX_NAME_LENGTH:
        raise BadReport(f"{field} has {len(value)} characters, 1 to {MAX_NAME_LENGTH} are allowed")
    return value


def _count(field: str, value: int) -> int:
    if value > MAX_COUNT:
        raise BadReport(f"{field} is {value}, more than {MAX_COUNT}")
    return value


def _optional(
    where: str,
    usage: pb.NetworkUsage,
    field: Literal[
        "messagesDemand",
        "bytesDemand",
        "messagesLimit",
        "bytesLimit",
        "messagesCeiling",
        "bytesCeiling",
    ],
) -> int | None:
    if not usage.HasField(field):
        return None
    return _count(f"{where}.{field}", getattr(usage, field))


def _permille(where: str, value: int) -> int:
    if value > 1000:
        raise BadReport(f"{where} was throttled for {value} thousandths of the time")
    return value
