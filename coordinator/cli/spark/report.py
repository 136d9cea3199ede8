"""``pulsar-quota report``: the convergence report of the sidecars' recordings."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.output import echo, print_json
from coordinator.cli.session import session_of
from coordinator.cli.spark.jobs import Cores, Recorded, SkipUnreadable, spark_job


def report(
    context: typer.Context,
    directory: Recorded,
    out: Annotated[str, typer.Option(help="Place of the report.", metavar="PLACE")],
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
        str | None,
        typer.Option(
            help="Recording of another limiter, to be shown beside.",
            metavar="PLACE",
            show_default=False,
        ),
    ] = None,
    skip_unreadable: SkipUnreadable = False,
    cores: Cores = 2,
) -> None:
    """Report from recorded traffic whether limits held, how fairly and how soon."""
    with spark_job(out):
        from spark_jobs.convergence_report import produce  # noqa: PLC0415

        made = produce(
            directory,
            out,
            cluster=cluster,
            fail_on=fail_on,
            cores=cores,
            peer=peer,
            skip_unreadable=skip_unreadable,
        )
    if session_of(context).as_json:
        print_json(
            {
                "headline": made.headline,
                "warnings": made.warnings,
                "missed": made.missed,
                "page": str(made.page),
                "figures": str(made.figures),
            }
        )
    else:
        echo(f"{made.text}\n{made.page}")
    raise typer.Exit(made.exit_code)
