"""Parquet files that are always complete for readers: written under a dot name, then renamed.

The layout is ``table=NAME/version=V/date=YYYY-MM-DD/BROKER.RUN.NUMBER.parquet``, one broker's rows of one
UTC day per file; V is the version of the schemas. Readers skip names that begin with a dot, so a file is
there as a whole or not at all, also after a crash or on a full disk; what a crash left under a dot name
is removed by the next run of its broker.

An object store has neither directories nor a rename. There an object is written once, under its own name:
it appears when its upload ends.

A place is a local directory or any URL that ``pyarrow.fs`` knows (``s3://``, which Hadoop calls
``s3a://``, ``gs://``, ``hdfs://``; with fsspec installed also ``fsspec+SCHEME://``). Every method may
block and is called on the recorder's thread.

Retention looks at this broker's own files only, so that sidecars may share a place: files older than
``retention_s`` are deleted, and the oldest ones as long as all of them together exceed ``bytes_max``.
Some stores do not say when a file was written (those of fsspec): there its day is its age.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from coordinator.adapters.recorder.tables import SCHEMA_VERSION, SCHEMAS, RecordedTable

SUFFIX = ".parquet"
UNFINISHED = "."
_AS_ARROW_SAYS = {"s3a": "s3"}
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
"""As ``pyarrow.fs`` calls them."""
_DATE = "date="
_DAY_S = 86_400


class UnusablePlace(ValueError):
    """A place that cannot be written to; the message gives the reason."""


class RecordedFiles:
    """The files of one run of one broker's sidecar.

    Args:
        place: directory or URL.
        broker: the sidecar's broker.
        run: unique for this process.
        retention_s: age at which a file is deleted.
        bytes_max: the most bytes of all files of this broker.

    Raises:
        UnusablePlace: no file system answers to this URL.
    """

    def __init__(
        self,
        place: str,
        *,
        broker: str,
        run: str,
        retention_s: float,
        bytes_max: int,
    ) -> None:
        self._filesystem, self._root = open_place(place)
        # A colon means something else in the paths of some readers.
        self._broker = broker.replace(":", "_")
        self._run = run
        self._retention_s = retention_s
        self._bytes_max = bytes_max
        self._written = 0
        #: What this broker's files take; known from the first tidying on.
        self._total = 0

    def write(self, table: RecordedTable, date: str, content: pa.Table) -> int:
        """Write one file and return its size in bytes.

        Raises:
            OSError: it could not be written, and nothing is left of it.
        """
        name = f"{self._broker}.{self._run}.{self._written:08d}{SUFFIX}"
        version = f"version={SCHEMA_VERSION}"
        directory = f"{self._root}/table={table.value}/{version}/{_DATE}{date}"
        parquet = _parquet(content.cast(SCHEMAS[table]))
        if self._filesystem.type_name in _OBJECT_STORES:
            self._put(f"{directory}/{name}", parquet)
        else:
            self._put_and_rename(directory, name, parquet)
        size = int(parquet.size)
        self._written += 1
        self._total += size
        return size

    def _put(self, path: str, parquet: pa.Buffer) -> None:
        with self._filesystem.open_output_stream(path) as stream:
            stream.write(parquet)

    def _put_and_rename(self, directory: str, name: str, parquet: pa.Buffer) -> None:
        self._filesystem.create_dir(directory, recursive=True)
        unfinished, finished = f"{directory}/{UNFINISHED}{name}", f"{directory}/{name}"
        try:
            self._put(unfinished, parquet)
            self._clear(finished)
            self._filesystem.move(unfinished, finished)
        except OSError:
            with contextlib.suppress(OSError):
                self._filesystem.delete_file(unfinished)
            raise

    def _clear(self, path: str) -> None:
        """Delete what an earlier try has moved there, if its answer was lost.

        It may lack rows that came since, and HDFS renames nothing onto a file: by its web service without
        a word.
        """
        if self._filesystem.get_file_info(path).type is fs.FileType.File:
            self._filesystem.delete_file(path)

    def exceeds_bytes(self) -> bool:
        """Return whether this broker's files exceed their bound."""
        return self._total > self._bytes_max

    def tidy(self, now_s: float) -> int:
        """Remove files that earlier runs left unfinished or that are too old; return their number.

        Raises:
            OSError: the place does not answer.
        """
        finished: list[fs.FileInfo] = []
        doomed: list[fs.FileInfo] = []
        for info in self._own_files():
            (doomed if info.base_name.startswith(UNFINISHED) else finished).append(info)
        finished.sort(key=lambda info: (_written_s(info), info.path))
        total = sum(info.size or 0 for info in finished)
        for info in finished:
            old = now_s - _written_s(info) > self._retention_s
            if old or total > self._bytes_max:
                doomed.append(info)
                total -= info.size or 0
        for info in doomed:
            self._filesystem.delete_file(info.path)
        self._total = total
        return len(doomed)

    def _own_files(self) -> Iterator[fs.FileInfo]:
        selector = fs.FileSelector(self._root, allow_not_found=True, recursive=True)
        for info in self._filesystem.get_file_info(selector):
            if info.type is fs.FileType.File and self._is_own(info.base_name):
                yield info

    def _is_own(self, name: str) -> bool:
        parts = PurePosixPath(name).name.removeprefix(UNFINISHED).rsplit(".", 3)
        return parts[0] == self._broker and name.endswith(SUFFIX)


def _parquet(content: pa.Table) -> pa.Buffer:
    """Return a table as a file; every page has a checksum, by which a reader finds it damaged."""
    sink = pa.BufferOutputStream()
    pq.write_table(content, sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()


def _written_s(info: fs.FileInfo) -> float:
    """Seconds since the epoch; where neither the store nor the path tells it, the file is never old."""
    if info.mtime_ns is not None:
        return float(info.mtime_ns) / 1e9
    day = PurePosixPath(info.path).parent.name.removeprefix(_DATE)
    try:
        return datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp() + _DAY_S
    except ValueError:
        return math.inf


def date_of(ts_us: int) -> str:
    """Return the UTC day of a timestamp in microseconds, as its partition is named."""
    return datetime.fromtimestamp(ts_us // 1_000_000, UTC).date().isoformat()


def open_place(place: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a directory or URL, and the path in it; raises UnusablePlace."""
    if "://" not in place:
        return fs.LocalFileSystem(), place.rstrip("/")
    scheme, _, rest = place.partition("://")
    try:
        filesystem, path = fs.FileSystem.from_uri(f"{_AS_ARROW_SAYS.get(scheme, scheme)}://{rest}")
    except (pa.ArrowException, ImportError, ValueError) as error:
        raise UnusablePlace(f"{place}: no file system for this URL: {error}") from error
    return filesystem, path.rstrip("/")
