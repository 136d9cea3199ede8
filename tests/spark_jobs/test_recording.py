"""A recording is read as a whole: what cannot be read ends the job by name, or is left out and told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_jobs import recording
from spark_jobs.places import place_of
from spark_jobs.recording import open_recording
from spark_jobs.refusals import RefusedInput
from tests.spark_jobs.spoilt import file_of, record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_recording_is_read_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Every table has its rows, and nothing is left out; a name that a URL would escape is no other."""
    place = tmp_path / "a place, 100%"
    record(place)
    found = open_recording(spark, place)

    assert (found.cluster, found.missing, found.left_out, found.warnings) == ("test", (), (), ())
    assert found.rows["admitted"] == 6
    assert found.tables["admitted"].count() == 6
    assert "date" not in found.tables["admitted"].columns


@pytest.mark.parametrize("damage", ["truncated", "first half", "no Parquet", "another type"])
def test_a_file_that_cannot_be_read_ends_the_job_by_name_or_is_left_out(
    spark: SparkSession, tmp_path: Path, damage: str
) -> None:
    """A footer that is lost, one over zeros where a disk never wrote, and one of a foreign file."""
    record(tmp_path)
    path = file_of(tmp_path, "admitted")
    spoilt = path.with_name("spoilt.parquet")
    content = path.read_bytes()
    rows = len(content) - int.from_bytes(content[-8:-4], "little")  # what is before the footer
    match damage:
        case "truncated":
            spoilt.write_bytes(content[:-20])
        case "first half":
            spoilt.write_bytes(bytes(rows // 2) + content[rows // 2 :])
        case "no Parquet":
            spoilt.write_bytes(b"a note of an operator")
        case _:
            table = pq.ParquetFile(path).read()
            as_text = pc.cast(table["admitted"], pa.string())
            at = table.schema.get_field_index("admitted")
            pq.write_table(table.set_column(at, "admitted", as_text), spoilt)

    with pytest.raises(RefusedInput, match=r"spoilt\.parquet") as refused:
        open_recording(spark, tmp_path)
    assert "--skip-unreadable leaves such files out" in str(refused.value)
    left = open_recording(spark, tmp_path, skip_unreadable=True)
    (told,) = left.left_out
    assert told.endswith(f"{spoilt}: cannot be read")
    assert left.warnings == (f"left out: {told}",)
    assert left.rows["admitted"] == left.tables["admitted"].count() == 6


def test_a_damaged_page_is_found_wherever_it_is_when_files_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The count of rows does not need this column; without the option the job that reads it ends."""
    record(tmp_path)
    path = file_of(tmp_path, "admitted")
    damaged = path.with_name("damaged.parquet")
    content = bytearray(path.read_bytes())
    group = pq.read_metadata(path).row_group(0)
    last = group.column(group.num_columns - 1)
    starts = last.dictionary_page_offset or last.data_page_offset
    content[starts + last.total_compressed_size - 1] ^= 0xFF
    damaged.write_bytes(bytes(content))

    assert last.path_in_schema == "topics"
    told = open_recording(spark, tmp_path)
    assert told.rows["admitted"] == 12
    with pytest.raises(Exception, match=r"damaged\.parquet"):
        told.tables["admitted"].collect()
    (left_out,) = open_recording(spark, tmp_path, skip_unreadable=True).left_out
    assert left_out.endswith("damaged.parquet: cannot be read")


def test_a_file_that_no_recorder_wrote_ends_the_job_by_name_or_is_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Good Parquet without a column that every row of the table has, such as another table's file."""
    record(tmp_path)
    shutil.copy(
        file_of(tmp_path, "limits"), file_of(tmp_path, "reports").with_name("moved.parquet")
    )

    told = "moved.parquet: no recorder wrote this into table=reports"
    with pytest.raises(RefusedInput, match=told):
        open_recording(spark, tmp_path)
    (left_out,) = open_recording(spark, tmp_path, skip_unreadable=True).left_out
    assert left_out.endswith("moved.parquet: cannot be read")


def test_more_bad_files_than_can_be_named_are_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is no recording with some bad files."""
    record(tmp_path)
    monkeypatch.setattr(recording, "UNREADABLE_MAX", 1)
    directory = file_of(tmp_path, "reports").parent
    for name in ("a", "b"):
        (directory / f"{name}.parquet").write_bytes(b"x")

    with pytest.raises(RefusedInput, match="more than 1 files cannot be read"):
        open_recording(spark, tmp_path, skip_unreadable=True)


def test_another_version_is_left_out_and_told(spark: SparkSession, tmp_path: Path) -> None:
    """A column may mean something else there; a table that this release does not know is told, too."""
    record(tmp_path)
    version = file_of(tmp_path, "limits").parents[1]
    version.rename(version.with_name("version=2"))
    (tmp_path / "table=dreams").mkdir()
    found = open_recording(spark, tmp_path)

    assert found.left_out == (
        "table=dreams: no table that this release knows",
        "table=limits/version=2: this release reads version=1",
    )
    assert found.missing == ("limits",)
    assert found.warnings == (f"left out: {found.left_out[0]}, and 1 more",)


def test_unfinished_files_are_no_input(spark: SparkSession, tmp_path: Path) -> None:
    """A dot name says that it is being written, or that its writer died."""
    record(tmp_path)
    path = file_of(tmp_path, "admitted")
    path.with_name(".broker-1.run-9.00000000.parquet").write_bytes(b"PAR1")

    assert open_recording(spark, tmp_path).left_out == ()


def test_a_file_that_comes_later_is_in_no_figure(spark: SparkSession, tmp_path: Path) -> None:
    """Each table is listed once, however often it is read."""
    record(tmp_path)
    found, path = open_recording(spark, tmp_path), file_of(tmp_path, "admitted")
    shutil.copy(path, path.with_name("later.parquet"))

    assert found.tables["admitted"].count() == 6


def test_a_directory_that_cannot_be_listed_is_refused_as_input() -> None:
    """It is not the place that a job writes to which the message names."""
    place = place_of("x" * 300)
    with pytest.raises(RefusedInput, match=r"^x+: cannot be read: File name too long$"):
        recording.session_for("tests", 2, place)


@pytest.mark.parametrize("table", ["admitted", "configuration"])
def test_without_a_required_table_there_is_no_report(
    spark: SparkSession, tmp_path: Path, table: str
) -> None:
    """Refused by the table's name."""
    record(tmp_path)
    shutil.rmtree(tmp_path / f"table={table}")

    with pytest.raises(RefusedInput, match=f"no row of table {table}, without which"):
        open_recording(spark, tmp_path)


def test_an_empty_directory_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """The message says what it may have been confused with."""
    with pytest.raises(RefusedInput, match="is it what record_dir names"):
        open_recording(spark, tmp_path)
    with pytest.raises(RefusedInput, match="nowhere: no such directory"):
        open_recording(spark, tmp_path / "nowhere")


def test_a_directory_without_a_recording_is_refused_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong name is told at once; so is the lack of a table that another job could do without."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a session was started")

    monkeypatch.setattr(recording, "session", started)
    with pytest.raises(RefusedInput, match="nowhere: no such directory"):
        recording.session_for("tests", 2, place_of(tmp_path / "nowhere"))
    with pytest.raises(RefusedInput, match="no row of table admitted and configuration"):
        recording.session_for("tests", 2, place_of(tmp_path))
    record(tmp_path)
    with pytest.raises(RefusedInput, match="no row of table namespaces"):
        recording.session_for("tests", 2, place_of(tmp_path), required=("namespaces",))


def test_several_clusters_are_refused_until_one_is_chosen(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Their figures must not be added up."""
    record(tmp_path, "east")
    for path in list(tmp_path.rglob("*.parquet")):
        table = pq.ParquetFile(path).read()
        west = pa.array(["west"] * len(table))
        pq.write_table(table.set_column(0, "cluster", west), path.with_name("west.parquet"))

    with pytest.raises(RefusedInput, match=r"several clusters \(east, west\).*--cluster"):
        open_recording(spark, tmp_path)
    west_only = open_recording(spark, tmp_path, "west")
    assert west_only.rows["admitted"] == west_only.tables["admitted"].count() == 6
    with pytest.raises(RefusedInput, match="nothing of cluster 'north'; there are east, west"):
        open_recording(spark, tmp_path, "north")
