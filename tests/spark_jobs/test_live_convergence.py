"""The stream says of every second what the report says, once, also when it is killed on the way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call it

from coordinator.adapters.recorder.files import RecordedFiles
from coordinator.adapters.recorder.tables import RecordedTable
from spark_jobs.intake import examine, read
from spark_jobs.live_convergence import Live
from spark_jobs.refusals import RefusedInput
from spark_jobs.session import computing
from spark_jobs.tables import VERSION_KEY
from spark_jobs.timeline import broker_seconds, group_seconds, limits_over_time
from tests.adapters.recorder.world import files_at
from tests.spark_jobs.spoilt import rewrite

pytestmark = [pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(600)]
LATE_S = 5
CHUNK_S = 10
COMPARED = ["resource_group", "dimension", "second", "limit", "admitted", "demand", "brokers"]


@pytest.fixture(scope="module")
def chunks(story: Path) -> list[pa.Table]:
    """The story's rows in pieces of ten seconds, as files land."""
    paths = sorted(story.glob("table=admitted/date=*/*.parquet"))
    rows = pa.concat_tables([pq.ParquetFile(path).read() for path in paths])
    seconds = pc.cast(rows["second"], pa.int64())
    number = pc.divide(pc.subtract(seconds, pc.min(seconds)), CHUNK_S * 1_000_000)
    return [rows.filter(pc.equal(number, n)) for n in range(pc.max(number).as_py() + 1)]


@pytest.fixture
def landing(story: Path, tmp_path: Path) -> Path:
    """A folder with everything but the admitted rows, of which only the first seconds have landed."""
    place = tmp_path / "landing"
    shutil.copytree(story, place, ignore=shutil.ignore_patterns("table=admitted"))
    return place


