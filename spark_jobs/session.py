"""The Spark session of every job, local unless spark-submit says otherwise, and what it fails at.

Under spark-submit a job sets what its figures depend on, and nothing else: master, memory, the web page
and history are its user's.

What Spark itself says while it runs locally goes to a log file: a terminal shows the job's own words. The
file is deleted at the end, unless something failed; then the failure names it.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.places import StorePlace
from spark_jobs.refusals import RefusedInput

_SETTINGS = {
    # Rows carry UTC; a figure must not depend on where it is computed.
    "spark.sql.session.timeZone": "UTC",
    # Others read what is written here: microseconds with a zone, not Spark's own INT96.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.ansi.enabled": "true",
    # A file that lies about its content, or is gone, must end the job, not shorten the figures.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For small input: most of such a job is the start of the JVM and of its compiler."""
_QUICK_BYTES = 8 * 2**20
"""Less than this, some 500,000 rows, is done before a larger session would have warmed up."""
_THOROUGH = "-XX:+UseParallelGC"
"""For the rest: a job waits for its end, not for each of its pauses."""
AT_ONCE = 4
"""Tables that are computed at a time; Spark plans most of them for longer than it computes them."""
_PARTITION_ROWS = 500_000
"""The rows of a partition between tasks: the memory of one task suffices to sort them."""
_LOCAL_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    # Without a page finished plans are of no use; a thousand of them fill the memory of a long session.
    "spark.ui.enabled": "false",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    # A task for every file takes longer than to look at the file from here.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    # Spark would join partitions to as many as there are cores, and a task then sort them on disk.
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "4m",
}

_PARTITIONS = "spark.sql.shuffle.partitions"
_LOG = "spark.pulsar-quota.log"
"""Spark's setting that says where its log is."""
_GONE = ("FAILED_READ_FILE.FILE_NOT_EXIST", "PATH_NOT_FOUND")
"""Spark's words for a file that is gone since it was listed: of a task, and before there is one."""
_VANISHED = " (retention deleted it while it was read: run the job again)"
_ENDED = "Spark's process has ended; a system that runs out of memory kills it"
_REFUSED = f"{RefusedInput.__module__}.{RefusedInput.__name__}: "


def session(name: str, cores: int = 2, *, quick: bool = False) -> SparkSession:
    """The running session, or a new one.

    Under spark-submit its master and memory hold; alone it is local, with these cores and 2 GiB.

    Args:
        name: of the application.
        cores: of a local session.
        quick: a local session for little input: starts sooner, computes slower. Of a running session
            only the number of partitions changes.

    Raises:
        RefusedInput: SPARK_REMOTE is set.
    """
    if "SPARK_REMOTE" in os.environ:
        raise RefusedInput(
            "SPARK_REMOTE: these jobs list files and write pages by the driver's own JVM, which a client"
            " of Spark Connect has not; unset it, and name the cluster with spark-submit"
        )
    builder = SparkSession.builder.appName(name)
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not started by spark-submit
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers are to have what is installed here; Spark itself takes the first python3.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master(f"local[{cores}]")
        builder = builder.config(_PARTITIONS, str(cores if quick else 8 * cores))
        builder = builder.config("spark.driver.extraJavaOptions", _QUICK if quick else _THOROUGH)
        for key, value in _LOCAL_SETTINGS.items():
            builder = builder.config(key, value)
        return _started(builder)
    return builder.getOrCreate()


def is_small(place: StorePlace) -> bool:
    """Whether a place holds so little that a quick session suits it."""
    if not place.is_here:
        return False
    total = 0
    for file in place.path.rglob("*"):
        with suppress(FileNotFoundError):  # renamed or deleted since it was listed
            total += file.stat().st_size
        if total > _QUICK_BYTES:
            return False
    return True


def enlarge(spark: SparkSession, rows: int) -> None:
    """Give a local session the partitions that this number of rows takes."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # its user chooses them
        return
    partitions = rows // _PARTITION_ROWS
    if partitions > int(spark.conf.get(_PARTITIONS) or 0):
        spark.conf.set(_PARTITIONS, str(partitions))


def _started(builder: SparkSession.Builder) -> SparkSession:
    """The running session, or a new one whose JVM writes to a log file what it would say on stderr."""
    if SparkSession.getActiveSession() is not None:
        return builder.getOrCreate()
    descriptor, name = tempfile.mkstemp(prefix="pulsar-quota-spark-", suffix=".log")
    atexit.register(_remove, name)
    sys.stderr.flush()
    terminal = os.dup(2)
    os.dup2(descriptor, 2)  # the JVM inherits it
    try:
        made = builder.config(_LOG, name).getOrCreate()
    except PySparkException:  # Java gives its reason on stderr
        os.write(terminal, Path(name).read_bytes())
        raise
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        os.close(descriptor)
    made.sparkContext.setLogLevel("WARN")
    return made


def _remove(log: str) -> None:
    Path(log).unlink(missing_ok=True)


@contextmanager
def computing(spark: SparkSession, failure: str) -> Iterator[None]:
    """Turn Spark's failures over its input into refusals of that input; leave nothing cached.

    What code in Spark's Python workers refuses comes back through the JVM, as a line of a traceback.

    Args:
        spark: the session.
        failure: what it is that failed then.

    Raises:
        RefusedInput: with what Spark says, in one line; a file that cannot be read is named in it.
    """
    log = spark.sparkContext.getConf().get(_LOG, "")
    try:
        yield
    except Exception as error:
        ended = [_ENDED] * _has_ended(spark)
        if not ended and not isinstance(error, PySparkException | Py4JJavaError):
            raise
        lines = [line.strip(": ") for line in str(error).splitlines()]
        gone = [line + _VANISHED for line in lines if any(name in line for name in _GONE)]
        telling = gone or [line for line in lines if "FAILED_READ_FILE" in line]
        refused = [line.removeprefix(_REFUSED) for line in lines if line.startswith(_REFUSED)]
        atexit.unregister(_remove)
        seen = f" (Spark's log is {log})" * bool(log and not refused)
        raise RefusedInput(f"{failure}: {[*ended, *refused, *telling, *lines][0]}{seen}") from error
    finally:
        with suppress(Py4JError, OSError):  # nothing is cached any more where Spark has ended
            spark.catalog.clearCache()


def _has_ended(spark: SparkSession) -> bool:
    """Whether the JVM answers no more: then each call fails in a way of its own."""
    try:
        return not spark.version
    except (Py4JError, OSError):
        return True
