"""``pulsar-quota live``: the state of groups as it happens, from the sidecars' recordings."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.output import echo
from coordinator.cli.spark.jobs import Cores, spark_job


def live(
    directory: Annotated[
        str, typer.Argument(help="Place that the sidecars record to.", metavar="PLACE")
    ],
    out: Annotated[str, typer.Option(help="Place of rows and checkpoint.", metavar="PLACE")],
    cluster: Annotated[
        str | None, typer.Option(help="This cluster's rows only.", show_default=False)
    ] = None,
    late: Annotated[int, typer.Option(help="Seconds that a row may be late.", min=1)] = 150,
    once: Annotated[bool, typer.Option("--once", help="Stop when nothing is left to do.")] = False,
    cores: Cores = 2,
) -> None:
    """Follow the recordings, second by second; stopped or killed, it goes on where it was."""
    with spark_job(out):
        from spark_jobs.live_convergence import produce  # noqa: PLC0415

        produce(directory, out, echo, cluster=cluster, late_s=late, once=once, cores=cores)
