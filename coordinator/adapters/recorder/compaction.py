"""Merge many small files into few, while sidecars write and jobs read.

A sidecar that records little writes a file a minute and table, 1,440 a day; a reader opens every one. Of
each broker, table and day the small ones are merged. At no moment does a reader see a row twice or not
at all, wherever a compaction is killed:

1. the merged file is written under a dot name, which readers skip;
2. it is renamed. Its metadata list the files that it replaces, and readers skip those, if they are still
   there;
3. once it is ``grace_s`` old, it is read again and the files that it replaces are deleted: a job that
   listed the directory before the rename has ended by then.

A merged file that is small itself is merged again, and then the new one also lists what the old one
replaced. Its name begins with the broker's, so that its sidecar's retention includes it. A file that
cannot be read is named and left alone.

Only one compaction may run at a time: a second one could merge a file that the first has merged already.
So each writes a lock file of its own name, and then looks for others'. A store that shows at once what
was written shows at least one of two the other's, and no store need know how to create a file only if it
is absent. Of two that start at the same moment both may give way. A compaction writes its lock anew with
every merge; one that is ``grace_s`` old was left by a killed compaction, and is deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from coordinator.adapters.recorder.files import SUFFIX, UNFINISHED
from coordinator.adapters.recorder.tables import FILE_KEY, REPLACES_KEY

LOCK = ".compaction."
"""The beginning of a lock file's name."""
_RUN = "compacted"
_UNDER_WAY = ".merging"
"""The end of an unfinished file's name: the broker's own sidecar must not take it for its own."""


class Busy(RuntimeError):
    """Another compaction is under way; the message says where."""


