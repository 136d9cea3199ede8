"""Compaction: wherever it is killed, a reader sees every row once."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from coordinator.adapters.recorder.compaction import (
    LOCK,
    Busy,
    Compacted,
    CompactionBounds,
    compact,
)
from coordinator.adapters.recorder.files import RecordedFiles, open_place
from coordinator.adapters.recorder.tables import SCHEMAS, RecordedTable
from spark_jobs.intake import examine
from tests.adapters.recorder.world import files_at
from tests.spark_jobs.intake_of import required

NOW_S = 2_000_000_000.0
DAY = "2027-01-15"


class Killed(BaseException):
    """An exception that no code catches, like SIGKILL."""


class FragileFileSystem:
    """A local file system whose caller is killed at the n-th change, before or after it is made."""

    def __init__(self, changes: int, *, after: bool) -> None:
        self._local = fs.LocalFileSystem()
        self._left = changes
        self._after = after

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._local, name)
        if name not in ("open_output_stream", "move", "delete_file"):
            return call

        def change(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            done = call(*arguments)
            if self._left == 0:
                raise Killed
            return done

        return change


def write(files: RecordedFiles, numbers: range, date: str = DAY) -> None:
    """A file with one row per number, told apart by their monotonic clock."""
    rows = [
        {"cluster": "test", "broker": "broker-1", "run": "run-1", "monotonic_ns": number}
        for number in numbers
    ]
    files.write(
        RecordedTable.MEMBERSHIP,
        date,
        pa.Table.from_pylist(rows, SCHEMAS[RecordedTable.MEMBERSHIP]),
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Ten small files of one broker and day, one of another day, and one of another broker."""
    required(tmp_path)
    files = files_at(tmp_path)
    for start in range(0, 100, 10):
        write(files, range(start, start + 10))
    write(files, range(100, 110), "2027-01-16")
    write(files_at(tmp_path, "run-2", "broker-2"), range(110, 120))
    for path in tmp_path.rglob("*.parquet"):
        age(path, NOW_S)
    return tmp_path


def age(path: Path, moment_s: float) -> None:
    """Make a file as old as if it had been written then."""
    os.utime(path, (moment_s, moment_s))


def rows_seen(place: Path) -> Counter[int]:
    """Return how often a reader sees each row."""
    seen: Counter[int] = Counter()
    for path in examine(place).paths["membership"]:
        seen.update(
            pq.read_table(path.removeprefix("file://"), partitioning=None)[
                "monotonic_ns"
            ].to_pylist()
        )
    return seen


def run(place: Path, now_s: float = NOW_S, **bounds: Any) -> Compacted:
    """Run a compaction to its end."""
    return compact(fs.LocalFileSystem(), str(place), now_s, CompactionBounds(**bounds))


EVERY_ROW_ONCE = Counter(range(120))
CHANGES = 15
"""Of what the test below prepares: the lock, ten deletions, the lock, a merge (two), the lock."""


def test_small_files_of_a_broker_and_day_become_one(place: Path) -> None:
    """Replaced ones stay for those who read them, and go with the first compaction after the grace."""
    before = examine(place)
    first = run(place)
    between = examine(place)

    assert (first.merged, first.sources, first.rows, first.removed) == (1, 10, 100, 0)
    assert between.rows == before.rows
    assert (len(between.paths["membership"]), between.replaced) == (3, 10)
    assert rows_seen(place) == EVERY_ROW_ONCE
    (merged,) = place.rglob("*.compacted.*.parquet")
    age(merged, NOW_S)

    early, late = run(place, NOW_S + 3_599), run(place, NOW_S + 3_600)
    assert (early.merged, early.removed) == (0, 0)
    assert (late.merged, late.removed) == (0, 10)
    assert examine(place).replaced == 0
    assert rows_seen(place) == EVERY_ROW_ONCE


@pytest.mark.verify
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("changes", range(1, CHANGES + 1))
def test_wherever_it_is_killed_every_row_is_seen_once(
    place: Path, changes: int, *, after: bool
) -> None:
    """At once, and when the next compaction has gone on; nothing unfinished is left."""
    write(files_at(place, "run-3"), range(120, 130))
    everything = EVERY_ROW_ONCE + Counter(range(120, 130))
    run(place, merged_files=5)  # two merged files, whose sources are to be deleted now
    for path in place.rglob("*.parquet"):
        age(path, NOW_S - 5_000)
    fragile: Any = FragileFileSystem(changes, after=after)
    with pytest.raises(Killed):
        compact(fragile, str(place), NOW_S)

    assert rows_seen(place) == everything
    for lock in place.glob(f"{LOCK}*"):
        lock.unlink()
    run(place)
    for path in place.rglob("*.parquet"):
        age(path, NOW_S - 5_000)
    run(place)
    assert rows_seen(place) == everything
    assert not [path for path in place.rglob("*") if path.name.startswith(".")]
    assert examine(place).replaced == 0


