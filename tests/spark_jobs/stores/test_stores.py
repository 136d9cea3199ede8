"""Files appear as a whole in every store, one job writes to a place, and each failure has its words."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_jobs import claims, stores
from spark_jobs.claims import CLAIM, PlaceTaken, claimed
from spark_jobs.convergence_report import main as report
from spark_jobs.convergence_report import make
from spark_jobs.places import StorePlace, place_of
from spark_jobs.recording import open_recording
from spark_jobs.refusals import RefusedInput
from spark_jobs.stores import (
    EXCLUDED,
    PACKAGES,
    NoSuchFile,
    StoreFailure,
    output_store,
    store_of,
)
from tests.spark_jobs.spoilt import file_of, record
from tests.spark_jobs.stores import servers
from tests.spark_jobs.stores.conftest import content_of, copied, in_s3

pytestmark = [pytest.mark.java, pytest.mark.verify, pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_file_is_listed_and_read_back(place: StorePlace, spark: SparkSession) -> None:
    """A directory lists what is below it, in order."""
    store = store_of(place, spark)
    store.put(place / "b/two", b"0123456789")
    store.put(place / "a", b"one")
    store.put(place / ".c", b"")
    hidden, one, two = store.files(place)

    assert [file.below for file in (hidden, one, two)] == [".c", "a", "b/two"]
    assert (two.name, two.size) == ("two", 10)
    assert content_of(spark, two.place) == b"0123456789"
    assert store.directories(place) == ["b"]
    assert [file.name for file in store.here(place)] == [".c", "a"]


def test_a_file_takes_the_place_of_another(place: StorePlace, spark: SparkSession) -> None:
    """Written anew, or made aside and then published; nothing else is left."""
    store = store_of(place, spark)
    store.put(place / "a", b"old and long")
    store.put(place / "a", b"new")
    assert content_of(spark, place / "a") == b"new"
    store.put(place / "aside/b", b"newest")
    store.publish(place / "aside/b", place / "a")
    store.remove(place / "aside")
    (only,) = store.files(place)

    assert (only.below, content_of(spark, only.place)) == ("a", b"newest")


def test_what_is_not_there_is_named(place: StorePlace, spark: SparkSession) -> None:
    """A place and its directories; to delete what is gone is no fault."""
    store = store_of(place, spark)
    with pytest.raises(NoSuchFile, match="no such"):
        store.files(place / "nowhere")
    with pytest.raises(NoSuchFile, match="no such"):
        store.directories(place / "nowhere")
    assert store.here(place / "nowhere") == []
    store.put(place / "a", b"one")
    (file,) = store.files(place)
    store.remove(file.place)
    store.remove(file.place)

    assert store.here(place) == []


def test_one_job_writes_to_a_place(place: StorePlace, spark: SparkSession) -> None:
    """A second one is refused by the first one's file, and leaves it as it is."""
    store = store_of(place, spark)
    with claimed(store, place):
        (claim,) = store.here(place)
        with pytest.raises(PlaceTaken, match=claim.name), claimed(store, place):
            pass
        assert [file.name for file in store.here(place)] == [claim.name]
    assert store.here(place) == []


