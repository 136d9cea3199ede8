"""Every file that lands is looked at before it is read, once, and the first that is bad is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.landing import Landing
from spark_jobs.refusals import RefusedInput
from spark_jobs.tables import VERSION_KEY
from tests.spark_jobs.spoilt import file_of, record, rewrite

TABLES = ("admitted", "configuration")


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    """A recording whose files were looked at."""
    record(tmp_path)
    looked = Landing(tmp_path, TABLES)
    looked.look()
    return looked


def test_files_that_were_good_are_not_looked_at_again(landing: Landing, tmp_path: Path) -> None:
    """A day has thousands of them; they are written once and never changed."""
    file_of(tmp_path, "admitted").write_bytes(b"spoilt since")

    landing.look()


def test_what_is_no_input_may_be_anything(landing: Landing, tmp_path: Path) -> None:
    """Files under a dot name, and of tables that are not read."""
    file_of(tmp_path, "admitted").with_name(".next.parquet").write_bytes(b"PAR1")
    file_of(tmp_path, "reports").write_bytes(b"spoilt")

    landing.look()


@pytest.mark.parametrize("table", TABLES)
def test_a_new_file_of_another_version_is_refused_by_name(
    landing: Landing, tmp_path: Path, table: str
) -> None:
    """Every time, until it is gone."""
    newer = file_of(tmp_path, table).with_name("newer.parquet")
    shutil.copy(file_of(tmp_path, table), newer)
    rewrite(newer, {VERSION_KEY: b"2"})
    name = newer.relative_to(tmp_path)
    for _ in range(2):
        with pytest.raises(
            RefusedInput, match=f"^{name}: schema version 2; this release reads 1; "
        ):
            landing.look()
    newer.unlink()

    landing.look()


def test_rows_that_somebody_else_wrote_are_refused(landing: Landing, tmp_path: Path) -> None:
    """The version of such rows in the stream would be unknown."""
    path = file_of(tmp_path, "admitted")
    rows = pq.ParquetFile(path).read().replace_schema_metadata()
    pq.write_table(rows, path.with_name("again.parquet"))

    with pytest.raises(RefusedInput, match=r"again\.parquet: not written by a recorder"):
        landing.look()


def test_all_bad_files_are_counted(landing: Landing, tmp_path: Path) -> None:
    """The message names the first and says how many there are to mend."""
    day = file_of(tmp_path, "admitted").parent
    for name in ("x", "y", "z"):
        pq.write_table(pa.table({"x": [1]}), day / f"{name}.parquet")

    with pytest.raises(RefusedInput, match=r"x\.parquet: .* \(3 files in all\); once it is mended"):
        landing.look()
