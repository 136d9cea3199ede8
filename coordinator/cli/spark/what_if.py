"""``pulsar-quota what-if``: recorded demand under other settings, before anyone applies them."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.output import echo
from coordinator.cli.session import session_of
from coordinator.cli.spark.jobs import Cluster, Cores, Recorded, SkipUnreadable, spark_job


def what_if(  # noqa: PLR0913, PLR0917 - a flag is a parameter
    context: typer.Context,
    directory: Recorded,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Changed setting, e.g. orders.publishRateInMsgs=6000 or orders.law=static.",
            metavar="GROUP.SETTING=VALUE",
        ),
    ] = None,
    interval: Annotated[
        float | None, typer.Option(help="Another report interval, in seconds.", min=0.1, max=300)
    ] = None,
    seconds: Annotated[
        int, typer.Option(help="Last seconds of each group that are replayed.", min=10)
    ] = 3_600,
    cluster: Cluster = None,
    out: Annotated[
        str | None, typer.Option(help="Place of all rows, as Parquet.", metavar="PLACE")
    ] = None,
    skip_unreadable: SkipUnreadable = False,
    cores: Cores = 2,
) -> None:
    """Replay recorded traffic with a change, and show its effect."""
    with spark_job(out):
        from spark_jobs.what_if import as_json, produce, text  # noqa: PLC0415

        outcome = produce(
            directory,
            settings or [],
            cluster=cluster,
            interval=interval,
            seconds=seconds,
            cores=cores,
            out=out,
            skip_unreadable=skip_unreadable,
        )
    echo(as_json(outcome) if session_of(context).as_json else text(outcome))
    raise typer.Exit(outcome.exit_code)
