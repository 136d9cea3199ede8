"""Files are there as a whole or not at all, say what they are, and do not grow without bound."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from coordinator.adapters.recorder import files as recorded_files
from coordinator.adapters.recorder.files import UnusablePlace, date_of, open_place
from coordinator.adapters.recorder.tables import SCHEMA_VERSION, SCHEMAS, RecordedTable
from tests.adapters.recorder.world import DAY_S, files_at

NOW_S = 1_800_000_000.0


def content(rows: int = 3) -> pa.Table:
    """A table of memberships."""
    schema = SCHEMAS[RecordedTable.MEMBERSHIP]
    columns = {name: [None] * rows for name in schema.names} | {"member": ["b"] * rows}
    return pa.Table.from_pydict(columns, schema=schema)


def all_files(place: Path) -> list[str]:
    """Every file below a place, by name."""
    return sorted(path.name for path in place.rglob("*") if path.is_file())


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    """Its path says table, version of the schemas, and day; its schema is the table's."""
    size = files_at(tmp_path).write(RecordedTable.MEMBERSHIP, "2026-11-21", content())

    directory = tmp_path / f"table=membership/version={SCHEMA_VERSION}/date=2026-11-21"
    path = directory / "broker-1.run-1.00000000.parquet"
    assert path.stat().st_size == size
    assert pq.read_schema(path).equals(SCHEMAS[RecordedTable.MEMBERSHIP])


@pytest.mark.parametrize("table", RecordedTable)
def test_every_table_begins_with_the_same_columns(table: RecordedTable) -> None:
    """Cluster, broker, incarnation, run and both clocks, in microseconds of UTC and nanoseconds."""
    schema = SCHEMAS[table]

    assert schema.names[:6] == ["cluster", "broker", "incarnation", "run", "ts", "monotonic_ns"]
    assert schema.field("ts").type == pa.timestamp("us", tz="UTC")


def test_a_colon_in_a_broker_id_stays_out_of_paths(tmp_path: Path) -> None:
    """Hadoop's paths cannot hold one."""
    files_at(tmp_path, broker="host:8080").write(RecordedTable.MEMBERSHIP, "2026-11-21", content())

    assert all_files(tmp_path) == ["host_8080.run-1.00000000.parquet"]


def test_a_file_that_cannot_be_finished_leaves_nothing_behind(tmp_path: Path) -> None:
    """The unfinished one is removed, and the next attempt takes its number."""
    files = files_at(tmp_path)
    in_the_way = (
        tmp_path / "table=membership/version=1/date=2026-11-21/broker-1.run-1.00000000.parquet"
    )
    in_the_way.mkdir(parents=True)
    with pytest.raises(OSError, match="Is a directory"):
        files.write(RecordedTable.MEMBERSHIP, "2026-11-21", content())
    assert all_files(tmp_path) == []

    in_the_way.rmdir()
    files.write(RecordedTable.MEMBERSHIP, "2026-11-21", content())
    assert all_files(tmp_path) == ["broker-1.run-1.00000000.parquet"]


class HdfsByWeb:
    """A local directory in which a rename onto a file does nothing; the first one's answer is lost."""

    def __init__(self) -> None:
        self._local = fs.LocalFileSystem()
        self._moved = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)

    def move(self, source: str, target: str) -> None:
        """Rename a file."""
        if Path(target).exists():
            return
        self._local.move(source, target)
        self._moved += 1
        if self._moved == 1:
            raise OSError("no answer")


def test_a_rename_whose_answer_was_lost_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rows that came meanwhile, and without those of the first try beside them."""
    monkeypatch.setattr(recorded_files, "open_place", lambda place: (HdfsByWeb(), place))
    files = files_at(tmp_path)
    with pytest.raises(OSError, match="no answer"):
        files.write(RecordedTable.MEMBERSHIP, "2026-11-21", content(3))
    files.write(RecordedTable.MEMBERSHIP, "2026-11-21", content(5))
    (path,) = tmp_path.rglob("*.parquet")

    assert pq.read_metadata(path).num_rows == 5


def test_what_a_crash_left_is_removed_by_the_next_run_of_the_same_broker(tmp_path: Path) -> None:
    """Another broker's unfinished file may still be written to."""
    directory = tmp_path / "table=reports/version=1/date=2026-11-21"
    directory.mkdir(parents=True)
    for name in (".broker-1.run-0.00000007.parquet", ".broker-2.run-0.00000007.parquet"):
        (directory / name).write_bytes(b"PAR1 half a file")

    assert files_at(tmp_path).tidy(NOW_S) == 1
    assert all_files(tmp_path) == [".broker-2.run-0.00000007.parquet"]


