"""One Spark session for all tests of jobs, and one recorded run of real cores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.convergence_report import ReportOutcome, make
from spark_jobs.recording import open_recording
from spark_jobs.session import session
from spark_jobs.targets import parse
from tests.spark_jobs.recorded import record_a_story
from tests.spark_jobs.stores import servers

CONDITIONS = parse("settle_s<=3,jain>=0.999,peak_1s<=0.05,reclaim_s<=5")
"""The project's own targets."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session that knows S3, shared: starting one takes five seconds.

    It interprets what others compile; those that tests start as programs, on a cluster too, compile.
    """
    assert SparkSession.getActiveSession() is None, "a test has started Spark without its S3 client"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in servers.CREDENTIALS.items():
            patch.setenv(name, value)
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars {servers.s3_class_path()} pyspark-shell")
        started = session("tests", quick=True)
        for name, value in servers.INTERPRETED.items():
            started.conf.set(name, value)
        patch.delenv("PYSPARK_SUBMIT_ARGS")  # jobs that a test starts get what it gives them
        yield started
        started.stop()


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the recording of a story: three cores, a join, a change, a crash, a return."""
    place = tmp_path_factory.mktemp("recorded")
    record_a_story(place)
    return place


@pytest.fixture(scope="session")
def report(
    spark: SparkSession, story: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ReportOutcome, Path]:
    """The report of the story: it takes half a minute of processor time."""
    out = tmp_path_factory.mktemp("report")
    return make(open_recording(spark, story), out, conditions=CONDITIONS), out