@dataclass(frozen=True, slots=True)
class CompactionBounds:
    """The bounds of a compaction.

    Args:
        small_bytes: files below this size are merged.
        merged_bytes: bytes of the files that become one; a merged file is about as large.
        merged_files: the most files that become one; its metadata hold their names.
        grace_s: how long replaced files stay for those who read them.
    """

    small_bytes: int = 16 * 2**20
    merged_bytes: int = 128 * 2**20
    merged_files: int = 2_000
    grace_s: float = 3_600.0


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction.

    Args:
        merged: files that were written.
        sources: files that they replace.
        rows: rows in them.
        removed: replaced files that were deleted, of this compaction or an earlier one.
        damaged: files that cannot be read, and were left alone.
    """

    merged: int
    sources: int
    rows: int
    removed: int
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _File:
    """A finished file: its path, and its metadata."""

    path: str
    size: int
    written_s: float
    metadata: dict[bytes, bytes]

    @property
    def file(self) -> str:
        return self.metadata[FILE_KEY].decode()

    @property
    def replaces(self) -> frozenset[str]:
        return frozenset(self.metadata.get(REPLACES_KEY, b"").decode().split())

    @property
    def kind(self) -> tuple[bytes, ...]:
        """The common properties of merged files: table, version and cluster."""
        own = (FILE_KEY, REPLACES_KEY, b"ARROW:schema")
        return tuple(part for key in sorted(self.metadata) if key not in own
                     for part in (key, self.metadata[key]))  # fmt: skip


def compact(
    filesystem: fs.FileSystem, root: str, now_s: float, bounds: CompactionBounds | None = None
) -> Compacted:
    """Merge the small files below a directory, and delete files that were replaced long enough ago.

    Args:
        filesystem: of the place.
        root: directory in it.
        now_s: seconds since the epoch.
        bounds: sizes.

    Raises:
        Busy: another compaction is under way.
        OSError: the place does not answer, and finished steps remain for the next compaction; or it does
            not say when a file was written.
    """
    return _Compaction(filesystem, root, now_s, bounds or CompactionBounds()).run()


class _Compaction:
    def __init__(
        self, filesystem: fs.FileSystem, root: str, now_s: float, bounds: CompactionBounds
    ) -> None:
        self._filesystem = filesystem
        self._root = root
        self._now_s = now_s
        self._bounds = bounds
        self._damaged: list[str] = []
        self._lock = f"{root}/{LOCK}{uuid.uuid4().hex}"

    def run(self) -> Compacted:
        if self._filesystem.get_file_info(self._root).type is fs.FileType.NotFound:
            raise FileNotFoundError(f"{self._root}: no such directory")
        self._touch(self._lock)
        merged = sources = rows = removed = 0
        try:
            self._be_alone()
            for of_one_kind in self._partitions():
                removed += self._remove_replaced(of_one_kind)
                for batch in self._batches(of_one_kind):
                    whole = [file for file in batch if self._is_whole(file)]
                    if len(whole) > 1:
                        self._touch(self._lock)
                        rows += self._merge(whole)
                        merged += 1
                        sources += len(whole)
        finally:
            with contextlib.suppress(OSError):
                self._filesystem.delete_file(self._lock)
        return Compacted(merged, sources, rows, removed, tuple(self._damaged))

    def _be_alone(self) -> None:
        """Raise Busy if another compaction is under way; delete the locks of those that were killed."""
        infos = self._filesystem.get_file_info(fs.FileSelector(self._root))
        locks = [info for info in infos if info.base_name.startswith(LOCK)]
        if any(lock.mtime_ns is None for lock in locks):
            raise OSError(
                f"{self._root}: this store does not say when a file was written, by which a compaction"
                " knows what others still read; compact where it does, such as s3:// or a directory"
            )
        for info in locks:
            if info.path == self._lock:
                continue
            if self._now_s - (info.mtime_ns or 0) / 1e9 < self._bounds.grace_s:
                raise Busy(
                    f"{info.path}: another compaction is under way, or was killed within the hour"
                )
            self._filesystem.delete_file(info.path)

    def _touch(self, path: str) -> None:
        with self._filesystem.open_output_stream(path) as file:
            file.write(b"")

    def _partitions(self) -> Iterator[list[_File]]:
        """Yield the files of each broker, table and day, of one version and cluster, in order."""
        by_place: dict[tuple[str, str], list[fs.FileInfo]] = defaultdict(list)
        for info in self._filesystem.get_file_info(fs.FileSelector(self._root, recursive=True)):
            name = info.base_name
            if name.endswith(_UNDER_WAY):
                self._filesystem.delete_file(info.path)  # of a compaction that was killed
            if info.type is fs.FileType.File and name.endswith(SUFFIX) and name[0] != UNFINISHED:
                broker = name.rsplit(".", 3)[0]
                by_place[str(PurePosixPath(info.path).parent), broker].append(info)
        for _, infos in sorted(by_place.items()):
            by_kind: dict[tuple[bytes, ...], list[_File]] = defaultdict(list)
            for info in sorted(infos, key=lambda info: info.path):
                file = self._look_at(info)
                if file is not None:
                    by_kind[file.kind].append(file)
            yield from by_kind.values()

    def _look_at(self, info: fs.FileInfo) -> _File | None:
        try:
            with self._filesystem.open_input_file(info.path) as file:
                metadata = pq.read_metadata(file).metadata or {}
        except (pa.ArrowException, OSError):
            self._damaged.append(info.path)
            return None
        if FILE_KEY not in metadata:
            return None  # not a file of a recorder
        return _File(info.path, info.size or 0, (info.mtime_ns or 0) / 1e9, dict(metadata))

    def _remove_replaced(self, files: list[_File]) -> int:
        removed = 0
        for merged in [file for file in files if file.replaces]:
            if self._now_s - merged.written_s < self._bounds.grace_s:
                continue
            doomed = [file for file in files if file.file in merged.replaces]
            if doomed and self._is_whole(merged):
                for file in doomed:
                    self._filesystem.delete_file(file.path)
                    files.remove(file)
                removed += len(doomed)
        return removed

    def _is_whole(self, file: _File) -> bool:
        try:
            for _ in self._batches_of(file):
                pass
        except (pa.ArrowException, OSError):
            self._damaged.append(file.path)
            return False
        return True

    def _batches(self, files: list[_File]) -> Iterator[list[_File]]:
        """Yield the files that become one file each: small ones that no other file replaces yet."""
        replaced = frozenset[str]().union(*(file.replaces for file in files))
        batch: list[_File] = []
        size = names = 0
        for file in files:
            if file.size >= self._bounds.small_bytes or file.file in replaced:
                continue
            more = 1 + len(file.replaces)
            if batch and (
                size + file.size > self._bounds.merged_bytes
                or names + more > self._bounds.merged_files
            ):
                yield batch
                batch, size, names = [], 0, 0
            batch.append(file)
            size, names = size + file.size, names + more
        if len(batch) > 1:
            yield batch

    def _merge(self, batch: Sequence[_File]) -> int:
        names = sorted(frozenset[str]().union(*({file.file} | file.replaces for file in batch)))
        digest = hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
        first = PurePosixPath(batch[0].path)
        broker = first.name.rsplit(".", 3)[0]
        name = f"{broker}.{_RUN}.{digest}{SUFFIX}"
        unfinished = str(first.with_name(f"{UNFINISHED}{name}{_UNDER_WAY}"))
        metadata = {
            key: value for key, value in batch[0].metadata.items() if key != b"ARROW:schema"
        } | {FILE_KEY: f"{_RUN}.{digest}".encode(), REPLACES_KEY: " ".join(names).encode()}
        rows = 0
        with self._filesystem.open_input_file(batch[0].path) as file:
            schema = pq.read_schema(file).with_metadata(metadata)
        with (
            self._filesystem.open_output_stream(unfinished) as out,
            pq.ParquetWriter(out, schema, compression="zstd", write_page_checksum=True) as writer,
        ):
            for source in batch:
                for content in self._batches_of(source):
                    writer.write_table(pa.Table.from_batches([content]).cast(schema))
                    rows += content.num_rows
        self._filesystem.move(unfinished, str(first.with_name(name)))
        return rows

    def _batches_of(self, source: _File) -> Iterator[pa.RecordBatch]:
        with self._filesystem.open_input_file(source.path) as file:
            yield from pq.ParquetFile(file, page_checksum_verification=True).iter_batches()
