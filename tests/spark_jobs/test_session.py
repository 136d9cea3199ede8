"""A local session leaves the terminal to the job, and one of Spark Connect is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.refusals import RefusedInput
from spark_jobs.session import session


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
