"""`coordinator.ports.Recorder` as Parquet: the loop's thread appends to a buffer, a thread writes it.

The control loop and the gate never wait for a disk. A row is a tuple put into a list under a lock that
is held for as long as it takes to swap the list; turning rows into Arrow and writing files happens on
the recorder's own thread, in batches small enough that the interpreter is never kept from the loop.

A table's rows become a file when there are ``file_rows`` of them or the oldest waits ``file_s`` long, so
a crash loses at most that much. When a file cannot be written (a full disk, a store that does not answer)
the rows are kept, recording is *failing*, which is logged once and counted, and the file is tried again
every few seconds until it succeeds: recording resumes by itself. Meanwhile at most ``buffer_rows`` rows
wait; newer ones are dropped and counted, and the count is itself recorded, once a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import pyarrow as pa
import structlog

from coordinator.adapters.recorder_certificates import Certificates
from coordinator.adapters.recorder_files import RecordedFiles, date_of
from coordinator.adapters.recorder_minutes import Minutes
from coordinator.adapters.recorder_rows import (
    Row,
    backlog_row,
    certificate_row,
    decision_row,
    group_rows,
    member_rows,
    namespace_rows,
    operation_row,
    report_rows,
    second_rows,
)
from coordinator.adapters.recorder_seconds import Second, Seconds
from coordinator.adapters.recorder_tables import SCHEMAS, Table
from coordinator.core.backlog.monitor import BacklogView
from coordinator.core.decisions import Decision
from coordinator.core.events import Event, TrafficCounted
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import (
    Dimension,
    Member,
    NamespaceTraffic,
    ResourceGroup,
    UsageReport,
)
from coordinator.core.operations import Operation
from coordinator.core.state import CoordinatorState
from coordinator.ports import RecorderHealth

log = structlog.get_logger(__name__)

TOPICS_MAX = 2_000
"""Topics of a check that are recorded: those with the largest backlogs."""

_BATCH_ROWS = 5_000
"""Rows turned into Arrow at once: about a millisecond during which no other thread runs."""
_RETRY_S = 2.0
_TIDY_S = 300.0
_CLOSE_S = 10.0
_TS = 4  # the position of `ts` among the columns that all tables share
_MICRO_NS = 1000


@dataclass(frozen=True, slots=True)
class RecorderBounds:
    """When a file is written, and how much may wait.

    Args:
        file_rows: rows of a table at which they become a file.
        file_s: seconds after which they become a file, however few they are.
        buffer_rows: rows of all tables that may wait; newer ones are dropped and counted.
    """

    file_rows: int = 50_000
    file_s: float = 60.0
    buffer_rows: int = 200_000


@dataclass(slots=True)
class _Buffer:
    """Rows that wait, by table, and since when."""

    rows: dict[Table, list[Row]] = field(default_factory=dict)
    since_s: float | None = None


class ParquetRecorder:
    """Records one sidecar; see the module's head.

    Args:
        files: where to.
        cluster: name of the cluster.
        broker: whose sidecar this is.
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
        self._files = files
        self._cluster = cluster
        self._broker = broker
        self._run = run
        self._bounds = bounds
        self._wall_ns = wall_ns
        # Of the loop's thread alone.
        self._seconds = Seconds()
        self._certificates = Certificates()
        self._counted_ns: int | None = None
        self._minutes = Minutes()
        self._namespaces_ns: int | None = None
        self._incarnation: int | None = None
        self._lifecycle: Lifecycle | None = None
        self._members: dict[str, Member] = {}
        self._groups: dict[str, ResourceGroup] = {}
        # Shared with the writing thread, under the lock.
        self._changed = threading.Condition()
        self._buffer = _Buffer()
        self._closing = False
        self._health = RecorderHealth(recording=True)
        # Of the writing thread alone.
        self._unwritten: dict[Table, list[Row]] = {}
        self._tidied_s: float | None = None
        # A daemon, so that a place that hangs for ever does not keep the process from ending.
        self._thread = threading.Thread(
            target=self._write_until_closed, name="recorder", daemon=True
        )

    # The loop's side: what happened. Never blocks, never raises.

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def report_sent(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        """This sidecar published a report."""
        self._add(Table.REPORTS, report_rows(report, "sent", size_bytes), now_ns)

    def report_received(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        """A report arrived; the own ones come back and were recorded when they were sent."""
        if report.broker != self._broker:
            self._add(Table.REPORTS, report_rows(report, "received", size_bytes), now_ns)

    def limits_set(self, group: str, decisions: Mapping[Dimension, Decision], now_ns: int) -> None:
        """The local limits of a group came into force."""
        rows = [
            decision_row(self._broker, group, dimension, decision)
            for dimension, decision in decisions.items()
            if decision.local_limit is not None
        ]
        self._add(Table.LIMITS, rows, now_ns)

    def operation_changed(self, operation: Operation, at_ms: int, now_ns: int) -> None:
        """An operation came to another stage."""
        self._add(Table.OPERATIONS, [operation_row(operation, at_ms)], now_ns)

    def backlogs_checked(self, views: Sequence[BacklogView], at_ms: int, now_ns: int) -> None:
        """Backlogs were looked at: those of the largest `TOPICS_MAX` topics are recorded."""
        behind = [view for view in views if view.subscription is not None]
        largest = sorted(behind, key=lambda view: -view.size_bytes)[:TOPICS_MAX]
        self._add(Table.BACKLOGS, [backlog_row(view, at_ms) for view in largest], now_ns)

    def namespaces_counted(self, counted: Sequence[NamespaceTraffic], now_ns: int) -> None:
        """What passed of each namespace since the last time: record the minutes that are over."""
        before_ns, self._namespaces_ns = self._namespaces_ns, now_ns
        if before_ns is None:
            return  # the first count covers a time that nobody watched
        over = self._minutes.count(counted, self._wall_ns(), now_ns - before_ns)
        if self._lifecycle is Lifecycle.STOPPED:
            over += self._minutes.rest()
        for minute in over:
            self._add(Table.NAMESPACES, namespace_rows(minute), now_ns)

    def handled(self, event: Event, state: CoordinatorState, now_ns: int) -> None:
        """The core handled an event: record what changed, and the seconds that are over."""
        self._incarnation = state.incarnation
        if state.lifecycle is not self._lifecycle:
            self._lifecycle = state.lifecycle
            self._add(Table.LIFECYCLE, [self._lifecycle_row(state, "state", None)], now_ns)
        if state.members != self._members:
            self._add(Table.MEMBERSHIP, member_rows(self._members, state.members), now_ns)
            self._members = dict(state.members)
        if state.groups is not None and state.groups != self._groups:
            self._add(Table.CONFIGURATION, group_rows(self._groups, state.groups), now_ns)
            self._groups = dict(state.groups)
        if isinstance(event, TrafficCounted):
            self._traffic_counted(event, state, now_ns)
        if state.lifecycle is Lifecycle.STOPPED:
            for second in self._seconds.rest():
                self._record_second(second, state, now_ns)

    def health(self) -> RecorderHealth:
        """How recording goes."""
        with self._changed:
            return self._health

    def close(self) -> None:
        """Write what waits and end; what a place does not take within ten seconds is lost."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_S)

    def _traffic_counted(self, event: TrafficCounted, state: CoordinatorState, now_ns: int) -> None:
        before_ns, self._counted_ns = self._counted_ns, now_ns
        if before_ns is None or before_ns == now_ns:
            return  # the first count covers a time that nobody watched
        over = list(self._seconds.count(event.traffic, self._wall_ns(), now_ns - before_ns))
        for second in over:
            self._record_second(second, state, now_ns)
        for second in over[-1:]:  # what is certified now says nothing of longer ago
            made = self._certificates.made_at(second, state, now_ns)
            rows = [certificate_row(second, certificate) for certificate in made]
            self._add(Table.CERTIFICATES, rows, now_ns)

    def _record_second(self, second: Second, state: CoordinatorState, now_ns: int) -> None:
        self._add(Table.ADMITTED, second_rows(second, state.limits()), now_ns)
        self._add(Table.LIFECYCLE, [self._lifecycle_row(state, "alive", second)], now_ns)

    def _lifecycle_row(self, state: CoordinatorState, cause: str, second: Second | None) -> Row:
        return (
            cause,
            None if second is None else second.start_ns // _MICRO_NS,
            None if second is None else second.observed_ns // _MICRO_NS,
            state.lifecycle.value,
            [trouble.name for trouble in state.troubles.all()],
            self._health.rows_dropped,
        )

    def _add(self, table: Table, rows: Iterable[Row], now_ns: int) -> None:
        ts_us = self._wall_ns() // _MICRO_NS
        common = (self._cluster, self._broker, self._incarnation, self._run, ts_us, now_ns)
        complete = [(*common, *row) for row in rows]
        if not complete:
            return
        with self._changed:
            room = self._bounds.buffer_rows - self._health.rows_waiting
            taken = complete[:room]
            self._health = replace(
                self._health,
                rows_waiting=self._health.rows_waiting + len(taken),
                rows_dropped=self._health.rows_dropped + len(complete) - len(taken),
            )
            waiting = self._buffer.rows.setdefault(table, [])
            waiting += taken
            if self._buffer.since_s is None:
                self._buffer.since_s = time.monotonic()
            if len(waiting) >= self._bounds.file_rows:
                self._changed.notify()

    # The writing thread's side.

    def _write_until_closed(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._due, timeout=self._patience_s())
                closing = self._closing
                if closing or self._due() or self._aged():
                    for table, rows in self._buffer.rows.items():
                        self._unwritten.setdefault(table, []).extend(rows)
                    self._buffer = _Buffer()
            self._write_what_is_due()
            if closing:
                return

    def _due(self) -> bool:
        if self._closing:
            return True
        full = any(len(rows) >= self._bounds.file_rows for rows in self._buffer.rows.values())
        return full and not self._unwritten  # a place that fails is not asked for every row

    def _aged(self) -> bool:
        since_s = self._buffer.since_s
        return since_s is not None and time.monotonic() - since_s >= self._bounds.file_s

    def _patience_s(self) -> float:
        if self._unwritten:
            return _RETRY_S
        since_s = self._buffer.since_s
        waited_s = 0.0 if since_s is None else time.monotonic() - since_s
        return max(0.0, self._bounds.file_s - waited_s)

    def _write_what_is_due(self) -> None:
        try:
            for table in list(self._unwritten):
                self._write_table(table)
            self._tidy()
        except OSError as error:
            self._failed(str(error))
        else:
            self._succeeded()

    def _write_table(self, table: Table) -> None:
        rows = self._unwritten[table]
        while rows:
            date, of_one_day = next(groupby(rows, key=_date_of_row))
            chunk = list(of_one_day)[: self._bounds.file_rows]
            try:
                size = self._files.write(table, date, _to_arrow(table, chunk))
            except (pa.ArrowException, OverflowError) as error:
                # One value that fits no column must not stop the recording of all others.
                log.warning("rows that fit no column", table=table.value, reason=str(error))
                self._count(rows_dropped=len(chunk), rows_waiting=-len(chunk))
            else:
                self._count(
                    rows_written=len(chunk),
                    rows_waiting=-len(chunk),
                    files_written=1,
                    bytes_written=size,
                )
            del rows[: len(chunk)]
        del self._unwritten[table]

    def _tidy(self) -> None:
        now_s = time.monotonic()
        due = self._tidied_s is None or now_s - self._tidied_s >= _TIDY_S
        if due or self._files.exceeds_bytes():
            self._files.tidy(self._wall_ns() / 1e9)
            self._tidied_s = now_s

    def _failed(self, reason: str) -> None:
        if self._health.recording:
            log.warning("recording stopped", reason=reason)
        with self._changed:
            failures = self._health.failures + 1
            self._health = replace(self._health, recording=False, reason=reason, failures=failures)

    def _succeeded(self) -> None:
        if not self._health.recording:
            log.info("recording resumed", rows_dropped=self._health.rows_dropped)
        with self._changed:
            self._health = replace(self._health, recording=True, reason="")

    def _count(self, **more: int) -> None:
        with self._changed:
            self._health = replace(
                self._health,
                **{name: getattr(self._health, name) + value for name, value in more.items()},
            )


def _date_of_row(row: Row) -> str:
    ts_us = row[_TS]
    assert isinstance(ts_us, int)
    return date_of(ts_us)


def _to_arrow(table: Table, rows: list[Row]) -> pa.Table:
    schema = SCHEMAS[table]
    batches = []
    for start in range(0, len(rows), _BATCH_ROWS):
        columns = zip(*rows[start : start + _BATCH_ROWS], strict=True)
        arrays = [
            pa.array(column, type=item.type) for column, item in zip(columns, schema, strict=True)
        ]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema=schema)
