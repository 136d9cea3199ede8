"""The files of a place, here or in a store that Hadoop's clients know: list, write, delete.

This is the one door to Hadoop's FileSystem API; Spark itself reads and writes tables. What a caller may
rely on, in every store:

* ``put`` and ``publish`` make a file appear as a whole, in place of an older one if there is one: it is
  written beside and renamed. An object store has no rename, but an object appears when its upload ends;
  the stores of ``_UPLOADS`` are written to that way.
* ``files`` says what was there at that moment. A file may be gone when it is read.

A store that is slow or answers 503 is asked again by Hadoop's clients, later each time, as often as
their settings say (``fs.s3a.retry.*``). Every failure is an OSError that names the place and what to do.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from spark_jobs.places import StorePlace

PACKAGES = ",".join((
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "org.apache.spark:spark-hadoop-cloud_2.13:4.1.1",
    *(f"software.amazon.awssdk:{name}:2.35.4" for name in ("s3", "s3-transfer-manager", "sts")),
))  # fmt: skip
"""Spark needs these for S3: its Hadoop's client, the committer's binding, parts of Amazon's SDK."""
EXCLUDED = ",".join((
    "software.amazon.awssdk:bundle",
    *(f"org.apache.hadoop:hadoop-{name}"
      for name in ("client-runtime", "cloud-storage", "azure", "huaweicloud")),
    "com.google.cloud.bigdataoss:gcs-connector",
))  # fmt: skip
"""These would come with them: another Hadoop, clients of other stores, and the whole of the SDK."""

_UPLOADS = frozenset({"s3a", "gs"})
"""Where a file is not seen before it is closed, and a rename is a copy."""
_CLOUD = "org.apache.spark.internal.io.cloud"
_COMMITS = {
    "spark.sql.sources.commitProtocolClass": f"{_CLOUD}.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": f"{_CLOUD}.BindingParquetOutputCommitter",
}
"""Files of a table appear when its job is committed."""


class StoreFailure(OSError):
    """A store refused or did not answer; the message says what to do."""


class NoSuchFile(StoreFailure, FileNotFoundError):
    """There is no such file or directory."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file: where it is, its path below the directory that was listed, its size and its time."""

    place: StorePlace
    below: str
    size: int
    written_s: float

    @property
    def name(self) -> str:
        """Without its directories."""
        return self.below.rpartition("/")[2]


class Store(Protocol):
    """A holder of files."""

    def files(self, directory: StorePlace) -> list[StoredFile]:
        """Every file below a directory, in order; raises NoSuchFile."""

    def directories(self, directory: StorePlace) -> list[str]:
        """The names of the directories in a directory, in order; raises NoSuchFile."""

    def here(self, directory: StorePlace) -> list[StoredFile]:
        """The files in a directory itself; none when it is not there."""

    def put(self, place: StorePlace, content: bytes) -> None:
        """Write a file that appears as a whole."""

    def publish(self, written: StorePlace, place: StorePlace) -> None:
        """Give a finished file its name, in place of the one that has it."""

    def remove(self, place: StorePlace) -> None:
        """Delete a file, or a directory with everything in it, if it is there."""


def store_of(place: StorePlace, spark: SparkSession | None) -> Store:
    """The store that holds a place.

    Args:
        place: in it.
        spark: the session; a directory of this host needs none.

    Raises:
        StoreFailure: no client of Hadoop's knows it.
    """
    if place.is_here:
        return _Directory()
    assert spark is not None, "only a session knows this store"
    return _Hadoop(place, spark)


def output_store(place: StorePlace, spark: SparkSession) -> Store:
    """The store of a place, and Spark told how tables are written there.

    Raises:
        StoreFailure: no client of Hadoop's knows it, or Spark lacks what it takes to write there.
    """
    store = store_of(place, spark)
    if isinstance(store, _Hadoop) and place.scheme == "s3a":
        store.can_commit(place)
        for name, value in _COMMITS.items():
            spark.conf.set(name, value)
    else:
        # An object store's way is none for a directory, and an earlier job may have had one.
        for name in _COMMITS:
            spark.conf.unset(name)
    return store


