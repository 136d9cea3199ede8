"""``pulsar-quota report``: the convergence report of the sidecars' recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.output import echo, print_json
from coordinator.cli.session import session_of
from coordinator.cli.spark.jobs import Cores, Recorded, spark_job


def report(
    context: typer.Context,
    directory: Recorded,
    out: Annotated[Path, typer.Option(help="Directory of the report.", metavar="DIR")],
    cluster: Annotated[
        str | None, typer.Option(help="Report on this cluster's files only.", show_default=False)
    ] = None,
    fail_on: Annotated[
        str,
        typer.Option(
            help="Exit with 1 unless every event keeps these, e.g. settle_s<=2,jain>=0.999.",
            metavar="CONDITIONS",
            show_default=False,
        ),
    ] = "",
    peer: Annotated[
        Path | None,
        typer.Option(
            help="Recording of another limiter, to be shown beside.",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    cores: Cores = 2,
) -> None:
    """Report from recorded traffic whether limits held, how fairly and how soon."""
    with spark_job(out):
        from spark_jobs.convergence_report import produce  # noqa: PLC0415

        made = produce(directory, out, cluster=cluster, fail_on=fail_on, cores=cores, peer=peer)
    if session_of(context).as_json:
        print_json(
            {
                "headline": made.headline,
                "warnings": made.warnings,
                "missed": made.missed,
                "page": str(made.page),
                "figures": str(made.page.with_name("figures.json")),
            }
        )
    else:
        echo(f"{made.text}\n{made.page}")
    raise typer.Exit(made.exit_code)