def test_files_past_their_age_are_deleted(tmp_path: Path) -> None:
    """The own ones, whichever run wrote them; `broker-1.x` is another broker's name."""
    for broker in ("broker-1", "broker-1.x"):
        for run in ("old", "new"):
            files_at(tmp_path, run=run, broker=broker).write(
                RecordedTable.MEMBERSHIP, "2026-11-21", content()
            )
    for path in tmp_path.rglob("*.parquet"):
        age_s = DAY_S * 2 if ".old." in path.name else 0
        os.utime(path, (NOW_S - age_s, NOW_S - age_s))

    assert files_at(tmp_path, retention_s=DAY_S).tidy(NOW_S) == 1
    assert all_files(tmp_path) == [
        "broker-1.new.00000000.parquet",
        "broker-1.x.new.00000000.parquet",
        "broker-1.x.old.00000000.parquet",
    ]


def test_the_oldest_files_make_room(tmp_path: Path) -> None:
    """Until all of them together take no more than they may."""
    files = files_at(tmp_path)
    size = (
        sum(files.write(RecordedTable.MEMBERSHIP, "2026-11-21", content()) for _ in range(4)) // 4
    )
    for path in tmp_path.rglob("*.parquet"):
        number = int(path.name.rsplit(".", 2)[1])
        os.utime(path, (NOW_S + number, NOW_S + number))
    bounded = files_at(tmp_path, run="run-2", bytes_max=size * 2 + size // 2)

    assert bounded.tidy(NOW_S) == 2
    assert all_files(tmp_path) == [f"broker-1.run-1.0000000{n}.parquet" for n in (2, 3)]
    assert not bounded.exceeds_bytes()
    bounded.write(RecordedTable.MEMBERSHIP, "2026-11-21", content())
    assert bounded.exceeds_bytes()


def test_where_a_store_tells_no_time_a_file_is_as_old_as_its_day() -> None:
    """Nothing is deleted as if it were from 1970: stores of fsspec tell none."""
    place = "fsspec+memory:///recorded-without-times"
    filesystem, root = open_place(place)
    for day in ("2026-11-20", "2026-11-21"):
        files_at(place, run=day).write(RecordedTable.MEMBERSHIP, day, content())
    filesystem.copy_file(
        f"{root}/table=membership/version=1/date=2026-11-21/broker-1.2026-11-21.00000000.parquet",
        f"{root}/broker-1.elsewhere.00000000.parquet",
    )
    end_of_first_day_s = datetime(2026, 11, 21, tzinfo=UTC).timestamp()
    of_a_day = files_at(place, retention_s=DAY_S)

    assert of_a_day.tidy(end_of_first_day_s + DAY_S) == 0
    assert of_a_day.tidy(end_of_first_day_s + DAY_S + 1) == 1
    infos = filesystem.get_file_info(fs.FileSelector(root, recursive=True))
    assert sorted(info.base_name for info in infos if info.type is fs.FileType.File) == [
        "broker-1.2026-11-21.00000000.parquet",
        "broker-1.elsewhere.00000000.parquet",
    ]


def test_a_url_is_a_place(tmp_path: Path) -> None:
    """Every file system of pyarrow is a place."""
    files_at(f"file://{tmp_path}").write(RecordedTable.MEMBERSHIP, "2026-11-21", content())

    assert all_files(tmp_path) == ["broker-1.run-1.00000000.parquet"]


def test_a_bucket_has_the_name_that_hadoop_gives_it_too() -> None:
    """A place of a job is one of the recorder, too."""
    options = "endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1"
    filesystem, path = open_place(f"s3a://bucket/recorded?{options}")

    assert (filesystem.type_name, path) == ("s3", "bucket/recorded")


def test_an_unknown_url_is_refused(tmp_path: Path) -> None:
    """The reason names it."""
    with pytest.raises(UnusablePlace, match="gopher://x/y: no file system for this URL"):
        files_at("gopher://x/y")


def test_a_day_is_utc() -> None:
    """The machine's time zone does not matter."""
    assert date_of(1_800_000_000_000_000) == "2027-01-15"
    assert date_of(1_800_057_599_999_999) == "2027-01-15"
    assert date_of(1_800_057_600_000_000) == "2027-01-16"
