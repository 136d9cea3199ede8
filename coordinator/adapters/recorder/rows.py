"""The recorded rows, by table: pure translation from the core's objects to tuples.

A row lists its values in the order of its schema (tables.py) without the columns that all
tables share; the recorder puts those in front.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from coordinator.adapters.recorder.minutes import Minute
from coordinator.adapters.recorder.seconds import Second
from coordinator.backlog.rules.model import NO_QUOTA
from coordinator.backlog.rules.views import BacklogView
from coordinator.core.certificate.statement import Certificate
from coordinator.core.decisions.decision import Decision
from coordinator.core.model import (
    DIMENSIONS_OF,
    Dimension,
    Member,
    Rates,
    ResourceGroup,
    Unit,
    UsageReport,
)
from coordinator.core.topics import TopicName
from coordinator.insight.model.operations import Operation
from coordinator.insight.model.reconciliation_views import EscapedTraffic
from coordinator.insight.model.trees import TreeView

Row = tuple[object, ...]


class EnforcedBy(NamedTuple):
    """The holder of the limits at a broker.

    Args:
        path: ``enforcement_path`` of the configuration.
        interval_s: of the broker's own limiter; None where it has no part, or until it is known.
    """

    path: str
    interval_s: int | None = None


_NANOS_PER_MICRO = 1000
_MICROS_PER_MILLI = 1000
_MICROS_PER_SECOND = 1_000_000


def report_rows(report: UsageReport, direction: str, size_bytes: int) -> list[Row]:
    """Return one row per group and class of a report, or one without a group."""
    usages = [
        (entry, monitoring_class, usage)
        for entry in report.groups
        for monitoring_class, usage in entry.usages.items()
    ]
    head = (
        direction,
        report.broker,
        report.incarnation,
        report.sequence,
        report.elapsed_ns,
        size_bytes,
        max(1, len(usages)),
        report.complete,
        report.learning,
        report.leaving,
    )
    if not usages:
        return [(*head, *(None,) * 13)]
    return [
        (
            *head,
            entry.group,
            entry.configuration_version,
            monitoring_class.value,
            usage.messages,
            usage.bytes,
            usage.messages_throttled_permille,
            usage.bytes_throttled_permille,
            usage.messages_demand,
            usage.bytes_demand,
            usage.messages_limit,
            usage.bytes_limit,
            usage.participants,
            usage.topics,
        )
        for entry, monitoring_class, usage in usages
    ]


def decision_row(broker: str, group: str, dimension: Dimension, decision: Decision) -> Row:
    """Return a row of one local limit that came into force, with the law's answer if it was asked."""
    split = decision.split
    head = (
        group,
        dimension.value,
        decision.local_limit,
        decision.binding.value,
        decision.round,
        decision.decided_ns,
    )
    if split is None:
        return (*head, *(None,) * 6)
    claims = [(name, claim.wants) for name, claim in sorted(split.claims.items())]
    return (
        *head,
        split.limit,
        split.reserve,
        split.targets.get(broker),
        split.water_level,
        claims,
        sorted(split.in_force.items()),
    )


def second_rows(second: Second, limits: Mapping[str, Rates]) -> Iterator[Row]:
    """Yield two rows per group and class of a second, messages and bytes, with the limits in force."""
    for (group, monitoring_class), count in second.counts.items():
        rates = limits.get(group, Rates())
        for dimension in DIMENSIONS_OF[monitoring_class]:
            messages = dimension.unit is Unit.MESSAGES
            held_ns = count.messages_held_ns if messages else count.bytes_held_ns
            yield (
                second.start_ns // _NANOS_PER_MICRO,
                second.observed_ns // _NANOS_PER_MICRO,
                group,
                monitoring_class.value,
                dimension.value,
                count.messages if messages else count.bytes,
                held_ns // _NANOS_PER_MICRO,
                rates.of(dimension),
                count.participants,
                count.topics,
            )


