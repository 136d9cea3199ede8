"""The commands that run a Spark job on recordings: the only module of the command that knows Spark.

Spark is an extra and takes seconds to load, so a command imports its job within ``_spark_job``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.output import echo
from coordinator.cli.session import session_of

Recorded = Annotated[
    str, typer.Argument(help="Recording of the sidecars: a directory or URL.", metavar="PLACE")
]
Cluster = Annotated[str | None, typer.Option(help="This cluster's files only.", show_default=False)]
SkipUnreadable = Annotated[
    bool,
    typer.Option("--skip-unreadable", help="Leave files out that cannot be read, and name them."),
]
Cores = Annotated[int, typer.Option(help="Cores to use.", min=1)]


@contextmanager
def _spark_job(out: str | None) -> Iterator[None]:
    """Turn a job's refusals and failures into those of a command.

    Args:
        out: the place that the job writes to, if any.

    Raises:
        WrongUse: the input or the request cannot be used.
        CommandFailed: Spark is not installed, or the output cannot be written.
    """
    from spark_jobs.refusals import INSTALL, RefusedInput  # noqa: PLC0415

    # Without a handler at the root, Spark's client prints a traceback of each Ctrl-C.
    silent = logging.NullHandler()
    logging.getLogger().addHandler(silent)
    try:
        yield
    except RefusedInput as error:
        raise WrongUse(str(error)) from error
    except ModuleNotFoundError as error:
        raise CommandFailed(
            f"Spark is not installed ({error.name} is missing): {INSTALL}"
        ) from error
    except OSError as error:
        told = str(error) if out is None else f"{out}: cannot be written: {error}"
        raise CommandFailed(told) from error
    finally:
        logging.getLogger().removeHandler(silent)


def report(
    context: typer.Context,
    directory: Recorded,
    out: Annotated[str, typer.Option(help="Place of the report.", metavar="PLACE")],
    cluster: Cluster = None,
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
    with _spark_job(out):
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
    outcome = {
        "headline": made.headline,
        "warnings": made.warnings,
        "missed": made.missed,
        "page": str(made.page),
        "figures": str(made.figures),
    }
    session_of(context).tell(outcome, f"{made.text}\n{made.page}")
    raise typer.Exit(made.exit_code)


def rollup(
    context: typer.Context,
    directory: Recorded,
    out: Annotated[str, typer.Option(help="Place of the hours, as Parquet.", metavar="PLACE")],
    cluster: Cluster = None,
    skip_unreadable: SkipUnreadable = False,
    cores: Cores = 2,
) -> None:
    """Add recorded usage up by group and hour; running it again changes nothing."""
    with _spark_job(out):
        from spark_jobs.usage_rollup import produce, text  # noqa: PLC0415

        outcome = produce(
            directory, out, cluster=cluster, cores=cores, skip_unreadable=skip_unreadable
        )
    rows = [
        row | {"reached": row["reached"] and row["reached"].isoformat()}
        for row in map(dict, outcome.rows)
    ]
    told = {"days": outcome.days, "forecast": rows, "warnings": outcome.warnings}
    session_of(context).tell(told, text(outcome))
    raise typer.Exit(outcome.exit_code)


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
    with _spark_job(out):
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
        float | None, typer.Option(help="Another report interval, 0.1 to 300 seconds.")
    ] = None,
    seconds: Annotated[
        int, typer.Option(help="Last seconds of each group that are replayed, 10 or more.")
    ] = 3_600,
    cluster: Cluster = None,
    out: Annotated[
        str | None, typer.Option(help="Place of all rows, as Parquet.", metavar="PLACE")
    ] = None,
    skip_unreadable: SkipUnreadable = False,
    cores: Cores = 2,
) -> None:
    """Replay recorded traffic with a change, and show its effect."""
    with _spark_job(out):
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
    with _spark_job(out):
        from spark_jobs.showback import produce, text  # noqa: PLC0415

        made = produce(
            directory, prices, out, cluster=cluster, cores=cores, skip_unreadable=skip_unreadable
        )
    totals = [row | {"amount": str(row["amount"])} for row in map(dict, made.totals)]
    told = {"lines": made.lines, "totals": totals, "warnings": made.warnings}
    session_of(context).tell(told, text(made))
    raise typer.Exit(made.exit_code)
