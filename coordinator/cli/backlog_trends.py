"""``pulsar-quota backlog-trends``: backlogs by topic and hour, and when one nears its quota."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.output import print_json
from coordinator.cli.session import session_of


def backlog_trends(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(help="What the sidecars recorded.", metavar="DIR")],
    out: Annotated[Path, typer.Option(help="Where the hours go, as Parquet.", metavar="DIR")],
    cluster: Annotated[
        str | None, typer.Option(help="This cluster's files only.", show_default=False)
    ] = None,
    cores: Annotated[int, typer.Option(help="Cores to use.", min=1)] = 2,
) -> None:
    """Add recorded backlogs up by topic and hour; running it again changes nothing."""
    # Only this command needs Spark, which is an extra and takes seconds to load.
    try:
        from spark_jobs.backlog_trends import produce, text  # noqa: PLC0415
        from spark_jobs.intake import RefusedInput  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise CommandFailed(
            f"Spark is not installed ({error.name} is missing): pip install 'pulsar-quota[spark]'"
        ) from error
    try:
        outcome = produce(directory, out, cluster=cluster, cores=cores)
    except RefusedInput as error:
        raise WrongUse(str(error)) from error
    except OSError as error:
        raise CommandFailed(f"{out}: cannot be written: {error}") from error
    if session_of(context).as_json:
        rows = [
            row | {"reached": row["reached"] and row["reached"].isoformat()}
            for row in map(dict, outcome.trends)
        ]
        print_json({"days": outcome.days, "trends": rows, "warnings": outcome.warnings})
    else:
        typer.echo(text(outcome))
    raise typer.Exit(outcome.exit_code)
