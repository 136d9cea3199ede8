"""``pulsar-quota rollup``: usage by group and hour, and when a group reaches 80 % of its limit."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.output import echo, print_json
from coordinator.cli.session import session_of
from coordinator.cli.spark.jobs import Cluster, Cores, Recorded, SkipUnreadable, spark_job


def rollup(
    context: typer.Context,
    directory: Recorded,
    out: Annotated[str, typer.Option(help="Place of the hours, as Parquet.", metavar="PLACE")],
    cluster: Cluster = None,
    skip_unreadable: SkipUnreadable = False,
    cores: Cores = 2,
) -> None:
    """Add recorded usage up by group and hour; running it again changes nothing."""
    with spark_job(out):
        from spark_jobs.usage_rollup import produce, text  # noqa: PLC0415

        outcome = produce(
            directory, out, cluster=cluster, cores=cores, skip_unreadable=skip_unreadable
        )
    if session_of(context).as_json:
        rows = [
            row | {"reached": row["reached"] and row["reached"].isoformat()}
            for row in map(dict, outcome.rows)
        ]
        print_json({"days": outcome.days, "forecast": rows, "warnings": outcome.warnings})
    else:
        echo(text(outcome))
    raise typer.Exit(outcome.exit_code)
