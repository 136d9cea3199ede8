"""``pulsar-quota backlog-trends``: backlogs by topic and hour, and when one nears its quota."""

from __future__ import annotations

import typer

from coordinator.cli.spark.jobs import Cluster, Cores, Hours, Recorded, spark_job, tell


def backlog_trends(
    context: typer.Context,
    directory: Recorded,
    out: Hours,
    cluster: Cluster = None,
    cores: Cores = 2,
) -> None:
    """Add recorded backlogs up by topic and hour; running it again changes nothing."""
    with spark_job(out):
        from spark_jobs.backlog_trends import JOB  # noqa: PLC0415

        outcome = JOB.produce(directory, out, cluster=cluster, cores=cores)
    tell(context, JOB, outcome, "trends")
