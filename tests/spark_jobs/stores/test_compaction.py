"""Files in a bucket are merged and deleted while others read: no row is lost, and none is seen twice."""

from __future__ import annotations

import time

import pytest
from pyspark.sql import SparkSession

from coordinator.adapters.recorder.compaction import LOCK, Busy, CompactionBounds, compact
from coordinator.adapters.recorder.files import open_place
from spark_jobs.intake import FileIntake, examine, read
from spark_jobs.places import place_of
from spark_jobs.refusals import RefusedInput
from tests.adapters.recorder.test_compaction import write
from tests.adapters.recorder.world import files_at
from tests.spark_jobs.stores import servers
from tests.spark_jobs.stores.conftest import in_s3

pytestmark = [pytest.mark.java, pytest.mark.verify, pytest.mark.slow, pytest.mark.timeout(600)]

TABLE = "membership"


@pytest.fixture
def url(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket with two files of a broker and day, as the recorder names it."""
    for name, value in servers.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    url = in_s3(s3_endpoint)
    files = files_at(url)
    write(files, range(10))
    write(files, range(10, 20))
    return url


def test_merged_files_are_read_in_place_of_small_ones_and_outlast_them(
    url: str, spark: SparkSession
) -> None:
    """Before, between and after: the same rows; a job that listed the small ones still has them."""
    before = seen(url, spark)
    rows = list(range(20))
    assert counted(spark, before) == rows
    merging = compact(*open_place(url), time.time())
    between = seen(url, spark)

    assert (merging.merged, merging.sources, merging.removed) == (1, 2, 0)
    assert counted(spark, before) == rows
    assert (counted(spark, between), between.replaced) == (rows, 2)

    later = compact(*open_place(url), time.time() + 3_601)
    after = seen(url, spark)
    assert later.removed == 2
    assert (counted(spark, after), after.replaced, after.skipped) == (rows, 0, ())


def test_two_compactions_do_not_merge_the_same_files(url: str) -> None:
    """The second one is refused by the first one's lock, until that is an hour old."""
    filesystem, root = open_place(url)
    with filesystem.open_output_stream(f"{root}/{LOCK}first") as lock:
        lock.write(b"")

    with pytest.raises(Busy, match="another compaction is under way"):
        compact(filesystem, root, time.time())
    assert compact(filesystem, root, time.time() + 3_601).merged == 1


def test_retention_leaves_the_merged_file_until_its_time(url: str, spark: SparkSession) -> None:
    """It is the broker's own, like those that it replaces."""
    compact(*open_place(url), time.time(), CompactionBounds(grace_s=0.0))
    compact(*open_place(url), time.time() + 1, CompactionBounds(grace_s=0.0))
    own = files_at(url, run="run-3", retention_s=60.0)

    assert own.tidy(time.time()) == 0
    assert counted(spark, seen(url, spark)) == list(range(20))
    assert own.tidy(time.time() + 120) > 0
    with pytest.raises(RefusedInput, match="no usable file of table membership"):
        seen(url, spark)


def seen(url: str, spark: SparkSession) -> FileIntake:
    """The intake of a job that looks there now."""
    return examine(place_of(url), required=(TABLE,), spark=spark)


def counted(spark: SparkSession, intake: FileIntake) -> list[int]:
    """The table's rows, by their numbers, in order."""
    return sorted(row["monotonic_ns"] for row in read(spark, intake, TABLE).collect())
