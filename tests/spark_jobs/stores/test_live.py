"""The stream between buckets says every second once, also when it fails in the worst moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.live_convergence import Live
from spark_jobs.places import place_of
from spark_jobs.refusals import RefusedInput
from spark_jobs.session import computing
from tests.spark_jobs.stores.conftest import in_s3
from tests.spark_jobs.test_live_convergence import COMPARED, LATE_S, report_of

pytestmark = [pytest.mark.java, pytest.mark.verify, pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_batch_that_was_written_and_not_committed_is_written_again(
    spark: SparkSession, story: Path, in_a_bucket: str, s3_endpoint: str
) -> None:
    """Its rows take the place of the first ones; checkpoint and rows are in the bucket."""
    out, lines = place_of(in_s3(s3_endpoint)), list[str]()

    def follow(told: Callable[[str], None]) -> None:
        with computing(spark, "live"):
            live = Live(place_of(in_a_bucket), out, "test", LATE_S)
            live.start(spark, told, once=True).awaitTermination()

    def fail(line: str) -> None:
        raise RefusedInput(f"killed when it had written: {line}")

    with pytest.raises(RefusedInput, match="killed when it had written"):
        follow(fail)
    first = spark.read.parquet((out / "seconds").for_spark).count()
    follow(lines.append)
    rows = spark.read.parquet((out / "seconds").for_spark).select(*COMPARED).collect()

    assert first
    assert " orders: " in lines[0]
    assert sorted(map(tuple, rows)) == report_of(spark, story)
