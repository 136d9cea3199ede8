"""``pulsar-quota rollup``: usage by group and hour, and when a group reaches 80 % of its limit."""

from __future__ import annotations

import typer

from coordinator.cli.spark.jobs import Cluster, Cores, Hours, Recorded, spark_job, tell


def rollup(
    context: typer.Context,
    directory: Recorded,
    out: Hours,
    cluster: Cluster = None,
    cores: Cores = 2,
) -> None:
    """Add recorded usage up by group and hour; running it again changes nothing."""
    with spark_job(out):
        from spark_jobs.usage_rollup import JOB  # noqa: PLC0415

        outcome = JOB.produce(directory, out, cluster=cluster, cores=cores)
    tell(context, JOB, outcome, "forecast")