def namespace_rows(minute: Minute) -> Iterator[Row]:
    """Yield one row per namespace, groups and class with traffic or waiting in a minute."""
    for key, count in minute.counts.items():
        if count.messages or count.bytes or count.held_ns:
            yield (
                minute.start_ns // _NANOS_PER_MICRO,
                minute.observed_ns // _NANOS_PER_MICRO,
                key.tenant,
                key.namespace,
                list(key.groups),
                key.monitoring_class.value,
                count.messages,
                count.bytes,
                count.held_ns // _NANOS_PER_MICRO,
                count.throttled,
            )


def escaped_row(escaped: EscapedTraffic, since_ns: int, elapsed_ns: int) -> Row:
    """Return a row of traffic that went round the gate in a time since then, wall clock."""
    tenant, _, namespace = escaped.namespace.partition("/")
    return (
        since_ns // _NANOS_PER_MICRO,
        elapsed_ns // _NANOS_PER_MICRO,
        tenant,
        namespace,
        list(escaped.groups),
        escaped.monitoring_class.value,
        escaped.messages,
        escaped.bytes,
    )


def member_rows(before: Mapping[str, Member], after: Mapping[str, Member]) -> list[Row]:
    """Return the changes between two memberships; a new incarnation is gone and present."""
    gone = [
        (member.broker, member.incarnation, "gone")
        for member in before.values()
        if after.get(member.broker) is None
        or after[member.broker].incarnation != member.incarnation
    ]
    present = [
        (member.broker, member.incarnation, "present")
        for member in after.values()
        if before.get(member.broker) is None
        or before[member.broker].incarnation != member.incarnation
    ]
    return [*gone, *present]


def group_rows(
    before: Mapping[str, ResourceGroup], after: Mapping[str, ResourceGroup]
) -> list[Row]:
    """Return the changes between two sets of definitions."""
    changed: list[Row] = [
        (
            group.name,
            group.configuration_version,
            *(group.limits_rounded_up.of(each) for each in Dimension),
            group.law,
            group.overshoot_policy,
            group.partition_policy,
            group.weights,
        )
        for group in after.values()
        if before.get(group.name) != group
    ]
    changed += [(name, *(None,) * 9) for name in before if name not in after]
    return changed


def operation_row(operation: Operation, at_ms: int) -> Row:
    """Return a row of an operation at a stage, accepted at a time of the wall clock."""
    moved = [
        (dimension.value, sorted(by_broker.items()))
        for dimension, by_broker in operation.moved.items()
    ]
    return (
        operation.id,
        operation.group,
        operation.version,
        operation.subject,
        operation.text,
        operation.actor,
        at_ms * _MICROS_PER_MILLI,
        operation.stage.value,
        None if operation.settle_ns is None else operation.settle_ns // _NANOS_PER_MICRO,
        operation.residual_permille,
        moved,
    )


def certificate_row(second: Second, certificate: Certificate) -> Row:
    """Return a row of a certificate that was made at the end of a second."""
    return (
        second.start_ns // _NANOS_PER_MICRO,
        certificate.group,
        certificate.dimension.value,
        certificate.limit,
        certificate.most,
        certificate.newcomer,
        len(certificate.holders),
    )


def tree_rows(second: Second, tree: TreeView) -> Iterator[Row]:
    """Yield a row of every group of a tree, as it was at the end of a second."""
    above: dict[str, list[str]] = {}
    for group in tree.groups:  # from the root down
        above[group.group] = [*above[group.parent], group.parent] if group.parent else []
        yield (
            second.start_ns // _NANOS_PER_MICRO,
            group.group,
            tree.dimension.value,
            above[group.group],
            group.weight,
            group.limit,
            group.guarantee,
            group.entitled,
            group.part,
            group.wants,
        )


def backlog_row(view: BacklogView, at_ms: int) -> Row:
    """Return a row of a topic's backlog as of a check."""
    name = TopicName.parse(view.topic)
    quota = view.quota or NO_QUOTA
    return (
        at_ms * _MICROS_PER_MILLI,
        "" if name is None else f"{name.tenant}/{name.namespace}",
        view.topic,
        view.subscription,
        view.internal,
        view.size_bytes,
        None if view.age_s is None else round(view.age_s * _MICROS_PER_SECOND),
        view.backlogs.get(view.subscription or "", 0),
        quota.size_bytes,
        quota.age_s,
        None if view.exceeded is None else view.exceeded.value,
    )
