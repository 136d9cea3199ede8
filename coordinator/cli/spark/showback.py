"""``pulsar-quota showback``: what each tenant and owner used, at the prices of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.output import echo, print_json
from coordinator.cli.session import session_of
from coordinator.cli.spark.jobs import Cluster, Cores, Recorded, SkipUnreadable, spark_job


def showback(
    context: typer.Context,
    directory: Recorded,
    prices: Annotated[
        Path,
        typer.Option(help="Prices per GB and per million messages, and owners.", metavar="FILE"),
    ],
    out: Annotated[str, typer.Option(help="Place of usage, Parquet and CSV.", metavar="PLACE")],
    cluster: Cluster = None,
    skip_unreadable: SkipUnreadable = False,
    cores: Cores = 2,
) -> None:
    """Bill recorded usage to tenants and owners; running it again changes nothing."""
    with spark_job(out):
        from spark_jobs.showback import produce, text  # noqa: PLC0415

        made = produce(
            directory, prices, out, cluster=cluster, cores=cores, skip_unreadable=skip_unreadable
        )
    if session_of(context).as_json:
        totals = [row | {"amount": str(row["amount"])} for row in map(dict, made.totals)]
        print_json({"lines": made.lines, "totals": totals, "warnings": made.warnings})
    else:
        echo(text(made))
    raise typer.Exit(made.exit_code)
