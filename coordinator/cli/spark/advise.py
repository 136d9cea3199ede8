"""``pulsar-quota advise``: which limit recorded traffic would have needed."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.output import echo
from coordinator.cli.session import session_of
from coordinator.cli.spark.jobs import Cluster, Cores, Recorded, SkipUnreadable, spark_job


def advise(  # noqa: PLR0913, PLR0917 - a flag is a parameter
    context: typer.Context,
    directory: Recorded,
    throttled: Annotated[
        float,
        typer.Option(
            help="Percent of the time that may be throttled, up to 10.", metavar="PERCENT"
        ),
    ] = 0.1,
    groups: Annotated[
        list[str] | None, typer.Option("--group", help="Only this group.", metavar="GROUP")
    ] = None,
    replay: Annotated[
        int | None,
        typer.Option(
            help="Busiest seconds of each group to play again; 0 is none. [300 of up to 50 groups]",
            min=0,
            max=86_400,
            show_default=False,
        ),
    ] = None,
    cluster: Cluster = None,
    out: Annotated[
        str | None,
        typer.Option(help="Place of the advice and of a file for groups apply.", metavar="PLACE"),
    ] = None,
    skip_unreadable: SkipUnreadable = False,
    cores: Cores = 2,
) -> None:
    """Advise the limit that would have throttled recorded traffic for a given part of the time."""
    with spark_job(out):
        from spark_jobs.advice_shown import as_json, text  # noqa: PLC0415
        from spark_jobs.advise import produce  # noqa: PLC0415

        outcome = produce(
            directory,
            share=throttled / 100,
            groups=groups or (),
            replay_s=replay,
            cluster=cluster,
            out=out,
            cores=cores,
            skip_unreadable=skip_unreadable,
        )
    echo(as_json(outcome) if session_of(context).as_json else text(outcome))
    raise typer.Exit(outcome.exit_code)
