"""However many files there are, the rows are those of the files that were looked at."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyspark.sql import SparkSession

from spark_jobs import listing
from spark_jobs.intake import FileIntake, examine, read
from spark_jobs.tables import FILE_KEY
from tests.spark_jobs.spoilt import file_of, record, rewrite

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files are many."""
    monkeypatch.setattr(listing, "FEW", 0)


def roots(spark: SparkSession, intake: FileIntake, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The last parts of the paths that Spark is given for a table; its files are the good ones."""
    given: list[set[str]] = []
    reader = type(spark.read)
    parquet = reader.parquet

    def noting(self: object, *paths: str) -> object:
        given.append({path.rpartition("/")[2] for path in paths})
        return parquet(self, *paths)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(reader, "parquet", noting)
        frame = read(spark, intake, "admitted")
    assert {unquote(path) for path in frame.inputFiles()} == set(intake.paths["admitted"])
    assert frame.count() == intake.rows["admitted"]
    return given[-1]


def test_a_directory_is_given_in_place_of_its_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark lists it in one go; a name that a URL would escape is no other one."""
    place = tmp_path / "a place, 100%"
    record(place)

    assert roots(spark, examine(place), monkeypatch) == {"date=2027-01-15"}


def other(good: Path, path: Path) -> Path:
    """Another file of the same rows, by what it says of itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(good, path)
    rewrite(path, {FILE_KEY: path.name.encode()})
    return path


def test_a_directory_with_a_file_that_is_skipped_is_read_file_by_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other directories are not."""
    record(tmp_path)
    good = file_of(tmp_path, "admitted")
    other(good, good.with_name("second.parquet"))
    other(good, good.parent.with_name("date=2027-01-16") / "third.parquet")
    good.with_name("cut.parquet").write_bytes(good.read_bytes()[:-20])
    intake = examine(tmp_path)

    assert [each.path.rpartition("/")[2] for each in intake.skipped] == ["cut.parquet"]
    assert roots(spark, intake, monkeypatch) == {"date=2027-01-16", good.name, "second.parquet"}


def test_a_file_that_was_written_after_the_look_is_not_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same directory or in one below it: it may be a merged file, or none of a recorder's."""
    record(tmp_path)
    intake, good = examine(tmp_path), file_of(tmp_path, "admitted")
    names = {path.name for path in good.parent.iterdir()}
    shutil.copy(good, good.with_name("new.parquet"))
    assert roots(spark, intake, monkeypatch) == names

    good.with_name("new.parquet").unlink()
    below = good.parent / "of=another"  # Spark reads what is in a directory of such a name
    below.mkdir()
    shutil.copy(good, below / "new.parquet")
    assert roots(spark, intake, monkeypatch) == names


def test_a_directory_within_another_is_not_read_twice(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the outer one are given by name."""
    record(tmp_path)
    good = file_of(tmp_path, "admitted")
    other(good, good.parent / "below/other.parquet")

    assert roots(spark, examine(tmp_path), monkeypatch) == {"below", good.name}