class _Directory:
    """Of this host."""

    def files(self, directory: StorePlace) -> list[StoredFile]:
        if not directory.path.is_dir():
            raise NoSuchFile(f"{directory}: no such directory")
        return self._of(directory, "**/*")

    def directories(self, directory: StorePlace) -> list[str]:
        if not directory.path.is_dir():
            raise NoSuchFile(f"{directory}: no such directory")
        return sorted(path.name for path in directory.path.iterdir() if path.is_dir())

    def here(self, directory: StorePlace) -> list[StoredFile]:
        return self._of(directory, "*")

    def put(self, place: StorePlace, content: bytes) -> None:
        place.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = place.path.with_name(f".{place.name}.{uuid.uuid4().hex}")
        try:
            unfinished.write_bytes(content)
            unfinished.replace(place.path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise

    def publish(self, written: StorePlace, place: StorePlace) -> None:
        place.path.parent.mkdir(parents=True, exist_ok=True)
        written.path.replace(place.path)

    def remove(self, place: StorePlace) -> None:
        if place.path.is_dir():
            shutil.rmtree(place.path)
        else:
            place.path.unlink(missing_ok=True)

    def _of(self, directory: StorePlace, pattern: str) -> list[StoredFile]:
        found = []
        for path in sorted(directory.path.glob(pattern)):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if path.is_file():
                below = path.relative_to(directory.path).as_posix()
                found.append(
                    StoredFile(StorePlace(str(path)), below, status.st_size, status.st_mtime)
                )
        return found


class _Hadoop:
    """Of a store that Hadoop's clients know, through the session's JVM; threads may share it."""

    def __init__(self, place: StorePlace, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 - PySpark's only way to Hadoop's API
        self._configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001
        self._options = place.options
        self._uploads = place.scheme in _UPLOADS
        with _failures(place):
            if place.scheme == "s3a":
                self._use_s3(spark, place)
            self._system = self._path(place).getFileSystem(self._configuration)

    def files(self, directory: StorePlace) -> list[StoredFile]:
        with _failures(directory):
            root = self._path(directory)
            if not self._system.getFileStatus(root).isDirectory():
                raise NoSuchFile(f"{directory}: not a directory")
            return self._listed(directory, self._system.listFiles(root, True))

    def directories(self, directory: StorePlace) -> list[str]:
        with _failures(directory):
            found = self._system.listStatus(self._path(directory))
            return sorted(each.getPath().getName() for each in found if each.isDirectory())

    def here(self, directory: StorePlace) -> list[StoredFile]:
        with _failures(directory):
            root = self._path(directory)
            if not self._system.exists(root):
                return []
            return self._listed(directory, self._system.listFiles(root, False))

    def put(self, place: StorePlace, content: bytes) -> None:
        with _failures(place):
            if self._uploads:
                self._write(place, content)
                return
            unfinished = _beside(place)
            try:
                self._write(unfinished, content)
                self._rename(unfinished, place)
            finally:
                self._system.delete(self._path(unfinished), False)

    def publish(self, written: StorePlace, place: StorePlace) -> None:
        with _failures(place):
            if not self._uploads:
                self._system.mkdirs(self._path(place).getParent())
                self._rename(written, place)
                return
            files = self._jvm.org.apache.hadoop.fs.FileUtil
            source, target = self._path(written), self._path(place)
            files.copy(self._system, source, self._system, target, True, True, self._configuration)

    def remove(self, place: StorePlace) -> None:
        with _failures(place):
            self._system.delete(self._path(place), True)

    def can_commit(self, place: StorePlace) -> None:
        """Raise StoreFailure unless Spark has the classes that commit to an object store."""
        with _failures(place):
            loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
            for name in _COMMITS.values():
                loader.loadClass(name)

    def _path(self, place: StorePlace) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(place.url)

    def _write(self, place: StorePlace, content: bytes) -> None:
        stream = self._system.create(self._path(place), True)
        stream.write(bytearray(content))
        stream.close()  # not when the write failed: an object would appear by half

    def _rename(self, source: StorePlace, target: StorePlace) -> None:
        options = self._jvm.org.apache.hadoop.fs.Options.Rename
        over = self._jvm.java.lang.reflect.Array.newInstance(options.OVERWRITE.getClass(), 1)
        over[0] = options.OVERWRITE
        path = self._path(target)
        contexts = self._jvm.org.apache.hadoop.fs.FileContext
        context = contexts.getFileContext(path.toUri(), self._configuration)
        context.rename(self._path(source), path, over)

    def _listed(self, directory: StorePlace, found: Any) -> list[StoredFile]:
        base = directory.url.rstrip("/") + "/"
        root = self._system.makeQualified(self._path(directory)).toString().rstrip("/") + "/"
        files = []
        while found.hasNext():
            status = found.next()
            below = status.getPath().toString().removeprefix(root)
            written_s = status.getModificationTime() / 1e3
            files.append(
                StoredFile(
                    StorePlace(base + below, self._options), below, status.getLen(), written_s
                )
            )
        return sorted(files, key=lambda file: file.below)

    def _use_s3(self, spark: SparkSession, place: StorePlace) -> None:
        """Tell S3A what it needs: the place's own options win, and what users set wins over ``_S3``."""
        said = spark.sparkContext.getConf()
        for name, value in _S3:
            if not said.contains(f"spark.hadoop.{name}"):
                self._configuration.set(name, value)
        for name, value in _s3_options(place):
            self._configuration.set(name, value)


_S3 = (
    ("fs.s3a.committer.name", "magic"),
    # Hadoop's own numbers take minutes to say that a store is not there.
    ("fs.s3a.retry.limit", "5"),
    ("fs.s3a.attempts.maximum", "3"),
)


def _s3_options(place: StorePlace) -> Iterator[tuple[str, str]]:
    bucket = f"fs.s3a.bucket.{place.bucket}"
    endpoint, scheme = place.options.get("endpoint_override"), place.options.get("scheme", "https")
    if endpoint:
        yield f"{bucket}.endpoint", endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
        # Every store but Amazon's may want the bucket in the path, and none refuses it.
        yield f"{bucket}.path.style.access", "true"
    if "scheme" in place.options:
        yield f"{bucket}.connection.ssl.enabled", str(scheme == "https").lower()
    if endpoint or "region" in place.options:
        yield f"{bucket}.endpoint.region", place.options.get("region", "us-east-1")


def _beside(place: StorePlace) -> StorePlace:
    directory, _, name = place.url.rpartition("/")
    return StorePlace(f"{directory}/.{name}.{uuid.uuid4().hex}", place.options)


@contextmanager
def _failures(place: StorePlace) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        raise _told(place, error) from error
    except Py4JError as error:  # the JVM is gone
        raise StoreFailure(f"{place}: Spark ended: {str(error).splitlines()[0]}") from error


def _told(place: StorePlace, error: Py4JJavaError) -> StoreFailure:
    names, said = set(), ""
    cause: Any = error.java_exception
    while cause is not None:
        names.add(str(cause.getClass().getSimpleName()))
        said = said or str(cause.getMessage() or "").partition("\n")[0]
        cause = cause.getCause()
    if "FileNotFoundException" in names and "UnknownStoreException" not in names:
        return NoSuchFile(f"{place}: no such file or directory")
    if place.scheme.endswith("webhdfs") and "ClassNotFoundException" in said:
        return StoreFailure(
            f"{place}: Spark's own Hadoop cannot read HDFS by its web service; name the directory as"
            " hdfs://namenode:8020/... does"
        )
    for found, told in _REASONS:
        if names & set(found) or any(word in said for word in found):
            return StoreFailure(f"{place}: {told} ({said[:300]})")
    return StoreFailure(f"{place}: {said[:300] or ', '.join(sorted(names))}")


_REASONS = (
    (
        ("ClassNotFoundException", "NoClassDefFoundError"),
        (
            "Spark lacks the client of this store; for S3 give spark-submit these, or set"
            f" PYSPARK_SUBMIT_ARGS='--packages {PACKAGES} --exclude-packages {EXCLUDED} pyspark-shell'"
        ),
    ),
    (("UnsupportedFileSystemException",), "no client of Hadoop's knows this kind of URL"),
    (
        ("NoAuthWithAWSException", "NoAwsCredentialsException", "Unable to load credentials"),
        "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what else S3A looks at",
    ),
    (("UnknownStoreException", "NoSuchBucketException"), "no such bucket"),
    (
        ("AccessDeniedException", "AccessControlException"),
        "no permission; let these credentials list, read and write there",
    ),
    (
        ("UnknownHostException", "ConnectException", "SocketTimeoutException",
         "NoRouteToHostException", "ApiCallTimeoutException", "ApiCallAttemptTimeoutException",
         "AWSServiceThrottledException", "AWSStatus500Exception"),
        "the store does not answer; it was asked several times",
    ),
)  # fmt: skip
