"""A local session leaves the terminal to the job, and one of Spark Connect is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.places import place_of
from spark_jobs.refusals import RefusedInput
from spark_jobs.session import is_small, session


@pytest.mark.verify
def test_what_spark_says_at_its_start_is_in_its_log(spark: SparkSession) -> None:
    """A setting of the session names the file."""
    log = Path(spark.sparkContext.getConf().get("spark.pulsar-quota.log", ""))

    assert "log4j" in log.read_text()


def test_spark_connect_is_refused_with_the_way_that_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its client has no JVM of its own, by which pages are written."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    with pytest.raises(RefusedInput, match=r"SPARK_REMOTE: .*spark-submit"):
        session("tests")


_KILLED = """
import os
import signal

from spark_jobs.refusals import RefusedInput
from spark_jobs.session import computing, session

spark = session("tests", quick=True)
try:
    with computing(spark, "recorded: Spark could not compute"):
        spark.range(9).persist().count()
        os.kill(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
        spark.range(9).collect()
except RefusedInput as error:
    print(error)
"""


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_process_of_spark_that_is_killed_is_named_with_its_log() -> None:
    """Of each call that then fails Python says another thing, such as that a connection is refused."""
    ended = subprocess.run(
        [sys.executable, "-c", _KILLED], capture_output=True, text=True, check=True, timeout=240
    )
    told, _, log = ended.stdout.strip().removesuffix(")").partition(" (Spark's log is ")

    assert told == (
        "recorded: Spark could not compute: Spark's process has ended; a system that runs out of memory"
        " kills it"
    )
    Path(log).unlink()


def test_a_file_that_is_gone_since_it_was_listed_has_no_size(tmp_path: Path) -> None:
    """Recorders rename files, and retention deletes them, while a job looks how much there is."""
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")

    assert is_small(place_of(tmp_path))


def test_a_job_sets_what_its_figures_depend_on(spark: SparkSession) -> None:
    """A cluster may leave files that are gone out in silence; a job may not."""
    setting = "spark.sql.files.ignoreMissingFiles"
    spark.conf.set(setting, "true")
    session("tests", quick=True)

    assert spark.conf.get(setting) == "false"
