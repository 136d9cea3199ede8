"""A local session leaves the terminal to the job, and one of Spark Connect is refused."""

from __future__ import annotations

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
