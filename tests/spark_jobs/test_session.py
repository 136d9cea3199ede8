"""A local session leaves the terminal to the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession


@pytest.mark.verify
def test_what_spark_says_at_its_start_is_in_its_log(spark: SparkSession) -> None:
    """A setting of the session names the file."""
    log = Path(spark.sparkContext.getConf().get("spark.pulsar-quota.log", ""))

    assert "log4j" in log.read_text()
