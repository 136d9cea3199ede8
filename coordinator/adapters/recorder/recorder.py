"""`coordinator.ports.Recorder` as Parquet: a sidecar's events become rows of the recorded tables.

All of it runs on the loop's thread and costs it the making of a few tuples; writer.py turns them into
files on a thread of its own. The number of dropped rows is itself recorded, once a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from coordinator.adapters.recorder.certificates import Certificates
from coordinator.adapters.recorder.files import RecordedFiles
from coordinator.adapters.recorder.minutes import Minutes
from coordinator.adapters.recorder.rows import (
    EnforcedBy,
    Row,
    backlog_row,
    certificate_row,
    decision_row,
    escaped_row,
    group_rows,
    member_rows,
    namespace_rows,
    operation_row,
    report_rows,
    second_rows,
    tree_rows,
)
from coordinator.adapters.recorder.seconds import Second, Seconds
from coordinator.adapters.recorder.steady_clock import SteadyClock
from coordinator.adapters.recorder.tables import RecordedTable
from coordinator.adapters.recorder.trees import Trees
from coordinator.adapters.recorder.writer import RecorderBounds, RowWriter
from coordinator.backlog.rules.views import BacklogView
from coordinator.core.decisions.decision import Decision
from coordinator.core.events import Event, TrafficCounted
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import Dimension, Member, ResourceGroup, UsageReport
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import NamespaceTraffic
from coordinator.insight.model.operations import Operation
from coordinator.insight.model.reconciliation_views import EscapedTraffic
from coordinator.ports import RecorderHealth

TOPICS_MAX = 2_000
"""The most topics of a check that are recorded: those with the largest backlogs."""

_MICRO_NS = 1000
_MINUTE_NS = 60_000_000_000


class ParquetRecorder:
    """Records one sidecar; see the module's head.

    Args:
        files: takes the rows.
        cluster: name of the cluster.
        broker: the sidecar's broker.
        run: unique for this process.
        bounds: sizes.
        wall_ns: nanoseconds since the epoch.
    """

    def __init__(
        self,
        files: RecordedFiles,
        *,
        cluster: str,
        broker: str,
        run: str,
        bounds: RecorderBounds,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._writer = RowWriter(files, bounds, wall_ns)
        self._cluster = cluster
        self._broker = broker
        self._run = run
        self._wall_ns = wall_ns
        self._seconds = Seconds()
        self._steady = SteadyClock()
        self._certificates = Certificates()
        self._trees = Trees()
        self._counted_ns: int | None = None
        self._minutes = Minutes()
        self._namespaces_ns: int | None = None
        self._incarnation: int | None = None
        self._lifecycle: Lifecycle | None = None
        self._members: dict[str, Member] = {}
        self._groups: dict[str, ResourceGroup] = {}
        #: Asked once a second for the holder of the limits; None while it is unknown.
        self.enforced_by: Callable[[], EnforcedBy | None] = lambda: None
        #: As it was last recorded, and in which minute.
        self._enforced: tuple[EnforcedBy, int] | None = None

    def start(self) -> None:
        """Start writing."""
        self._writer.start()

    def report_sent(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        """Record a report that this sidecar published."""
        self._add(RecordedTable.REPORTS, report_rows(report, "sent", size_bytes), now_ns)

    def report_received(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        """Record a report that arrived, unless it is an own one, recorded when it was sent."""
        if report.broker != self._broker:
            self._add(RecordedTable.REPORTS, report_rows(report, "received", size_bytes), now_ns)

    def limits_set(self, group: str, decisions: Mapping[Dimension, Decision], now_ns: int) -> None:
        """Record the local limits of a group that came into force."""
        rows = [
            decision_row(self._broker, group, dimension, decision)
            for dimension, decision in decisions.items()
            if decision.local_limit is not None
        ]
        self._add(RecordedTable.LIMITS, rows, now_ns)

    def operation_changed(self, operation: Operation, at_ms: int, now_ns: int) -> None:
        """Record a new stage of an operation."""
        self._add(RecordedTable.OPERATIONS, [operation_row(operation, at_ms)], now_ns)

    def backlogs_checked(self, views: Sequence[BacklogView], at_ms: int, now_ns: int) -> None:
        """Record a check of backlogs: those of the largest `TOPICS_MAX` topics."""
        behind = [view for view in views if view.subscription is not None]
        largest = sorted(behind, key=lambda view: -view.size_bytes)[:TOPICS_MAX]
        self._add(RecordedTable.BACKLOGS, [backlog_row(view, at_ms) for view in largest], now_ns)

    def namespaces_counted(self, counted: Sequence[NamespaceTraffic], now_ns: int) -> None:
        """Record the minutes that are over, from the namespaces' counts since the last call."""
        before_ns, self._namespaces_ns = self._namespaces_ns, now_ns
        if before_ns is None:
            return  # the first count covers a time without observation
        over = self._minutes.count(counted, self._wall_ns(), now_ns - before_ns)
        if self._lifecycle is Lifecycle.STOPPED:
            over += self._minutes.rest()
        for minute in over:
            self._add(RecordedTable.NAMESPACES, namespace_rows(minute), now_ns)

    def escaped(self, escaped: Sequence[EscapedTraffic], elapsed_ns: int, now_ns: int) -> None:
        """Record the traffic that went round the gate, by namespace."""
        since_ns = self._wall_ns() - elapsed_ns
        rows = [escaped_row(each, since_ns, elapsed_ns) for each in escaped]
        self._add(RecordedTable.ESCAPED, rows, now_ns)

    def handled(self, event: Event, state: CoordinatorState, now_ns: int) -> None:
        """Record the changes of an event that the core handled, and the seconds that are over."""
        self._incarnation = state.incarnation
        if state.lifecycle is not self._lifecycle:
            self._lifecycle = state.lifecycle
            self._add(RecordedTable.LIFECYCLE, [self._lifecycle_row(state, "state", None)], now_ns)
        if state.members != self._members:
            self._add(RecordedTable.MEMBERSHIP, member_rows(self._members, state.members), now_ns)
            self._members = dict(state.members)
        if state.groups is not None and state.groups != self._groups:
            self._add(RecordedTable.CONFIGURATION, group_rows(self._groups, state.groups), now_ns)
            self._groups = dict(state.groups)
        if isinstance(event, TrafficCounted):
            self._traffic_counted(event, state, now_ns)
        if state.lifecycle is Lifecycle.STOPPED:
            for second in self._seconds.rest():
                self._record_second(second, state, now_ns)

    def health(self) -> RecorderHealth:
        """See `Recorder`."""
        return self._writer.health()

    def close(self) -> None:
        """Write the waiting rows and end; rows that a place does not take within ten seconds are lost."""
        self._writer.close()

    def _traffic_counted(self, event: TrafficCounted, state: CoordinatorState, now_ns: int) -> None:
        before_ns, self._counted_ns = self._counted_ns, now_ns
        if before_ns is None or before_ns == now_ns:
            return  # the first count covers a time without observation
        end_ns = self._steady.at(now_ns, self._wall_ns())
        over = list(self._seconds.count(event.traffic, end_ns, now_ns - before_ns))
        for second in over:
            self._record_second(second, state, now_ns)
        for second in over[-1:]:  # what is true now may not hold for earlier seconds
            made = self._certificates.made_at(second, state, now_ns)
            rows = [certificate_row(second, certificate) for certificate in made]
            self._add(RecordedTable.CERTIFICATES, rows, now_ns)
            for tree in self._trees.seen_at(second, state):
                self._add(RecordedTable.TREES, tree_rows(second, tree), now_ns)

    def _record_second(self, second: Second, state: CoordinatorState, now_ns: int) -> None:
        self._add(RecordedTable.ADMITTED, second_rows(second, state.limits()), now_ns)
        self._add(RecordedTable.LIFECYCLE, [self._lifecycle_row(state, "alive", second)], now_ns)
        self._record_enforcement(second, now_ns)

    def _record_enforcement(self, second: Second, now_ns: int) -> None:
        enforcement = self.enforced_by()
        if enforcement is None:
            return
        now = enforcement, second.start_ns // _MINUTE_NS
        if now != self._enforced:
            self._enforced = now
            self._add(RecordedTable.ENFORCEMENT, [enforcement], now_ns)

    def _lifecycle_row(self, state: CoordinatorState, cause: str, second: Second | None) -> Row:
        return (
            cause,
            None if second is None else second.start_ns // _MICRO_NS,
            None if second is None else second.observed_ns // _MICRO_NS,
            state.lifecycle.value,
            [degradation.name for degradation in state.degradations.all()],
            self.health().rows_dropped,
        )

    def _add(self, table: RecordedTable, rows: Iterable[Row], now_ns: int) -> None:
        ts_us = self._wall_ns() // _MICRO_NS
        common = (self._cluster, self._broker, self._incarnation, self._run, ts_us, now_ns)
        self._writer.add(table, [(*common, *row) for row in rows])
