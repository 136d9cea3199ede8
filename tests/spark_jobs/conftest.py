"""One Spark session for all tests of jobs, and one recorded run of real cores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.session import session
from tests.spark_jobs.recorded import record_a_story


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session, shared: starting one takes five seconds."""
    started = session("tests", quick=True)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the recording of a story: three cores, a join, a change, a crash, a return."""
    place = tmp_path_factory.mktemp("recorded")
    record_a_story(place)
    return place
