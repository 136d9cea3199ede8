"""The recorded tables: one explicit Arrow schema each, and the version that all of them share.

Every row begins with the same columns: the cluster, the broker whose sidecar wrote it, the incarnation,
the *run* (one process from start to end), and the time by both of its clocks. The wall clock (``ts``,
microseconds, UTC: Spark reads no nanoseconds) relates brokers to each other; the monotonic clock, which
cannot be set, orders the rows of a run.

Files of another version are in other directories: a column changes its meaning only with the version.
``spark_jobs/tables.py`` reads them from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import pyarrow as pa

SCHEMA_VERSION = 1
"""Grows with every change of a schema or of a column's meaning; another table changes neither."""


class RecordedTable(Enum):
    """The tables by the name of their directory."""

    REPORTS = "reports"
    LIMITS = "limits"
    ADMITTED = "admitted"
    MEMBERSHIP = "membership"
    CONFIGURATION = "configuration"
    LIFECYCLE = "lifecycle"
    OPERATIONS = "operations"
    CERTIFICATES = "certificates"
    BACKLOGS = "backlogs"
    NAMESPACES = "namespaces"
    ENFORCEMENT = "enforcement"
    ESCAPED = "escaped"
    TREES = "trees"


_TIMESTAMP = pa.timestamp("us", tz="UTC")


def _schema(**columns: pa.DataType) -> pa.Schema:
    common = {
        "cluster": pa.string(),
        "broker": pa.string(),
        "incarnation": pa.int64(),
        "run": pa.string(),
        "ts": _TIMESTAMP,
        "monotonic_ns": pa.int64(),
    }
    return pa.schema([pa.field(name, kind) for name, kind in (common | columns).items()])