def start(place: Path, out: Path, *more: str) -> subprocess.Popen[bytes]:
    """The job in a process of its own, and in a group of its own: its JVM dies with it."""
    command = [sys.executable, "-m", "spark_jobs.live_convergence", str(place), "--out", str(out)]
    return subprocess.Popen(
        [*command, "--late", str(LATE_S), *more],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def written(out: Path) -> list[dict[str, Any]]:
    """All rows of all batches."""
    paths = sorted(out.glob("seconds/batch=*/*.parquet"))
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def eventually(condition: Any, seconds: float) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "never happened"
        time.sleep(0.2)


@pytest.fixture
def killed(landing: Path, chunks: list[pa.Table], tmp_path: Path) -> Path:
    """Return the output of a stream that is killed in the middle, while files land."""
    files, out = files_at(landing, "run-1", "any"), tmp_path / "out"
    for chunk in chunks[:3]:
        files.write(RecordedTable.ADMITTED, "2027-01-15", chunk)
    process = start(landing, out, "--every", "1")
    try:
        eventually(lambda: written(out) or process.poll() is not None, 300)
        for chunk in chunks[3:6]:
            files.write(RecordedTable.ADMITTED, "2027-01-15", chunk)
        eventually(lambda: len(list(out.glob("checkpoint/offsets/*"))) > 2, 300)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for chunk in chunks[6:]:
        files.write(RecordedTable.ADMITTED, "2027-01-15", chunk)
    return out


def test_a_killed_stream_goes_on_and_writes_every_second_once(
    killed: Path, landing: Path, chunks: list[pa.Table], spark: SparkSession
) -> None:
    """Copied files and rows that are too late change nothing; all else is as in the report."""
    copied = next(iter(sorted(landing.glob("table=admitted/*/any.run-1.00000007.parquet"))))
    shutil.copy(copied, copied.with_name("copy.parquet"))
    process = start(landing, killed, "--once")
    said, _ = process.communicate(timeout=500)
    assert process.returncode == 0
    assert b" orders: " in said

    final, found = report_of(spark, landing), written(killed)

    assert len(found) >= 90
    assert told(found) == final


def report_of(spark: SparkSession, landing: Path) -> list[tuple[Any, ...]]:
    """Return the report's figures of the seconds that are final."""
    intake = examine(landing)
    limits = limits_over_time(read(spark, intake, "configuration"))
    no_gaps = spark.createDataFrame([], "resource_group string, second bigint")
    everything = group_seconds(
        broker_seconds(read(spark, intake, "admitted"), limits), no_gaps
    ).select(*COMPARED)
    last = everything.agg(F.max("second")).collect()[0][0]
    return sorted(map(tuple, everything.where(F.col("second") < last - LATE_S).collect()))


def told(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the stream's figures of them."""
    return sorted(tuple(row[name] for name in COMPARED) for row in found)


def stream(spark: SparkSession, landing: Path, out: Path) -> None:
    """Follow a folder in this process until nothing is left to do."""
    with computing(spark, "live"):
        query = Live(landing, out, "test", LATE_S).start(spark, lambda _: None, once=True)
        query.awaitTermination()


def test_what_is_not_to_be_read_changes_nothing(
    landing: Path, chunks: list[pa.Table], spark: SparkSession, tmp_path: Path
) -> None:
    """Unfinished files, copies, and files of another cluster."""
    files, out = files_at(landing, "run-1", "any"), tmp_path / "out"
    for chunk in chunks[:2]:
        files.write(RecordedTable.ADMITTED, "2027-01-15", chunk)
    (day,) = landing.glob("table=admitted/date=*")
    whole = sorted(day.glob("any.*.parquet"))
    shutil.copy(whole[0], day / "again.parquet")
    (day / ".any.run-1.00000009.parquet").write_bytes(whole[1].read_bytes()[:1_000])
    pq.write_table(pa.table({"second": [1, 2]}), day / "_foreign.parquet")
    west = chunks[0].set_column(0, "cluster", pa.array(["west"] * len(chunks[0])))
    RecordedFiles(
        str(landing), cluster="west", broker="any", run="w", retention_s=1e9, bytes_max=2**40
    ).write(RecordedTable.ADMITTED, "2027-01-15", west)
    stream(spark, landing, out)
    for path in (*day.glob("*foreign*"), *day.glob("any.w.*")):
        path.unlink()

    assert told(written(out)) == report_of(spark, landing)


def test_a_truncated_file_ends_the_stream_by_name_until_it_is_whole(
    landing: Path, chunks: list[pa.Table], spark: SparkSession, tmp_path: Path
) -> None:
    """A copy that was cut off; once it was made again, the stream goes on and nothing is missing."""
    files, out = files_at(landing, "run-1", "any"), tmp_path / "out"
    for chunk in chunks[:2]:
        files.write(RecordedTable.ADMITTED, "2027-01-15", chunk)
    cut = sorted(landing.glob("table=admitted/*/any.*.parquet"))[1]
    content = cut.read_bytes()
    cut.write_bytes(content[:-100])
    with pytest.raises(RefusedInput, match=cut.name):
        stream(spark, landing, out)
    assert written(out) == []
    cut.write_bytes(content)
    stream(spark, landing, out)

    assert told(written(out)) == report_of(spark, landing)


def test_a_file_of_another_version_ends_the_stream_until_it_is_taken_away(
    landing: Path, chunks: list[pa.Table], spark: SparkSession, tmp_path: Path
) -> None:
    """Earlier batches stay as they are; none of its own batch is written."""
    files, out = files_at(landing, "run-1", "any"), tmp_path / "out"
    files.write(RecordedTable.ADMITTED, "2027-01-15", chunks[0])
    stream(spark, landing, out)
    before = told(written(out))
    for chunk in chunks[1:3]:
        files.write(RecordedTable.ADMITTED, "2027-01-15", chunk)
    newer = sorted(landing.glob("table=admitted/*/any.*.parquet"))[2]
    rewrite(newer, {VERSION_KEY: b"2"})
    with pytest.raises(RefusedInput, match=f"{newer.name}: schema version 2; this release reads 1"):
        stream(spark, landing, out)
    assert told(written(out)) == before
    newer.unlink()
    stream(spark, landing, out)

    assert len(before) < len(written(out))
    assert told(written(out)) == report_of(spark, landing)


def test_limits_of_another_version_end_the_stream(
    landing: Path, chunks: list[pa.Table], spark: SparkSession, tmp_path: Path
) -> None:
    """A share of a limit that means something else would be final, too."""
    files_at(landing, "run-1", "any").write(RecordedTable.ADMITTED, "2027-01-15", chunks[0])
    limits = min(landing.glob("table=configuration/*/*.parquet"))
    rewrite(limits, {VERSION_KEY: b"2"})

    with pytest.raises(RefusedInput, match=f"{limits.name}: schema version 2"):
        stream(spark, landing, tmp_path / "out")
