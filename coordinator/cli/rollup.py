"""``pulsar-quota rollup``: usage by group and hour, and when a group reaches 80 % of its limit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.spark import spark_job, tell


def rollup(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(help="What the sidecars recorded.", metavar="DIR")],
    out: Annotated[Path, typer.Option(help="Where the hours go, as Parquet.", metavar="DIR")],
    cluster: Annotated[
        str | None, typer.Option(help="This cluster's files only.", show_default=False)
    ] = None,
    cores: Annotated[int, typer.Option(help="Cores to use.", min=1)] = 2,
) -> None:
    """Add recorded usage up by group and hour; running it again changes nothing."""
    with spark_job(out):
        from spark_jobs.usage_rollup import JOB  # noqa: PLC0415

        outcome = JOB.produce(directory, out, cluster=cluster, cores=cores)
    tell(context, JOB, outcome, "forecast")