def test_what_a_killed_job_left_is_cleared_away(
    place: StorePlace, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is old by the store's clock."""
    store = store_of(place, spark)
    store.put(place / f"{CLAIM}killed", b"")
    monkeypatch.setattr(claims, "LEFT_S", 0.0)
    with claimed(store, place):
        (own,) = store.here(place)
        assert own.name != f"{CLAIM}killed"


def test_a_job_says_again_and_again_that_it_writes(
    place: StorePlace, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes, its file is young."""
    store, again = store_of(place, spark), threading.Event()
    put = store.put
    monkeypatch.setattr(claims, "_EVERY_S", 0.01)
    with pytest.MonkeyPatch.context() as patch:
        calls: list[StorePlace] = []

        def counted(at: StorePlace, content: bytes) -> None:
            put(at, content)
            calls.append(at)
            if len(calls) == 3:
                again.set()

        patch.setattr(type(store), "put", lambda _, at, content: counted(at, content))
        with claimed(store, place):
            assert again.wait(120)
    assert len(set(calls)) == 1


def test_a_store_that_is_busy_is_asked_again(
    s3_endpoint: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Every third answer is 503, and the recording is that of a directory."""
    record(tmp_path)
    place = copied(tmp_path, place_of(in_s3(s3_endpoint, "busy")), spark)
    there, here = open_recording(spark, place), open_recording(spark, tmp_path)

    assert (there.rows, there.cluster, there.left_out) == (here.rows, here.cluster, ())


def test_a_file_that_vanishes_before_its_rows_are_read_ends_the_job_by_its_name(
    place: StorePlace, spark: SparkSession, tmp_path: Path
) -> None:
    """As when retention deletes it after the look; there is no page that could be taken for a report."""
    record(tmp_path / "recorded")
    copied(tmp_path / "recorded", place / "recorded", spark)
    recording, store = open_recording(spark, place / "recorded"), store_of(place, spark)
    (gone,) = (file for file in store.files(place) if "table=admitted" in file.below)
    store.remove(gone.place)

    with pytest.raises(RefusedInput, match=f"{gone.name}.*deleted it while it was read"):
        make(recording, place / "out")
    assert not [file for file in store.here(place / "out") if file.name == "index.html"]


def test_what_cannot_be_read_in_a_store_is_named(
    s3_endpoint: str, spark: SparkSession, tmp_path: Path
) -> None:
    """A truncated file ends the job, or is left out; a later version is left out."""
    record(tmp_path)
    later = file_of(tmp_path, "membership").parents[1]
    later.rename(later.with_name("version=2"))
    cut = file_of(tmp_path, "reports")
    cut.write_bytes(cut.read_bytes()[:-20])
    place = copied(tmp_path, place_of(in_s3(s3_endpoint)), spark)

    with pytest.raises(RefusedInput, match=f"--skip-unreadable.*{cut.name}"):
        open_recording(spark, place)
    version, truncated = open_recording(spark, place, skip_unreadable=True).left_out
    assert version == "table=membership/version=2: this release reads version=1"
    assert truncated.endswith(f"{cut.relative_to(tmp_path).as_posix()}: cannot be read")


def test_a_place_without_credentials_is_named(s3_endpoint: str, spark: SparkSession) -> None:
    """With the names of those that are looked for."""
    place = place_of(in_s3(s3_endpoint))
    context: Any = spark.sparkContext
    context._jsc.hadoopConfiguration().set(
        f"fs.s3a.bucket.{place.bucket}.aws.credentials.provider",
        "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    )
    with pytest.raises(RefusedInput, match="no credentials; set AWS_ACCESS_KEY_ID"):
        open_recording(spark, place)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://there-is-none/x?endpoint_override={s3}&scheme=http", "no such bucket"),
        ("s3://{bucket}/nowhere?endpoint_override={s3}&scheme=http", "no such directory"),
        ("hdfs://127.0.0.1:1/x", "the store does not answer"),
        ("foo://bucket/x", "no client of Hadoop's knows this kind of URL"),
    ],
)
def test_a_place_that_cannot_be_read_is_named_with_the_reason(
    url: str, reason: str, s3_endpoint: str, spark: SparkSession
) -> None:
    """Refused before anything is computed."""
    bucket = in_s3(s3_endpoint).removeprefix("s3://").partition("/")[0]
    with pytest.raises(RefusedInput, match=reason):
        open_recording(spark, place_of(url.format(s3=s3_endpoint, bucket=bucket)))


def test_a_place_that_cannot_be_written_ends_with_1(
    s3_endpoint: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is computed, with the reason."""
    record(tmp_path)
    url = in_s3(s3_endpoint, "readonly")

    assert report([str(tmp_path), "--out", url]) == 1
    said = capsys.readouterr().err
    assert "cannot be written" in said
    assert "no permission" in said


def test_a_place_that_is_being_written_to_ends_with_1(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two jobs in one place would mix what they write."""
    record(tmp_path / "recorded")
    out = place_of(tmp_path / "out")
    with claimed(store_of(out, spark), out):
        assert report([str(tmp_path / "recorded"), "--out", str(out)]) == 1
    assert "another job writes there" in capsys.readouterr().err


def test_how_a_bucket_is_written_to_is_forgotten_with_the_next_place(
    s3_endpoint: str, spark: SparkSession, tmp_path: Path
) -> None:
    """A directory's table cannot be committed in a bucket's way."""
    setting = "spark.sql.sources.commitProtocolClass"
    output_store(place_of(in_s3(s3_endpoint)), spark)
    assert "PathOutputCommitProtocol" in str(spark.conf.get(setting))
    output_store(place_of(tmp_path), spark)
    assert "PathOutputCommitProtocol" not in str(spark.conf.get(setting))


def test_the_store_is_tried_with_the_packages_that_users_are_told_of() -> None:
    """The same artifacts of the same release."""
    tried = {Path(path).name for path in servers.s3_class_path().split(",")}

    assert {
        f"{artifact}-{version}.jar"
        for _, artifact, version in (package.split(":") for package in PACKAGES.split(","))
    } <= tried
    assert not any(
        package.partition(":")[2] in name for package in EXCLUDED.split(",") for name in tried
    )


def test_a_failure_is_an_os_error() -> None:
    """So whatever opens files may tell it as it tells others."""
    assert issubclass(StoreFailure, OSError)


def test_hdfs_by_its_web_service_is_told_by_its_other_name() -> None:
    """Spark's own Hadoop lacks a class to read its answers; packages for S3 would not help."""
    cause = Mock()
    cause.getCause.return_value = None
    cause.getClass.return_value.getSimpleName.return_value = "IOException"
    cause.getMessage.return_value = "Response decoding failure: java.lang.ClassNotFoundException: x"
    failure = Mock(spec=Py4JJavaError, java_exception=cause)

    told = stores._told(place_of("fsspec+webhdfs://user@host:9870/recorded"), failure)
    assert str(told).endswith("name the directory as hdfs://namenode:8020/... does")
