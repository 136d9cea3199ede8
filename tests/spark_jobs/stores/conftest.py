"""The stores, each started once, and a place in each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.places import StorePlace, place_of
from spark_jobs.stores import store_of
from tests.spark_jobs.recorded import record_a_story
from tests.spark_jobs.stores import servers

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """Host and port of a store that speaks S3."""
    with servers.s3() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def hdfs_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an HDFS."""
    with servers.hdfs(tmp_path_factory.mktemp("hdfs")) as store:
        yield store.root


def in_s3(endpoint: str, kind: str = "plain") -> str:
    """A directory in a new bucket, as a recorder's URL names it."""
    bucket = f"{kind}-{next(_numbers)}"
    servers.make_bucket(endpoint, bucket)
    return f"s3://{bucket}/place?endpoint_override={endpoint}&scheme=http"


@pytest.fixture(scope="session")
def in_a_bucket(s3_endpoint: str) -> str:
    """The story, written by recorders straight into a bucket."""
    url = in_s3(s3_endpoint)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in servers.CREDENTIALS.items():
            patch.setenv(name, value)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        record_a_story(url)
    return url


def copied(directory: Path, to: StorePlace, spark: SparkSession) -> StorePlace:
    """A directory's files in another place."""
    store = store_of(to, spark)
    for file in store_of(place_of(directory), spark).files(place_of(directory)):
        store.put(to / file.below, file.place.path.read_bytes())
    return to


def content_of(spark: SparkSession, place: StorePlace) -> bytes:
    """A whole file, as Spark reads it."""
    row = spark.read.format("binaryFile").load(place.for_spark).first()
    assert row is not None
    return bytes(row["content"])


@pytest.fixture(params=["here", "hdfs", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> StorePlace:
    """A place in each kind of store, with nothing in it."""
    if request.param == "here":
        return place_of(tmp_path / "place")
    if request.param == "hdfs":
        return place_of(f"{request.getfixturevalue('hdfs_root')}/place-{next(_numbers)}")
    return place_of(in_s3(request.getfixturevalue("s3_endpoint")))