SCHEMAS: Mapping[RecordedTable, pa.Schema] = {
    # One row per report, group and class, sent and received; a report without groups has one row in
    # which the group is null. Demand null is unbounded, limit null is unlimited.
    RecordedTable.REPORTS: _schema(
        direction=pa.string(),
        sender=pa.string(),
        sender_incarnation=pa.int64(),
        sequence=pa.int64(),
        elapsed_ns=pa.int64(),
        report_bytes=pa.int64(),
        report_rows=pa.int64(),
        complete=pa.bool_(),
        learning=pa.bool_(),
        leaving=pa.bool_(),
        resource_group=pa.string(),
        configuration_version=pa.int64(),
        monitoring_class=pa.string(),
        messages=pa.int64(),
        bytes=pa.int64(),
        messages_throttled_permille=pa.int64(),
        bytes_throttled_permille=pa.int64(),
        messages_demand=pa.int64(),
        bytes_demand=pa.int64(),
        messages_limit=pa.int64(),
        bytes_limit=pa.int64(),
        participants=pa.int64(),
        topics=pa.int64(),
    ),
    # One row per decision that came into force, with what it was made from.
    RecordedTable.LIMITS: _schema(
        resource_group=pa.string(),
        dimension=pa.string(),
        local_limit=pa.int64(),
        binding=pa.string(),
        round=pa.int64(),
        decided_monotonic_ns=pa.int64(),
        cluster_limit=pa.int64(),
        reserve=pa.int64(),
        target=pa.int64(),
        water_level=pa.int64(),
        claims=pa.map_(pa.string(), pa.int64()),
        in_force=pa.map_(pa.string(), pa.int64()),
    ),
    # One row per second, group, class and dimension; `second` is its start by the wall clock and
    # `observed_us` how much of it this sidecar saw.
    RecordedTable.ADMITTED: _schema(
        second=_TIMESTAMP,
        observed_us=pa.int64(),
        resource_group=pa.string(),
        monitoring_class=pa.string(),
        dimension=pa.string(),
        admitted=pa.int64(),
        held_us=pa.int64(),
        local_limit=pa.int64(),
        participants=pa.int64(),
        topics=pa.int64(),
    ),
    # One row per change: a member appeared or is gone, as this sidecar saw it.
    RecordedTable.MEMBERSHIP: _schema(
        member=pa.string(),
        member_incarnation=pa.int64(),
        change=pa.string(),
    ),
    # One row per group and change of its definition; everything null is a group that is gone.
    RecordedTable.CONFIGURATION: _schema(
        resource_group=pa.string(),
        configuration_version=pa.int64(),
        publish_messages=pa.int64(),
        publish_bytes=pa.int64(),
        dispatch_messages=pa.int64(),
        dispatch_bytes=pa.int64(),
        law=pa.string(),
        overshoot_policy=pa.string(),
        partition_policy=pa.string(),
        weights=pa.string(),
    ),
    # One row per change of state (`cause` "state") and one per second ("alive", with the second and how
    # much of it was observed): a second without such a row was not recorded.
    RecordedTable.LIFECYCLE: _schema(
        cause=pa.string(),
        second=_TIMESTAMP,
        observed_us=pa.int64(),
        state=pa.string(),
        degradations=pa.list_(pa.string()),
        rows_dropped=pa.int64(),
    ),
    # One row per stage that a change of a group came to, by the sidecar that follows it; `moved` says who
    # gained or lost, by dimension and broker.
    RecordedTable.OPERATIONS: _schema(
        operation=pa.int64(),
        resource_group=pa.string(),
        configuration_version=pa.int64(),
        subject=pa.string(),
        text=pa.string(),
        actor=pa.string(),
        accepted=_TIMESTAMP,
        stage=pa.string(),
        settle_us=pa.int64(),
        residual_permille=pa.int64(),
        moved=pa.map_(pa.string(), pa.map_(pa.string(), pa.int64())),
    ),
    # One row per group, dimension and second, by one sidecar in turn, at the end of the second: what all
    # local limits add up to at most. `most` null is that nothing can be said; each broker that is not
    # among the `holders` may have `newcomer` on top.
    RecordedTable.CERTIFICATES: _schema(
        second=_TIMESTAMP,
        resource_group=pa.string(),
        dimension=pa.string(),
        cluster_limit=pa.int64(),
        most=pa.int64(),
        newcomer=pa.int64(),
        holders=pa.int64(),
    ),
    # One row per check of backlogs and topic that has one. Limits null are none, an age null is not
    # known; `entries` are those of the subscription that is furthest behind.
    RecordedTable.BACKLOGS: _schema(
        checked=_TIMESTAMP,
        namespace=pa.string(),
        topic=pa.string(),
        subscription=pa.string(),
        internal=pa.bool_(),
        size_bytes=pa.int64(),
        age_us=pa.int64(),
        entries=pa.int64(),
        size_limit=pa.int64(),
        age_limit_s=pa.int64(),
        exceeded=pa.string(),
    ),
    # One row per minute, namespace and class with traffic or a waiting client; another one where the
    # namespace was attached to other groups meanwhile. `minute` is its start by the wall clock and
    # `observed_us` how much of it this sidecar saw. Clients waited, for whatever limit, for `held_us`,
    # and for more than a tenth of each second n whose bit n is set in `throttled_seconds`.
    RecordedTable.NAMESPACES: _schema(
        minute=_TIMESTAMP,
        observed_us=pa.int64(),
        tenant=pa.string(),
        namespace=pa.string(),
        resource_groups=pa.list_(pa.string()),
        monitoring_class=pa.string(),
        messages=pa.int64(),
        bytes=pa.int64(),
        held_us=pa.int64(),
        throttled_seconds=pa.int64(),
    ),
    # One row per change and minute: who holds traffic back here (`path` as in the configuration), and
    # the interval of the broker's own limiter, null where that has no part or is not known yet.
    RecordedTable.ENFORCEMENT: _schema(
        path=pa.string(),
        interval_s=pa.int64(),
    ),
    # One row per minute, namespace and class in which reconciliation told traffic round the gate: what
    # was told in the `observed_us` from `since` on.
    RecordedTable.ESCAPED: _schema(
        since=_TIMESTAMP,
        observed_us=pa.int64(),
        tenant=pa.string(),
        namespace=pa.string(),
        resource_groups=pa.list_(pa.string()),
        monitoring_class=pa.string(),
        messages=pa.int64(),
        bytes=pa.int64(),
    ),
    # One row per group of a tree, dimension and second, by one sidecar in turn, at the end of the second:
    # its place (`above` lists the groups from the root to its parent), what it may have at most, is
    # guaranteed, would have if all wanted everything, has now, and what its brokers want. Limits null are
    # none, a demand null is more than can be known.
    RecordedTable.TREES: _schema(
        second=_TIMESTAMP,
        resource_group=pa.string(),
        dimension=pa.string(),
        above=pa.list_(pa.string()),
        weight=pa.int64(),
        cluster_limit=pa.int64(),
        guarantee=pa.int64(),
        entitled=pa.int64(),
        part=pa.int64(),
        demand=pa.int64(),
    ),
}
