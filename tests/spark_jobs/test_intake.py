"""The intake reads good files and names, skips or refuses the others; it believes none by half."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.intake import examine
from spark_jobs.refusals import RefusedInput
from spark_jobs.tables import FILE_KEY, VERSION_KEY
from tests.spark_jobs.spoilt import file_of, record, rewrite


def test_a_recording_is_read_as_a_whole(tmp_path: Path) -> None:
    """Every table has its files and rows, and nothing is skipped."""
    record(tmp_path)
    intake = examine(tmp_path)

    assert intake.cluster == "test"
    assert intake.missing == ()
    assert intake.rows["admitted"] == 6
    assert (intake.skipped, intake.duplicates, intake.unfinished) == ((), 0, 0)


def test_a_truncated_file_is_skipped_by_name(tmp_path: Path) -> None:
    """The others are read."""
    record(tmp_path)
    path = file_of(tmp_path, "reports")
    path.write_bytes(path.read_bytes()[:-20])
    intake = examine(tmp_path)

    (skipped,) = intake.skipped
    assert skipped.path == str(path.relative_to(tmp_path))
    assert skipped.reason.startswith("truncated or no Parquet file: ")
    assert intake.missing == ("reports",)


def test_a_file_whose_first_half_is_lost_is_skipped_by_name(tmp_path: Path) -> None:
    """Its footer, at the end, is as it was: a disk has zeros where it never wrote."""
    record(tmp_path)
    path = file_of(tmp_path, "reports")
    content = path.read_bytes()
    rows = len(content) - int.from_bytes(content[-8:-4], "little")  # what is before the footer
    path.write_bytes(bytes(rows // 2) + content[rows // 2 :])

    (skipped,) = examine(tmp_path).skipped
    assert skipped.path == str(path.relative_to(tmp_path))
    assert skipped.reason == "damaged: it does not begin as a Parquet file does"


def test_a_foreign_file_is_skipped_by_name(tmp_path: Path) -> None:
    """Parquet, but not a recorder's."""
    record(tmp_path)
    foreign = tmp_path / "table=reports/date=2027-01-15/other.parquet"
    pq.write_table(pa.table({"x": [1]}), foreign)

    (skipped,) = examine(tmp_path).skipped
    assert skipped.reason == "not written by a recorder: no schema version"


def test_another_schema_version_is_skipped_by_name(tmp_path: Path) -> None:
    """A column may mean something else there."""
    record(tmp_path)
    rewrite(file_of(tmp_path, "limits"), {VERSION_KEY: b"2"})

    (skipped,) = examine(tmp_path).skipped
    assert skipped.reason == "schema version 2; this release reads 1"


def test_a_file_in_another_tables_directory_is_skipped_by_name(tmp_path: Path) -> None:
    """Its columns would be read as something else."""
    record(tmp_path)
    path = file_of(tmp_path, "limits")
    shutil.move(path, file_of(tmp_path, "reports").parent / "moved.parquet")

    (skipped,) = examine(tmp_path).skipped
    assert skipped.reason == "a file of table 'limits' in table=reports"


def test_a_copy_of_a_file_is_counted_once(tmp_path: Path) -> None:
    """This holds for any name and any place in its table."""
    record(tmp_path)
    before = examine(tmp_path)
    path = file_of(tmp_path, "admitted")
    shutil.copy(path, path.with_name("copy.parquet"))
    other_day = path.parent.parent / "date=2027-01-16"
    other_day.mkdir()
    shutil.copy(path, other_day / path.name)
    intake = examine(tmp_path)

    assert intake.duplicates == 2
    assert intake.rows == before.rows


def test_unfinished_files_are_left_alone(tmp_path: Path) -> None:
    """A dot name says that it is being written, or that its writer died."""
    record(tmp_path)
    path = file_of(tmp_path, "admitted")
    path.with_name(".broker-1.run-9.00000000.parquet").write_bytes(b"PAR1")
    intake = examine(tmp_path)

    assert (intake.unfinished, intake.skipped) == (1, ())


@pytest.mark.parametrize("table", ["admitted", "configuration"])
def test_without_a_required_table_there_is_no_report(tmp_path: Path, table: str) -> None:
    """Refused by the table's name."""
    record(tmp_path)
    shutil.rmtree(tmp_path / f"table={table}")

    with pytest.raises(RefusedInput, match=f"no usable file of table {table}, without which"):
        examine(tmp_path)


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    """The message says what it may have been confused with."""
    with pytest.raises(RefusedInput, match="is it what record_dir names"):
        examine(tmp_path)


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(RefusedInput, match="nowhere: no such directory"):
        examine(tmp_path / "nowhere")


def test_several_clusters_are_refused_until_one_is_chosen(tmp_path: Path) -> None:
    """Their figures must not be added up."""
    record(tmp_path, "east")
    for path in tmp_path.rglob("*.parquet"):
        shutil.copy(path, path.with_name("west.parquet"))
        rewrite(path.with_name("west.parquet"), {b"pulsar-quota.cluster": b"west", FILE_KEY: b"w"})

    with pytest.raises(RefusedInput, match=r"several clusters \(east, west\).*--cluster"):
        examine(tmp_path)
    assert examine(tmp_path, "west").rows["admitted"] == 6
    with pytest.raises(RefusedInput, match="nothing of cluster 'north'; there are east, west"):
        examine(tmp_path, "north")
