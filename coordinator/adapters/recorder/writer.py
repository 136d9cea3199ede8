"""Write rows to files, on a thread of their own, so that a caller never waits for a disk.

A row is a tuple put into a list under a lock that is held for as long as it takes to swap the list;
turning rows into Arrow and writing files happens on the writer's thread, in batches small enough that the
interpreter is never kept from the loop.

A table's rows become a file when there are ``file_rows`` of them or the oldest waits ``file_s`` long, so
a crash loses at most that much. When a file cannot be written (a full disk, a store that does not answer)
the rows are kept, recording is *failing*, which is logged once and counted, and the file is tried again
every few seconds until it succeeds: recording resumes by itself. Meanwhile at most ``buffer_rows`` rows
wait; newer ones are dropped and counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import groupby

import pyarrow as pa
import structlog

from coordinator.adapters.recorder.files import RecordedFiles, date_of
from coordinator.adapters.recorder.rows import Row
from coordinator.adapters.recorder.tables import SCHEMAS, RecordedTable
from coordinator.ports import RecorderHealth

log = structlog.get_logger(__name__)

_BATCH_ROWS = 5_000
"""Rows turned into Arrow at once: about a millisecond during which no other thread runs."""
_RETRY_S = 2.0
_TIDY_S = 300.0
_CLOSE_S = 10.0
_TS = 4  # the position of `ts` among the columns that all tables share


@dataclass(frozen=True, slots=True)
class RecorderBounds:
    """The bounds of the writer: when a file is written, and how many rows may wait.

    Args:
        file_rows: rows of a table at which they become a file.
        file_s: seconds after which they become a file, however few they are.
        buffer_rows: rows of all tables that may wait (about 500 bytes each) while nothing can be
            written; newer ones are dropped and counted.
    """

    file_rows: int = 50_000
    file_s: float = 60.0
    buffer_rows: int = 200_000


@dataclass(slots=True)
class _Buffer:
    """Waiting rows, by table, and the time since which they wait."""

    rows: dict[RecordedTable, list[Row]] = field(default_factory=dict)
    since_s: float | None = None


class RowWriter:
    """Writes rows as the files of one run; see the module's head.

    Args:
        files: takes the rows.
        bounds: sizes.
        wall_ns: nanoseconds since the epoch.
    """

    def __init__(
        self, files: RecordedFiles, bounds: RecorderBounds, wall_ns: Callable[[], int]
    ) -> None:
        self._files = files
        self._bounds = bounds
        self._wall_ns = wall_ns
        # Shared by both threads, under the lock.
        self._changed = threading.Condition()
        self._buffer = _Buffer()
        self._closing = False
        self._health = RecorderHealth(recording=True)
        # Of the writing thread alone.
        self._unwritten: dict[RecordedTable, list[Row]] = {}
        self._tidied_s: float | None = None
        # A daemon, so that a place that hangs for ever does not keep the process from ending.
        self._thread = threading.Thread(
            target=self._write_until_closed, name="recorder", daemon=True
        )

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def add(self, table: RecordedTable, rows: list[Row]) -> None:
        """Take complete rows of a table, as far as there is room. Never blocks, never raises."""
        if not rows:
            return
        with self._changed:
            room = self._bounds.buffer_rows - self._health.rows_waiting
            taken = rows[:room]
            self._health = replace(
                self._health,
                rows_waiting=self._health.rows_waiting + len(taken),
                rows_dropped=self._health.rows_dropped + len(rows) - len(taken),
            )
            waiting = self._buffer.rows.setdefault(table, [])
            waiting += taken
            if self._buffer.since_s is None:
                self._buffer.since_s = time.monotonic()
            if len(waiting) >= self._bounds.file_rows:
                self._changed.notify()

    def health(self) -> RecorderHealth:
        """Return the state of writing."""
        with self._changed:
            return self._health

    def close(self) -> None:
        """Write the waiting rows and end; rows that a place does not take within ten seconds are lost."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_S)

    # The writing thread runs all methods below.

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
        return full and not self._unwritten  # a place that fails is not tried for every row

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
        except Exception as error:  # noqa: BLE001 - this thread is the only one that writes
            self._failed(f"{type(error).__name__}: {error}")
        else:
            self._succeeded()

    def _write_table(self, table: RecordedTable) -> None:
        rows = self._unwritten[table]
        while rows:
            date, of_one_day = next(groupby(rows, key=_date_of_row))
            chunk = list(of_one_day)[: self._bounds.file_rows]
            try:
                size = self._files.write(table, date, _to_arrow(table, chunk))
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
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


def _to_arrow(table: RecordedTable, rows: list[Row]) -> pa.Table:
    schema = SCHEMAS[table]
    batches = []
    for start in range(0, len(rows), _BATCH_ROWS):
        columns = zip(*rows[start : start + _BATCH_ROWS], strict=True)
        arrays = [
            pa.array(column, type=item.type) for column, item in zip(columns, schema, strict=True)
        ]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema=schema)
