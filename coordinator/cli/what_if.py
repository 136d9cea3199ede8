"""``pulsar-quota what-if``: recorded demand under other settings, before anyone applies them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.session import session_of
from coordinator.cli.spark import Cluster, Cores, Recorded, spark_job


def what_if(
    context: typer.Context,
    directory: Recorded,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="What is to be other, e.g. orders.publishRateInMsgs=6000 or orders.law=static.",
            metavar="GROUP.SETTING=VALUE",
        ),
    ] = None,
    interval: Annotated[
        float | None, typer.Option(help="Another report interval, in seconds.", min=0.1, max=300)
    ] = None,
    seconds: Annotated[
        int, typer.Option(help="How much of each group is played: its last seconds.", min=10)
    ] = 3_600,
    cluster: Cluster = None,
    out: Annotated[
        Path | None, typer.Option(help="Where all rows go, as Parquet.", metavar="DIR")
    ] = None,
    cores: Cores = 2,
) -> None:
    """Say from recorded traffic what a change would have done."""
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
        )
    typer.echo(as_json(outcome) if session_of(context).as_json else text(outcome))
    raise typer.Exit(outcome.exit_code)