def test_a_merged_file_is_merged_again_when_it_is_small(place: Path) -> None:
    """The new one replaces also what the old one did, whether that was deleted or not."""
    run(place)
    (merged,) = place.rglob("*.compacted.*.parquet")
    age(merged, NOW_S)
    write(files_at(place, "run-3"), range(120, 130))
    again = run(place)

    assert (again.merged, again.sources) == (1, 2)
    assert examine(place).replaced == 12
    assert rows_seen(place) == EVERY_ROW_ONCE + Counter(range(120, 130))


def test_a_damaged_file_is_named_and_left_alone(place: Path) -> None:
    """The others are merged; nothing of it is lost that might be saved."""
    path = sorted(place.rglob("broker-1.run-1.*.parquet"))[3]
    content = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(0).column(5)
    begins = column.dictionary_page_offset or column.data_page_offset
    content[begins + column.total_compressed_size - 1] ^= 0xFF
    path.write_bytes(content)
    done = run(place)

    assert (done.sources, done.damaged) == (9, (str(path),))
    assert path.exists()


def test_two_at_once_are_refused(place: Path) -> None:
    """The second says where; the lock of one that was killed is taken over."""
    killed = place / f"{LOCK}killed"
    killed.touch()
    age(killed, NOW_S - 10)
    with pytest.raises(Busy, match="another compaction is under way"):
        run(place)
    age(killed, NOW_S - 3_600)

    assert run(place).merged == 1
    assert not list(place.glob(f"{LOCK}*"))


def test_neither_of_two_trusts_that_it_was_first(place: Path) -> None:
    """The other's lock appears while this one is written: both looked before, and both see it now."""

    class Meeting:
        def __getattr__(self, name: str) -> Any:
            return getattr(fs.LocalFileSystem(), name)

        def open_output_stream(self, path: str) -> Any:
            if Path(path).name.startswith(LOCK):
                (place / f"{LOCK}other").touch()
                age(place / f"{LOCK}other", NOW_S)
            return fs.LocalFileSystem().open_output_stream(path)

    meeting: Any = Meeting()
    with pytest.raises(Busy, match="another compaction is under way"):
        compact(meeting, str(place), NOW_S)
    assert [path.name for path in place.glob(f"{LOCK}*")] == [f"{LOCK}other"]
    assert not list(place.rglob("*.compacted.*"))
    assert not (place / LOCK).exists()


def test_two_merged_files_that_share_rows_are_not_both_read(place: Path) -> None:
    """Two compactions at once, against all rules: one is skipped by name, and no row counts twice."""
    run(place)
    (merged,) = place.rglob("*.compacted.*.parquet")
    kept = merged.read_bytes()
    merged.unlink()
    write(files_at(place, "run-3"), range(120, 130))
    next(iter(sorted(place.rglob("broker-1.run-1.*.parquet")))).unlink()
    run(place)
    merged.write_bytes(kept)
    intake = examine(place)

    (skipped,) = intake.skipped
    assert "some of its rows are in broker-1.compacted." in skipped.reason
    assert max(rows_seen(place).values()) == 1


def test_retention_includes_merged_files(place: Path) -> None:
    """Their sidecar deletes them when they are old, and leaves one that is being written alone."""
    run(place)
    (merged,) = place.rglob("*.compacted.*.parquet")
    under_way = merged.with_name(f".{merged.name}.merging")
    under_way.touch()
    for path in (merged, under_way):
        age(path, NOW_S - 100)
    files_at(place, "run-9", retention_s=50.0).tidy(NOW_S)

    assert not merged.exists()
    assert under_way.exists()


def test_a_store_that_tells_no_time_is_not_compacted() -> None:
    """The age of a merged file is not known there; nothing is changed."""
    place = "fsspec+memory:///compacted-without-times"
    filesystem, root = open_place(place)
    files = files_at(place)
    for start in (0, 10):
        write(files, range(start, start + 10))

    def there() -> list[str]:
        infos = filesystem.get_file_info(fs.FileSelector(root, recursive=True))
        return [info.path for info in infos if info.type is fs.FileType.File]

    before = there()
    with pytest.raises(OSError, match="does not say when a file was written"):
        compact(filesystem, root, NOW_S)
    assert len(before) == 2
    assert there() == before
